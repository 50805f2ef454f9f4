//! Parts of a response that are unknown, and why: a part that is not read is not set, never empty or zero.

use jobs::UnknownQuota;

use crate::contract::UnknownPart;

/// Why a part is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// The caller may not read it.
    NotAllowed,
    /// It was not read in time.
    Late,
    /// It could not be read, or is too much to be read completely.
    Unreadable,
    /// An administrator turned it off.
    TurnedOff,
}

impl Unknown {
    /// Describes a part of a response; `what` names the objects in the message.
    pub fn part(self, part: &str, what: &str) -> UnknownPart {
        let (reason, message) = match self {
            Self::NotAllowed => ("NotAllowed", format!("you may not list {what}")),
            Self::Late => ("Late", format!("{what} were not read in time")),
            Self::Unreadable => ("Unreadable", format!("{what} cannot be read completely")),
            Self::TurnedOff => {
                ("TurnedOff", "an administrator of the training service turned this off".to_owned())
            }
        };
        UnknownPart { part: part.to_owned(), reason: reason.to_owned(), message }
    }
}

/// Describes the quota of a queue that is unknown, in this part.
pub fn quota(part: &str, why: &UnknownQuota) -> UnknownPart {
    UnknownPart { part: part.to_owned(), reason: why.reason.to_owned(), message: why.message.clone() }
}

/// Returns a part that is known; notes it as unknown otherwise.
pub fn known<T>(
    unknown: &mut Vec<UnknownPart>,
    part: &str,
    what: &str,
    found: Result<T, Unknown>,
) -> Option<T> {
    found.map_err(|why| unknown.push(why.part(part, what))).ok()
}
