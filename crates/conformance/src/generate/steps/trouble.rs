//! Requests that are invalid.

use serde_json::json;

use super::{JSON, Maker};
use crate::program::Body;

impl Maker {
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
