DROP TABLE printed_series;
