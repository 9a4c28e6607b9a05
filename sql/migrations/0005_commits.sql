-- How many commits were synced before they were acknowledged: store/mark.rs notes the same number beside the file.
ALTER TABLE meta ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
