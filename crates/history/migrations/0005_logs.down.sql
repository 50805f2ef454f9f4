DROP TABLE log_parts;
DROP TABLE log_sources;
