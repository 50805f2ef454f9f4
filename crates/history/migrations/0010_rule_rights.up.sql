-- A rule acts with the rights of its owner: who that is, and which kinds of jobs it is about.
ALTER TABLE notification_rules ADD COLUMN subject TEXT NOT NULL DEFAULT '';
ALTER TABLE notification_rules ADD COLUMN kinds TEXT NOT NULL DEFAULT '[]';
ALTER TABLE notification_rules ADD COLUMN disabled_because TEXT;
