ALTER TABLE deliveries DROP COLUMN kind;
ALTER TABLE usage_intervals DROP COLUMN kind;
