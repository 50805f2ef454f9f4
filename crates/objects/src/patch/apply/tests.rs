use super::*;
use crate::builtin_kind;
use crate::schema::Schema;

fn by(manager: &str) -> Writer<'_> {
    Writer { manager, subresource: None, now: "2024-01-01T00:00:00Z".parse().unwrap() }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

fn map_kind() -> &'static Kind {
    builtin_kind("", "ConfigMap").unwrap()
}

/// Returns manager, operation and fields of each entry.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|e| json!([e["manager"], e["operation"], e["fieldsV1"]])).collect()
}

#[test]
fn an_apply_creates_owns_and_releases_fields() {
    let kind = map_kind();
    let one = apply(kind, None, &config_map(json!({"a": "1", "b": "2"})), by("x"), false).unwrap();
    assert_eq!(owners(&one), json!([["x", "Apply", {"f:data": {"f:a": {}, "f:b": {}}}]]));
    let two = apply(kind, Some(&one), &config_map(json!({"a": "1"})), by("x"), false).unwrap();
    assert_eq!(two["data"], json!({"a": "1"}));
    let three = apply(kind, Some(&two), &config_map(json!({"a": "1", "c": "3"})), by("y"), false).unwrap();
    assert_eq!(three["data"], json!({"a": "1", "c": "3"}));
    let four = apply(kind, Some(&three), &config_map(json!({})), by("x"), false).unwrap();
    assert_eq!(four["data"], json!({"a": "1", "c": "3"}), "y wants a too");
    let five = apply(kind, Some(&four), &config_map(json!({"c": "3"})), by("y"), false).unwrap();
    assert_eq!(five["data"], json!({"c": "3"}));
}

#[test]
fn conflicts_are_reported_and_can_be_forced() {
    let kind = map_kind();
    let one = apply(kind, None, &config_map(json!({"a": "1", "b": "2"})), by("x"), false).unwrap();
    let wanted = config_map(json!({"a": "9"}));
    let error = apply(kind, Some(&one), &wanted, by("y"), false).unwrap_err();
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"x\": .data.a");
    let status = error.status();
    assert_eq!(
        (&status["code"], &status["details"]["causes"][0]["reason"]),
        (&json!(409), &json!("FieldManagerConflict"))
    );
    let forced = apply(kind, Some(&one), &wanted, by("y"), true).unwrap();
    assert_eq!(forced["data"], json!({"a": "9", "b": "2"}));
    assert_eq!(
        owners(&forced),
        json!([["x", "Apply", {"f:data": {"f:b": {}}}], ["y", "Apply", {"f:data": {"f:a": {}}}]])
    );
    let mut updated = forced.clone();
    updated["data"] = json!({"a": "7", "b": "8"});
    update_managed_fields(kind, Some(&forced), &mut updated, by("z"));
    assert_eq!(owners(&updated), json!([["z", "Update", {"f:data": {"f:a": {}, "f:b": {}}}]]));
    let error =
        apply(kind, Some(&updated), &config_map(json!({"a": "1", "b": "1"})), by("y"), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"z\" using v1:\n- .data.a\n- .data.b"
    );
}

#[test]
fn conflicts_are_in_the_order_of_their_managers_identifiers() {
    let kind = map_kind();
    let mut one = config_map(json!({"a": "1"}));
    update_managed_fields(kind, None, &mut one, by("z"));
    let mut two = config_map(json!({"a": "1", "b": "1"}));
    two["metadata"] = one["metadata"].clone();
    let through_log = Writer { subresource: Some("log"), ..by("z") };
    update_managed_fields(kind, Some(&one), &mut two, through_log);
    let wanted = config_map(json!({"a": "2", "b": "2"}));
    let error = apply(kind, Some(&two), &wanted, by("y"), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"z\" with subresource \"log\" using v1:\n- .data.b\n\
         conflicts with \"z\" using v1:\n- .data.a"
    );
}

#[test]
fn an_apply_without_changes_returns_the_live_object() {
    let kind = map_kind();
    let one = apply(kind, None, &config_map(json!({"a": "1"})), by("x"), false).unwrap();
    let later = Writer { now: "2024-02-01T00:00:00Z".parse().unwrap(), ..by("x") };
    assert_eq!(apply(kind, Some(&one), &config_map(json!({"a": "1"})), later, false).unwrap(), one);
}

#[test]
fn scaling_splits_the_replicas_from_the_entry_of_their_owner() {
    let kind = Kind::new("example.com", "v1", "Widget", "widgets", true);
    let mut live = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"replicas": 1, "size": 2}});
    update_managed_fields(&kind, None, &mut live, by("x"));
    let mut scaled = live.clone();
    update_managed_fields(&kind, Some(&live), &mut scaled, Writer { subresource: Some(SCALE), ..by("x") });
    let (number, rest) = (json!({"f:spec": {"f:replicas": {}}}), json!({"f:spec": {".": {}, "f:size": {}}}));
    assert_eq!(owners(&scaled), json!([["x", "Update", number], ["x", "Update", rest]]));
    assert_eq!(scaled["metadata"]["managedFields"][0].get("time"), None);
    // Both entries are of one manager, and the last counts.
    let mut next = scaled.clone();
    next["spec"]["size"] = json!(3);
    update_managed_fields(&kind, Some(&scaled), &mut next, by("x"));
    assert_eq!(owners(&next), json!([["x", "Update", rest]]));
}

#[test]
fn scaling_is_not_recorded_when_nobody_owns_the_replicas() {
    let kind = Kind::new("example.com", "v1", "Widget", "widgets", true);
    let applied = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"size": 2}});
    let live = apply(&kind, None, &applied, by("x"), false).unwrap();
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(3);
    update_managed_fields(&kind, Some(&live), &mut scaled, Writer { subresource: Some(SCALE), ..by("y") });
    assert_eq!(scaled["metadata"], live["metadata"]);
}

#[test]
fn fields_from_before_the_first_apply_have_an_owner() {
    let kind = map_kind();
    let live = config_map(json!({"a": "1", "b": "2"}));
    let after = apply(kind, Some(&live), &config_map(json!({"a": "1"})), by("x"), false).unwrap();
    assert_eq!(
        owners(&after),
        json!([["x", "Apply", {"f:data": {"f:a": {}}}], ["before-first-apply", "Update", {"f:data": {".": {}, "f:a": {}, "f:b": {}}}]])
    );
    assert_eq!(after["data"], json!({"a": "1", "b": "2"}));
}

#[test]
fn keyed_lists_and_sets_are_shared() {
    let kind = builtin_kind("", "Pod").unwrap();
    let pod =
        |spec: Value, meta: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec});
    let x = pod(
        json!({"containers": [{"name": "a", "image": "i", "args": ["1"], "ports": [{"containerPort": 80}]}], "nodeSelector": {"a": "b"}}),
        json!({"name": "p", "finalizers": ["x/x"], "ownerReferences": [{"uid": "u", "kind": "K", "name": "n", "apiVersion": "v1"}]}),
    );
    let one = apply(kind, None, &x, by("x"), false).unwrap();
    assert_eq!(
        owners(&one)[0][2],
        json!({
            "f:metadata": {"f:finalizers": {"v:\"x/x\"": {}}, "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}},
            "f:spec": {"f:nodeSelector": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}},
        })
    );
    let y = pod(
        json!({"containers": [{"name": "b", "image": "j"}, {"name": "a", "env": [{"name": "E", "value": "1"}]}]}),
        json!({"name": "p", "finalizers": ["y/y"]}),
    );
    let two = apply(kind, Some(&one), &y, by("y"), false).unwrap();
    assert_eq!(two["metadata"]["finalizers"], json!(["x/x", "y/y"]));
    let names: Vec<&Value> =
        two["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["b", "a"]);
    assert_eq!(two["spec"]["containers"][1]["image"], "i");
    let gone = apply(
        kind,
        Some(&two),
        &pod(json!({"containers": [{"name": "b", "image": "j"}]}), json!({"name": "p"})),
        by("y"),
        false,
    );
    let gone = gone.unwrap();
    assert_eq!(gone["metadata"]["finalizers"], json!(["x/x"]));
    assert!(
        gone["spec"]["containers"][1].get("env").is_none() && gone["spec"]["containers"][1]["image"] == "i"
    );
}

#[test]
fn updates_maintain_the_record() {
    let kind = Kind::new("g", "v1", "K", "ks", true).with_status().with_schema(
        Schema::of_crd(&json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "properties": {"n": {"type": "integer"}}}}}))
        .unwrap(),
    );
    let object = |spec: Value| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "uid": "u", "labels": {"l": "1"}}, "spec": spec});
    let mut one = object(json!({"a": {"b": 1}, "c": [1]}));
    update_managed_fields(&kind, None, &mut one, by("x"));
    assert_eq!(
        owners(&one),
        json!([["x", "Update", {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:c": {}}}]])
    );
    let mut two = one.clone();
    two["status"] = json!({"n": 1});
    let status = Writer { subresource: Some("status"), ..by("s") };
    update_managed_fields(&kind, Some(&one), &mut two, status);
    assert_eq!(two["metadata"]["managedFields"][0]["subresource"], "status");
    assert_eq!(owners(&two)[0], json!(["s", "Update", {"f:status": {".": {}, "f:n": {}}}]));
    let mut three = two.clone();
    three["spec"] = json!({"a": {"b": 2}});
    update_managed_fields(&kind, Some(&two), &mut three, by("z"));
    assert_eq!(owners(&three)[2], json!(["z", "Update", {"f:spec": {"f:a": {"f:b": {}}}}]));
    assert_eq!(
        owners(&three)[1],
        json!(["x", "Update", {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": {".": {}, "f:a": {}}}])
    );
    three["metadata"]["managedFields"] = json!([{}]);
    update_managed_fields(&kind, Some(&two), &mut three, by("z"));
    assert!(three["metadata"].get("managedFields").is_none());
}

#[test]
fn the_number_of_updaters_is_bounded() {
    let kind = map_kind();
    let mut live = config_map(json!({"first": "v"}));
    update_managed_fields(kind, None, &mut live, by("m"));
    for n in 0..40 {
        let mut new = live.clone();
        new["data"][format!("k{n}")] = json!("v");
        let name = format!("m{n}");
        let now = Timestamp::from_second(1_700_000_000 + n).unwrap();
        update_managed_fields(kind, Some(&live), &mut new, Writer { manager: &name, subresource: None, now });
        live = new;
    }
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    assert!(entries[0]["fieldsV1"]["f:data"].get("f:k0").is_some());
}

#[test]
fn an_object_without_a_record_gets_one_by_its_first_apply() {
    let kind = map_kind();
    let mut cleared = config_map(json!({"a": "1"}));
    cleared["metadata"]["managedFields"] = json!([{}]);
    let stored = config_map(json!({"a": "0"}));
    update_managed_fields(kind, Some(&stored), &mut cleared, by("x"));
    assert_eq!(owners(&cleared), json!([]));
    let mut next = config_map(json!({"a": "2"}));
    update_managed_fields(kind, Some(&cleared), &mut next, by("x"));
    assert_eq!(owners(&next), json!([]));
}

#[test]
fn nulls_and_values_of_another_shape_are_applied() {
    let kind = Kind::new("g", "v1", "K", "ks", true).with_schema(
        Schema::of_crd(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer"}, "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}}}}))
        .unwrap(),
    );
    let object =
        |spec: Value| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec});
    let one = apply(&kind, None, &object(json!({"n": null, "items": [{"k": "a"}]})), by("x"), false).unwrap();
    assert_eq!(one["spec"], json!({"n": null, "items": [{"k": "a"}]}));
    let two = apply(&kind, Some(&one), &object(json!({"n": 1})), by("x"), false).unwrap();
    assert_eq!(two["spec"], json!({"n": 1}));
    let refused = |items: Value| {
        apply(&kind, None, &object(json!({"items": items})), by("x"), false).unwrap_err().to_string()
    };
    let texts = [
        (json!([null]), "element 0: associative list with keys may not have a null element"),
        (json!(["a"]), "element 0: associative list with keys may not have non-map elements"),
        (json!([{"k": "a"}, {"k": "a"}]), "duplicate entries for key [k=\"a\"]"),
    ];
    for (items, text) in texts {
        assert!(refused(items.clone()).ends_with(&format!(".spec.items: {text}")), "{}", refused(items));
    }
}

#[test]
fn malformed_configurations_are_refused() {
    let kind = map_kind();
    let pods = builtin_kind("", "Pod").unwrap();
    let cases = [
        (kind, json!([]), "x", 400),
        (kind, config_map(json!({})), "", 400),
        (kind, json!({"apiVersion": "v2", "kind": "ConfigMap"}), "x", 400),
        (kind, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}}), "x", 400),
        (
            pods,
            json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
            "x",
            500,
        ),
        (pods, json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": "a"}}), "x", 500),
        (pods, json!({"apiVersion": "v1", "kind": "Pod", "spec": {"bogus": "a"}}), "x", 500),
    ];
    for (kind, applied, manager, code) in cases {
        let error = apply(kind, None, &applied, by(manager), false).unwrap_err();
        assert_eq!(error.status()["code"], code, "{applied}");
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// Not empty, because a typed object drops an empty map that a manager owns.
    fn data() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-d]", "[0-2]", 1..4)
            .prop_map(|m| Value::Object(m.into_iter().map(|(k, v)| (k, Value::from(v))).collect()))
    }

    proptest! {
        /// After a forced apply the manager has what it applied, and a second apply changes nothing.
        #[test]
        fn a_forced_apply_wins_and_is_idempotent(writes in prop::collection::vec(("[xyz]", data(), any::<bool>()), 1..8)) {
            let kind = map_kind();
            let mut live: Option<Value> = None;
            for (manager, wanted, update) in writes {
                let wanted = config_map(wanted);
                if update && let Some(old) = &live {
                    let mut new = old.clone();
                    new["data"] = wanted["data"].clone();
                    crate::convert(kind, &mut new).unwrap();
                    update_managed_fields(kind, Some(old), &mut new, by(&manager));
                    live = Some(new);
                    continue;
                }
                let mut after = apply(kind, live.as_ref(), &wanted, by(&manager), true).unwrap();
                crate::convert(kind, &mut after).unwrap();
                for (key, value) in wanted["data"].as_object().unwrap() {
                    prop_assert_eq!(after["data"].get(key), Some(value));
                }
                let mut again = apply(kind, Some(&after), &wanted, by(&manager), false).unwrap();
                crate::convert(kind, &mut again).unwrap();
                prop_assert_eq!(&again, &after);
                live = Some(after);
            }
        }
    }
}

#[test]
fn giving_up_the_last_label_or_annotation_leaves_the_rest_of_the_metadata() {
    let widgets = Kind::new("example.com", "v1", "Widget", "widgets", true);
    for kind in [map_kind(), &widgets] {
        for map in ["labels", "annotations"] {
            let bare =
                json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "m"}});
            let mut with = bare.clone();
            with["metadata"][map] = json!({"team": "vision"});
            let mut live = apply(kind, None, &with, by("x"), false).unwrap();
            live["metadata"]["uid"] = json!("1a2b");
            let left = apply(kind, Some(&live), &bare, by("x"), false).unwrap();
            let meta = &left["metadata"];
            assert_eq!((&meta["name"], &meta["uid"]), (&json!("m"), &json!("1a2b")), "{left}");
            assert_eq!(meta[map], Value::Null, "{left}");
            // What others have in the same map stays.
            let mut shared = bare.clone();
            shared["metadata"][map] = json!({"other": "1"});
            let shared = apply(kind, Some(&live), &shared, by("y"), false).unwrap();
            let left = apply(kind, Some(&shared), &bare, by("x"), false).unwrap();
            assert_eq!(left["metadata"][map], json!({"other": "1"}), "{left}");
        }
    }
}

#[test]
fn giving_up_the_only_field_of_a_part_takes_no_more_than_that() {
    let kind = builtin_kind("apps", "Deployment").unwrap();
    let deployment = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    let container = |image: &str| json!({"name": "c", "image": image});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container("i")]}});
    let mut live = deployment(json!({"selector": {"matchLabels": {"app": "web"}}, "template": template}));
    update_managed_fields(kind, None, &mut live, by("y"));
    let mut wants =
        deployment(json!({"replicas": 3, "template": {"metadata": {"annotations": {"note": "1"}},
        "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]}]}}}));
    let with = apply(kind, Some(&live), &wants, by("x"), false).unwrap();
    assert_eq!(with["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "1");
    wants["spec"] = Value::Null;
    wants.as_object_mut().unwrap().remove("spec");
    let left = apply(kind, Some(&with), &wants, by("x"), false).unwrap();
    assert_eq!(without_managers(&left), without_managers(&live));
}
