//! Steps that read: objects, lists and watches.

use super::Maker;
use crate::program::Body;

/// How long watches stay open, in seconds. Earlier events are delivered at once.
const WATCH_SECONDS: &str = "1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

impl Maker {
    pub(super) fn get(&mut self) {
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

    pub(super) fn list(&mut self) {
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

    pub(super) fn watch(&mut self) {
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
}
