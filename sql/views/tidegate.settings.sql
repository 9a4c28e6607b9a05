-- tidegate.settings (oid 15109): The server's settings as they are in force.
--
-- name text: The setting.
-- value text: Its value.
-- unit text: The value's unit. NULL: none.
-- short_desc text: What it does.
-- source text: Where the value comes from: default, file, environment or command line.
SELECT name, value, unit, short_desc, source FROM main.settings
