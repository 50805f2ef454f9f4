-- What a list shows of a series, exact although its points are thinned out.
ALTER TABLE printed_series ADD COLUMN newest DOUBLE PRECISION;
ALTER TABLE printed_series ADD COLUMN lowest DOUBLE PRECISION;
ALTER TABLE printed_series ADD COLUMN highest DOUBLE PRECISION;
