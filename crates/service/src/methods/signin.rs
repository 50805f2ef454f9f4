//! Makes one-time addresses that sign a browser in.

use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::contract::{CreateSignInRequest, SignIn};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;
use crate::signin::is_path;

/// Makes an address for the caller.
pub async fn create_sign_in(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CreateSignInRequest,
) -> Result<SignIn, Problem> {
    if !request.next.is_empty() && !is_path(&request.next) {
        return Err(Problem::invalid("next", "is not a path of the dashboard", "send a path such as /jobs"));
    }
    let (ticket, expires) = service.sessions.ticket(&caller).await?;
    let mut path = format!("/signin?ticket={ticket}");
    if !request.next.is_empty() {
        path.push_str("&next=");
        path.extend(utf8_percent_encode(&request.next, NON_ALPHANUMERIC));
    }
    Ok(SignIn { path, expires: expires.to_string() })
}
