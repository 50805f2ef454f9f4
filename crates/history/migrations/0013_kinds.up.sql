-- The kind of the job, by which usage and deliveries are cut to what a caller may list. Usage outlives its job.
ALTER TABLE usage_intervals ADD COLUMN kind TEXT NOT NULL DEFAULT 'MPIJob';
UPDATE usage_intervals SET kind = (SELECT j.kind FROM jobs j WHERE j.uid = usage_intervals.uid)
WHERE uid IN (SELECT j.uid FROM jobs j);
-- The body is JSON, in which a quote within a text is escaped: the pattern matches the field only.
ALTER TABLE deliveries ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE deliveries SET kind = CASE
    WHEN body LIKE '%"kind":"MPIJob"%' THEN 'MPIJob'
    WHEN body LIKE '%"kind":"TrainJob"%' THEN 'TrainJob'
    WHEN body LIKE '%"kind":"PyTorchJob"%' THEN 'PyTorchJob'
    WHEN body LIKE '%"kind":"TFJob"%' THEN 'TFJob'
    WHEN body LIKE '%"kind":"ResourceQuota"%' THEN 'ResourceQuota'
    WHEN body LIKE '%"kind":"Test"%' THEN 'Test'
    ELSE '' END;
