-- Users prove who they are, and may do what they were granted. No password is kept, only what checks one.

ALTER TABLE users ADD COLUMN can_login INTEGER NOT NULL DEFAULT 1;
ALTER TABLE users ADD COLUMN verifier TEXT;             -- SCRAM-SHA-256$4096:salt$StoredKey:ServerKey; NULL: no password
ALTER TABLE users ADD COLUMN connection_limit INTEGER NOT NULL DEFAULT -1;  -- sessions at a time; -1: no limit
ALTER TABLE users ADD COLUMN valid_until INTEGER;       -- when the password ends; NULL: never

-- The roles that every server has. Their ids are fixed for ever.
INSERT INTO users (id, name, superuser, can_login) VALUES (15301, 'tidegate_viewer', 0, 0), (15302, 'tidegate_operator', 0, 0);

-- Who is a member of which role, and so may do what that role may.
CREATE TABLE role_members (
  role_id   INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  member_id INTEGER NOT NULL REFERENCES users ON DELETE CASCADE,
  grantor   INTEGER NOT NULL,
  PRIMARY KEY (role_id, member_id)
) STRICT, WITHOUT ROWID;
-- Who acts has to see.
INSERT INTO role_members VALUES (15301, 15302, 10);

-- What was granted, beside what owners and the built-in roles may do anyway.
CREATE TABLE grants (
  object    INTEGER NOT NULL,                -- the oid of a relation, or of a schema: then on all that is in it
  grantee   INTEGER NOT NULL,                -- users.id; 0: everybody
  privilege TEXT NOT NULL CHECK (privilege IN ('SELECT', 'ALTER', 'CREATE')),
  grantor   INTEGER NOT NULL,
  PRIMARY KEY (object, grantee, privilege)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER grants_end_with_a_relation AFTER DELETE ON relations
BEGIN
  DELETE FROM grants WHERE object = OLD.id;
END;
CREATE TRIGGER grants_end_with_a_user AFTER DELETE ON users
BEGIN
  DELETE FROM grants WHERE grantee = OLD.id;
END;

-- What made-up salts are made of, so that a name without a user looks like one with a password.
CREATE TABLE server_secret (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  value    BLOB NOT NULL
) STRICT;
INSERT INTO server_secret VALUES (1, randomblob(32));
