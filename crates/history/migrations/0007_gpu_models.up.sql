ALTER TABLE usage_intervals ADD COLUMN gpu_model TEXT NOT NULL DEFAULT '';
