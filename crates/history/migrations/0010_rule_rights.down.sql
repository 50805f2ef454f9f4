ALTER TABLE notification_rules DROP COLUMN disabled_because;
ALTER TABLE notification_rules DROP COLUMN kinds;
ALTER TABLE notification_rules DROP COLUMN subject;
