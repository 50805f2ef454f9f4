//! Amounts of resources: the sums that a gang requests, written as Go's `resource.Quantity` writes them
//! (`k8s.io/apimachinery/pkg/api/resource`), so that they compare equal with what upstream writes.

/// Nano-units in one unit, the finest precision kept.
const NANOS: i128 = 1_000_000_000;
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL: [(&str, i128); 10] = [
    ("E", 1_000_000_000_000_000_000_000_000_000),
    ("P", 1_000_000_000_000_000_000_000_000),
    ("T", 1_000_000_000_000_000_000_000),
    ("G", 1_000_000_000_000_000_000),
    ("M", 1_000_000_000_000_000),
    ("k", 1_000_000_000_000),
    ("", NANOS),
    ("m", 1_000_000),
    ("u", 1_000),
    ("n", 1),
];

/// An amount, and whether it is written with binary suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    nanos: i128,
    binary: bool,
}

impl Amount {
    /// Parses a quantity. Returns `None` for text that is not one; the API server does not admit such text.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let (negative, number) = match number.strip_prefix('-') {
            Some(number) => (true, number),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let binary = BINARY.iter().skip(1).position(|name| *name == suffix);
        let unit = match (binary, exponent(suffix)) {
            (Some(power), _) => NANOS.checked_mul(1024_i128.checked_pow(u32::try_from(power).ok()? + 1)?)?,
            (None, Some(exponent)) => NANOS.checked_mul(10_i128.checked_pow(exponent)?)?,
            (None, None) => DECIMAL.iter().find(|(name, _)| *name == suffix)?.1,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut nanos = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()?.checked_mul(unit)? };
        let mut part = unit;
        for digit in fraction.chars() {
            part /= 10;
            nanos = nanos.checked_add(i128::from(digit.to_digit(10)?).checked_mul(part)?)?;
        }
        Some(Self { nanos: if negative { -nanos } else { nanos }, binary: binary.is_some() })
    }

    /// The amount in nano-units (10⁻⁹).
    pub(crate) fn nanos(self) -> i128 {
        self.nanos
    }

    /// Zero.
    pub(crate) const NONE: Self = Self { nanos: 0, binary: false };
    /// One.
    pub(crate) const ONE: Self = Self { nanos: NANOS, binary: false };

    /// Whether it is zero.
    pub(crate) fn is_none(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is greater than the other.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    /// Subtracts the other; zero if the other is greater.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos).max(0), ..self }
    }

    /// How many times the other fits into it; `None` if the other is zero.
    pub(crate) fn count_of(self, each: Self) -> Option<i64> {
        i64::try_from(self.nanos.checked_div(each.nanos)?).ok()
    }

    /// Multiplies it.
    pub(crate) fn times(self, count: i64) -> Self {
        Self { nanos: self.nanos.saturating_mul(i128::from(count)), ..self }
    }

    /// Adds both; the result is written like the first non-zero one.
    pub(crate) fn plus(self, other: Self) -> Self {
        let binary = if self.is_none() { other.binary } else { self.binary };
        Self { nanos: self.nanos.saturating_add(other.nanos), binary }
    }

    /// Whether both are equal, however they are written.
    pub(crate) fn equals(self, other: Self) -> bool {
        self.nanos == other.nanos
    }

    /// Writes the shortest whole number with a suffix.
    pub(crate) fn write(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        if self.binary && self.nanos.abs() >= 1024 * NANOS && self.nanos % NANOS == 0 {
            let (mut number, mut power) = (self.nanos / NANOS, 0);
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return format!("{number}{}", BINARY[power]);
        }
        let unit = DECIMAL.iter().find(|(_, unit)| self.nanos % unit == 0);
        unit.map_or_else(|| self.nanos.to_string(), |(suffix, unit)| format!("{}{suffix}", self.nanos / unit))
    }
}

/// The power of ten in `e3` or `E3`.
fn exponent(suffix: &str) -> Option<u32> {
    suffix.strip_prefix(['e', 'E'])?.parse().ok()
}

/// Parses a Kubernetes quantity into nano-units: `250m` is 250,000,000. Returns `None` if the text is not a quantity.
pub fn quantity_nanos(text: &str) -> Option<i128> {
    Amount::read(text).map(|amount| amount.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_written_as_go_writes_them() {
        let read = |text: &str| Amount::read(text).unwrap();
        let cases = [
            ("1", 3, "0", "3"),
            ("100m", 10, "0", "1"),
            ("100m", 3, "50m", "350m"),
            ("1Gi", 3, "256Mi", "3328Mi"),
            ("1Gi", 1024, "0", "1Ti"),
            ("512", 2, "0", "1024"),
            ("0.5Gi", 1, "0", "512Mi"),
            ("1500M", 2, "0", "3G"),
            ("1e3", 1, "0", "1k"),
            ("0.1", 1, "0", "100m"),
            ("1.5", 2, "0", "3"),
            ("500Ki", 2, "0", "1000Ki"),
            ("1Ki", 0, "0", "0"),
        ];
        for (each, count, more, sum) in cases {
            assert_eq!(read(each).times(count).plus(read(more)).write(), sum, "{each} × {count} + {more}");
        }
        assert!(read("1024Mi").equals(read("1Gi")));
        assert_eq!(Amount::read("many"), None);
    }
}
