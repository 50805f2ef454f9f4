//! Generates a program for a seed.
//!
//! Pure. A program uses one kind ([`kinds`]). It creates a few objects and then takes steps ([`steps`]) with objects,
//! patches ([`patches`]) and mistakes ([`mutate`]).

mod kinds;
mod mutate;
mod patches;
mod steps;

use serde_json::Value;

use crate::program::Program;
use crate::random::Random;

pub use kinds::definitions;
pub use mutate::pointers;

use steps::Maker;

/// The focus of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// A bit of everything.
    Walk,
    /// Mistakes in objects.
    Mistakes,
    /// Server-side apply with several managers.
    Apply,
    /// Lists, selectors, watches.
    Lists,
    /// Invalid bodies and headers.
    Trouble,
}

/// The least and the most steps after the first objects.
const STEPS: (usize, usize) = (3, 9);

/// Returns the program of a seed.
///
/// # Panics
/// When the committed fixtures cannot be read, which a test excludes.
pub fn program(seed: u64) -> Program {
    let mut random = Random::new(seed);
    let aims = [(40, Aim::Walk), (25, Aim::Mistakes), (13, Aim::Apply), (12, Aim::Lists), (10, Aim::Trouble)];
    let aim = *random.weighted(&aims);
    let kind = kinds::pick(&mut random);
    let count = STEPS.0 + random.below(STEPS.1 - STEPS.0);
    let mut maker = Maker::new(kind, random);
    match aim {
        Aim::Walk => {
            maker.create_first(1);
            (0..count).for_each(|_| maker.walk());
        }
        Aim::Mistakes => (0..count).for_each(|_| maker.mistake()),
        Aim::Apply => (0..count).for_each(|_| maker.apply_or_look()),
        Aim::Lists => {
            maker.create_first(4);
            (0..count).for_each(|_| maker.look_around());
        }
        Aim::Trouble => {
            maker.create_first(1);
            (0..count).for_each(|_| maker.trouble());
        }
    }
    Program { seed, steps: maker.steps }
}

/// Returns a JSON string.
fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_determined_by_their_seed() {
        assert_eq!(program(11), program(11));
        assert_ne!(program(11).steps, program(12).steps);
    }

    #[test]
    fn programs_use_every_kind_of_request() {
        let steps = (0..2000).flat_map(|seed| program(seed).steps).collect::<Vec<_>>();
        let verbs = steps.iter().map(crate::program::Step::verb).collect::<std::collections::BTreeSet<_>>();
        for verb in [
            "GET",
            "POST",
            "PUT",
            "DELETE",
            "WATCH",
            "PATCH json",
            "PATCH merge",
            "PATCH strategic",
            "PATCH apply",
        ] {
            assert!(verbs.contains(verb), "{verb}: {verbs:?}");
        }
        for kind in kinds::all() {
            assert!(steps.iter().any(|step| step.resource().starts_with(&kind.plural)), "{}", kind.plural);
        }
    }
}
