ALTER TABLE usage_intervals DROP COLUMN gpu_model;
