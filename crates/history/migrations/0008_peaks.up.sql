CREATE TABLE job_peaks (
    uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    role TEXT NOT NULL,
    source TEXT NOT NULL,
    program TEXT NOT NULL,
    image TEXT NOT NULL,
    samples BIGINT NOT NULL,
    memory_bytes BIGINT NOT NULL,
    cpu_millicores BIGINT NOT NULL,
    cpu_millicores_sum BIGINT NOT NULL,
    requested_memory_bytes BIGINT,
    requested_cpu_millicores BIGINT,
    PRIMARY KEY (uid, role, source)
);
CREATE INDEX job_peaks_by_program ON job_peaks (program, uid);
