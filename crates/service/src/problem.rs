//! The only error of this crate: a problem document (RFC 9457) over REST, and a status with the same in its details over
//! gRPC.

use http::StatusCode;
use jobs::{ADMISSION_UNAVAILABLE, Class, Error};
use prost::Message;

use crate::contract;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The class: stable, for programs.
    pub code: &'static str,
    /// The reason, one CamelCase word.
    pub reason: String,
    /// What happened, for people.
    pub message: String,
    /// What is wrong with which field.
    pub fields: Vec<contract::FieldFault>,
    /// What to do.
    pub hint: String,
    /// The seconds after which to try again; 0 if that is not known.
    pub retry_after_seconds: u32,
}

impl Problem {
    /// Creates a problem whose reason is its code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            reason: code.to_owned(),
            message: message.into(),
            fields: Vec::new(),
            hint: String::new(),
            retry_after_seconds: 0,
        }
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.reason);
        self
    }

    /// Sets what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The request itself is wrong, whatever the cluster is like.
    pub fn usage(path: &str, fault: impl Into<String>, fix: impl Into<String>) -> Self {
        let (fault, fix) = (fault.into(), fix.into());
        let message = if path.is_empty() { fault.clone() } else { format!("{path}: {fault}") };
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "Usage", message).hint(fix.clone());
        problem.fields = vec![contract::FieldFault { path: path.to_owned(), fault, fix }];
        problem
    }

    /// A field's value is invalid.
    pub fn invalid(path: &str, fault: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, code: "Invalid", ..Self::usage(path, fault, fix) }
            .because("Invalid")
    }

    /// The caller is not known.
    pub fn unauthenticated(message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthenticated", message)
            .hint("send a Kubernetes bearer token that is valid for this cluster")
    }

    /// The caller lacks a permission.
    pub fn forbidden(user: &str, verb: &str, what: &str, namespace: &str) -> Self {
        let place = match namespace {
            "" => "in all namespaces".to_owned(),
            namespace => format!("in namespace '{namespace}'"),
        };
        let message = format!("User '{user}' lacks '{verb}' permission for {what} {place}");
        Self::new(StatusCode::FORBIDDEN, "NotAllowed", message)
            .because("Forbidden")
            .hint("ask an administrator of the namespace for a role with this permission")
    }

    /// The caller has too much in progress, and may try again a moment later.
    pub fn too_many(message: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        problem.retry_after_seconds = 1;
        problem
    }

    /// The cluster or this service cannot answer now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message);
        problem.retry_after_seconds = 1;
        problem
    }

    /// The problem as a message of the contract.
    pub fn message(&self) -> contract::Problem {
        contract::Problem {
            r#type: "about:blank".to_owned(),
            title: self.status.canonical_reason().unwrap_or_default().to_owned(),
            status: i32::from(self.status.as_u16()),
            detail: self.message.clone(),
            code: self.code.to_owned(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            fields: self.fields.clone(),
            hint: self.hint.clone(),
            link: String::new(),
        }
    }

    /// The status of a gRPC call. Its details are a `google.rpc.Status` with the problem, as gRPC's richer errors are.
    pub fn grpc(&self) -> tonic::Status {
        let code = self.grpc_code();
        let details = RpcStatus {
            code: code as i32,
            message: self.message.clone(),
            details: vec![Any {
                type_url: "type.googleapis.com/training.v1.Problem".to_owned(),
                value: self.message().encode_to_vec(),
            }],
        };
        tonic::Status::with_details(code, &self.message, details.encode_to_vec().into())
    }

    /// The code of a gRPC call.
    pub fn grpc_code(&self) -> tonic::Code {
        match (self.status.as_u16(), self.code) {
            (_, "QuotaExceeded" | "TooManyRequests") => tonic::Code::ResourceExhausted,
            (400 | 413 | 415 | 422, _) => tonic::Code::InvalidArgument,
            (401, _) => tonic::Code::Unauthenticated,
            (403, _) => tonic::Code::PermissionDenied,
            (404 | 405 | 410, _) => tonic::Code::NotFound,
            (409, _) if self.reason == "AlreadyExists" => tonic::Code::AlreadyExists,
            (409, _) if self.reason == "Conflict" => tonic::Code::Aborted,
            (409, _) => tonic::Code::FailedPrecondition,
            (502 | 503, _) => tonic::Code::Unavailable,
            (504, _) => tonic::Code::DeadlineExceeded,
            _ => tonic::Code::Internal,
        }
    }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// The most bytes of a text of a problem, and of its message, which has all of them: a value that is quoted may fill the whole
/// request, and there are many faults.
const LONGEST_TEXT: usize = 2 << 10;
const LONGEST_MESSAGE: usize = 16 << 10;

/// Cuts a text that is too long, and says so.
fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let left = text.len() - text.floor_char_boundary(most);
        text.truncate(text.floor_char_boundary(most));
        text.push_str(&format!("… ({left} more bytes)"));
    }
    text
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, code) = status_of(&error);
        let fields = error.faults().iter().map(|fault| contract::FieldFault {
            path: cut(fault.path.clone(), LONGEST_TEXT),
            fault: cut(fault.message.clone(), LONGEST_TEXT),
            fix: cut(fault.advice.clone().unwrap_or_default(), LONGEST_TEXT),
        });
        let message = cut(error.to_string(), LONGEST_MESSAGE);
        let mut problem = Problem::new(status, code, message).because(error.reason());
        problem.fields = fields.collect();
        problem.hint = error.advice().map(|advice| advice.text).unwrap_or_default();
        if let Error::Syntax { excerpt, at, .. } = &error {
            problem.fields.push(contract::FieldFault {
                path: format!("manifest:{at}"),
                fault: excerpt.clone(),
                fix: problem.hint.clone(),
            });
        }
        problem.retry_after_seconds = match error.reason() {
            // The request has been repeated for a while already.
            ADMISSION_UNAVAILABLE => 5,
            _ if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) => 1,
            _ => 0,
        };
        problem
    }
}

impl From<history::Error> for Problem {
    fn from(error: history::Error) -> Self {
        use history::Error as Store;
        use history::error::BucketFault;
        let (reason, message) = match &error {
            Store::Invalid(fault) => return Problem::invalid("", fault.clone(), ""),
            Store::Locked => ("StoreLocked", "the store is locked by another writer"),
            Store::Timeout => ("StoreTimeout", "the store did not answer in time"),
            Store::Unavailable(_) => ("StoreUnavailable", "the store cannot be reached"),
            Store::Full(_) => ("StoreFull", "the store is full"),
            Store::Bucket { fault: BucketFault::Away, .. } => {
                ("LogStorageUnavailable", "the object storage for logs does not answer, or not in time")
            }
            Store::Bucket { fault: BucketFault::Full, .. } => {
                ("LogStorageFull", "the object storage for logs is full")
            }
            Store::Bucket { fault: BucketFault::Refused, .. } => {
                ("LogStorageRefused", "the object storage for logs refuses the access of the service")
            }
            Store::Bucket { fault: BucketFault::Missing, .. } => {
                ("LogStorageMissing", "the object storage for logs has no bucket with the configured name")
            }
            Store::TooNew { .. } => ("StoreTooNew", "the store belongs to a newer version of the service"),
            Store::Damaged(_) | Store::Database(_) => ("StoreDamaged", "the store cannot be read or written"),
        };
        // The details may name places and addresses of the service.
        tracing::warn!(%error, "the store failed");
        let problem = Problem::unavailable(message).because(reason);
        let advice = match &error {
            Store::Full(_) | Store::Bucket { fault: BucketFault::Full, .. } => {
                "ask an administrator of the cluster to make room for the training service's store; it then works again by itself"
            }
            _ => "ask an administrator of the cluster to look at the store of the training service",
        };
        match error.class() {
            history::error::Class::Retry => problem,
            _ => Problem { retry_after_seconds: 30, ..problem }.hint(advice),
        }
    }
}

fn status_of(error: &Error) -> (StatusCode, &'static str) {
    match (error.class(), error.reason()) {
        (Class::NotAllowed, "Unauthorized") => (StatusCode::UNAUTHORIZED, "Unauthenticated"),
        (Class::Quota, "TooManyRequests") => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        (
            Class::Error,
            "Unreachable"
            | "Untrusted"
            | "BrokenStream"
            | "ServiceUnavailable"
            | "ServerTimeout"
            | "Timeout"
            | ADMISSION_UNAVAILABLE,
        ) => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
        (Class::Error, "BadRequest" | "NotSupported") => (StatusCode::BAD_REQUEST, "Usage"),
        (Class::Error, _) => (StatusCode::BAD_GATEWAY, "Error"),
        (Class::Usage, _) => (StatusCode::BAD_REQUEST, "Usage"),
        (Class::NotFound, _) => (StatusCode::NOT_FOUND, "NotFound"),
        (Class::NotAllowed, _) => (StatusCode::FORBIDDEN, "NotAllowed"),
        (Class::Invalid, _) => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        (Class::Quota, _) => (StatusCode::FORBIDDEN, "QuotaExceeded"),
        (Class::Conflict, _) => (StatusCode::CONFLICT, "Conflict"),
        (Class::StillRunning | Class::JobFailed, _) => (StatusCode::CONFLICT, "StillRunning"),
        (Class::Cancelled | Class::Interrupted, _) => (StatusCode::GONE, "NotFound"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(class: Class, reason: &str) -> Problem {
        Problem::from(Error::Refused {
            class,
            reason: reason.to_owned(),
            message: "no".to_owned(),
            advice: Some("ask".into()),
            faults: Vec::new(),
        })
    }

    #[test]
    fn a_problem_repeats_no_more_than_the_beginning_of_what_is_wrong() {
        let fault = jobs::Fault {
            source: String::new(),
            position: None,
            path: "ä".repeat(1 << 20),
            message: "is wrong".to_owned(),
            advice: None,
        };
        let problem = Problem::from(Error::Invalid { faults: vec![fault; 50] });
        let bytes = |field: &contract::FieldFault| field.path.len() + field.fault.len() + field.fix.len();
        assert!(problem.message.len() + problem.fields.iter().map(bytes).sum::<usize>() < 200 << 10);
        assert!(problem.fields[0].path.ends_with("more bytes)"), "it says so");
    }

    #[test]
    fn each_class_of_error_has_its_status_in_both_protocols() {
        let table = [
            (refused(Class::NotAllowed, "Forbidden"), 403, tonic::Code::PermissionDenied),
            (refused(Class::NotAllowed, "Unauthorized"), 401, tonic::Code::Unauthenticated),
            (refused(Class::Quota, "QuotaExceeded"), 403, tonic::Code::ResourceExhausted),
            (refused(Class::Quota, "TooManyRequests"), 429, tonic::Code::ResourceExhausted),
            (refused(Class::Conflict, "AlreadyExists"), 409, tonic::Code::AlreadyExists),
            (refused(Class::Conflict, "NotEnded"), 409, tonic::Code::FailedPrecondition),
            (refused(Class::Invalid, "Invalid"), 422, tonic::Code::InvalidArgument),
            (refused(Class::Error, "NotSupported"), 400, tonic::Code::InvalidArgument),
            (refused(Class::Error, "InternalError"), 502, tonic::Code::Unavailable),
            (refused(Class::Error, ADMISSION_UNAVAILABLE), 503, tonic::Code::Unavailable),
            (Error::Unreachable { detail: "x".to_owned() }.into(), 503, tonic::Code::Unavailable),
        ];
        for (problem, status, code) in table {
            assert_eq!((problem.status.as_u16(), problem.grpc_code()), (status, code), "{problem:?}");
        }
    }

    #[test]
    fn a_status_carries_the_problem_in_its_details() {
        let problem = Problem::forbidden("jane", "create", "MPIJobs", "team-cv");
        let details = RpcStatus::decode(problem.grpc().details()).unwrap();
        let sent = contract::Problem::decode(&details.details[0].value[..]).unwrap();
        assert_eq!(sent.message, "User 'jane' lacks 'create' permission for MPIJobs in namespace 'team-cv'");
        assert_eq!((sent.status, sent.code.as_str(), sent.reason.as_str()), (403, "NotAllowed", "Forbidden"));
    }
}
