//! Compares how kubectl interprets a text or flags, recorded by `tests/kubectl/record.py`, with how we do.

use serde_json::Value;

use crate::odh::Home;

const HEAD: &str = "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\n";

/// Compares numbers by value, whole or not: JSON has only one number type.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn yaml_is_interpreted_as_kubectl_does() {
    let fixture: Value = serde_json::from_str(include_str!("../kubectl/yaml.json")).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    assert!(cases.len() > 150, "the fixture has lost its cases");
    let mut wrong = Vec::new();
    for case in cases {
        let text = case["yaml"].as_str().unwrap();
        let ours = jobs::manifest::read(format!("{HEAD}{text}").as_bytes(), "-");
        let ours = ours.map(|documents| documents[0].value["spec"].clone());
        let alike = match (&ours, case.get("value")) {
            (Ok(value), Some(expected)) => same(value, expected),
            (Err(_), None) => true,
            _ => false,
        };
        if alike != case["differs"].is_null() {
            wrong.push(format!("{text:?}: kubectl {}{}, here {ours:?}", case["value"], case["error"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each command line with flags is paired with the equivalent manifest.
#[test]
fn flags_create_the_same_job_as_a_manifest() {
    let home = Home::new();
    let table = include_str!("../kubectl/flags.yaml");
    let pairs: Vec<&str> = table.split("---\n").filter(|text| text.contains("# odh ")).collect();
    assert!(pairs.len() >= 5, "the table has lost its pairs");
    for pair in pairs {
        let line = pair.lines().find_map(|line| line.strip_prefix("# odh ")).unwrap();
        let file = home.file("job.yaml", pair);
        let words: Vec<&str> = line.split(' ').collect();
        let (before, after) = words.split_at(words.iter().position(|word| *word == "--").unwrap());
        let by_flags = home.odh(&[before, &["--dry-run", "-o", "json"], after].concat()).ends(0).json();
        let by_file = home.run(&format!("training create -f {file} --dry-run -o json")).ends(0).json();
        assert_eq!(by_flags, by_file, "{line}");
    }
}
