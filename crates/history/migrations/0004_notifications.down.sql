DROP TABLE delivery_log;
DROP TABLE deliveries;
DROP TABLE notification_rules;
