CREATE TABLE log_sources (
    uid TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    source TEXT NOT NULL,
    next_line BIGINT NOT NULL,
    last BIGINT NOT NULL,
    PRIMARY KEY (uid, attempt, source)
);

CREATE TABLE log_parts (
    uid TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    source TEXT NOT NULL,
    first_line BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    data {BYTES},
    object TEXT UNIQUE,
    digest TEXT,
    PRIMARY KEY (uid, attempt, source, first_line),
    FOREIGN KEY (uid, attempt, source) REFERENCES log_sources (uid, attempt, source) ON DELETE CASCADE
);
CREATE INDEX log_parts_by_age ON log_parts (last);
