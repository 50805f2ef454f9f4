//! Steps that change or delete objects.

use serde_json::{Value, json};

use super::{JSON, Maker, random_place};
use crate::generate::mutate::{mutate, pointers};
use crate::generate::{patches, text};
use crate::program::Body;

impl Maker {
    pub(super) fn update(&mut self) {
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

    pub(super) fn patch(&mut self, subresource: &str) {
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

    pub(super) fn status(&mut self) {
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

    pub(super) fn subresource(&mut self) {
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

    pub(super) fn delete(&mut self) {
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

    pub(super) fn delete_collection(&mut self) {
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

    pub(super) fn apply(&mut self) {
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
}
