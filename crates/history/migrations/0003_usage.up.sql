CREATE TABLE usage_intervals (
    uid TEXT NOT NULL,
    source TEXT NOT NULL,
    started BIGINT NOT NULL,
    ended BIGINT,
    seen BIGINT NOT NULL,
    namespace TEXT NOT NULL,
    job TEXT NOT NULL,
    username TEXT NOT NULL,
    cpu_millicores BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    gpus TEXT NOT NULL,
    PRIMARY KEY (uid, source, started)
);
CREATE INDEX usage_by_end ON usage_intervals (ended, started);
