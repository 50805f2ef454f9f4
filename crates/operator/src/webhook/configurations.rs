//! The configurations by which the API server calls the webhook.
//!
//! If nobody answers, a creation is refused, because nothing else enforces the quota; a change or a deletion
//! passes, because finalizers must be removable, namespaces must terminate, and queues must be able to resume what
//! they admitted. Namespaces that the operator needs to come back are excluded altogether.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};

/// The name of both configurations.
pub const WEBHOOK_NAME: &str = "mpi-operator";
/// The name of both configurations for TrainJobs.
pub const TRAINJOB_WEBHOOK_NAME: &str = "mpi-operator-trainjobs";
/// The path that stamps a TrainJob's patches.
pub(super) const DEFAULT_TRAINJOB: &str = "/default-trainjob";
/// The path that checks a TrainJob.
pub(super) const VALIDATE_TRAINJOB: &str = "/validate-trainjob";
/// The path that checks a runtime.
pub(super) const VALIDATE_RUNTIME: &str = "/validate-runtime";
/// How long the API server waits for an answer, in seconds.
const TIMEOUT_SECONDS: i32 = 5;
/// How often another operator may change a configuration between our read and our write.
const TRIES: usize = 5;

/// Where the webhook listens.
#[derive(Clone, Debug)]
pub enum WebhookAddress {
    /// At an address, such as `https://127.0.0.1:4433`.
    Url(String),
    /// Behind a Service's port 443.
    Service {
        /// Its namespace, which the webhook excludes.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Returns both configurations. `authority` is the PEM that the API server trusts; empty if it is filled in later.
#[must_use]
pub fn configurations(
    address: &WebhookAddress,
    authority: &str,
) -> (MutatingWebhookConfiguration, ValidatingWebhookConfiguration) {
    let metadata = || ObjectMeta { name: Some(WEBHOOK_NAME.to_owned()), ..ObjectMeta::default() };
    let mutating = MutatingWebhookConfiguration {
        metadata: metadata(),
        webhooks: Some(vec![MutatingWebhook {
            name: "default.mpijobs.training.opendatahub.io".to_owned(),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: client_config(address, "/default", authority),
            failure_policy: Some("Ignore".to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(everywhere_but(address)),
            reinvocation_policy: Some("Never".to_owned()),
            rules: rules(&["CREATE"]),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            ..MutatingWebhook::default()
        }]),
    };
    let validating = |name: &str, operations: &[&str], failure_policy: &str| ValidatingWebhook {
        name: format!("{name}.mpijobs.training.opendatahub.io"),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(address, "/validate", authority),
        failure_policy: Some(failure_policy.to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(everywhere_but(address)),
        rules: rules(operations),
        side_effects: "NoneOnDryRun".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    };
    let validating = ValidatingWebhookConfiguration {
        metadata: metadata(),
        webhooks: Some(vec![
            validating("create", &["CREATE"], "Fail"),
            validating("change", &["UPDATE", "DELETE"], "Ignore"),
        ]),
    };
    (mutating, validating)
}

/// Returns both configurations for TrainJobs and their runtimes, which are installed with them.
#[must_use]
pub fn trainjob_configurations(
    address: &WebhookAddress,
    authority: &str,
) -> (MutatingWebhookConfiguration, ValidatingWebhookConfiguration) {
    let metadata = || ObjectMeta { name: Some(TRAINJOB_WEBHOOK_NAME.to_owned()), ..ObjectMeta::default() };
    let mutating = MutatingWebhook {
        name: "default.trainjobs.training.opendatahub.io".to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(address, DEFAULT_TRAINJOB, authority),
        failure_policy: Some("Ignore".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        namespace_selector: Some(everywhere_but(address)),
        reinvocation_policy: Some("Never".to_owned()),
        rules: trainer_rules(&["CREATE", "UPDATE"], &["trainjobs"]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..MutatingWebhook::default()
    };
    let validating =
        |name: &str, path: &str, resources: &[&str], operations: &[&str], policy: &str| ValidatingWebhook {
            name: format!("{name}.training.opendatahub.io"),
            admission_review_versions: vec!["v1".to_owned()],
            client_config: client_config(address, path, authority),
            failure_policy: Some(policy.to_owned()),
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(everywhere_but(address)),
            rules: trainer_rules(operations, resources),
            side_effects: "None".to_owned(),
            timeout_seconds: Some(TIMEOUT_SECONDS),
            ..ValidatingWebhook::default()
        };
    let runtimes = ["trainingruntimes", "clustertrainingruntimes"];
    // A queue must be able to resume what it admitted even if nobody answers; the rules of the definition still hold.
    let validating = [
        validating("create.trainjobs", VALIDATE_TRAINJOB, &["trainjobs"], &["CREATE"], "Fail"),
        validating("change.trainjobs", VALIDATE_TRAINJOB, &["trainjobs"], &["UPDATE", "DELETE"], "Ignore"),
        validating("runtimes.trainjobs", VALIDATE_RUNTIME, &runtimes, &["CREATE", "UPDATE"], "Ignore"),
    ];
    (
        MutatingWebhookConfiguration { metadata: metadata(), webhooks: Some(vec![mutating]) },
        ValidatingWebhookConfiguration { metadata: metadata(), webhooks: Some(validating.into()) },
    )
}

fn trainer_rules(operations: &[&str], resources: &[&str]) -> Option<Vec<RuleWithOperations>> {
    let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    Some(vec![RuleWithOperations {
        api_groups: list(&["trainer.kubeflow.org"]),
        api_versions: list(&["v1alpha1"]),
        operations: list(operations),
        resources: list(resources),
        scope: Some("*".to_owned()),
    }])
}

fn client_config(address: &WebhookAddress, path: &str, authority: &str) -> WebhookClientConfig {
    let ca_bundle = (!authority.is_empty()).then(|| ByteString(authority.as_bytes().to_vec()));
    match address {
        WebhookAddress::Url(url) => WebhookClientConfig {
            url: Some(format!("{url}{path}")),
            ca_bundle,
            ..WebhookClientConfig::default()
        },
        WebhookAddress::Service { namespace, name } => {
            let (namespace, name, path) = (namespace.clone(), name.clone(), Some(path.to_owned()));
            let service = Some(ServiceReference { namespace, name, path, port: Some(443) });
            WebhookClientConfig { service, ca_bundle, ..WebhookClientConfig::default() }
        }
    }
}

fn everywhere_but(address: &WebhookAddress) -> LabelSelector {
    let mut left_out = vec!["kube-system".to_owned()];
    if let WebhookAddress::Service { namespace, .. } = address {
        left_out.push(namespace.clone());
    }
    let names = LabelSelectorRequirement {
        key: "kubernetes.io/metadata.name".to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(left_out),
    };
    LabelSelector { match_expressions: Some(vec![names]), ..LabelSelector::default() }
}

fn rules(operations: &[&str]) -> Option<Vec<RuleWithOperations>> {
    let list = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    Some(vec![RuleWithOperations {
        api_groups: list(&["kubeflow.org"]),
        api_versions: list(&["v2beta1"]),
        operations: list(operations),
        resources: list(&["mpijobs"]),
        scope: Some("Namespaced".to_owned()),
    }])
}

/// Writes the configurations, over existing ones; those for TrainJobs if `trainjobs`. For the embedded cluster; in a real
/// one an administrator does this, and the operator may only fill in the trusted authority.
///
/// # Errors
/// If the API server refuses it or cannot be reached.
pub async fn put_in_place(
    client: &Client,
    address: &WebhookAddress,
    authority: &str,
    trainjobs: bool,
) -> Result<(), kube::Error> {
    let (mutatings, validatings) = (Api::all(client.clone()), Api::all(client.clone()));
    let of_trainjobs = trainjobs.then(|| trainjob_configurations(address, authority));
    for (mutating, validating) in [configurations(address, authority)].into_iter().chain(of_trainjobs) {
        tokio::try_join!(put(&mutatings, mutating), put(&validatings, validating))?;
    }
    Ok(())
}

async fn put<K>(objects: &Api<K>, mut object: K) -> Result<(), kube::Error>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match objects.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let name = object.name_any();
            object.meta_mut().resource_version = objects.get(&name).await?.resource_version();
            objects.replace(&name, &PostParams::default(), &object).await.map(|_| ())
        }
        outcome => outcome.map(|_| ()),
    }
}

/// Fills in the trusted authority in the existing configurations; in those for TrainJobs if `trainjobs`. Writes nothing if
/// it is already there.
///
/// # Errors
/// If a configuration is missing, or may not be read or written.
pub async fn trust(client: &Client, authority: &str, trainjobs: bool) -> Result<(), kube::Error> {
    let bundle = ByteString(authority.as_bytes().to_vec());
    for name in [Some(WEBHOOK_NAME), trainjobs.then_some(TRAINJOB_WEBHOOK_NAME)].into_iter().flatten() {
        let mutatings: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        change(&mutatings, name, |found| {
            let hooks = found.webhooks.iter_mut().flatten().map(|hook| &mut hook.client_config);
            fill(hooks, &bundle)
        })
        .await?;
        let validatings: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        change(&validatings, name, |found| {
            let hooks = found.webhooks.iter_mut().flatten().map(|hook| &mut hook.client_config);
            fill(hooks, &bundle)
        })
        .await?;
    }
    Ok(())
}

fn fill<'a>(configs: impl Iterator<Item = &'a mut WebhookClientConfig>, bundle: &ByteString) -> bool {
    let mut changed = false;
    for config in configs {
        changed |= config.ca_bundle.as_ref() != Some(bundle);
        config.ca_bundle = Some(bundle.clone());
    }
    changed
}

async fn change<K>(objects: &Api<K>, name: &str, act: impl Fn(&mut K) -> bool) -> Result<(), kube::Error>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    for _ in 0..TRIES {
        let mut object = objects.get(name).await?;
        if !act(&mut object) {
            return Ok(());
        }
        match objects.replace(name, &PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            outcome => return outcome.map(|_| ()),
        }
    }
    Err(kube::Error::Service("too many conflicting changes of the webhook's configuration".into()))
}
