DROP TABLE log_archive;
