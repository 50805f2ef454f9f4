DROP TABLE alerts;
ALTER TABLE notification_rules DROP COLUMN evaluated;
ALTER TABLE notification_rules DROP COLUMN condition;
