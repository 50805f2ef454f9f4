//! Property tests with hostile input: decoders, patches, selectors, expressions and continue tokens return a
//! value or an error for any text or bytes. They never panic, and finish in bounded time.
//!
//! Inputs are generated from scratch and by corrupting valid ones. This runs more cases:
//! `PROPTEST_CASES=100000 cargo test -p cluster hostile`.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::body::decode;
use super::negotiate::Encoding;
use super::read::Token;
use objects::expressions::{self, Variables, initializers};
use objects::patch::{self, apply};
use objects::schema::cost;
use objects::{FieldSelector, LabelSelector};

/// A pod with some of every kind of field.
fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
            "env": [{"name": "X", "value": "1"}]}], "tolerations": [{"operator": "Exists"}]}})
}

/// Arbitrary JSON with meaningful field names.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        "[a-z$/~.-]{0,8}".prop_map(Value::String),
        prop::sample::select(vec!["delete", "replace", "merge", "c", "X", "80", "1Ki"])
            .prop_map(|t| json!(t)),
    ];
    let names = vec![
        "metadata",
        "spec",
        "status",
        "containers",
        "name",
        "ports",
        "containerPort",
        "env",
        "value",
        "labels",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "finalizers",
        "tolerations",
        "op",
        "path",
        "from",
        "annotations",
        "managedFields",
        "apiVersion",
        "kind",
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((prop::sample::select(names.clone()), inner), 0..5).prop_map(|fields| {
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

/// Operations of a JSON patch, mostly well-formed.
fn operations() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "fly"]);
    let path = || {
        prop::sample::select(vec![
            "",
            "/",
            "/spec",
            "/spec/containers/0",
            "/spec/containers/-",
            "/spec/containers/9/name",
            "/metadata/labels/a",
            "/metadata/labels/a~1b",
            "no",
            "/spec/containers/00",
            "/spec/containers/18446744073709551616",
        ])
    };
    let one = (word, path(), path(), value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    prop::collection::vec(one, 0..6).prop_map(Value::Array)
}

/// CEL expressions, valid or not.
fn expression() -> impl Strategy<Value = String> {
    let words = vec![
        "object",
        ".spec",
        ".containers",
        "[0]",
        "['a']",
        ".all(x, ",
        ".exists(x, ",
        ".map(x, ",
        ".filter(x, ",
        "x",
        ")",
        "(",
        " + ",
        " - ",
        " * ",
        " / ",
        " % ",
        " == ",
        " && ",
        " || ",
        " ? ",
        " : ",
        "!",
        "-",
        "1",
        "0",
        "9223372036854775807",
        "1u",
        "2.5",
        "'text'",
        "b'x'",
        "null",
        "true",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "size(",
        "has(",
        "string(",
        "int(",
        "duration('1h')",
        "timestamp('2026-01-01T00:00:00Z')",
        "quantity('1Gi')",
        ".matches('(a*)*')",
        ".split('')",
        ".replace('', 'xx')",
        "Object{",
        "Object.spec{",
        "JSONPatch{",
        "spec: ",
        "optional.of(",
        ".orValue(",
        " in ",
        ".format([",
        "%d",
        "url('x')",
        "ip('::1')",
        ".find('[')",
        ".substring(-1, 99)",
        "semver('1')",
    ];
    prop::collection::vec(prop::sample::select(words), 0..14).prop_map(|words| words.concat())
}

fn evaluate(text: &str) {
    let object = pod();
    let variables = Variables::new(&[("object", &object)]);
    if let Ok(program) = expressions::compile(text)
        && cost::bound(&program, &[("object", &object)]) < cost::PER_RULE
    {
        let _ = variables.holds(&program);
    }
    if let Ok(maker) = initializers::compile(text)
        && cost::bound(&maker.program, &[("object", &object)]) < cost::PER_RULE
    {
        let _ = variables.make_object(&maker);
        let _ = variables.make_operations(&maker);
    }
}

proptest! {
    #[test]
    fn bodies(bytes in prop::collection::vec(any::<u8>(), 0..300), place in 0usize..300, byte in any::<u8>()) {
        for encoding in [Encoding::Json, Encoding::Yaml, Encoding::Protobuf] {
            let _ = decode(&bytes, encoding);
            let mut spoiled = pod().to_string().into_bytes();
            if let Some(at) = spoiled.get_mut(place) {
                *at = byte;
            }
            let _ = decode(&spoiled, encoding);
            let enveloped = [b"k8s\0".as_slice(), &bytes].concat();
            let _ = decode(&enveloped, encoding);
        }
    }

    #[test]
    fn patches(patch in value(), operations in operations()) {
        let (pod, kind) = (pod(), objects::builtin_kind("", "Pod").unwrap());
        let _ = patch::json(&pod, &operations);
        let _ = patch::json(&pod, &patch);
        let _ = patch::merge(&pod, &patch);
        let _ = patch::strategic(kind, &pod, &patch);
        let mut applied = patch.clone();
        if applied.is_object() {
            applied["apiVersion"] = "v1".into();
        }
        let by = apply::Writer { manager: "m", subresource: None, now: Timestamp::UNIX_EPOCH };
        for live in [None, Some(&pod)] {
            let _ = apply::apply(kind, live, &applied, by, true);
        }
        let _ = apply::merge_untracked(kind, &pod, &applied);
    }

    #[test]
    fn selectors(text in "[a-z=!,() ./~0-9-]{0,40}", any in "\\PC{0,40}", selector in value()) {
        let kind = objects::builtin_kind("", "Pod").unwrap();
        for text in [&text, &any] {
            let _ = LabelSelector::parse(text).map(|selector| selector.matches(&pod()));
            let _ = FieldSelector::parse(kind, text).map(|selector| selector.matches(kind, &pod()));
            let _ = jsonpath::Path::parse(text).map(|path| path.find(&pod()).map(|found| found.len()));
            let _ = Token::parse(text);
        }
        let _ = LabelSelector::of(&selector).map(|selector| selector.matches(&pod()));
    }

    #[test]
    fn expressions_of_any_kind(text in expression(), any in "\\PC{0,60}") {
        evaluate(&text);
        evaluate(&any);
    }
}

#[test]
fn deeply_nested_input_terminates() {
    // The parser's time grows faster than the text; a tenth of the permitted length is deep enough.
    let (size, half) = (1600, 800);
    for piece in ["(", "[", "{", "!", "-", "a.", "a[", "f(", "1+", "true?", "x in ", "Object{a:", "'"] {
        evaluate(&piece.repeat(size / piece.len()));
    }
    for (open, close) in [("(", ")"), ("[", "]"), ("!(", ")"), ("-(", ")"), ("f(", ")")] {
        let count = half / (open.len() + close.len());
        evaluate(&format!("{}1{}", open.repeat(count), close.repeat(count)));
    }
    evaluate(&format!("{}1", "1+".repeat(half)));
    evaluate(&format!("object{}", ".a".repeat(half)));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for encoding in [Encoding::Json, Encoding::Yaml, Encoding::Protobuf] {
            assert!(decode(text.as_bytes(), encoding).is_err());
        }
    }
    let _ = jsonpath::Path::parse(&"[".repeat(100_000));
    let _ = LabelSelector::parse(&"a in (".repeat(10_000));
}
