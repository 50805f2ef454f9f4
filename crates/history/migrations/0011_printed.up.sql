CREATE TABLE printed_series (
    uid TEXT NOT NULL,
    part TEXT NOT NULL,
    name TEXT NOT NULL,
    seen BIGINT NOT NULL,
    stride BIGINT NOT NULL,
    not_finite BIGINT NOT NULL,
    first_not_finite BIGINT,
    changed BIGINT NOT NULL,
    points {BYTES} NOT NULL,
    PRIMARY KEY (uid, part, name)
);
