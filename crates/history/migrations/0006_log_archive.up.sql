-- What keeps the chunks of this store apart from those of others in the same bucket.
CREATE TABLE log_archive (
    single BIGINT NOT NULL PRIMARY KEY CHECK (single = 1),
    id TEXT NOT NULL
);
