DROP FUNCTION audit_delete();
DROP FUNCTION audit_refuse();
