//! How a command ends when it does not end well: what a person reads, what a program reads, the exit code.

use jobs::{Class, Error, Fault};

/// An ending that is not success.
#[derive(Debug)]
pub struct Failure {
    /// From which the exit code follows.
    pub class: Class,
    /// One CamelCase word for programs.
    pub reason: Box<str>,
    /// What is wrong and where.
    pub message: String,
    /// Lines that show the place, if there are any.
    pub excerpt: Option<Box<str>>,
    /// What to do.
    pub hint: Option<String>,
    /// Faults of fields, each with its place.
    pub faults: Vec<Fault>,
    /// An exit code that is passed on instead of the class's own.
    pub passed_on: Option<u8>,
}

impl Failure {
    /// An ending with neither hint nor faults.
    pub fn new(class: Class, reason: &str, message: impl Into<String>) -> Self {
        Failure {
            class,
            reason: reason.into(),
            message: message.into(),
            excerpt: None,
            hint: None,
            faults: Vec::new(),
            passed_on: None,
        }
    }

    /// A command line that cannot be meant.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::new(Class::Usage, "Usage", message).with_hint(hint)
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The process exit code.
    pub fn exit_code(&self) -> u8 {
        self.passed_on.unwrap_or_else(|| self.class.exit_code())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let excerpt = match &error {
            Error::Syntax { excerpt, .. } if !excerpt.is_empty() => Some(excerpt.as_str().into()),
            _ => None,
        };
        Failure {
            class: error.class(),
            reason: error.reason().into(),
            message: error.to_string(),
            excerpt,
            hint: error.hint(),
            faults: error.faults().to_vec(),
            passed_on: None,
        }
    }
}
