CREATE TABLE jobs (
    uid TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT,
    created BIGINT NOT NULL,
    started BIGINT,
    finished BIGINT,
    deleted BIGINT,
    version BIGINT NOT NULL,
    phase TEXT NOT NULL,
    reason TEXT,
    cause TEXT
);
CREATE INDEX jobs_by_name ON jobs (namespace, name);
CREATE INDEX jobs_by_creation ON jobs (created, uid);
CREATE INDEX jobs_by_deletion ON jobs (deleted, uid);

CREATE TABLE job_states (
    uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (uid, version)
);
CREATE INDEX job_states_by_time ON job_states (at, uid, version);

CREATE TABLE job_attempts (
    uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    started BIGINT,
    finished BIGINT,
    phase TEXT,
    worker TEXT,
    exit_code BIGINT,
    cause TEXT,
    message TEXT,
    evidence TEXT,
    last_lines TEXT,
    PRIMARY KEY (uid, number)
);

CREATE TABLE job_specs (
    uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    generation BIGINT NOT NULL,
    at BIGINT NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (uid, generation)
);
