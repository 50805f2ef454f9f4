ALTER TABLE notification_rules DROP COLUMN namespace_uid;
ALTER TABLE usage_intervals DROP COLUMN namespace_uid;
ALTER TABLE jobs DROP COLUMN namespace_uid;
DROP TABLE namespaces;
