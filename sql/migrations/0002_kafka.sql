-- What a source on Kafka needs beside its options.

-- How its messages become rows: {"encode": "JSON" or "BYTES", "include": [what the last columns hold, in order]}.
ALTER TABLE sources ADD COLUMN format_json TEXT NOT NULL DEFAULT '{"encode":"JSON","include":[]}';

-- The options whose values are secrets. In options_json, which the catalog shows, '[hidden]' stands in their place.
ALTER TABLE sources ADD COLUMN secrets_json TEXT NOT NULL DEFAULT '{}';
