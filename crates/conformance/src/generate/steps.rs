//! Generates the steps of a program.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::mutate::{mutate, pointers};
use super::{patches, text};
use crate::program::{Body, Step};
use crate::random::Random;

/// How long watches stay open, in seconds. Earlier events are delivered at once.
const WATCH_SECONDS: &str = "1";
const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// A program under construction.
pub struct Maker {
    kind: &'static Kind,
    random: Random,
    /// The steps so far.
    pub steps: Vec<Step>,
    /// The initial content of each object, by short name.
    contents: Vec<(String, Value)>,
    /// Steps that created an object.
    created: Vec<u32>,
    /// Steps that listed with a limit.
    listed: Vec<u32>,
}

impl Maker {
    /// Starts a program for a kind.
    pub fn new(kind: &'static Kind, random: Random) -> Self {
        Self { kind, random, steps: vec![], contents: vec![], created: vec![], listed: vec![] }
    }

    /// Creates the first objects.
    pub fn create_first(&mut self, at_most: usize) {
        for name in ["a", "b", "c", "d"].iter().take(1 + self.random.below(at_most)) {
            self.create(name, false);
        }
    }

    /// Adds one step of any kind.
    pub fn walk(&mut self) {
        match self.random.below(100) {
            0..=5 => self.create_another(),
            6..=15 => self.get(),
            16..=27 => self.update(),
            28..=52 => self.patch(""),
            53..=58 => self.status(),
            59..=62 => self.subresource(),
            63..=72 => self.list(),
            73..=77 => self.watch(),
            78..=89 => self.delete(),
            90..=93 => self.delete_collection(),
            _ => self.apply(),
        }
    }

    /// Sends an object with a mistake, mostly as a dry run.
    pub fn mistake(&mut self) {
        let content = self.random.pick(&self.kind.objects).clone();
        let short = self.random.pick(&["a", "b", "c"]).to_string();
        let mut object = self.kind.object(&self.kind.name(&short), &content);
        for _ in 0..=self.random.below(2) {
            mutate(&mut object, &mut self.random);
        }
        let mut query = self.validation();
        if self.random.chance(60) {
            query.push(("dryRun".into(), "All".into()));
        } else {
            self.contents.push((short, content));
        }
        self.step("POST", self.kind.collection(), query, &[("content-type", JSON)], Body::Json(object));
    }

    /// Applies a configuration, or reads or changes the object.
    pub fn apply_or_look(&mut self) {
        match self.random.below(10) {
            0 => self.get(),
            1 => self.patch(""),
            2 => self.update(),
            3 if self.kind.status => self.status(),
            _ => self.apply(),
        }
    }

    /// Lists, watches, or changes an object in between.
    pub fn look_around(&mut self) {
        match self.random.below(10) {
            0..=4 => self.list(),
            5 | 6 => self.watch(),
            7 => self.patch(""),
            8 => self.delete(),
            _ => self.get(),
        }
    }

    fn step(
        &mut self,
        method: &str,
        path: String,
        query: Vec<(String, String)>,
        headers: &[(&str, &str)],
        body: Body,
    ) -> u32 {
        let id = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.steps.push(Step { id, method: method.into(), path, query, headers, body });
        id
    }

    fn create(&mut self, short: &str, generate: bool) {
        let content = self.random.pick(&self.kind.objects).clone();
        let name = self.kind.name(short);
        let mut object = self.kind.object(&name, &content);
        if generate {
            object["metadata"]["generateName"] = format!("{name}-").into();
            if self.random.chance(80) {
                crate::shrink::remove(&mut object, "/metadata/name");
            }
        } else if self.random.chance(15) {
            object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        self.contents.push((short.to_owned(), content));
        let id =
            self.step("POST", self.kind.collection(), vec![], &[("content-type", JSON)], Body::Json(object));
        self.created.push(id);
    }

    fn create_another(&mut self) {
        let generate = self.random.chance(30);
        let short = self.random.pick(&["a", "b", "e"]).to_string();
        self.create(&short, generate);
    }

    /// Picks an object's short name and its initial content.
    fn some(&mut self) -> (String, Value) {
        if self.contents.is_empty() || self.random.chance(4) {
            return ("nobody".into(), self.random.pick(&self.kind.objects).clone());
        }
        self.random.pick(&self.contents).clone()
    }

    fn path(&mut self) -> (String, Value) {
        let (short, content) = self.some();
        let name = self.kind.name(&short);
        (self.kind.path(&name), self.kind.object(&name, &content))
    }

    fn validation(&mut self) -> Vec<(String, String)> {
        match self.random.below(6) {
            0 | 1 => vec![("fieldValidation".into(), "Strict".into())],
            2 => vec![("fieldValidation".into(), "Ignore".into())],
            _ => vec![],
        }
    }

    fn write_options(&mut self) -> Vec<(String, String)> {
        let mut query = self.validation();
        if self.random.chance(12) {
            query.push(("dryRun".into(), "All".into()));
        }
        if self.random.chance(20) {
            query.push(("fieldManager".into(), "someone".into()));
        }
        query
    }

    fn get(&mut self) {
        let (path, _) = self.path();
        let accept = self.accept(METADATA);
        let query = match self.random.below(10) {
            0 => vec![("resourceVersion".into(), "0".into())],
            1 => vec![("resourceVersion".into(), "99999999999".into())],
            _ => vec![],
        };
        let query = if query.iter().any(|(_, value): &(String, String)| value == "99999999999") {
            vec![]
        } else {
            query
        };
        self.step("GET", path, query, &accept, Body::Nothing);
    }

    fn accept(&mut self, metadata: &'static str) -> Vec<(&'static str, &'static str)> {
        match self.random.below(10) {
            0 | 1 => vec![("accept", TABLE)],
            2 => vec![("accept", metadata)],
            _ => vec![],
        }
    }

    fn update(&mut self) {
        let query = self.write_options();
        let (path, mut object) = self.path();
        if let (true, Some(created)) = (self.random.chance(75), self.created.last().copied()) {
            let edits = (0..=self.random.below(2)).map(|_| self.edit(&object)).collect();
            let name = self.contents.last().map(|(short, _)| self.kind.name(short)).unwrap_or_default();
            let path = if self.random.chance(95) { self.kind.path(&name) } else { path };
            self.step("PUT", path, query, &[("content-type", JSON)], Body::Answer { of: created, edits });
            return;
        }
        if self.random.chance(60) {
            mutate(&mut object, &mut self.random);
        }
        match (self.random.below(4), self.created.last()) {
            (0, Some(id)) => object["metadata"]["resourceVersion"] = format!("${{rv:{id}}}").into(),
            (1, _) => object["metadata"]["resourceVersion"] = text("1"),
            _ => {}
        }
        self.step("PUT", path, query, &[("content-type", JSON)], Body::Json(object));
    }

    /// Returns a JSON patch operation on an earlier answer.
    fn edit(&mut self, like: &Value) -> Value {
        let mut places = pointers(like);
        places.retain(|place| {
            place.len() > 1
                && !matches!(
                    place.as_str(),
                    "/metadata"
                        | "/metadata/labels"
                        | "/metadata/labels/twin"
                        | "/globalDefault"
                        | "/metadata/name"
                )
        });
        let place = random_place(&places, &mut self.random);
        match self.random.below(10) {
            0 => json!({"op": "remove", "path": "/metadata/resourceVersion"}),
            1 => {
                json!({"op": "replace", "path": "/metadata/uid", "value": "00000000-0000-0000-0000-000000000000"})
            }
            2 => json!({"op": "add", "path": "/metadata/labels/edited", "value": "yes"}),
            3 => json!({"op": "remove", "path": place}),
            4 => json!({"op": "add", "path": "/metadata/annotations", "value": {"edited": "yes"}}),
            5 if self.kind.status => {
                json!({"op": "add", "path": "/status", "value": self.random.pick(&self.kind.statuses)})
            }
            _ => {
                let mut holder = json!({"spec": like.pointer(&place)});
                mutate(&mut holder, &mut self.random);
                json!({"op": "replace", "path": place, "value": holder.get("spec")})
            }
        }
    }

    fn patch(&mut self, subresource: &str) {
        let mut query = self.write_options();
        if self.random.chance(4) {
            query.push(("force".into(), "true".into()));
        }
        let (path, object) = self.path();
        let (content, patch) = patches::patch(self.kind, &object, &mut self.random);
        let content = if self.kind.custom && self.random.chance(3) {
            "application/strategic-merge-patch+json"
        } else {
            content
        };
        self.step(
            "PATCH",
            format!("{path}{subresource}"),
            query,
            &[("content-type", content)],
            Body::Json(patch),
        );
    }

    fn status(&mut self) {
        if !self.kind.status {
            return self.patch("");
        }
        let (path, mut object) = self.path();
        let status = self.random.pick(&self.kind.statuses).clone();
        let query = self.write_options();
        let path = format!("{path}/status");
        match self.random.below(5) {
            0 => {
                object["status"] = status;
                if self.random.chance(40) {
                    mutate(&mut object["status"], &mut self.random);
                }
                self.step("PUT", path, query, &[("content-type", JSON)], Body::Json(object));
            }
            1 if self.kind.custom => {
                let patch = json!([{"op": "add", "path": "/status", "value": status}]);
                self.step(
                    "PATCH",
                    path,
                    query,
                    &[("content-type", "application/json-patch+json")],
                    Body::Json(patch),
                );
            }
            _ => {
                let mut patch = json!({"status": status});
                if self.random.chance(40) {
                    mutate(&mut patch, &mut self.random);
                }
                if self.random.chance(20) {
                    patch["spec"] = object["spec"].take();
                    patch["metadata"] = json!({"labels": {"by": "status"}});
                }
                let content = if self.kind.custom {
                    "application/merge-patch+json"
                } else {
                    *self
                        .random
                        .pick(&["application/merge-patch+json", "application/strategic-merge-patch+json"])
                };
                self.step("PATCH", path, query, &[("content-type", content)], Body::Json(patch));
            }
        }
    }

    fn subresource(&mut self) {
        let (path, object) = self.path();
        let name = object["metadata"]["name"].clone();
        if self.kind.scale {
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": "${ns}"}, "spec": {"replicas": self.random.below(12)}});
            let replicas = self.random.below(9);
            match self.random.below(3) {
                0 => self.step("GET", format!("{path}/scale"), vec![], &[], Body::Nothing),
                1 => self.step(
                    "PUT",
                    format!("{path}/scale"),
                    vec![],
                    &[("content-type", JSON)],
                    Body::Json(scale),
                ),
                _ => self.step(
                    "PATCH",
                    format!("{path}/scale"),
                    vec![],
                    &[("content-type", "application/merge-patch+json")],
                    Body::Json(json!({"spec": {"replicas": replicas}})),
                ),
            };
        } else if self.kind.plural == "pods" {
            let (subresource, body) = match self.random.below(2) {
                0 => (
                    "binding",
                    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}),
                ),
                _ => (
                    "eviction",
                    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "${ns}"}}),
                ),
            };
            self.step(
                "POST",
                format!("{path}/{subresource}"),
                vec![],
                &[("content-type", JSON)],
                Body::Json(body),
            );
        } else {
            let subresource = *self.random.pick(&["status", "scale", "bogus"]);
            self.step("GET", format!("{path}/{subresource}"), vec![], &[], Body::Nothing);
        }
    }

    fn selectors(&mut self) -> Vec<(String, String)> {
        let own = if self.kind.namespaced { "" } else { "twin=${ns}," };
        let labels = [
            "app=a",
            "app!=a",
            "app in (a,b)",
            "app notin (a)",
            "!app",
            "app",
            "twin",
            "app=a,twin",
            "app>1",
            "app in (",
            "=x",
            "app==b",
        ];
        let mut query = Vec::new();
        if self.random.chance(45) {
            query.push(("labelSelector".into(), format!("{own}{}", self.random.pick(&labels))));
        } else if !own.is_empty() {
            query.push(("labelSelector".into(), own.trim_end_matches(',').into()));
        }
        if self.random.chance(25) {
            let name = self.kind.name("a");
            let fields = [
                format!("metadata.name={name}"),
                format!("metadata.name!={name}"),
                "metadata.namespace=${ns}".into(),
                "spec.nodeName=".into(),
                "status.phase=Pending".into(),
                "status.phase!=Running".into(),
                "spec.mode=Fast".into(),
                "spec.size=3".into(),
                "bogus=1".into(),
                "type=Opaque".into(),
                "reason=Started".into(),
                "metadata.name".into(),
            ];
            query.push(("fieldSelector".into(), self.random.pick(&fields).clone()));
        }
        query
    }

    fn list(&mut self) {
        let mut query = self.selectors();
        match self.random.below(12) {
            0..=2 => query.push(("limit".into(), (1 + self.random.below(3)).to_string())),
            3 | 4 => {
                if let Some(listed) = self.listed.last() {
                    query.push(("limit".into(), "1".into()));
                    query.push(("continue".into(), format!("${{continue:{listed}}}")));
                }
            }
            5 => query.extend([
                ("resourceVersion".into(), self.version()),
                ("resourceVersionMatch".into(), "Exact".into()),
            ]),
            6 => query.extend([
                ("resourceVersion".into(), self.version()),
                ("resourceVersionMatch".into(), "NotOlderThan".into()),
            ]),
            7 => query.push((
                self.random
                    .pick(&[
                        "resourceVersionMatch",
                        "continue",
                        "limit",
                        "resourceVersion",
                        "sendInitialEvents",
                        "timeoutSeconds",
                    ])
                    .to_string(),
                self.random.pick(&["bogus", "-1", "Exact"]).to_string(),
            )),
            _ => {}
        }
        let accept = self.accept(METADATA_LIST);
        let limited = query.iter().any(|(name, _)| name == "limit");
        let id = self.step("GET", self.kind.collection(), query, &accept, Body::Nothing);
        if limited {
            self.listed.push(id);
        }
    }

    /// Returns a resourceVersion from an earlier answer.
    fn version(&mut self) -> String {
        match self.created.is_empty() {
            true => "1".into(),
            false => format!("${{rv:{}}}", self.random.pick(&self.created)),
        }
    }

    fn watch(&mut self) {
        let mut query =
            vec![("watch".to_owned(), "1".to_owned()), ("timeoutSeconds".into(), WATCH_SECONDS.into())];
        query.extend(self.selectors());
        match self.random.below(6) {
            0 => query.extend([
                ("sendInitialEvents".into(), "true".into()),
                ("resourceVersionMatch".into(), "NotOlderThan".into()),
                ("allowWatchBookmarks".into(), "true".into()),
            ]),
            1 => query.push(("resourceVersionMatch".into(), "NotOlderThan".into())),
            2 => {}
            _ => query.push((
                "resourceVersion".into(),
                self.created.first().map_or("1".into(), |id| format!("${{rv:{id}}}")),
            )),
        }
        let accept = self.accept(METADATA);
        self.step("GET", self.kind.collection(), query, &accept, Body::Nothing);
    }

    fn delete(&mut self) {
        let (path, _) = self.path();
        let id = self.created.last().copied().unwrap_or_default();
        let options = match self.random.below(12) {
            0 => json!({"preconditions": {"uid": format!("${{uid:{id}}}")}}),
            1 => json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
            2 => json!({"preconditions": {"resourceVersion": format!("${{rv:{id}}}")}}),
            3 => json!({"propagationPolicy": "Foreground"}),
            4 => json!({"propagationPolicy": "Orphan"}),
            5 => json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0}),
            6 => json!({"gracePeriodSeconds": 7}),
            7 => json!({"dryRun": ["All"]}),
            8 => json!({"propagationPolicy": "Bogus"}),
            9 => json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
            _ => Value::Null,
        };
        let query = match self.random.below(8) {
            0 => vec![("gracePeriodSeconds".to_owned(), "3".to_owned())],
            1 => vec![("propagationPolicy".to_owned(), "Foreground".to_owned())],
            _ => vec![],
        };
        if options.is_null() {
            self.step("DELETE", path, query, &[], Body::Nothing);
        } else {
            let mut options = options;
            options["apiVersion"] = text("v1");
            options["kind"] = text("DeleteOptions");
            self.step("DELETE", path, query, &[("content-type", JSON)], Body::Json(options));
        }
    }

    fn delete_collection(&mut self) {
        if self.kind.plural == "namespaces" {
            return self.delete();
        }
        let mut query = vec![("labelSelector".to_owned(), "twin=${ns}".to_owned())];
        match self.random.below(4) {
            0 => query.push(("dryRun".into(), "All".into())),
            1 => query[0].1.push_str(",app=a"),
            2 => query.push(("gracePeriodSeconds".into(), "0".into())),
            _ => {}
        }
        self.step("DELETE", self.kind.collection(), query, &[], Body::Nothing);
    }

    fn apply(&mut self) {
        let short = self.random.pick(&["a", "b"]).to_string();
        let content = self.random.pick(&self.kind.objects).clone();
        let name = self.kind.name(&short);
        let mut object = self.kind.object(&name, &content);
        for _ in 0..self.random.below(3) {
            let mut places = pointers(&object);
            places.retain(|place| {
                place.starts_with("/spec/")
                    || place.starts_with("/data/")
                    || place.starts_with("/metadata/labels/a")
            });
            if !places.is_empty() {
                let place = random_place(&places, &mut self.random);
                crate::shrink::remove(&mut object, &place);
            }
        }
        if self.random.chance(30) {
            mutate(&mut object, &mut self.random);
        }
        let manager = self.random.pick(&["one", "two", "three"]).to_string();
        let mut query = self.validation();
        if self.random.chance(96) {
            query.push(("fieldManager".into(), manager));
        }
        if self.random.chance(30) {
            query.push(("force".into(), "true".into()));
        }
        if self.random.chance(8) {
            query.push(("dryRun".into(), "All".into()));
        }
        self.contents.push((short, content));
        let path = self.kind.path(&name);
        self.step(
            "PATCH",
            path,
            query,
            &[("content-type", "application/apply-patch+yaml")],
            Body::Json(object),
        );
    }

    /// Sends invalid bodies, headers and parameters.
    pub fn trouble(&mut self) {
        let (path, object) = self.path();
        let body = object.to_string();
        let collection = self.kind.collection();
        let short = self.kind.name("t");
        let fresh = self.kind.object(&short, &self.random.pick(&self.kind.objects).clone());
        let post = |body: String| Body::Text(body);
        match self.random.below(16) {
            0 => self.step("POST", collection, vec![], &[("content-type", JSON)], post("{".into())),
            1 => self.step("POST", collection, vec![], &[("content-type", JSON)], post(String::new())),
            2 => self.step("POST", collection, vec![], &[("content-type", "text/html")], post(body)),
            3 => self.step("POST", collection, vec![], &[("content-type", JSON)], post("[]".into())),
            4 => self.step("POST", collection, vec![], &[("content-type", JSON)], post("{}".into())),
            5 => {
                let doubled = body.replacen("\"metadata\":", "\"metadata\":{},\"metadata\":", 1);
                let query = self.validation();
                self.step("PUT", path, query, &[("content-type", JSON)], post(doubled))
            }
            6 => {
                let query = vec![("dryRun".into(), "Some".into())];
                self.step("POST", collection, query, &[("content-type", JSON)], Body::Json(fresh))
            }
            7 => {
                let query = vec![("fieldValidation".into(), "Sometimes".into())];
                self.step("POST", collection, query, &[("content-type", JSON)], Body::Json(fresh))
            }
            8 => {
                let query = vec![("fieldManager".into(), "x".repeat(129))];
                self.step("POST", collection, query, &[("content-type", JSON)], Body::Json(fresh))
            }
            9 => self.step("PATCH", path, vec![], &[("content-type", JSON)], Body::Json(json!({}))),
            10 => self.step(
                "PATCH",
                path,
                vec![],
                &[("content-type", "application/json-patch+json")],
                post("{}".into()),
            ),
            11 => self.step(
                "PATCH",
                path,
                vec![],
                &[("content-type", "application/merge-patch+json")],
                post("[".into()),
            ),
            12 => self.step(
                "PATCH",
                path,
                vec![("fieldManager".into(), "m".into())],
                &[("content-type", "application/apply-patch+yaml")],
                post("a: [".into()),
            ),
            13 => self.step("PUT", collection, vec![], &[("content-type", JSON)], post(body)),
            14 => self.step("GET", path, vec![], &[("accept", "text/html")], Body::Nothing),
            _ => {
                let yaml = format!(
                    "apiVersion: {}\nkind: {}\nmetadata:\n  name: {short}\nbogus: 1\n",
                    self.kind.api_version(),
                    self.kind.kind
                );
                let query = self.validation();
                self.step("POST", collection, query, &[("content-type", "application/yaml")], post(yaml))
            }
        };
    }
}

fn random_place(places: &[String], random: &mut Random) -> String {
    if places.is_empty() { "/spec".into() } else { random.pick(places).clone() }
}
