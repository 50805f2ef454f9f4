-- A rule may have a condition in place of transitions, and was last evaluated at a time. An alert is a job or a quota for
-- which the condition holds.
ALTER TABLE notification_rules ADD COLUMN condition TEXT;
ALTER TABLE notification_rules ADD COLUMN evaluated BIGINT;

CREATE TABLE alerts (
    rule_id TEXT NOT NULL REFERENCES notification_rules (id) ON DELETE CASCADE,
    uid TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    since BIGINT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (rule_id, uid)
);
