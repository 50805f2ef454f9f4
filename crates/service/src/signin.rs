//! Signing in and out with a browser: `/signin`, `/signout`, and `/session`, which says who is signed in.
//!
//! A session begins only by a form of this service's own page. At a one-time address, the page names the user and has a
//! button: otherwise a link could make a browser act as another user without anybody noticing.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::json;

use crate::body::Bounded;
use crate::browser::{self, bearer, is_own_page, no_cookie, session_of, share_of_stranger};
use crate::dashboard;
use crate::page::{self, escape};
use crate::problem::Problem;
use crate::response::{refuse, respond};
use crate::rest::decoded;
use crate::service::Service;
use crate::session::{Csrf, SESSION, Session};

/// The largest form: a token, and where to go.
const MAX_FORM: usize = 32 << 10;
/// The longest address to go to after signing in.
const LONGEST_NEXT: usize = 512;

/// What a person or a one-time address sends.
#[derive(Default)]
struct Sent {
    ticket: String,
    token: String,
    next: String,
}

impl Sent {
    fn read(text: &str) -> Result<Self, Problem> {
        let mut sent = Self::default();
        for pair in text.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "ticket" => sent.ticket = decoded(value, true)?,
                "token" => sent.token = decoded(value, true)?,
                "next" => sent.next = decoded(value, true)?,
                _ => {}
            }
        }
        Ok(sent)
    }

    /// Where to go afterwards.
    fn next(&self) -> &str {
        if is_path(&self.next) { &self.next } else { "/" }
    }
}

/// Whether a text is a path of this service, and not another address.
pub fn is_path(text: &str) -> bool {
    let rest = text.strip_prefix('/');
    rest.is_some_and(|rest| !rest.starts_with(['/', '\\']))
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && text.len() <= LONGEST_NEXT
}

/// `/signin`: the page, that of a one-time address, or the form of one of them.
pub async fn sign_in(State(service): State<Arc<Service>>, request: Request) -> Response<Body> {
    match enter(&service, request).await {
        Ok(response) => response,
        Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE => unavailable(&problem),
        Err(problem) => refuse(&problem),
    }
}

/// The page where nobody can sign in now, for a person.
fn unavailable(problem: &Problem) -> Response<Body> {
    let fault = format!("Nobody can sign in now: {}. Try again in a moment.", escape(&problem.message));
    form_with(problem.status, &Sent::default(), &fault)
}

async fn enter(service: &Service, request: Request) -> Result<Response<Body>, Problem> {
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let sent = Sent::read(parts.uri.query().unwrap_or_default())?;
        if sent.ticket.is_empty() {
            return Ok(form(&sent, ""));
        }
        return Ok(match service.sessions.user_of(&sent.ticket).await? {
            Some(user) => confirmation(&sent, &user),
            None => form(&sent, USED),
        });
    }
    if !is_own_page(service, &parts) {
        return Ok(form(&Sent::default(), "The form came from another page. Try again here."));
    }
    let share = share_of_stranger(service, &parts.headers, &parts.extensions)?;
    let before = session_of(service, &parts.headers).await?;
    // The body may take long to arrive: nothing of the head is kept meanwhile.
    drop(parts);
    let form_body = Bounded::new(body, share, MAX_FORM).bytes().await?;
    let sent = Sent::read(&String::from_utf8_lossy(&form_body))?;
    let (authorization, fault) = match sent.ticket.as_str() {
        "" => (bearer(sent.token.trim().as_bytes()), "This is not a token."),
        ticket => (service.sessions.redeem(ticket).await?, USED),
    };
    let Some(authorization) = authorization else { return Ok(form(&sent, fault)) };
    let response = begin(service, &sent, &authorization).await?;
    // The browser forgets the cookie of the session that it had; nothing else should use it either.
    if let (StatusCode::SEE_OTHER, Some(before)) = (response.status(), before) {
        service.sessions.end(&before.id).await?;
    }
    Ok(response)
}

/// What is wrong with a one-time address.
const USED: &str = "This address was used before, or has expired.";

/// The page of a one-time address: whose it is, and a button.
fn confirmation(sent: &Sent, user: &str) -> Response<Body> {
    let (user, ticket, next) = (escape(user), escape(&sent.ticket), escape(sent.next()));
    let body = format!(
        "{HEADING}\n<div class=\"pf-v6-c-login__main-body\">\n\
         <form class=\"pf-v6-c-form\" method=\"post\" action=\"/signin\">\n\
         <p>This address signs this browser in as <strong><bdi>{user}</bdi></strong>. Go on only if that is you.</p>\n\
         <input type=\"hidden\" name=\"ticket\" value=\"{ticket}\">\n\
         <input type=\"hidden\" name=\"next\" value=\"{next}\">\n{}</form>\n</div>",
        button(&format!("Sign in as <bdi>{user}</bdi>"), "autofocus")
    );
    page(StatusCode::OK, &body)
}

/// The page with this in its middle, in PatternFly's markup of a login page; without the dashboard's files, in a plain one.
fn page(status: StatusCode, body: &str) -> Response<Body> {
    match dashboard::sign_in(body) {
        Some(html) => page::with_policy(status, html, Some(dashboard::policy(&[]))),
        None => page::respond(status, "Sign in", body),
    }
}

const HEADING: &str = "<header class=\"pf-v6-c-login__main-header\">\
    <h1 class=\"pf-v6-c-title pf-m-3xl\">Sign in to distributed training</h1></header>";

fn button(label: &str, attribute: &str) -> String {
    format!(
        "<div class=\"pf-v6-c-form__group pf-m-action\"><div class=\"pf-v6-c-form__actions\">\
         <button class=\"pf-v6-c-button pf-m-primary pf-m-block\" type=\"submit\" {attribute}>\
         <span class=\"pf-v6-c-button__text\">{label}</span></button></div></div>\n"
    )
}

/// Begins a session of the caller with this authorization.
async fn begin(
    service: &Service,
    sent: &Sent,
    authorization: &HeaderValue,
) -> Result<Response<Body>, Problem> {
    let caller = match service.identity.caller(authorization).await {
        Ok(caller) => caller,
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED => {
            return Ok(form(sent, "The cluster does not accept this token: it is invalid or has expired."));
        }
        Err(problem) => return Err(problem),
    };
    service.limits.request(&caller.user)?;
    let secret = service.sessions.begin(&caller).await?;
    let mut response = respond(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::SET_COOKIE, browser::set_cookie(&secret, SESSION.as_secs())?);
    if let Ok(next) = HeaderValue::from_str(sent.next()) {
        headers.insert(header::LOCATION, next);
    }
    Ok(response)
}

/// The page with the form, and what was wrong before.
fn form(sent: &Sent, fault: &str) -> Response<Body> {
    form_with(if fault.is_empty() { StatusCode::OK } else { StatusCode::UNAUTHORIZED }, sent, fault)
}

fn form_with(status: StatusCode, sent: &Sent, fault: &str) -> Response<Body> {
    let fault = match fault {
        "" => String::new(),
        fault => format!(
            "<div class=\"pf-v6-c-form__helper-text\"><div class=\"pf-v6-c-helper-text\">\
             <div class=\"pf-v6-c-helper-text__item pf-m-error fault\" role=\"alert\">\
             <span class=\"pf-v6-c-helper-text__item-text\">{fault}</span></div></div></div>\n"
        ),
    };
    let body = format!(
        "{HEADING}\n<div class=\"pf-v6-c-login__main-body\">\n\
         <form class=\"pf-v6-c-form\" method=\"post\" action=\"/signin\">\n{fault}\
         <input type=\"hidden\" name=\"next\" value=\"{}\">\n\
         <div class=\"pf-v6-c-form__group\">\n\
         <div class=\"pf-v6-c-form__group-label\"><label class=\"pf-v6-c-form__label\" for=\"token\">\
         <span class=\"pf-v6-c-form__label-text\">Token of your Kubernetes account</span></label></div>\n\
         <div class=\"pf-v6-c-form__group-control\"><span class=\"pf-v6-c-form-control pf-m-required\">\
         <input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" spellcheck=\"false\" required autofocus>\
         </span></div>\n</div>\n{}</form>\n</div>\n\
         <footer class=\"pf-v6-c-login__main-footer\"><div class=\"pf-v6-c-login__main-footer-band\">\
         <p class=\"pf-v6-c-login__main-footer-band-item\">On OpenShift, the console shows it under \
         <q>Copy login command</q>. A local cluster prints an address at which one click signs in.</p>\
         </div></footer>",
        escape(sent.next()),
        button("Sign in", "")
    );
    page(status, &body)
}

/// `/signout`: ends the session.
pub async fn sign_out(State(service): State<Arc<Service>>, request: Request) -> Response<Body> {
    let session = request.extensions().get::<Session>().map(|session| session.id);
    if let Some(id) = session
        && let Err(problem) = service.sessions.end(&id).await
    {
        // The browser keeps the cookie, because the session goes on.
        return refuse(&problem);
    }
    let mut response = respond(StatusCode::NO_CONTENT, "text/plain; charset=utf-8", Body::empty());
    response.headers_mut().insert(header::SET_COOKIE, no_cookie());
    response
}

/// `/session`: who is signed in, and the token that changes have to carry.
pub async fn session(State(service): State<Arc<Service>>, request: Request) -> Response<Body> {
    let caller = match service.identity.of(request.headers()).await {
        Ok(caller) => caller,
        Err(problem) => return refuse(&problem),
    };
    let session = request.extensions().get::<Session>();
    let csrf = match session {
        Some(session) => session.csrf.token(),
        None => Csrf::of_authorization(request.headers()).token(),
    };
    let mut answer = json!({ "user": caller.user, "csrfToken": csrf });
    if let Some(session) = session {
        answer["until"] = session.ends.to_string().into();
    }
    respond(StatusCode::OK, "application/json", answer.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_this_service_come_after_signing_in() {
        let next = |text: &str| Sent::read(text).unwrap().next().to_owned();
        assert_eq!(next("next=%2Fjobs%3Fphase%3DFailed"), "/jobs?phase=Failed");
        for text in ["", "next=https%3A%2F%2Fa", "next=%2F%2Fa", "next=%2F%5Ca", "next=%2Fa%0D%0Ab", "next=a"]
        {
            assert_eq!(next(text), "/", "{text}");
        }
        assert_eq!(next(&format!("next=/{}", "'".repeat(512))), "/", "it is repeated, escaped, in the page");
    }
}
