-- Which namespace has a name now. A name can be used again; what belongs to another namespace of that name stays with it.
CREATE TABLE namespaces (
    name TEXT NOT NULL PRIMARY KEY,
    uid TEXT NOT NULL,
    created BIGINT NOT NULL
);
ALTER TABLE jobs ADD COLUMN namespace_uid TEXT;
ALTER TABLE usage_intervals ADD COLUMN namespace_uid TEXT;
ALTER TABLE notification_rules ADD COLUMN namespace_uid TEXT;
