//! Resource quantities (`500m`, `1Gi`, `2e3`): parsed exactly, compared, and written in canonical form.
//!
//! Rules of `k8s.io/apimachinery/pkg/api/resource`: anything finer than a nano-unit is rounded away from zero, and an
//! amount with a binary suffix is at most 2^63-1. The canonical form loses no precision and has the largest suffix that
//! leaves a whole number. Amounts beyond [`LARGEST_NANOS`], which Kubernetes cannot add up either, are that.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

/// Nano-units in one unit.
const NANOS: i128 = 1_000_000_000;
/// The largest amount with a binary suffix.
const LARGEST_BINARY_NANOS: i128 = i64::MAX as i128 * NANOS;
/// The largest other amount: 10^28 units.
const LARGEST_NANOS: i128 = 10_i128.pow(LARGEST_POWER);
const LARGEST_POWER: u32 = 37;
/// The longest quantity, in bytes.
const MAX_BYTES: usize = 128;
/// Greater powers of ten make no difference.
const MAX_POWER: i64 = 100;
/// The letters of all suffixes.
const SUFFIX_LETTERS: &str = "eEinumkKMGTP";
/// The power of ten of a nano-unit.
const SMALLEST: i32 = -9;
/// The greatest power of two that upstream's fast path parses.
const QUICK_BINARY: u32 = 40;
const DECIMAL: &[(&str, i32)] = &[
    ("E", 18),
    ("P", 15),
    ("T", 12),
    ("G", 9),
    ("M", 6),
    ("k", 3),
    ("", 0),
    ("m", -3),
    ("u", -6),
    ("n", -9),
];
const BINARY: &[(&str, u32)] = &[("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// Why a text is not a quantity; the messages are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAQuantity {
    /// It does not have the form of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Form,
    /// It has no valid number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// It has no valid suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Binary,
    Exponent,
}

/// An amount of a resource, exact to a nano-unit.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    form: Form,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, form: Form::Decimal };
    /// One.
    pub const ONE: Self = Self { nanos: NANOS, form: Form::Decimal };

    /// Parses a text, with spaces around it, of a typed object. Returns `None` if it is not a quantity; the API server
    /// does not admit such text.
    pub fn read(text: &str) -> Option<Quantity> {
        text.trim().parse().ok()
    }

    /// Parses a JSON string or number.
    pub fn of(value: &Value) -> Result<Quantity, NotAQuantity> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => number.to_string().parse(),
            _ => Err(NotAQuantity::Form),
        }
    }

    /// Returns the amount in nano-units.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Returns the amount in thousandths, rounded away from zero.
    pub fn millis(&self) -> i128 {
        divide_up(self.nanos, 1_000_000)
    }

    /// Returns the amount in whole units, rounded away from zero.
    pub fn units(&self) -> i128 {
        divide_up(self.nanos, NANOS)
    }

    /// Writes an amount of bytes as people do, in the largest unit with at least one of it: `23.5Gi`, `100Gi`, `512Mi`.
    #[must_use]
    pub fn in_bytes(&self) -> String {
        let tenths = self.units().unsigned_abs().saturating_mul(10);
        let unit = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
        let fits = unit.into_iter().find(|(_, power)| tenths >= 10_u128 << power);
        let (suffix, power) = fits.unwrap_or(("", 0));
        let rounded = (tenths + (1_u128 << power) / 2) >> power;
        let sign = if self.is_negative() { "-" } else { "" };
        match rounded % 10 {
            0 => format!("{sign}{}{suffix}", rounded / 10),
            tenth => format!("{sign}{}.{tenth}{suffix}", rounded / 10),
        }
    }

    /// Returns whether the amount is negative.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Returns whether the amount is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    /// Returns whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Returns the sum, written like the first amount that is not zero.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_add(other.nanos), form: self.form_beside(other) }
    }

    /// Returns the difference, written like the first amount that is not zero.
    #[must_use]
    pub fn less(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_sub(other.nanos), form: self.form_beside(other) }
    }

    /// Returns `count` times the amount.
    #[must_use]
    pub fn times(self, count: i64) -> Quantity {
        Quantity { nanos: self.nanos.saturating_mul(i128::from(count)), form: self.form }
    }

    /// Returns how many times `each` fits into the amount; `None` if `each` is zero.
    pub fn count_of(self, each: Quantity) -> Option<i64> {
        i64::try_from(self.nanos.checked_div(each.nanos)?).ok()
    }

    fn form_beside(self, other: Quantity) -> Form {
        if self.is_zero() { other.form } else { self.form }
    }
}

/// Divides, rounding away from zero.
fn divide_up(value: i128, by: i128) -> i128 {
    let (whole, rest) = (value / by, value % by);
    whole + rest.signum()
}

impl FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(NotAQuantity::Form);
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        if !is_suffix(suffix) {
            return Err(NotAQuantity::Form);
        }
        let (exponent, binary, form) = scale(suffix)?;
        // A text without digits is zero, unless its suffix prevents upstream's fast path (`ParseQuantity`).
        if whole.is_empty() && fraction.is_empty() && (exponent < SMALLEST || binary > QUICK_BINARY) {
            return Err(NotAQuantity::Number);
        }
        let negative = text.starts_with('-');
        let nanos = scaled(whole, fraction, exponent, binary);
        let form = if form == Form::Binary && nanos < NANOS { Form::Decimal } else { form };
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, form })
    }
}

/// Splits a text after its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Returns whether a text has the form of a suffix: suffix letters, then an optional integer.
fn is_suffix(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| SUFFIX_LETTERS.contains(c));
    digits(number.strip_prefix(['-', '+']).unwrap_or(number)).1.is_empty()
}

/// Returns a suffix's power of ten, power of two, and form.
fn scale(suffix: &str) -> Result<(i32, u32, Form), NotAQuantity> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Ok((*power, 0, Form::Decimal));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Ok((0, *power, Form::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(NotAQuantity::Suffix)?;
    let power: i64 = exponent.parse().map_err(|_| NotAQuantity::Suffix)?;
    let power = i32::try_from(power.clamp(-MAX_POWER, MAX_POWER)).unwrap_or_default();
    Ok((power, 0, Form::Exponent))
}

/// Returns `whole.fraction` × 10^`exponent` × 2^`binary` in nano-units, rounded up and bounded.
fn scaled(whole: &str, fraction: &str, exponent: i32, binary: u32) -> i128 {
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    // The power of ten that converts the digits to nano-units.
    let shift = exponent + 9 - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    if digits.is_empty() {
        return 0;
    }
    if binary > 0 {
        return scaled_binary(digits, shift, binary);
    }
    let length = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let places = length.saturating_add(shift);
    if places > LARGEST_POWER.cast_signed() {
        return LARGEST_NANOS;
    }
    if shift >= 0 {
        let mantissa: i128 = digits.parse().unwrap_or(LARGEST_NANOS);
        return mantissa.saturating_mul(10_i128.saturating_pow(shift.unsigned_abs()));
    }
    let keep = places.max(0).unsigned_abs() as usize;
    let (kept, lost) = digits.split_at(keep.min(digits.len()));
    let mantissa: i128 = if kept.is_empty() { 0 } else { kept.parse().unwrap_or(LARGEST_NANOS) };
    mantissa + i128::from(lost.bytes().any(|b| b != b'0'))
}

/// As [`scaled`] for binary suffixes. Such numbers have few digits in practice; digits beyond the first 18 are dropped.
fn scaled_binary(digits: &str, shift: i32, binary: u32) -> i128 {
    const KEPT_DIGITS: usize = 18;
    let (digits, shift) = if digits.len() > KEPT_DIGITS {
        let lost = i32::try_from(digits.len() - KEPT_DIGITS).unwrap_or(i32::MAX);
        (&digits[..KEPT_DIGITS], shift.saturating_add(lost))
    } else {
        (digits, shift)
    };
    let mantissa: i128 = digits.parse().unwrap_or(LARGEST_BINARY_NANOS);
    let product = mantissa.saturating_mul(1_i128 << binary.min(60));
    let value = if shift >= 0 {
        product.saturating_mul(10_i128.saturating_pow(shift.unsigned_abs()))
    } else {
        divide_up(product, 10_i128.saturating_pow(shift.unsigned_abs().min(38)))
    };
    value.min(LARGEST_BINARY_NANOS)
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        // A fraction is written as decimal, so that it is not lost.
        if self.form == Form::Binary && self.nanos.abs() >= 1024 * NANOS && self.is_whole() {
            let units = self.nanos / NANOS;
            let fits = BINARY.iter().find(|(_, power)| units % (1_i128 << power) == 0);
            return match fits {
                Some((suffix, power)) => write!(f, "{}{suffix}", units / (1_i128 << power)),
                None => write!(f, "{units}"),
            };
        }
        let (mut mantissa, mut power) = (self.nanos, SMALLEST);
        while mantissa % 1000 == 0 {
            (mantissa, power) = (mantissa / 1000, power + 3);
        }
        let suffix = DECIMAL.iter().find(|(_, of)| *of == power && self.form != Form::Exponent);
        match suffix {
            Some((suffix, _)) => write!(f, "{mantissa}{suffix}"),
            None if power == 0 => write!(f, "{mantissa}"),
            None => write!(f, "{mantissa}e{power}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_written_in_units_for_people() {
        for (text, written) in [
            ("24684092Ki", "23.5Gi"),
            ("100Gi", "100Gi"),
            ("512Mi", "512Mi"),
            ("1023", "1023"),
            ("1536", "1.5Ki"),
            ("0", "0"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().in_bytes(), written, "{text}");
        }
    }

    #[test]
    fn the_canonical_form_matches_upstream() {
        let cases = [
            ("0", "0"),
            ("0.5", "500m"),
            ("1000", "1k"),
            ("1500m", "1500m"),
            ("2000m", "2"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("100000", "100k"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("1E", "1E"),
            ("512Ki", "512Ki"),
            ("1536", "1536"),
            ("-1", "-1"),
            ("+1", "1"),
            (".5", "500m"),
            ("5.", "5"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1.00000000001", "1000000001n"),
            ("1e-10", "1e-9"),
            ("5E-1", "500e-3"),
            ("1e-4", "100e-6"),
            ("1e19", "10e18"),
            // Only binary suffixes have a bound, and only whole units are written with one.
            ("8Ei", "9223372036854775807"),
            ("-9Ei", "-9223372036854775807"),
            ("7Ei", "7Ei"),
            ("10E", "10E"),
            ("99999999999999999999", "99999999999999999999"),
            ("1.1Ki", "1126400m"),
            ("1.0001Mi", "1048680857600u"),
            ("0.000001Ki", "1024u"),
            ("1.0000000001Ki", "1024000000103n"),
            ("1m", "1m"),
            ("001", "1"),
            ("-", "0"),
            (".", "0"),
            ("Gi", "0"),
        ];
        for (text, canonical) in cases {
            assert_eq!(text.parse::<Quantity>().map(|q| q.to_string()), Ok(canonical.to_owned()), "{text}");
        }
    }

    #[test]
    fn amounts_without_a_binary_suffix_are_bounded_far_above_kubernetes_own_arithmetic() {
        for (text, written) in [("1e90", "10e27"), ("1e28", "10e27"), ("1e27", "1e27"), ("1000E", "1e21")] {
            assert_eq!(text.parse::<Quantity>().unwrap().to_string(), written, "{text}");
        }
    }

    /// The results of Go's `Quantity` of Kubernetes 1.36.
    #[test]
    fn sums_and_differences_are_written_as_go_writes_them() {
        let q = |text: &str| text.parse::<Quantity>().unwrap();
        for (each, count, more, sum) in [
            ("1", 3, "0", "3"),
            ("100m", 10, "0", "1"),
            ("100m", 3, "50m", "350m"),
            ("1Gi", 3, "256Mi", "3328Mi"),
            ("1Gi", 1024, "0", "1Ti"),
            ("512", 2, "0", "1024"),
            ("0.5Gi", 1, "0", "512Mi"),
            ("1500M", 2, "0", "3G"),
            ("1e3", 1, "1k", "2e3"),
            ("1.5", 2, "0", "3"),
            ("500Ki", 2, "0", "1000Ki"),
            ("1Ki", 0, "0", "0"),
            ("0", 1, "1Gi", "1Gi"),
            ("1Gi", 1, "1", "1073741825"),
            ("100m", 1, "1Gi", "1073741824100m"),
            ("1Gi", 1, "0.5", "1073741824500m"),
            ("7Ei", 1, "7Ei", "14Ei"),
            ("8Ei", 1, "8Ei", "18446744073709551614"),
            ("9E", 1, "9E", "18E"),
        ] {
            assert_eq!(q(each).times(count).plus(q(more)).to_string(), sum, "{each} × {count} + {more}");
        }
        for (from, less, rest) in
            [("0", "1Gi", "-1Gi"), ("1Gi", "1Gi", "0"), ("1", "2Gi", "-2147483647"), ("-9E", "9E", "-18E")]
        {
            assert_eq!(q(from).less(q(less)).to_string(), rest, "{from} - {less}");
        }
        assert_eq!([q("10Gi").count_of(q("3Gi")), q("1").count_of(Quantity::ZERO)], [Some(3), None]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "a", "1.2.3", "1 Gi", "1gi", "1Gib", "1e1.5", "ü"] {
            assert_eq!(text.parse::<Quantity>(), Err(NotAQuantity::Form), "{text}");
        }
        for text in ["--1", "1e", "1ee3", "1K", "1-2", "kk", "1e99999999999999999999"] {
            assert_eq!(text.parse::<Quantity>(), Err(NotAQuantity::Suffix), "{text}");
        }
        for text in ["Ei", "-.Pi", "e-10"] {
            assert_eq!(text.parse::<Quantity>(), Err(NotAQuantity::Number), "{text}");
        }
    }

    #[test]
    fn amounts_in_different_forms_are_comparable() {
        let q = |t: &str| t.parse::<Quantity>().unwrap();
        assert!(q("1Gi") > q("1G") && q("1000m") == q("1") && q("1e3") == q("1k"));
        assert_eq!((q("1500m").units(), q("1500m").millis(), q("1n").millis()), (2, 1500, 1));
    }

    proptest! {
        #[test]
        fn canonical_form_keeps_the_amount(text in "[+-]?[0-9]{0,20}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let again: Quantity = quantity.to_string().parse().unwrap();
                prop_assert!(again == quantity, "{} {}", text, quantity);
                // Without a suffix it is parsed as a decimal amount; after that, the text is stable.
                let text = again.to_string();
                prop_assert_eq!(text.parse::<Quantity>().unwrap().to_string(), text);
            }
        }
    }
}
