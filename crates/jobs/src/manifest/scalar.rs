//! What a plain YAML word means to a Kubernetes client.
//!
//! `kubectl` reads YAML 1.1 through `go.yaml.in/yaml/v2` (`resolve.go`), not YAML 1.2: `yes`, `on` and `y` are
//! booleans, `0777` is octal, `1_000` is a number, a date is text. We read the same, so that a manifest means here
//! what it means there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

/// The value of a word that stands without quotes.
pub fn resolve(text: &str) -> Value {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        _ => number(text).unwrap_or_else(|| Value::String(text.to_owned())),
    }
}

/// Whether this plain word is an infinity or no number at all, which kubectl refuses to write as JSON.
pub fn is_no_json_number(text: &str) -> bool {
    let infinite = [".inf", ".Inf", ".INF"];
    infinite.contains(&text.trim_start_matches(['+', '-'])) || [".nan", ".NaN", ".NAN"].contains(&text)
}

/// Whether this plain word is read as something else than a reader of YAML 1.2 would think.
pub fn surprises(text: &str) -> bool {
    let boolean_by_1_1 = matches!(resolve(text), Value::Bool(_))
        && !text.eq_ignore_ascii_case("true")
        && !text.eq_ignore_ascii_case("false");
    let digits = text.trim_start_matches(['+', '-']);
    let octal = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    boolean_by_1_1 || octal
}

fn number(text: &str) -> Option<Value> {
    let first = text.bytes().next()?;
    if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.')) || is_date(text) {
        return None;
    }
    let plain = text.replace('_', "");
    if first != b'.'
        && let Some(value) = integer(&plain)
    {
        return Some(value);
    }
    if !looks_like_float(&plain) {
        return None;
    }
    float(&plain)
}

/// The largest whole number up to which every one has a float of its own.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A float; one that is whole is a whole number, as it is once kubectl has written it as JSON.
fn float(text: &str) -> Option<Value> {
    let value = text.trim_start_matches('+').parse::<f64>().ok().filter(|value| value.is_finite())?;
    if value.fract() == 0.0 && value.abs() < MAX_EXACT {
        // Exact by the check before it.
        return format!("{value:.0}").parse::<i64>().ok().map(Value::from);
    }
    Number::from_f64(value).map(Value::Number)
}

/// What a scalar with one of YAML's own tags means; nothing where its text does not fit the tag.
pub fn tagged(tag: &str, text: &str) -> Option<Value> {
    let value = resolve(text);
    let fits = match tag {
        "str" | "timestamp" => return Some(Value::String(text.to_owned())),
        "binary" => return decoded(text).map(Value::String),
        "null" => text.is_empty() || value.is_null(),
        "bool" => value.is_boolean(),
        "int" => value.is_i64() || value.is_u64(),
        "float" => value.is_number(),
        _ => true,
    };
    fits.then_some(if tag == "null" { Value::Null } else { value })
}

/// The text that stands in Base64; nothing where it is none, or no text.
fn decoded(text: &str) -> Option<String> {
    let letters: String = text.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(letters).ok()?).ok()
}

/// A map's key of a number that is not whole, or too large to be, as Go's `strconv.FormatFloat(f, 'g', -1, 64)` has it.
pub fn float_key(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) && value.abs() < 1e6 {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Go's `strconv.ParseInt(text, 0, 64)`, then `ParseUint`: the prefix decides the base.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, rest) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(rest, base).ok()?;
    if negative {
        let signed = i64::try_from(-i128::from(magnitude)).ok()?;
        return Some(Value::from(signed));
    }
    Some(Value::from(magnitude))
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn looks_like_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa_fits && exponent.is_none_or(|part| digits(part.strip_prefix(['+', '-']).unwrap_or(part)))
}

/// `2006-1-2`, alone or followed by a time; a client keeps such a word as text.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    year.len() == 4 && digits(year) && digits(month) && rest.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        let table = [
            ("yes", json!(true)),
            ("On", json!(true)),
            ("y", json!(true)),
            ("off", json!(false)),
            ("N", json!(false)),
            ("yEs", json!("yEs")),
            ("", json!(null)),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("0777", json!(511)),
            ("0o777", json!(511)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("-0b11", json!(-3)),
            ("08", json!(8)),
            ("1_000", json!(1000)),
            ("+12", json!(12)),
            ("-7", json!(-7)),
            ("0", json!(0)),
            ("1e3", json!(1000)),
            ("1e400", json!("1e400")),
            (".5", json!(0.5)),
            ("1.", json!(1)),
            ("1.5", json!(1.5)),
            ("18446744073709551615", json!(18446744073709551615u64)),
            ("60:30", json!("60:30")),
            ("1.2.3", json!("1.2.3")),
            ("2024-01-02", json!("2024-01-02")),
            ("500m", json!("500m")),
            ("1Gi", json!("1Gi")),
            ("-", json!("-")),
            (".", json!(".")),
            ("+", json!("+")),
            ("0x", json!("0x")),
            ("1e", json!("1e")),
            ("a b", json!("a b")),
        ];
        for (word, meant) in table {
            assert_eq!(resolve(word), meant, "{word:?}");
        }
    }

    #[test]
    fn a_tag_says_what_is_meant() {
        let table = [
            ("str", "0777", Some(json!("0777"))),
            ("int", "3", Some(json!(3))),
            ("int", "x", None),
            ("float", "3", Some(json!(3))),
            ("bool", "yes", Some(json!(true))),
            ("bool", "x", None),
            ("null", "", Some(json!(null))),
            ("null", "x", None),
            ("binary", "aGVsbG8=", Some(json!("hello"))),
            ("binary", "aGk", None),
            ("binary", "a=Vs", None),
        ];
        for (tag, text, meant) in table {
            assert_eq!(tagged(tag, text), meant, "!!{tag} {text:?}");
        }
    }

    #[test]
    fn words_that_surprise_are_known() {
        for word in ["yes", "n", "on", "0777", "-010"] {
            assert!(surprises(word), "{word}");
        }
        for word in ["true", "False", "777", "0", "0x10", "name"] {
            assert!(!surprises(word), "{word}");
        }
    }
}
