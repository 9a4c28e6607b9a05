-- Whose doing it was that a rescale didn't come, as the line has already who asked for it.
ALTER TABLE rescales ADD COLUMN cancelled_by TEXT;      -- who said CANCEL RESCALE; NULL: nobody
