DROP TABLE job_peaks;
