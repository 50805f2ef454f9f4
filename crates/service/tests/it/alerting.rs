//! Notification rules with conditions, over the service: quotas that fill up, jobs that run for long or stall.

use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::keeping::until;
use crate::notifying::{Received, delivered, receiver, stage_for_loopback};
use crate::overview::quota;
use crate::place::on_each;
use crate::stage::{ADMIN, JANE, JOE, NOBODYS, Reply, Stage, TEAM, VERA};

const RULES: &str = "/api/v1/namespaces/team-cv/notifications";
const DELIVERIES: &str = "/api/v1/namespaces/team-cv/deliveries";
const ALERTS: &str = "/api/v1/alerts?namespace=team-cv";

async fn put(stage: &Stage, token: &str, name: &str, rule: Value) -> Reply {
    stage.rest("PUT", &format!("{RULES}/{name}"), token, Some(rule)).await
}

/// The rule and the name of each alert.
fn alerts(reply: &Reply) -> Vec<(String, String)> {
    let json = reply.json();
    let text = |alert: &Value, field: &str| alert[field].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<_> = json["alerts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|alert| (text(alert, "rule"), text(alert, "name")))
        .collect();
    all.sort();
    all
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(rule, name)| ((*rule).to_owned(), (*name).to_owned())).collect()
}

/// Waits until these alerts, and no others, are known to hold.
async fn until_alerts(stage: &Stage, expected: &[(&str, &str)]) -> Value {
    let expected = pairs(expected);
    let is = |reply: &Reply| alerts(reply) == expected && reply.json()["unknown"] == json!([]);
    until(stage, ALERTS, JANE, is).await.json()
}

fn bodies(received: &Received) -> Vec<Value> {
    received.lock().unwrap().iter().map(|(_, body)| serde_json::from_slice(body).unwrap()).collect()
}

/// Creates one more object that counts.
async fn one_more(stage: &Stage, name: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(stage.admin.clone(), TEAM);
    let map = json!({ "metadata": { "name": name } });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
}

/// Sets the most of the quota, in its status too, as its controller does.
async fn permit(stage: &Stage, most: &str) {
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.admin.clone(), TEAM);
    let hard = json!({ "hard": { "count/configmaps": most } });
    let params = PatchParams::default();
    quotas.patch("most", &params, &Patch::Merge(json!({ "spec": hard }))).await.unwrap();
    quotas.patch_status("most", &params, &Patch::Merge(json!({ "status": hard }))).await.unwrap();
}

#[test]
fn a_quota_that_fills_up_is_an_alert_and_one_webhook_each_time() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        quota(&stage, TEAM, 8).await;
        let made = put(&stage, JANE, "full", json!({ "url": url, "quotaPercent": 90 })).await;
        assert_eq!((made.status, &made.json()["quotaPercent"]), (200, &json!(90)), "{}", made.text);
        let replica = stage.replica().await;
        until_alerts(&stage, &[]).await;
        one_more(&stage, "m8").await;
        let found = until_alerts(&stage, &[("full", "most")]).await;
        let alert = &found["alerts"][0];
        assert_eq!(
            (&alert["namespace"], &alert["kind"], &alert["message"], &found["total"]),
            (
                &json!("team-cv"),
                &json!("ResourceQuota"),
                &json!("count/configmaps: 9 of 10 used (90%)"),
                &json!(1)
            )
        );
        until(&stage, DELIVERIES, VERA, |reply| delivered(reply) == pairs(&[("full", "delivered")])).await;
        // Below, and over it again.
        permit(&stage, "20").await;
        until_alerts(&stage, &[]).await;
        permit(&stage, "10").await;
        until_alerts(&stage, &[("full", "most")]).await;
        let twice = pairs(&[("full", "delivered"), ("full", "delivered")]);
        until(&stage, DELIVERIES, VERA, |reply| delivered(reply) == twice).await;
        replica.cancel();
        let sent = bodies(&received);
        assert_eq!(sent.len(), 2, "{sent:?}");
        let body = &sent[0];
        assert_eq!(
            (&body["kind"], &body["namespace"], &body["name"], &body["state"], &body["message"]),
            (
                &json!("ResourceQuota"),
                &json!("team-cv"),
                &json!("most"),
                &json!("Used to 90%"),
                &json!("count/configmaps: 9 of 10 used (90%)")
            )
        );
        assert_eq!(body["condition"], json!({ "type": "QuotaUsed", "percent": 90 }));
        // The administrator sees the alerts of all namespaces, another team none of them.
        assert_eq!(alerts(&stage.get("/api/v1/alerts", ADMIN).await), pairs(&[("full", "most")]));
        assert_eq!(stage.get("/api/v1/alerts", JOE).await.json()["alerts"], json!([]));
        assert_eq!(stage.get(ALERTS, JOE).await.status, 403);
        assert_eq!(stage.rest("DELETE", &format!("{RULES}/full"), JANE, None).await.status, 200);
        assert_eq!(alerts(&stage.get(ALERTS, JANE).await), []);
    });
}

#[test]
fn a_job_that_runs_for_long_or_stalls_is_an_alert_until_it_ends() {
    on_each(async |place| {
        let mut stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        stage.job(TEAM, "a").await;
        stage.job(TEAM, "young").await;
        let long = put(&stage, JANE, "long", json!({ "url": url, "runsLongerThan": "24h" })).await;
        assert_eq!((long.status, &long.json()["runsLongerThan"]), (200, &json!("1d")), "{}", long.text);
        let silent = put(&stage, JANE, "silent", json!({ "url": url, "stalled": true })).await;
        assert_eq!((silent.status, &silent.json()["stalled"]), (200, &json!(true)), "{}", silent.text);
        let now = jiff::Timestamp::now().to_string();
        stage.status(TEAM, "young", json!({ "phase": "Running", "startTime": now })).await;
        let since = json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z" });
        stage.status(TEAM, "a", since).await;
        until_alerts(&stage, &[("long", "a")]).await;
        let stalled = json!({ "conditions": [{ "type": "Stalled", "status": "True", "reason": "NoOutput",
            "message": "Nothing was printed for 10 minutes" }] });
        stage.status(TEAM, "a", stalled).await;
        let found = until_alerts(&stage, &[("long", "a"), ("silent", "a")]).await;
        let messages: Vec<&Value> =
            found["alerts"].as_array().unwrap().iter().map(|alert| &alert["message"]).collect();
        assert_eq!(messages, ["Nothing was printed for 10 minutes", "It has run for longer than 1d"]);
        let both = |reply: &Reply| {
            let mut sent = delivered(reply);
            sent.sort();
            sent == pairs(&[("long", "delivered"), ("silent", "delivered")])
        };
        until(&stage, DELIVERIES, VERA, both).await;
        stage.restart().await;
        until_alerts(&stage, &[("long", "a"), ("silent", "a")]).await;
        stage.status(TEAM, "a", json!({ "phase": "Succeeded", "conditions": [] })).await;
        until_alerts(&stage, &[]).await;
        let sent = bodies(&received);
        let conditions: Vec<&Value> = sent.iter().map(|body| &body["condition"]).collect();
        let expected = [json!({ "type": "RunsLonger", "seconds": 86_400 }), json!({ "type": "Stalled" })];
        assert_eq!(conditions, expected.iter().collect::<Vec<_>>(), "once each: {sent:?}");
        assert_eq!((&sent[0]["kind"], &sent[0]["phase"]), (&json!("MPIJob"), &json!("Running")));
    });
}

#[test]
fn a_rule_about_quotas_needs_the_right_to_see_them_and_ends_with_it() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        let (url, received) = receiver().await;
        let jobs = json!({ "apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["get", "list", "patch"] });
        let quotas = json!({ "apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["list"] });
        stage.create_role("jobs", jobs).await;
        stage.create_role("quotas", quotas).await;
        stage.allow(NOBODYS, "joe", "jobs").await;
        let rule = |condition: Value| {
            let mut rule = condition;
            rule["url"] = json!(url);
            Some(rule)
        };
        let elsewhere = format!("/api/v1/namespaces/{NOBODYS}/notifications/full");
        let refused = stage.rest("PUT", &elsewhere, JOE, rule(json!({ "quotaPercent": 90 }))).await;
        assert_eq!(
            (refused.status, &refused.json()["message"]),
            (403, &json!("User 'joe' lacks 'list' permission for resourcequotas in namespace 'team-ops'"))
        );
        assert_eq!(stage.rest("PUT", &elsewhere, JOE, rule(json!({ "stalled": true }))).await.status, 200);
        for role in ["jobs", "quotas"] {
            stage.allow(TEAM, "joe", role).await;
        }
        quota(&stage, TEAM, 0).await;
        let made = put(&stage, JOE, "full", json!({ "url": url, "quotaPercent": 10 })).await;
        assert_eq!(made.status, 200, "{}", made.text);
        stage.revoke("joe").await;
        one_more(&stage, "m").await;
        let ended =
            until(&stage, &format!("{RULES}/full"), VERA, |reply| reply.json()["enabled"] == false).await;
        let because = ended.json()["disabledBecause"].clone();
        assert_eq!(because, "its owner may no longer see what it is about");
        until(&stage, DELIVERIES, VERA, |reply| delivered(reply) == pairs(&[("full", "dead")])).await;
        assert!(received.lock().unwrap().is_empty());
        assert_eq!(alerts(&stage.get(ALERTS, JANE).await), [], "it is out of force");
    });
}

#[test]
fn a_rule_whose_quotas_cannot_be_read_is_unknown() {
    on_each(async |place| {
        let stage = stage_for_loopback(place).await;
        quota(&stage, TEAM, 9).await;
        let roles: Api<ClusterRole> = Api::all(stage.admin.clone());
        let role = roles.get("training-service").await.unwrap();
        let mut without = role.clone();
        let is_of_quotas = |resources: &Option<Vec<String>>| {
            resources.iter().flatten().any(|resource| resource == "resourcequotas")
        };
        without.rules.as_mut().unwrap().retain(|rule| !is_of_quotas(&rule.resources));
        roles.replace("training-service", &PostParams::default(), &without).await.unwrap();
        let rule = json!({ "url": "https://example.com/", "quotaPercent": 90 });
        assert_eq!(put(&stage, JANE, "full", rule).await.status, 200);
        let asked = || stage.requests().iter().filter(|sent| sent.contains("resourcequotas")).count();
        let before = asked();
        let tried = until(&stage, ALERTS, JANE, |_| asked() > before + 1).await.json();
        let unknown = json!([{ "namespace": "team-cv", "rule": "full" }]);
        assert_eq!((&tried["alerts"], &tried["unknown"]), (&json!([]), &unknown));
        let patch = Patch::Merge(json!({ "rules": role.rules }));
        roles.patch("training-service", &PatchParams::default(), &patch).await.unwrap();
        until_alerts(&stage, &[("full", "most")]).await;
    });
}
