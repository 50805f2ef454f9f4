//! What browsers do: the dashboard's pages, sessions, and requests that come from elsewhere.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use service::Settings;

use crate::stage::{ADMIN, EXPIRED, JANE, PATIENCE, Reply, Stage, VERA, request};

const ORIGIN: &str = "https://localhost";

fn with(mut request: Request<Full<Bytes>>, headers: &[(&'static str, &str)]) -> Request<Full<Bytes>> {
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

async fn get(stage: &Stage, path: &str, headers: &[(&'static str, &str)]) -> Reply {
    stage.send(with(request("GET", path, "", None), headers)).await
}

async fn post(stage: &Stage, path: &str, body: Value, headers: &[(&'static str, &str)]) -> Reply {
    stage.send(with(request("POST", path, "", Some(body)), headers)).await
}

async fn form(stage: &Stage, form: &str, origin: &str) -> Reply {
    let mut request = request("POST", "/signin", "", None);
    *request.body_mut() = Full::new(Bytes::from(form.to_owned()));
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", origin)];
    stage.send(with(request, &headers)).await
}

/// The cookie that a response sets, as a browser sends it.
fn cookie(reply: &Reply) -> String {
    let set = reply.headers["set-cookie"].to_str().unwrap();
    set.split_once(';').unwrap().0.to_owned()
}

/// The fields of the form at a one-time address.
fn fields(made: &Value) -> &str {
    made["path"].as_str().unwrap().strip_prefix("/signin?").unwrap()
}

/// Signs in by a one-time address; returns the cookie and the token that changes have to carry.
async fn signed_in(stage: &Stage, token: &str) -> (String, String) {
    let made = stage.rest("POST", "/api/v1/signin", token, Some(json!({}))).await.json();
    let cookie = cookie(&form(stage, fields(&made), ORIGIN).await);
    let session = get(stage, "/session", &[("cookie", &cookie)]).await.json();
    (cookie, session["csrfToken"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn every_page_of_the_dashboard_is_served_and_other_unknown_paths_are_not() {
    let stage = Stage::new().await;
    let html = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    for (path, accept) in [("/", ("accept", "*/*")), ("/", html), ("/jobs/team-cv/mpijob/a.b", html)] {
        let page = get(&stage, path, &[accept]).await;
        assert_eq!(
            (page.status, page.headers["content-type"].to_str().unwrap()),
            (200, "text/html; charset=utf-8")
        );
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(page.headers["x-content-type-options"], "nosniff");
        assert!(!page.text.contains("http://") && !page.text.contains("https://"), "{}", page.text);
    }
    for (path, accept) in
        [("/nothing", ("accept", "*/*")), ("/assets/gone-12345678.js", html), ("/api/v1/x", html)]
    {
        let reply = get(&stage, path, &[accept]).await;
        assert_eq!((reply.status, reply.json()["reason"].clone()), (404, json!("NoSuchPath")), "{path}");
    }
    assert_eq!(stage.rest("POST", "/", "", None).await.status, 404);
}

#[tokio::test]
async fn a_one_time_address_signs_a_browser_in_once() {
    let stage = Stage::new().await;
    let made = stage.rest("POST", "/api/v1/signin", JANE, Some(json!({ "next": "/jobs?q=a" }))).await.json();
    let path = made["path"].as_str().unwrap();
    for verb in ["GET", "HEAD"] {
        let shown = stage.send(with(request(verb, path, "", None), &[])).await;
        assert_eq!((shown.status, shown.headers.contains_key("set-cookie")), (200, false), "{verb}");
        assert_eq!(shown.text.contains("Sign in as <bdi>jane</bdi>"), verb == "GET", "{}", shown.text);
    }
    let forged = form(&stage, fields(&made), "https://example.com").await;
    assert_eq!(
        (forged.status, forged.headers.contains_key("set-cookie")),
        (401, false),
        "another page's form"
    );
    let entered = form(&stage, fields(&made), ORIGIN).await;
    assert_eq!((entered.status, entered.headers["location"].to_str().unwrap()), (303, "/jobs?q=a"));
    let set = entered.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("__Host-odh-session=") && !set.contains(JANE), "{set}");
    for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
        assert!(set.contains(attribute), "{attribute}: {set}");
    }
    let me = get(&stage, "/api/v1/me", &[("cookie", &cookie(&entered))]).await;
    assert_eq!((me.status, me.json()["user"].clone()), (200, json!("jane")));
    let session = get(&stage, "/session", &[("cookie", &cookie(&entered))]).await.json();
    assert_eq!(me.headers["x-csrf-token"], session["csrfToken"].as_str().unwrap());
    let again = form(&stage, fields(&made), ORIGIN).await;
    assert_eq!((again.status, again.headers.contains_key("set-cookie")), (401, false));
    assert!(again.text.contains("used before"), "{}", again.text);
    let elsewhere = json!({ "next": "https://example.com" });
    assert_eq!(stage.rest("POST", "/api/v1/signin", JANE, Some(elsewhere)).await.status, 422);
}

#[tokio::test]
async fn a_person_signs_in_with_a_token_and_out_again() {
    let stage = Stage::new().await;
    let page = get(&stage, "/signin?next=%22%3E%3Cscript%3E", &[]).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("name=\"token\"") && !page.text.contains("\"><script>"), "{}", page.text);
    for (sent, origin) in [
        (format!("token={EXPIRED}"), ORIGIN),
        ("token=%0Aa".to_owned(), ORIGIN),
        (String::new(), ORIGIN),
        (format!("token={JANE}"), "https://example.com"),
        (format!("token={JANE}"), "null"),
    ] {
        let refused = form(&stage, &sent, origin).await;
        assert_eq!(
            (refused.status, refused.headers.contains_key("set-cookie")),
            (401, false),
            "{sent} {origin}"
        );
    }
    let entered = form(&stage, &format!("token=+{JANE}+&next=%2Fjobs"), ORIGIN).await;
    assert_eq!((entered.status, entered.headers["location"].to_str().unwrap()), (303, "/jobs"));
    let cookie = cookie(&entered);
    let session = get(&stage, "/session", &[("cookie", &cookie)]).await.json();
    assert_eq!(session["user"], "jane");
    let csrf = session["csrfToken"].as_str().unwrap();
    let headers = [("cookie", cookie.as_str()), ("origin", ORIGIN), ("x-csrf-token", csrf)];
    let left = post(&stage, "/signout", json!({}), &headers).await;
    assert_eq!(left.status, 204);
    assert!(left.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(get(&stage, "/session", &[("cookie", &cookie)]).await.status, 401);
}

#[tokio::test]
async fn a_change_by_a_session_comes_from_an_own_page_and_carries_its_token() {
    let stage = Stage::new().await;
    stage.job("team-cv", "a").await;
    let (cookie, csrf) = signed_in(&stage, JANE).await;
    let (_, other) = signed_in(&stage, VERA).await;
    let path = "/api/v1/namespaces/team-cv/jobs/mpijob/a/suspend";
    let cookie = ("cookie", cookie.as_str());
    let (own, csrf) = (("origin", ORIGIN), ("x-csrf-token", csrf.as_str()));
    for (headers, reason) in [
        (vec![cookie], "ForeignOrigin"),
        (vec![cookie, csrf], "ForeignOrigin"),
        (vec![cookie, csrf, ("origin", "https://example.com")], "ForeignOrigin"),
        (vec![cookie, csrf, ("origin", "http://localhost")], "ForeignOrigin"),
        (vec![cookie, csrf, ("origin", "https://localhost.example.com")], "ForeignOrigin"),
        (
            vec![cookie, csrf, ("origin", "https://example.com"), ("x-forwarded-host", "example.com")],
            "ForeignOrigin",
        ),
        (vec![cookie, own], "CsrfToken"),
        (vec![cookie, own, ("x-csrf-token", &other)], "CsrfToken"),
    ] {
        let refused = post(&stage, path, json!({}), &headers).await;
        assert_eq!((refused.status, refused.json()["reason"].clone()), (403, json!(reason)), "{headers:?}");
    }
    let changed = post(&stage, path, json!({}), &[cookie, own, csrf]).await;
    assert_eq!((changed.status, changed.json()["changed"].clone()), (200, json!(true)), "{}", changed.text);
    // A bearer token comes first, and a page cannot make a browser send one.
    let mut program = with(request("POST", path, VERA, Some(json!({}))), &[cookie]);
    assert_eq!(stage.send(program.clone()).await.json()["reason"], "Forbidden");
    program.headers_mut().remove("authorization");
    assert_eq!(stage.send(program).await.json()["reason"], "ForeignOrigin");
}

#[tokio::test]
async fn a_stream_ends_when_its_session_does() {
    let stage = Stage::new().await;
    let (cookie, csrf) = signed_in(&stage, JANE).await;
    let cookie = ("cookie", cookie.as_str());
    let mut stream =
        stage.open(with(request("GET", "/api/v1/stream", "", None), &[cookie])).await.into_body();
    assert!(stream.frame().await.unwrap().is_ok());
    let headers = [cookie, ("origin", ORIGIN), ("x-csrf-token", csrf.as_str())];
    assert_eq!(post(&stage, "/signout", json!({}), &headers).await.status, 204);
    tokio::time::timeout(PATIENCE, stream.collect()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let stage = Stage::new().await;
    let token = stage.account_token(&[]).await;
    let (cookie, _) = signed_in(&stage, &token).await;
    stage.delete_account().await;
    let ended = async {
        loop {
            let reply = get(&stage, "/session", &[("cookie", &cookie)]).await;
            if reply.status == 401 {
                return reply;
            }
            tokio::task::yield_now().await;
        }
    };
    let refused = tokio::time::timeout(PATIENCE, ended).await.unwrap();
    assert!(refused.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
}

#[tokio::test]
async fn a_session_outlives_the_service_and_one_that_was_signed_out_does_not_come_back() {
    let mut stage = Stage::new().await;
    stage.job("team-cv", "a").await;
    let (cookie, csrf) = signed_in(&stage, JANE).await;
    let (ended, csrf_of_ended) = signed_in(&stage, JANE).await;
    let made = stage.rest("POST", "/api/v1/signin", VERA, Some(json!({}))).await.json();
    let leave = [("cookie", ended.as_str()), ("origin", ORIGIN), ("x-csrf-token", csrf_of_ended.as_str())];
    assert_eq!(post(&stage, "/signout", json!({}), &leave).await.status, 204);
    let before = get(&stage, "/session", &[("cookie", &cookie)]).await.json();
    stage.restart().await;
    let after = get(&stage, "/session", &[("cookie", &cookie)]).await;
    assert_eq!((after.status, after.json()), (200, before), "the same user, header for changes, and end");
    let own = [("cookie", cookie.as_str()), ("origin", ORIGIN), ("x-csrf-token", csrf.as_str())];
    let changed = post(&stage, "/api/v1/namespaces/team-cv/jobs/mpijob/a/suspend", json!({}), &own).await;
    assert_eq!(changed.status, 200, "an open page goes on: {}", changed.text);
    assert_eq!(get(&stage, "/session", &[("cookie", &ended)]).await.status, 401);
    assert_eq!(form(&stage, fields(&made), ORIGIN).await.status, 303, "a one-time address from before");
    stage.restart().await;
    assert_eq!(form(&stage, fields(&made), ORIGIN).await.status, 401, "it works once");
    assert_eq!(get(&stage, "/session", &[("cookie", &ended)]).await.status, 401);
    assert_eq!(post(&stage, "/signout", json!({}), &own).await.status, 204);
    assert_eq!(get(&stage, "/session", &[("cookie", &cookie)]).await.status, 401);
}

#[tokio::test]
async fn a_session_counts_at_every_replica_and_ends_at_all_of_them() {
    let mut stage = Stage::with(Settings { recheck: Duration::from_millis(50), ..Settings::default() }).await;
    let (cookie, csrf) = signed_in(&stage, JANE).await;
    let cookie = ("cookie", cookie.as_str());
    let mut stream =
        stage.open(with(request("GET", "/api/v1/stream", "", None), &[cookie])).await.into_body();
    assert!(stream.frame().await.unwrap().is_ok());
    let first = stage.move_to_replica().await;
    assert_eq!(get(&stage, "/session", &[cookie]).await.json()["user"], "jane");
    let headers = [cookie, ("origin", ORIGIN), ("x-csrf-token", csrf.as_str())];
    assert_eq!(post(&stage, "/signout", json!({}), &headers).await.status, 204);
    tokio::time::timeout(PATIENCE, stream.collect()).await.unwrap().unwrap();
    stage.move_to(first);
    assert_eq!(get(&stage, "/session", &[cookie]).await.status, 401);
}

#[tokio::test]
async fn a_forwarded_token_counts_only_from_a_trusted_proxy_and_a_forwarded_name_never() {
    let token = [("x-forwarded-access-token", JANE), ("x-auth-request-user", "admin")];
    let stage = Stage::new().await;
    assert_eq!(get(&stage, "/api/v1/me", &token).await.status, 401);
    let settings = Settings { trusts_loopback: true, ..Settings::default() };
    let stage = Stage::with(settings.clone()).await;
    assert_eq!(get(&stage, "/api/v1/me", &token).await.json()["user"], "jane");
    for name in ["x-auth-request-user", "x-forwarded-user", "x-remote-user", "impersonate-user"] {
        assert_eq!(get(&stage, "/api/v1/me", &[(name, "admin")]).await.status, 401, "{name}");
    }
    let session = get(&stage, "/session", &token[..1]).await.json();
    let forwarded = [
        token[0],
        ("x-forwarded-host", "dashboard.example.com"),
        ("origin", "https://dashboard.example.com"),
        ("x-csrf-token", session["csrfToken"].as_str().unwrap()),
    ];
    assert_eq!(post(&stage, "/api/v1/signin", json!({}), &forwarded).await.status, 200);
    assert_eq!(post(&stage, "/api/v1/signin", json!({}), &forwarded[..3]).await.status, 403);
    let own = Settings { origins: vec!["https://odh.example.com".parse().unwrap()], ..settings };
    let stage = Stage::with(own).await;
    let session = get(&stage, "/session", &token[..1]).await.json();
    let from_there = [
        token[0],
        ("origin", "https://odh.example.com"),
        ("x-csrf-token", session["csrfToken"].as_str().unwrap()),
    ];
    assert_eq!(post(&stage, "/api/v1/signin", json!({}), &from_there).await.status, 200);
}

#[tokio::test]
async fn a_proxy_shows_a_certificate_of_the_configured_authority() {
    let (stage, proxy) = Stage::with_proxies().await;
    let token = [("x-forwarded-access-token", JANE)];
    assert_eq!(get(&stage, "/api/v1/me", &token).await.status, 401, "without a certificate");
    let stage = stage.connecting_with(proxy);
    assert_eq!(get(&stage, "/api/v1/me", &token).await.json()["user"], "jane");
    assert_eq!(get(&stage, "/api/v1/me", &[]).await.status, 401, "a certificate alone identifies nobody");
}

#[tokio::test]
async fn a_guessed_cookie_opens_nothing() {
    let stage = Stage::new().await;
    for cookie in ["__Host-odh-session=guess", "__Host-odh-session=", "__Host-odh-session"] {
        assert_eq!(get(&stage, "/api/v1/me", &[("cookie", cookie)]).await.status, 401, "{cookie}");
    }
    assert_eq!(stage.get("/session", ADMIN).await.status, 200);
}

#[tokio::test]
async fn the_session_that_a_browser_had_ends_when_it_signs_in_again() {
    let stage = Stage::new().await;
    let (veras, _) = signed_in(&stage, VERA).await;
    let made = stage.rest("POST", "/api/v1/signin", JANE, Some(json!({}))).await.json();
    let mut again = request("POST", "/signin", "", None);
    *again.body_mut() = Full::new(Bytes::from(fields(&made).to_owned()));
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("origin", ORIGIN), ("cookie", &*veras)];
    assert_eq!(stage.send(with(again, &headers)).await.status, 303);
    assert_eq!(get(&stage, "/api/v1/me", &[("cookie", &veras)]).await.status, 401);
}
