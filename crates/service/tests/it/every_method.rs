//! A story: a person does with real jobs everything that the contract offers, over REST and again over gRPC. A method of
//! the contract that the story does not use fails it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use serde::Serialize;
use serde_json::{Value, json};
use service::METHODS;
use service::contract::training_client::TrainingClient;
use stories::{EXAMPLES_IMAGE, Home};
use tokio::time::timeout;
use tonic::Status;

use crate::stage::{Channel, call, channel, client_config, connect, request, rest_of};

/// How long a job may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// The pause between two questions: one user may ask 100 times a second.
const PAUSE: Duration = Duration::from_millis(50);
const NAMESPACE: &str = "default";
/// The job that is large, and the number of its Workers.
const LARGE: &str = "hundred";
const WORKERS: usize = 100;

/// A message of an answer as JSON; of a stream, until the function returns true.
type Until = Box<dyn FnMut(&Value) -> bool + Send>;
type Call =
    fn(TrainingClient<Channel>, String, Value, Until) -> BoxFuture<'static, Result<Vec<Value>, Status>>;

fn value(message: impl Serialize) -> Value {
    serde_json::to_value(message).unwrap()
}

macro_rules! unary {
    ($name:literal, $function:ident) => {
        ($name, |mut client, token, message, _| {
            async move {
                let message = serde_json::from_value(message).unwrap();
                Ok::<Vec<Value>, Status>(vec![value(
                    client.$function(call(&token, message)).await?.into_inner(),
                )])
            }
            .boxed()
        })
    };
}

macro_rules! stream {
    ($name:literal, $function:ident) => {
        ($name, |mut client, token, message, mut until| {
            async move {
                let message = serde_json::from_value(message).unwrap();
                let mut items = client.$function(call(&token, message)).await?.into_inner();
                let mut seen = Vec::new();
                while let Some(item) = items.message().await? {
                    seen.push(value(item));
                    if seen.last().is_some_and(&mut until) {
                        break;
                    }
                }
                Ok::<Vec<Value>, Status>(seen)
            }
            .boxed()
        })
    };
}

/// How each method is called over gRPC.
const OVER_GRPC: &[(&str, Call)] = &[
    unary!("ListJobs", list_jobs),
    stream!("WatchJobs", watch_jobs),
    unary!("CreateJob", create_job),
    unary!("GetJob", get_job),
    unary!("DeleteJob", delete_job),
    unary!("SuspendJob", suspend_job),
    unary!("ResumeJob", resume_job),
    unary!("CancelJob", cancel_job),
    unary!("RetryJob", retry_job),
    unary!("CloneJob", clone_job),
    stream!("ReadLogs", read_logs),
    unary!("ListRelatedJobs", list_related_jobs),
    unary!("ListEvents", list_events),
    unary!("GetHistory", get_history),
    unary!("ListUsage", list_usage),
    unary!("ListAdvice", list_advice),
    unary!("ListAudit", list_audit),
    stream!("ExportAudit", export_audit),
    unary!("RecordAdmissions", record_admissions),
    unary!("ListNotificationRules", list_notification_rules),
    unary!("GetNotificationRule", get_notification_rule),
    unary!("PutNotificationRule", put_notification_rule),
    unary!("DeleteNotificationRule", delete_notification_rule),
    unary!("TestNotificationRule", test_notification_rule),
    unary!("ListDeliveries", list_deliveries),
    unary!("ListAlerts", list_alerts),
    unary!("ExportJob", export_job),
    unary!("CompareJobs", compare_jobs),
    unary!("BatchJobs", batch_jobs),
    unary!("CheckAvailability", check_availability),
    unary!("RenderJob", render_job),
    unary!("ListTemplates", list_templates),
    unary!("GetTemplate", get_template),
    unary!("SaveTemplate", save_template),
    unary!("DeleteTemplate", delete_template),
    unary!("GetMetrics", get_metrics),
    unary!("ListNamespaces", list_namespaces),
    unary!("GetOverview", get_overview),
    unary!("CreateSignIn", create_sign_in),
    unary!("GetIdentity", get_identity),
    unary!("CheckCapacity", check_capacity),
    unary!("ListGpus", list_gpus),
    unary!("ListChoices", list_choices),
    unary!("ListArtifacts", list_artifacts),
    stream!("ReadArtifact", read_artifact),
    unary!("StartReader", start_reader),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    Rest,
    Grpc,
}

/// Somebody who knows the service of a local cluster, and speaks one protocol.
struct Person {
    protocol: Protocol,
    address: SocketAddr,
    roots: Arc<ClientConfig>,
    token: String,
    /// The methods that have answered.
    used: BTreeSet<&'static str>,
}

impl Person {
    fn at(home: &Home, protocol: Protocol) -> Self {
        let status = home.odh(&["local", "status", "-o", "json"]).ended(0).json();
        let text = |field: &str| status["service"][field].as_str().unwrap().to_owned();
        let url: http::Uri = text("url").parse().unwrap();
        let authority = std::fs::read_to_string(text("certificateAuthority")).unwrap();
        let token = std::fs::read_to_string(text("token")).unwrap().trim().to_owned();
        let address = SocketAddr::from(([127, 0, 0, 1], url.port_u16().unwrap()));
        Self { protocol, address, roots: client_config(&authority, None), token, used: BTreeSet::new() }
    }

    /// Calls a method and returns its answer.
    async fn ask(&mut self, name: &str, message: Value) -> Value {
        let mut answer = self.ask_until(name, message, |_| true).await;
        answer.pop().unwrap_or_else(|| panic!("{name} over {:?}: no answer", self.protocol))
    }

    /// Calls a method of a stream, and returns all until the function returns true for one.
    async fn ask_until(
        &mut self,
        name: &str,
        message: Value,
        until: impl FnMut(&Value) -> bool + Send + 'static,
    ) -> Vec<Value> {
        let method = METHODS.iter().find(|method| method.name == name).unwrap();
        let answered = async {
            match self.protocol {
                Protocol::Rest => self.over_rest(method, &message, until).await,
                Protocol::Grpc => {
                    let client = TrainingClient::with_origin(
                        channel(self.address, &self.roots).await,
                        format!("https://localhost:{}", self.address.port()).parse().unwrap(),
                    );
                    let (_, over_grpc) = OVER_GRPC.iter().find(|(known, _)| *known == name).unwrap();
                    over_grpc(client, self.token.clone(), message.clone(), Box::new(until)).await.unwrap()
                }
            }
        };
        let answer = timeout(PATIENCE, answered).await;
        self.used.insert(method.name);
        answer.unwrap_or_else(|_| panic!("{name} over {:?} took too long: {message}", self.protocol))
    }

    async fn over_rest(
        &self,
        method: &service::contract::Method,
        message: &Value,
        mut until: impl FnMut(&Value) -> bool,
    ) -> Vec<Value> {
        let (path, body) = rest_of(method, message);
        let stream = TokioIo::new(connect(self.address, &self.roots, b"http/1.1").await.unwrap());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let reply = sender.send_request(request(method.verb, &path, &self.token, body)).await.unwrap();
        let (status, lines) = (reply.status(), reply.headers()["content-type"] == "application/x-ndjson");
        let mut body = reply.into_body().into_data_stream();
        let (mut text, mut seen) = (Vec::new(), Vec::<Value>::new());
        while let Some(part) = body.next().await {
            text.extend_from_slice(&part.unwrap());
            while let Some(end) = text.iter().position(|byte| lines && *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                // An empty line shows that the connection is alive.
                if line.len() > 1 {
                    seen.push(serde_json::from_slice(&line).unwrap());
                    if seen.last().is_some_and(&mut until) {
                        return seen;
                    }
                }
            }
        }
        assert!(status.is_success(), "{} {path}: {status} {}", method.name, String::from_utf8_lossy(&text));
        if !lines {
            seen.push(serde_json::from_slice(&text).unwrap());
        }
        seen
    }

    /// Waits until a job has come to a phase, in the stream of changes.
    async fn wait(&mut self, job: &str, phase: &'static str) {
        let message = json!({ "namespace": NAMESPACE, "names": [job] });
        let there = move |event: &Value| {
            event["jobs"].as_array().is_some_and(|jobs| jobs.iter().any(|row| row["phase"] == phase))
        };
        let events = self.ask_until("WatchJobs", message, there).await;
        assert!(events.last().is_some_and(there), "{job} is not {phase}: {events:?}");
    }

    /// Asks until the answer is as wanted.
    async fn until(&mut self, name: &str, message: Value, is: impl Fn(&Value) -> bool) -> Value {
        let asked = async {
            loop {
                let answer = self.ask(name, message.clone()).await;
                if is(&answer) {
                    return answer;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("{name}: still not as wanted"))
    }

    /// The texts of the lines that a job has written.
    async fn lines(&mut self, job: &str, how: Value) -> Vec<String> {
        let mut message = of(job);
        message.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
        let items = self.ask_until("ReadLogs", message, |_| false).await;
        let lines = items.iter().filter(|item| item["type"] == "line");
        let mut lines: Vec<String> = lines.map(|item| item["text"].as_str().unwrap().to_owned()).collect();
        lines.sort();
        lines
    }
}

/// A request about a job.
fn of(job: &str) -> Value {
    json!({ "namespace": NAMESPACE, "kind": "mpijob", "name": job })
}

fn spec(name: &str, workers: usize, script: &str) -> Value {
    json!({ "name": name, "workers": workers, "image": EXAMPLES_IMAGE, "command": ["sh", "-c", script],
        "cpu": "10m", "memory": "64Mi" })
}

fn field<'v>(list: &'v Value, name: &str) -> Vec<&'v str> {
    list.as_array().unwrap().iter().map(|one| one[name].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_works_with_real_jobs_over_both_protocols() {
    let home = Home::with_cluster("service::every_method");
    let names: BTreeSet<&str> = METHODS.iter().map(|method| method.name).collect();
    let claim = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "results" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Mi" } } } });
    let claim = home.write("claim.json", &claim.to_string());
    home.kubectl(&["create", "-n", NAMESPACE, "-f", &claim]).ended(0);
    let mut first = Person::at(&home, Protocol::Rest);
    let large = spec(LARGE, WORKERS, "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE");
    first.ask("CreateJob", json!({ "namespace": NAMESPACE, "spec": large })).await;
    first.wait(LARGE, "Succeeded").await;
    for (protocol, prefix) in [(Protocol::Rest, "rest"), (Protocol::Grpc, "grpc")] {
        let mut person = Person::at(&home, protocol);
        looks_around(&mut person).await;
        runs_a_job(&mut person, prefix).await;
        stops_jobs(&mut person, prefix).await;
        reads_files(&mut person, prefix).await;
        keeps_templates_and_rules(&mut person, prefix).await;
        reads_what_was_done(&mut person, prefix).await;
        reads_the_output_of_many_workers(&mut person).await;
        assert_eq!(person.used, names, "a method that the story does not use over {protocol:?}");
    }
}

async fn looks_around(person: &mut Person) {
    let me = person.ask("GetIdentity", json!({ "namespace": NAMESPACE })).await;
    assert_eq!(me["user"], "kubernetes-admin");
    let namespaces = person.ask("ListNamespaces", json!({})).await;
    assert!(field(&namespaces["namespaces"], "name").contains(&NAMESPACE), "{namespaces}");
    let overview = person.ask("GetOverview", json!({})).await;
    assert!(overview["nodes"].is_array(), "{overview}");
    let wanted = json!({ "namespace": NAMESPACE, "spec": spec("wanted", 2, "true") });
    // Unknown as long as the cluster, which still removes the pods of the large job, is slower than a check may be.
    let starts_now = |answer: &Value| answer["start"] == "Now";
    person.until("CheckAvailability", wanted.clone(), starts_now).await;
    assert_eq!(person.ask("RenderJob", wanted).await["complete"], true);
    let question = json!({ "workers": 2, "cpu": "10m", "memory": "64Mi" });
    person.until("CheckCapacity", question, starts_now).await;
    let gpus = person
        .until("ListGpus", json!({ "namespace": NAMESPACE }), |gpus| gpus["unknown"] == json!([]))
        .await;
    assert!(gpus["cluster"]["sums"].is_array() && gpus["queues"]["queues"] == json!([]), "{gpus}");
    let choices = person
        .until("ListChoices", json!({ "namespace": NAMESPACE }), |choices| choices["unknown"] == json!([]))
        .await;
    assert!(field(&choices["claims"]["claims"], "name").contains(&"results"), "{choices}");
    let images = choices["images"]["images"].as_array().unwrap();
    assert!(images.contains(&json!(EXAMPLES_IMAGE)), "{choices}");
    assert!(person.ask("CreateSignIn", json!({ "next": "/" })).await["path"].as_str().unwrap().len() > 20);
}

async fn reads_files(person: &mut Person, prefix: &str) {
    let name = format!("{prefix}-files");
    let claim = json!({ "name": "results", "persistentVolumeClaim": { "claimName": "results" } });
    let launcher = json!({ "template": { "spec": {
        "containers": [{ "name": "main", "image": EXAMPLES_IMAGE, "command": ["sh", "-c", "echo 42 > /results/answer"],
            "volumeMounts": [{ "name": "results", "mountPath": "/results" }] }],
        "volumes": [claim] } } });
    let manifest = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": name },
        "spec": { "mpiReplicaSpecs": { "Launcher": launcher } } });
    person.ask("CreateJob", json!({ "namespace": NAMESPACE, "manifest": manifest.to_string() })).await;
    person.wait(&name, "Succeeded").await;
    person.until("StartReader", of(&name), |reader| reader["ready"] == true).await;
    let mut folder = of(&name);
    folder["path"] = json!("/results");
    person
        .until("ListArtifacts", folder.clone(), |listed| {
            field(&listed["artifacts"], "name").contains(&"answer")
        })
        .await;
    folder["path"] = json!("/results/answer");
    let read = person.ask_until("ReadArtifact", folder, |_| false).await;
    // Over REST, the response is the file.
    match person.protocol {
        Protocol::Rest => assert_eq!(read, [json!(42)]),
        Protocol::Grpc => assert_eq!(read[0]["size"], "3"),
    }
    person.ask("DeleteJob", of(&name)).await;
}

async fn runs_a_job(person: &mut Person, prefix: &str) {
    let (name, copy) = (format!("{prefix}-hello"), format!("{prefix}-copy"));
    let hello = spec(&name, 2, "echo hello from rank $OMPI_COMM_WORLD_RANK; echo loss=0.5");
    let made = person.ask("CreateJob", json!({ "namespace": NAMESPACE, "spec": hello })).await;
    assert_eq!(made["job"]["owner"], "kubernetes-admin");
    person.wait(&name, "Succeeded").await;
    let listed = person.ask("ListJobs", json!({ "namespace": NAMESPACE, "names": [name] })).await;
    assert_eq!(
        (&listed["jobs"][0]["phase"], &listed["jobs"][0]["workers"]["of"]),
        (&json!("Succeeded"), &json!(2))
    );
    let shown = person.ask("GetJob", of(&name)).await;
    assert_eq!(shown["row"]["uid"], made["job"]["uid"]);
    let hello = person.lines(&name, json!({ "grep": "^hello" })).await;
    assert_eq!(hello, ["hello from rank 0", "hello from rank 1"]);
    let events = person.ask("ListEvents", of(&name)).await;
    assert!(!events["events"].as_array().unwrap().is_empty());
    let ended = |history: &Value| history["phase"] == "Succeeded";
    let history = person.until("GetHistory", of(&name), ended).await;
    assert!(history["states"].as_array().unwrap().len() > 1, "{history}");
    let mut metrics = of(&name);
    metrics["pattern"] = json!(["loss=(?<loss>[0-9.]+)"]);
    let metrics = person.ask("GetMetrics", metrics).await;
    assert_eq!(metrics["training"][0]["name"], "loss", "{metrics}");
    let mut export = of(&name);
    export["format"] = json!("cli");
    let export = person.ask("ExportJob", export).await;
    assert!(export["text"].as_str().unwrap().contains("odh training create"), "{export}");
    let mut clone = of(&name);
    clone["newName"] = json!(copy);
    clone["set"] = json!(["workers=1"]);
    assert_eq!(person.ask("CloneJob", clone).await["job"]["workers"]["of"], 1);
    person.wait(&copy, "Succeeded").await;
    let mut retry = of(&copy);
    retry["newName"] = json!(format!("{prefix}-again"));
    assert_eq!(person.ask("RetryJob", retry).await["job"]["name"], format!("{prefix}-again"));
    let names = json!({ "namespace": NAMESPACE, "names": [name, copy] });
    let compared = person.ask("CompareJobs", names).await;
    assert!(!compared["differences"].as_array().unwrap().is_empty(), "{compared}");
    let related = person.ask("ListRelatedJobs", of(&name)).await;
    assert_eq!(related["jobs"].as_array().unwrap().len(), 3, "{related}");
}

async fn stops_jobs(person: &mut Person, prefix: &str) {
    let name = format!("{prefix}-long");
    let long = spec(&name, 1, "sleep infinity");
    person.ask("CreateJob", json!({ "namespace": NAMESPACE, "spec": long })).await;
    person.wait(&name, "Running").await;
    assert_eq!(person.ask("SuspendJob", of(&name)).await["changed"], true);
    person.until("GetJob", of(&name), |job| job["pods"] == json!([])).await;
    assert_eq!(person.ask("ResumeJob", of(&name)).await["changed"], true);
    person.wait(&name, "Running").await;
    person.ask("CancelJob", of(&name)).await;
    person.wait(&name, "Failed").await;
    let both =
        json!({ "namespace": NAMESPACE, "action": "delete", "names": [format!("{prefix}-again"), name] });
    let deleted = person.ask("BatchJobs", both).await;
    assert_eq!((deleted["results"].as_array().unwrap().len(), &deleted["failed"]), (2, &json!(0)));
    let copy = format!("{prefix}-copy");
    assert_eq!(person.ask("DeleteJob", of(&copy)).await["job"]["name"], copy);
}

async fn keeps_templates_and_rules(person: &mut Person, prefix: &str) {
    let named = |name: &str| json!({ "namespace": NAMESPACE, "name": format!("{prefix}-{name}") });
    let here = json!({ "namespace": NAMESPACE });
    let exported = person.ask("ExportJob", of(&format!("{prefix}-hello"))).await;
    let mut template = named("base");
    template["manifest"] = exported["text"].clone();
    assert_eq!(person.ask("SaveTemplate", template).await["version"], 1);
    assert_eq!(person.ask("GetTemplate", named("base")).await["version"], 1);
    let templates = person.ask("ListTemplates", here.clone()).await;
    assert_eq!(field(&templates["templates"], "name"), [format!("{prefix}-base")]);
    person.ask("DeleteTemplate", named("base")).await;

    let mut rule = named("rule");
    // A name that nobody can have.
    rule["url"] = json!("https://hook.invalid/");
    rule["phases"] = json!(["Failed"]);
    assert_eq!(person.ask("PutNotificationRule", rule).await["owner"], "kubernetes-admin");
    assert_eq!(person.ask("GetNotificationRule", named("rule")).await["phases"], json!(["Failed"]));
    let rules = person.ask("ListNotificationRules", here.clone()).await;
    assert_eq!(field(&rules["rules"], "name"), [format!("{prefix}-rule")]);
    let sent = person.ask("TestNotificationRule", named("rule")).await;
    let deliveries = person.ask("ListDeliveries", here).await;
    assert!(field(&deliveries["deliveries"], "id").contains(&sent["id"].as_str().unwrap()), "{deliveries}");
    assert_eq!(person.ask("DeleteNotificationRule", named("rule")).await["deleted"], true);
    let mut long = named("long");
    long["url"] = json!("https://hook.invalid/");
    long["runsLongerThan"] = json!("10s");
    assert_eq!(person.ask("PutNotificationRule", long).await["runsLongerThan"], "10s");
    let is_known = |alerts: &Value| alerts["unknown"] == json!([]) && alerts["alerts"].is_array();
    person.until("ListAlerts", json!({ "namespace": NAMESPACE }), is_known).await;
    person.ask("DeleteNotificationRule", named("long")).await;
}

async fn reads_what_was_done(person: &mut Person, prefix: &str) {
    let name = format!("{prefix}-hello");
    let used = |usage: &Value| usage["usage"].as_array().is_some_and(|usage| !usage.is_empty());
    person.until("ListUsage", json!({ "namespace": NAMESPACE, "since": "1d", "by": ["job"] }), used).await;
    let advice = person.ask("ListAdvice", json!({ "namespace": NAMESPACE })).await;
    assert!(advice["programs"].is_array() && advice["basis"].is_string(), "{advice}");
    let of_both = |log: &Value| {
        let lines = log["operations"][0]["lines"].as_array().cloned().unwrap_or_default();
        let of_service = |line: &Value| line["verb"] == "CreateJob" && line["status"] == 200;
        lines.iter().any(of_service) && lines.iter().any(|line| line["channel"] == "webhook")
    };
    person.until("ListAudit", json!({ "namespace": NAMESPACE, "object": name }), of_both).await;
    let records = person.ask_until("ExportAudit", json!({ "after": "0" }), |_| false).await;
    assert!(records.len() > 2, "{records:?}");
    let none = person.ask("RecordAdmissions", json!({ "admissions": [] })).await;
    assert_eq!(none, json!({ "pending": [] }));
}

async fn reads_the_output_of_many_workers(person: &mut Person) {
    let mut expected: Vec<String> = (0..WORKERS).map(|rank| format!("rank {rank} of {WORKERS}")).collect();
    expected.sort();
    let ranks = json!({ "grep": "^rank [0-9]+ of" });
    assert_eq!(person.lines(LARGE, ranks).await, expected);
    let all = person.lines(LARGE, json!({ "all": true })).await;
    assert!(expected.iter().all(|line| all.contains(line)), "all pods: {all:?}");
}
