//! Notifications about jobs: who wants to know what, and deliveries that survive a crash.
//!
//! A delivery is enqueued in the transaction that stores the state change, so neither exists without the other. A
//! replica claims due deliveries with a lease and sends them; another replica may claim them again only after the lease
//! has expired, and a send takes less time than the lease. A delivery may still arrive twice, if a replica dies between
//! the answer and its record: its id is the same each time.

pub mod address;
pub mod alerts;
pub mod deliver;
mod deliveries;
pub mod mail;
mod queue;
mod rules;
mod secret;
pub mod signature;
mod transition;

pub use self::deliveries::{
    Delivery, DeliveryFilter, MAX_PAGE, Try, VisibleDeliveries, deliveries, prune, revive, tries,
};
pub(crate) use self::queue::enqueue;
pub use self::queue::{
    Claim, LEASE, MAX_CLAIM, MAX_OF_NAMESPACE, MAX_TRIES, Outcome, TEST_EVERY, Tested, claim, enqueue_test,
    finish,
};
use self::queue::{Failure, enqueue_for};
pub use self::rules::{Destination, MAX_RULES, NewRule, Rule, delete_rule, disable, put_rule, rule, rules};
use self::rules::{rule_columns, rule_of};
pub use self::secret::Secret;
pub use self::transition::{TEST, Transition, Transitions};
