//! A random number generator that yields the same sequence for a seed on every machine and in every version, because
//! recorded programs are named by their seed.
//!
//! `SplitMix64` of Steele, Lea and Flood (2014), which `java.util.SplittableRandom` uses.

/// A reproducible random number generator.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self { state: seed };
        // Consecutive seeds must lead to unrelated sequences.
        random.next();
        Self { state: random.next() ^ seed.rotate_left(32) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number less than `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// Returns true in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Picks one of the items.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Picks one of the items, with probabilities proportional to their weights.
    ///
    /// # Panics
    /// When there are none.
    pub fn weighted<'a, T>(&mut self, from: &'a [(usize, T)]) -> &'a T {
        let mut at = self.below(from.iter().map(|(weight, _)| weight).sum());
        let found = from.iter().find(|(weight, _)| {
            let here = at < *weight;
            at = at.saturating_sub(*weight);
            here
        });
        &found.unwrap_or(&from[0]).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut random = Random::new(7);
        let drawn = (0..6).map(|_| random.below(100)).collect::<Vec<_>>();
        let mut again = Random::new(7);
        assert_eq!(drawn, (0..6).map(|_| again.below(100)).collect::<Vec<_>>());
        assert_ne!(drawn, (0..6).map(|_| random.below(100)).collect::<Vec<_>>());
    }
}
