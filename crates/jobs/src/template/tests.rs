use super::*;
use serde_json::json;

#[test]
fn a_template_is_read_from_what_a_person_may_have_written() {
    let kept: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "training-template-digits", "namespace": "team",
            "annotations": {ANNOTATION_DESCRIPTION: "the usual"}},
        "data": {KEY: "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: x}\n"}}))
    .unwrap();
    let found = read(&kept).unwrap();
    assert_eq!(
        (found.name.as_str(), found.kind, found.description.as_str()),
        ("digits", Kind::MpiJob, "the usual")
    );
    let other: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}, "data": {}})).unwrap();
    assert!(read(&other).is_none());
}

fn job(replicas: i32) -> DynamicObject {
    let template =
        json!({"spec": {"containers": [{"name": "c", "image": "i", "command": ["mpirun", "train"]}]}});
    serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "team", "annotations": {api::ANNOTATION_OWNER: "jane"}},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": template},
            "Worker": {"replicas": replicas, "template": template}}}}))
    .unwrap()
}

fn parameters() -> Vec<Parameter> {
    let rate = Parameter {
        name: "rate".into(),
        type_: Type::Number,
        default: Some("0.1".into()),
        sets: vec!["env.LR".into()],
        ..Parameter::default()
    };
    let memory = Parameter {
        name: "memory".into(),
        type_: Type::Quantity,
        allowed: vec!["16Gi".into(), "32Gi".into()],
        sets: vec!["worker.memory".into()],
        ..Parameter::default()
    };
    vec![rate, memory]
}

fn saved(
    old: Option<&ConfigMap>,
    replicas: i32,
    parameters: Option<Vec<Parameter>>,
) -> Result<Option<ConfigMap>, Error> {
    let description = old.is_none().then(|| "d".to_owned());
    let saving = Saving { name: "base".into(), description, parameters };
    next_version(old, Kind::MpiJob, &manifest_of(&job(replicas)), &saving)
}

#[test]
fn saving_again_makes_versions_and_forgets_the_oldest() {
    let mut kept = saved(None, 1, Some(parameters())).unwrap().unwrap();
    assert!(saved(Some(&kept), 1, None).unwrap().is_none(), "nothing has changed");
    for replicas in 2..=12 {
        kept = saved(Some(&kept), replicas, None).unwrap().unwrap();
    }
    let newest = read(&kept).unwrap();
    assert_eq!((newest.version, newest.versions), (12, (3..=12).collect()));
    assert_eq!(newest.parameters, parameters(), "they are kept unless given");
    assert_eq!(newest.description, "d", "it is kept unless given");
    let workers = |version: u32| {
        let template = read_version(&kept, Some(version))?;
        template.manifest.pointer("/spec/mpiReplicaSpecs/Worker/replicas")?.as_i64()
    };
    assert_eq!((workers(12), workers(5), workers(2), workers(13)), (Some(12), Some(5), None, None));
    assert!(newest.manifest["metadata"].get("namespace").is_none());
    assert_eq!(
        newest.manifest.pointer("/metadata/annotations"),
        None,
        "the owner is the job's, not the template's"
    );
}

#[test]
fn a_list_has_everything_of_a_template_but_its_manifest() {
    let kept = saved(None, 1, Some(parameters())).unwrap().unwrap();
    let whole = read(&kept).unwrap();
    let stored = Stored { kept, hides_shared: true };
    assert_eq!(stored.size_of_summary(), 0, "what was saved is quick to read");
    assert_eq!(
        stored.summary(),
        Some(Template { manifest: Value::Null, hides_shared: true, ..whole.clone() })
    );
    assert_eq!(stored.read(None).unwrap(), Template { hides_shared: true, ..whole });
    assert!(serde_json::to_value(stored.summary()).unwrap().get("manifest").is_none());

    let mut written = stored.clone();
    let text = "kind: MPIJob\nmetadata: {name: x}\n".to_owned();
    written.kept.data.get_or_insert_default().insert(KEY.to_owned(), text.clone());
    assert_eq!(written.size_of_summary(), text.len());
    assert_eq!(written.summary().map(|summary| summary.kind), Some(Kind::MpiJob));
    written.kept.data.get_or_insert_default().insert(KEY.to_owned(), "[1]".to_owned());
    assert_eq!(written.summary(), None);
    let error = written.read(None).unwrap_err();
    assert!(error.to_string().contains("does not hold the manifest of a job"), "{error}");
}

#[test]
fn a_template_that_does_not_fit_is_refused_with_its_size() {
    let mut large = manifest_of(&job(1));
    large["metadata"]["labels"]["x"] = json!("y".repeat(MAX_BYTES));
    let saving = Saving { name: "base".into(), ..Saving::default() };
    let error = next_version(None, Kind::MpiJob, &large, &saving).unwrap_err();
    assert_eq!(error.faults()[0].path, "manifest");
    assert!(error.to_string().contains("at most 900 KiB"), "{error}");
}

#[test]
fn a_shared_template_has_an_address_of_its_own() {
    assert_eq!(place_of("team", "base"), (vec!["team", SHARED], "base"));
    assert_eq!(place_of("team", "shared/base"), (vec![SHARED], "base"));
    assert_eq!(place_of(SHARED, "base"), (vec![SHARED], "base"));
}

#[test]
fn large_templates_keep_fewer_versions() {
    let mut data: BTreeMap<String, String> =
        (1..5).map(|number| (format!("{KEY_VERSION}{number}"), "x".repeat(300 * 1024))).collect();
    data.insert(KEY.to_owned(), "x".repeat(400 * 1024));
    forget(&mut data);
    assert_eq!(earlier_versions(&data), [4]);
}

#[test]
fn every_fault_of_a_definition_is_reported() {
    let wrong = vec![
        Parameter { name: "1x".into(), sets: vec!["env.A".into()], ..Parameter::default() },
        Parameter { name: "a".into(), ..Parameter::default() },
        Parameter {
            name: "a".into(),
            type_: Type::Integer,
            default: Some("many".into()),
            allowed: vec!["1".into(), "few".into()],
            sets: vec!["workrs".into()],
            ..Parameter::default()
        },
    ];
    let error = saved(None, 1, Some(wrong)).unwrap_err();
    let paths: Vec<&str> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "parameters[0].name",
            "parameters[1].sets",
            "parameters[2].name",
            "parameters[2].allowed[1]",
            "parameters[2].default",
            "parameters[2].sets"
        ]
    );
}

#[test]
fn a_job_is_made_with_the_chosen_values_and_the_defaults() {
    let template = read(&saved(None, 2, Some(parameters())).unwrap().unwrap()).unwrap();
    let settings = vec![Setting::read("workers=8").unwrap()];
    let values = BTreeMap::from([("memory".to_owned(), "32Gi".to_owned())]);
    let made = instantiate(&template, &Using { name: "run-1".into(), values, settings }).unwrap();
    let worker = &made["spec"]["mpiReplicaSpecs"]["Worker"];
    assert_eq!((&worker["replicas"], &made["metadata"]["name"]), (&json!(8), &json!("run-1")));
    let container = &worker["template"]["spec"]["containers"][0];
    assert_eq!(container["resources"]["limits"]["memory"], "32Gi");
    assert_eq!(container["env"], json!([{"name": "LR", "value": "0.1"}]));
    assert_eq!(made["metadata"]["annotations"][ANNOTATION_FROM], "base");
}

#[test]
fn every_fault_of_the_values_the_settings_and_the_job_is_reported_at_once() {
    let template = read(&saved(None, 2, Some(parameters())).unwrap().unwrap()).unwrap();
    let settings = ["workers=0", "slotz=1"].map(|text| Setting::read(text).unwrap()).to_vec();
    let values =
        [("rate", "fast"), ("memroy", "1Gi")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let using = Using { name: "Bad_Name".into(), values: BTreeMap::from(values), settings };
    let error = instantiate(&template, &using).unwrap_err();
    let paths: Vec<&str> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        paths,
        ["memroy", "rate", "memory", "slotz", "metadata.name", "spec.mpiReplicaSpecs[Worker].replicas"]
    );
    assert_eq!(error.faults()[0].advice.as_deref(), Some("did you mean \"memory\"?"));
}
