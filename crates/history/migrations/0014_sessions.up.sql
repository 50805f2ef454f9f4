-- Sessions of browsers, and the one-time addresses that begin them. `id` is the digest of a secret that is not stored, and `sealed`
-- can only be opened with that secret.
CREATE TABLE browser_sessions (
    purpose TEXT NOT NULL,
    id TEXT NOT NULL,
    user_name TEXT NOT NULL,
    share TEXT NOT NULL,
    ends BIGINT NOT NULL,
    sealed {BYTES} NOT NULL,
    PRIMARY KEY (purpose, id)
);
CREATE INDEX browser_sessions_of_share ON browser_sessions (purpose, share, ends);
