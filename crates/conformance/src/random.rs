//! Numbers that look random and are the same for the same seed on every machine and in every version: recorded
//! programs are named by their seed.
//!
//! `SplitMix64` of Steele, Lea and Flood (2014), which `java.util.SplittableRandom` uses.

/// See the module.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A sequence that the seed decides.
    pub fn new(seed: u64) -> Self {
        let mut random = Self { state: seed };
        // Seeds that follow one another are to have nothing in common.
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

    /// A number less than `bound`; 0 where there is no such number.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// One of these, each as often as its weight says.
    ///
    /// # Panics
    /// When there is none.
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
    fn the_sequence_of_a_seed_stays_what_it_is() {
        let mut random = Random::new(7);
        let drawn = (0..6).map(|_| random.below(100)).collect::<Vec<_>>();
        let mut again = Random::new(7);
        assert_eq!(drawn, (0..6).map(|_| again.below(100)).collect::<Vec<_>>());
        assert_ne!(drawn, (0..6).map(|_| random.below(100)).collect::<Vec<_>>());
    }
}
