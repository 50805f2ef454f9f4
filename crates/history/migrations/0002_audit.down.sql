DROP TABLE audit_head;
DROP TABLE audit_seals;
DROP TABLE audit;
