//! Faults of whole manifests, with their positions.

use super::*;

const HEAD: &str = "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: pi\n";

fn faults_of(text: &str) -> Vec<String> {
    match read(text.as_bytes(), "job.yaml") {
        Ok(documents) => documents.iter().flat_map(check_fields).map(|fault| fault.to_string()).collect(),
        Err(Error::Invalid { faults }) => faults.iter().map(ToString::to_string).collect(),
        Err(error) => vec![format!("{error}"), error.advice().map_or_else(String::new, |advice| advice.text)],
    }
}

fn body(spec: &str) -> String {
    format!("{HEAD}spec:\n{spec}")
}

#[test]
fn unknown_fields_have_a_position_and_a_suggestion() {
    let text = body(concat!(
        "  slotPerWorker: 2\n",
        "  cleanPodPolicy: Running\n",
        "  mpiReplicaSpecs:\n",
        "    Worker:\n",
        "      replica: 2\n",
        "      template:\n",
        "        spec:\n",
        "          containers:\n",
        "          - name: w\n",
        "            imgae: x\n",
        "            env:\n",
        "            - name: A\n",
        "              value: yes\n",
        "            - name: B\n",
        "              value: 0777\n",
    ));
    assert_eq!(
        faults_of(&text),
        [
            "job.yaml:6:3: spec.slotPerWorker: unknown field; did you mean \"slotsPerWorker\"?",
            "job.yaml:7:3: spec.cleanPodPolicy: unknown field; it belongs at spec.runPolicy.cleanPodPolicy",
            "job.yaml:10:7: spec.mpiReplicaSpecs[Worker].replica: unknown field; did you mean \"replicas\"?",
            "job.yaml:15:13: spec.mpiReplicaSpecs[Worker].template.spec.containers[0].imgae: unknown field; \
             did you mean \"image\"?",
            "job.yaml:18:22: spec.mpiReplicaSpecs[Worker].template.spec.containers[0].env[0].value: \
             must be a string, but is true (written yes); write it in quotes: \"yes\"",
            "job.yaml:20:22: spec.mpiReplicaSpecs[Worker].template.spec.containers[0].env[1].value: \
             must be a string, but is 511 (written 0777); write it in quotes: \"0777\"",
        ]
    );
}

#[test]
fn wrong_types_say_what_was_written() {
    let table = [
        (
            "  slotsPerWorker: \"2\"\n  mpiReplicaSpecs: {}\n",
            "job.yaml:6:19: spec.slotsPerWorker: must be a whole number, but is the string \"2\"; \
             write it without quotes: 2",
        ),
        (
            "  mpiReplicaSpecs: [1]\n",
            "job.yaml:6:20: spec.mpiReplicaSpecs: must be a map of fields, but is a list",
        ),
        (
            "  runPolicy:\n    suspend: 1\n  mpiReplicaSpecs: {}\n",
            "job.yaml:7:14: spec.runPolicy.suspend: must be true or false, but is 1",
        ),
        ("  slotsPerWorker: 1\n", "job.yaml:6:3: spec.mpiReplicaSpecs: is required"),
    ];
    for (spec, fault) in table {
        assert_eq!(faults_of(&body(spec)), [fault]);
    }
}

#[test]
fn a_number_is_a_quantity_too() {
    let text = body(concat!(
        "  mpiReplicaSpecs:\n    Worker:\n      template:\n        spec:\n          containers:\n",
        "          - name: w\n            resources: {limits: {cpu: 2, memory: 1Gi, nvidia.com/gpu: 1.5}}\n",
    ));
    assert_eq!(faults_of(&text), [] as [&str; 0]);
}

#[test]
fn broken_text_says_where() {
    let table: [(&str, &str, &str); 5] = [
        ("a: b: c\n", "job.yaml:1:5: ", "a string that contains \": \" must be in quotes"),
        ("a:\n\tb: c\n", "job.yaml:2:", "begins with a tab"),
        ("a: [1, 2\nb: 3\n", "job.yaml:", ""),
        ("{\"a\": 1,, \"b\": 2}", "job.yaml:1:9: ", ""),
        ("a: *nowhere\n", "job.yaml:1:", ""),
    ];
    for (text, place, advice) in table {
        let said = faults_of(text);
        assert!(said[0].starts_with(place), "{text:?}: {said:?}");
        assert!(said[1].contains(advice), "{text:?}: {said:?}");
    }
}

#[test]
fn bytes_that_are_not_text_have_a_position() {
    let said = read(b"a: 1\nb: \xff\xfe", "-").unwrap_err();
    assert_eq!(said.to_string(), "-:2:4: this byte is not UTF-8 text");
}

#[test]
fn other_kinds_and_versions_are_refused_with_advice() {
    let table = [
        ("kind: MPIJob\n", "job.yaml:1:1: apiVersion: is missing"),
        (
            "apiVersion: kubeflow.org/v1\nkind: MPIJob\n",
            "job.yaml:1:13: apiVersion: kubeflow.org/v1 is not a supported version",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\n",
            "job.yaml:2:7: kind: this command creates training jobs, but this is a ConfigMap",
        ),
        (
            "apiVersion: kubeflow.org/v2beta1\nkind: MPIjob\n",
            "job.yaml:2:7: kind: this command creates training jobs, but this is a MPIjob (kubeflow.org/v2beta1); did you mean",
        ),
        (
            "apiVersion: trainer.kubeflow.org/v1\nkind: TrainJob\n",
            "job.yaml:1:13: apiVersion: trainer.kubeflow.org/v1 is not a supported version of TrainJob",
        ),
        (
            "apiVersion: kubeflow.org/v1\nkind: TFJob\nspecs: {}\n",
            "job.yaml:3:1: specs: unknown field; did you mean",
        ),
        ("apiVersion: kubeflow.org/v1\nkind: TFJob\n", "job.yaml:1:1: spec: is required"),
        ("- 1\n", "job.yaml:1:1: is not an object"),
        ("# nothing\n---\n", "job.yaml: contains no object"),
    ];
    for (text, begins) in table {
        let said = faults_of(text);
        assert!(said.len() == 1 && said[0].starts_with(begins), "{text:?}: {said:?}");
    }
}

#[test]
fn several_documents_lists_and_json_are_read() {
    let one = body("  mpiReplicaSpecs: {}\n");
    let several = format!("# first\n{one}---\n---\n{one}");
    assert_eq!(read(several.as_bytes(), "-").unwrap().len(), 2);
    let json = r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"kubeflow.org/v2beta1","kind":"MPIJob",
        "spec":{"mpiReplicaSpecs":{},"slots":1}}]}"#;
    let documents = read(json.as_bytes(), "x.json").unwrap();
    assert_eq!(documents.len(), 1);
    assert_eq!(check_fields(&documents[0]).len(), 1);
    assert_eq!(documents[0].position("spec.slots").line, 2);
}

#[test]
fn anchors_and_merges_work_and_bombs_do_not() {
    let text = "a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\n";
    let value = &read(text.as_bytes(), "-").unwrap()[0].value;
    assert_eq!(value["b"], serde_json::json!({"k": 1, "l": 3}));

    let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(",")));
    }
    assert!(faults_of(&bomb)[0].contains("with all aliases expanded"));
    let deep = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    assert!(
        faults_of(&deep)[0].contains("nested more than 64 levels deep")
            || faults_of(&deep)[0].contains("recursion")
    );
}

#[test]
fn aliases_of_long_texts_are_refused_in_a_moment() {
    let begun = std::time::Instant::now();
    let long = "x".repeat(1_000_000);
    let refused = "anchors and aliases repeat more than 3 MiB of text, too much for a job";
    let aliases = |count: usize| vec!["*a"; count].join(", ");
    // The anchor keeps the text once.
    assert_eq!(
        faults_of(&format!("a: &a \"{long}\"\nb: [{}]\n", aliases(2000)))[0],
        format!("job.yaml:2:13: {refused}")
    );
    let map = format!("a: &a {{k: \"{long}\"}}\n");
    assert!(faults_of(&format!("{map}b: {{<<: [{}]}}\n", aliases(2000)))[0].contains(refused));
    let keys: String = (0..900).map(|key| format!("  {}{key}: 1\n", "k".repeat(1000))).collect();
    assert!(faults_of(&format!("a: &a\n{keys}b: [{}]\n", aliases(2000)))[0].contains(refused));
    let nested: String = (0..10).map(|level| format!("&a{level} [")).collect();
    assert!(faults_of(&format!("a: {nested}\"{long}\"{}\n", "]".repeat(10)))[0].contains(refused));
    assert!(read(format!("a: &a \"{long}\"\nb: [{}]\n", aliases(2)).as_bytes(), "").is_ok());
    let part = value(&format!("a: &a \"{long}\"\nb: [{}]\n", aliases(2000)));
    assert_eq!(part, Err(format!("2:13: {refused}")));
    assert_eq!(value("[1, {a: b}]"), Ok(serde_json::json!([1, { "a": "b" }])));
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_duplicate_key_is_an_error() {
    assert_eq!(
        faults_of("a: 1\nb: 2\na: 3\n")[0],
        "job.yaml:3:1: duplicate key \"a\", already set at line 1"
    );
}

/// A map of so many keys.
fn wide(keys: usize) -> String {
    let mut text = body("  labels:\n");
    for key in 0..keys {
        text.push_str(&format!("    k{key}: v\n"));
    }
    text
}

#[test]
fn a_map_of_too_many_entries_is_refused_in_a_moment() {
    let begun = std::time::Instant::now();
    assert_eq!(
        faults_of(&wide(140_000))[0],
        "job.yaml:7:5: a map with more than 10000 entries, too many for a job"
    );
    assert!(read(wide(9_000).as_bytes(), "").is_ok());
    let merged = format!("a: &a\n{}b: {{<<: *a, <<: *a, <<: *a}}\n", "  k: v\n".replace('k', "k0"));
    assert!(read(merged.as_bytes(), "").is_ok());
    // Quadratic time would be a minute.
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_key_or_a_line_that_is_too_long_is_not_repeated() {
    let long = "x".repeat(100_000);
    let faults = faults_of(&format!("{{\"a\": {{\"{long}\": 1}}}}"));
    assert_eq!(faults[0], "job.yaml:1:8: a key of 100000 bytes; at most 1024 are allowed");
    let error = read(format!("a: [{long}\nb: }}\n").as_bytes(), "job.yaml").unwrap_err();
    assert!(error.to_string().len() < 1000, "{error}");
}

#[test]
fn anchors_within_anchors_count_with_what_they_keep() {
    let leaves = vec!["x"; 20_000].join(",");
    let open: String = (0..20).map(|level| format!("&a{level} [")).collect();
    let text = format!("a: {open}{leaves}{}", "]".repeat(20));
    assert!(faults_of(&text)[0].contains("more than 200000 values"), "{:?}", &faults_of(&text)[0]);
}

#[test]
fn a_manifest_of_many_faults_is_checked_until_enough_are_found() {
    let mut text = body("");
    for key in 0..9_000 {
        text.push_str(&format!("  unknwon{key}: v\n"));
    }
    let begun = std::time::Instant::now();
    assert_eq!(faults_of(&text).len(), MAX_FAULTS);
    let long = format!("{}  {}: v\n", body(""), "k".repeat(500_000));
    assert_eq!(faults_of(&long).len(), 2);
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}
