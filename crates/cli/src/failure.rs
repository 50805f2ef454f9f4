//! A command's failure: what is shown to people and to programs, and the exit code.

use jobs::{Class, Error, Fault};

use crate::advice;

/// A failed outcome of a command.
#[derive(Debug)]
pub struct Failure {
    /// The class, which determines the exit code.
    pub class: Class,
    /// The reason, one CamelCase word for programs.
    pub reason: Box<str>,
    /// What is wrong and where.
    pub message: String,
    /// Lines that show the position, if any.
    pub excerpt: Option<Box<str>>,
    /// What to do, each hint in one line.
    pub hints: Vec<String>,
    /// Faults of fields, each with its position.
    pub faults: Vec<Fault>,
    /// An exit code to use instead of the class's.
    pub passed_on: Option<u8>,
}

impl Failure {
    /// Creates a failure without hint and faults.
    pub fn new(class: Class, reason: &str, message: impl Into<String>) -> Self {
        Failure {
            class,
            reason: reason.into(),
            message: message.into(),
            excerpt: None,
            hints: Vec::new(),
            faults: Vec::new(),
            passed_on: None,
        }
    }

    /// Creates a failure for invalid usage.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure::new(Class::Usage, "Usage", message).with_hint(hint)
    }

    /// Adds a hint about what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Returns all hints in one line.
    pub fn hint(&self) -> Option<String> {
        let last = self.hints.len().checked_sub(1)?;
        let ends = self.hints.iter().enumerate();
        let hints = ends.map(|(at, hint)| if at < last { hint.trim_end_matches('.') } else { hint });
        Some(hints.collect::<Vec<_>>().join("; "))
    }

    /// Returns the process exit code.
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
            hints: error.advice().iter().map(advice::line).collect(),
            faults: error.faults().to_vec(),
            passed_on: None,
        }
    }
}
