DROP TABLE usage_intervals;
