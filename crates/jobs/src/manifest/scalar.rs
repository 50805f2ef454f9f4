//! How a Kubernetes client interprets an unquoted YAML scalar.
//!
//! `kubectl` reads YAML 1.1 through `go.yaml.in/yaml/v2` (`resolve.go`), not YAML 1.2: `yes`, `on` and `y` are
//! booleans, `0777` is octal, `1_000` is a number, a date is text. We read the same, so that a manifest has the same
//! meaning here and there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

/// Returns the value of an unquoted scalar.
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

/// Whether this unquoted scalar is an infinity or NaN, which kubectl refuses to write as JSON.
pub fn is_no_json_number(text: &str) -> bool {
    let infinite = [".inf", ".Inf", ".INF"];
    infinite.contains(&text.trim_start_matches(['+', '-'])) || [".nan", ".NaN", ".NAN"].contains(&text)
}

/// Whether a reader of YAML 1.2 would interpret this unquoted scalar differently.
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

/// Below this, a float represents every whole number exactly (2⁵³).
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Parses a float; one without a fraction becomes an integer, as it does when kubectl writes it as JSON.
fn float(text: &str) -> Option<Value> {
    let value = text.trim_start_matches('+').parse::<f64>().ok().filter(|value| value.is_finite())?;
    if value.fract() == 0.0 && value.abs() < MAX_EXACT {
        // Exact because of the check above.
        return format!("{value:.0}").parse::<i64>().ok().map(Value::from);
    }
    Number::from_f64(value).map(Value::Number)
}

/// Returns the value of a scalar with one of YAML's own tags; `None` if the text does not fit the tag.
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

/// Decodes Base64 text; `None` if it is not Base64 or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let letters: String = text.split_whitespace().collect();
    String::from_utf8(STANDARD.decode(letters).ok()?).ok()
}

/// Writes a map's key that is a number with a fraction or too large for an integer, as Go's `strconv.FormatFloat(f,
/// 'g', -1, 64)` does.
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

/// Like Go's `strconv.ParseInt(text, 0, 64)`, then `ParseUint`: the prefix determines the base.
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

/// Whether the text is `2006-1-2`, alone or followed by a time; a client keeps it as text.
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
    fn scalars_are_interpreted_as_kubectl_does() {
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
    fn a_yaml_tag_determines_the_value() {
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
    fn scalars_with_another_meaning_in_yaml_1_2_are_detected() {
        for word in ["yes", "n", "on", "0777", "-010"] {
            assert!(surprises(word), "{word}");
        }
        for word in ["true", "False", "777", "0", "0x10", "name"] {
            assert!(!surprises(word), "{word}");
        }
    }
}
