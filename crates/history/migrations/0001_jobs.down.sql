DROP TABLE job_specs;
DROP TABLE job_attempts;
DROP TABLE job_states;
DROP TABLE jobs;
