//! A program for every seed.
//!
//! Pure. A program is about one kind ([`kinds`]); it makes a few objects and then takes steps ([`steps`]) with objects,
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

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// A bit of everything.
    Walk,
    /// Mistakes in objects.
    Mistakes,
    /// Several managers.
    Apply,
    /// Lists, selectors, watches.
    Lists,
    /// Bodies and headers that are not what they should be.
    Trouble,
}

/// Steps after the first objects, at least and at most.
const STEPS: (usize, usize) = (3, 9);

/// The program of a seed.
///
/// # Panics
/// When the committed fixtures cannot be read: a test reads them.
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

/// A JSON text as a value, for what is written down in this crate.
fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_program_every_time_and_another_one_another() {
        assert_eq!(program(11), program(11));
        assert_ne!(program(11).steps, program(12).steps);
    }

    #[test]
    fn programs_ask_for_everything() {
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
