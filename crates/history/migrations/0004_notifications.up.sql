CREATE TABLE notification_rules (
    id TEXT NOT NULL PRIMARY KEY,
    namespace TEXT NOT NULL,
    job_uid TEXT,
    owner TEXT NOT NULL,
    created BIGINT NOT NULL,
    enabled BIGINT NOT NULL,
    transitions TEXT NOT NULL,
    destination TEXT NOT NULL,
    secret {BYTES} NOT NULL
);
CREATE INDEX notification_rules_by_namespace ON notification_rules (namespace, id);

CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    rule_id TEXT NOT NULL REFERENCES notification_rules (id) ON DELETE CASCADE,
    uid TEXT NOT NULL,
    version BIGINT NOT NULL,
    body TEXT NOT NULL,
    created BIGINT NOT NULL,
    state TEXT NOT NULL,
    tries BIGINT NOT NULL,
    due BIGINT NOT NULL,
    lease TEXT,
    UNIQUE (rule_id, uid, version)
);
CREATE INDEX deliveries_by_due ON deliveries (state, due);

CREATE TABLE delivery_log (
    delivery_id TEXT NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    at BIGINT NOT NULL,
    milliseconds BIGINT NOT NULL,
    status BIGINT,
    error TEXT,
    PRIMARY KEY (delivery_id, number)
);
