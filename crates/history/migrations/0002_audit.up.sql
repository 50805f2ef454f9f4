CREATE TABLE audit (
    seq BIGINT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    who TEXT NOT NULL,
    namespace TEXT,
    job TEXT,
    request TEXT NOT NULL,
    channel TEXT NOT NULL,
    entry TEXT NOT NULL,
    fingerprint TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL
);
CREATE INDEX audit_by_request ON audit (request, seq);
CREATE INDEX audit_by_time ON audit (at, seq);

CREATE TABLE audit_seals (
    through BIGINT NOT NULL PRIMARY KEY,
    hash TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE audit_head (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO audit_head (id, seq, hash)
    VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');
