ALTER TABLE printed_series DROP COLUMN highest;
ALTER TABLE printed_series DROP COLUMN lowest;
ALTER TABLE printed_series DROP COLUMN newest;
