-- The time left is told by how fast the distance to the target closes, not by the reader's speed alone: where the
-- source grows while it is read, the target moves away.
ALTER TABLE split_progress ADD COLUMN closing_per_second REAL;      -- offsets; 0 or less: it never arrives at this speed
