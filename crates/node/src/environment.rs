//! A container's environment, command and arguments, as kubelet computes them.
//!
//! [`expand`] and the field lookups are pure; [`resolve`] reads the referenced ConfigMaps and Secrets. Anything missing
//! is an error in kubelet's words, and the container waits in `CreateContainerConfigError`.

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVarSource, Pod, ResourceFieldSelector, Secret};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use kube::api::Api;

use semantics::Quantity;

/// Variables in order. Setting a name again replaces its value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(pub Vec<(String, String)>);

impl Variables {
    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Returns a variable's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the variables that a local environment sets, as an image's `ENV` would: the `NAME=value` lines of its file
/// `etc/environment` (as in environment(5)), with `${DIR}` replaced by the environment's own folder. Other lines are
/// ignored.
pub fn of_local_environment(text: &str, directory: &str) -> Vec<(String, String)> {
    let assignments = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    assignments
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| !name.is_empty() && !name.contains(char::is_whitespace))
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').replace("${DIR}", directory)))
        .collect()
}

/// Why a container's environment cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// An object or key is missing, or the field is not supported.
    #[error("{0}")]
    Missing(String),
    /// The API did not answer.
    #[error("{0}")]
    Api(#[from] kube::Error),
}

fn missing<T>(message: String) -> Result<T, EnvironmentError> {
    Err(EnvironmentError::Missing(message))
}

/// What the downward API needs besides the pod.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The pod's address.
    pub pod_ip: String,
    /// The node's address.
    pub host_ip: String,
    /// The node's processors, in thousandths.
    pub cpu_millis: u64,
    /// The node's memory in bytes.
    pub memory_bytes: u64,
}

/// Replaces `$(NAME)` by its value. `$$(NAME)` becomes `$(NAME)`, and a reference to an unknown name is left as it is
/// (`k8s.io/kubernetes/third_party/forked/golang/expansion`).
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find('$') {
        result.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match lookup(name) {
                Some(value) => result.push_str(&value),
                None => result.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            result.push('$');
        }
    }
    result + rest
}

/// Computes a container's variables on top of `base` (the variables of its image).
///
/// # Errors
/// When a referenced object, key or field is missing, or the API does not answer.
pub async fn resolve(
    client: &kube::Client,
    pod: &Pod,
    container: &Container,
    facts: &Facts,
    base: Variables,
) -> Result<Variables, EnvironmentError> {
    let mut variables = base;
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.clone().unwrap_or_default();
        let mut values: Vec<(String, String)> = Vec::new();
        if let Some(reference) = &source.config_map_ref
            && let Some(map) = config_map(client, pod, &reference.name, reference.optional).await?
        {
            values.extend(map.data.unwrap_or_default());
        }
        if let Some(reference) = &source.secret_ref
            && let Some(secret) = secret(client, pod, &reference.name, reference.optional).await?
        {
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            values
                .extend(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, text(value.0))));
        }
        for (key, value) in values {
            variables.set(&format!("{prefix}{key}"), value);
        }
    }
    for entry in container.env.iter().flatten() {
        let value = match (&entry.value, &entry.value_from) {
            (_, Some(source)) => from_source(client, pod, container, facts, source).await?,
            (value, None) => {
                let text = value.as_deref().unwrap_or_default();
                Some(expand(text, |name| variables.get(name).map(str::to_owned)))
            }
        };
        if let Some(value) = value {
            variables.set(&entry.name, value);
        }
    }
    Ok(variables)
}

async fn from_source(
    client: &kube::Client,
    pod: &Pod,
    container: &Container,
    facts: &Facts,
    source: &EnvVarSource,
) -> Result<Option<String>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(reference) = &source.config_map_key_ref {
        let map = config_map(client, pod, &reference.name, reference.optional).await?;
        let value = map.as_ref().and_then(|map| map.data.as_ref()?.get(&reference.key).cloned());
        if value.is_none() && reference.optional != Some(true) {
            return missing(format!(
                "couldn't find key {} in ConfigMap {namespace}/{}",
                reference.key, reference.name
            ));
        }
        return Ok(value);
    }
    if let Some(reference) = &source.secret_key_ref {
        let secret = secret(client, pod, &reference.name, reference.optional).await?;
        let value = secret.as_ref().and_then(|secret| secret.data.as_ref()?.get(&reference.key).cloned());
        if value.is_none() && reference.optional != Some(true) {
            return missing(format!(
                "couldn't find key {} in Secret {namespace}/{}",
                reference.key, reference.name
            ));
        }
        return Ok(value.map(|value| String::from_utf8_lossy(&value.0).into_owned()));
    }
    if let Some(reference) = &source.field_ref {
        return field(pod, facts, &reference.field_path).map(Some);
    }
    if let Some(reference) = &source.resource_field_ref {
        return resource(pod, container, facts, reference).map(Some);
    }
    missing("this node does not support this kind of valueFrom".to_owned())
}

/// Reads a ConfigMap. Returns `None` if it is absent and optional.
///
/// # Errors
/// When it is absent and not optional.
pub async fn config_map(
    client: &kube::Client,
    pod: &Pod,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<ConfigMap>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let found = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?;
    match (found, optional) {
        (None, None | Some(false)) => missing(format!("configmap {name:?} not found")),
        (found, _) => Ok(found),
    }
}

/// Reads a Secret. Returns `None` if it is absent and optional.
///
/// # Errors
/// When it is absent and not optional.
pub async fn secret(
    client: &kube::Client,
    pod: &Pod,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<Secret>, EnvironmentError> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let found = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?;
    match (found, optional) {
        (None, None | Some(false)) => missing(format!("secret {name:?} not found")),
        (found, _) => Ok(found),
    }
}

/// Returns a field of the pod, as the downward API offers it.
///
/// # Errors
/// When the downward API does not offer that field.
pub fn field(pod: &Pod, facts: &Facts, path: &str) -> Result<String, EnvironmentError> {
    let meta = &pod.metadata;
    let subscript = |prefix: &str| path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = subscript("metadata.labels") {
        return Ok(meta.labels.as_ref().and_then(|all| all.get(key).cloned()).unwrap_or_default());
    }
    if let Some(key) = subscript("metadata.annotations") {
        return Ok(meta.annotations.as_ref().and_then(|all| all.get(key).cloned()).unwrap_or_default());
    }
    let lines = |all: &Option<std::collections::BTreeMap<String, String>>| {
        let lines: Vec<_> = all.iter().flatten().map(|(key, value)| format!("{key}={value:?}")).collect();
        lines.join("\n")
    };
    let spec = pod.spec.as_ref();
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(&meta.labels),
        "metadata.annotations" => lines(&meta.annotations),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default()
        }
        "status.podIP" | "status.podIPs" => facts.pod_ip.clone(),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.clone(),
        _ => return missing(format!("unsupported fieldPath: {path}")),
    })
}

/// Returns a resource of a container, divided and rounded up. Without a limit it is the node's own amount.
///
/// # Errors
/// When the container or the resource is unknown.
pub fn resource(
    pod: &Pod,
    container: &Container,
    facts: &Facts,
    reference: &ResourceFieldSelector,
) -> Result<String, EnvironmentError> {
    let spec = pod.spec.as_ref();
    let named = reference.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match named {
        None => container,
        Some(name) => spec
            .and_then(|spec| {
                spec.containers.iter().chain(spec.init_containers.iter().flatten()).find(|c| c.name == name)
            })
            .map_or_else(|| missing(format!("container {name:?} not found")), Ok)?,
    };
    let (table, name) = reference
        .resource
        .split_once('.')
        .map_or_else(|| missing(format!("unsupported resource: {}", reference.resource)), Ok)?;
    let resources = container.resources.as_ref();
    let table = match table {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return missing(format!("unsupported resource: {}", reference.resource)),
    };
    let amount = table.and_then(|table| table.get(name)).map(nanos).unwrap_or(match name {
        "cpu" => i128::from(facts.cpu_millis) * 1_000_000,
        "memory" => i128::from(facts.memory_bytes) * 1_000_000_000,
        _ => 0,
    });
    let divisor =
        reference.divisor.as_ref().map(nanos).filter(|divisor| *divisor > 0).unwrap_or(1_000_000_000);
    Ok(((amount + divisor - 1) / divisor).to_string())
}

/// Returns an amount in billionths. Returns zero for an invalid quantity, which API validation has already rejected.
pub fn nanos(amount: &Amount) -> i128 {
    Quantity::read(&amount.0).map_or(0, |quantity| quantity.nanos())
}

/// Plain mode: replaces mount paths of volumes by the real paths of the volumes.
///
/// `paths` holds (mount path, real path), longest first. Only whole path components are replaced.
pub fn relocate(text: &str, paths: &[(String, String)]) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut result = String::with_capacity(text.len());
    let mut position = 0;
    while let Some(character) = text[position..].chars().next() {
        let rest = &text[position..];
        let begins = !result.chars().next_back().is_some_and(|c| is_name(c) || c == '/');
        let hit = paths.iter().find(|(from, _)| {
            begins
                && rest
                    .strip_prefix(from.as_str())
                    .is_some_and(|after| !after.chars().next().is_some_and(is_name))
        });
        match hit {
            Some((from, to)) => {
                result.push_str(to);
                position += from.len();
            }
            None => {
                result.push(character);
                position += character.len_utf8();
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_local_environment_sets_variables_as_an_image_does() {
        let text =
            "# what the wheel needs\nOPAL_PREFIX=${DIR}\nGREETING=\"a = b\"\n\nno assignment\n=nothing\n";
        let expected = [("OPAL_PREFIX", "/srv/env"), ("GREETING", "a = b")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(of_local_environment(text, "/srv/env"), expected);
    }

    #[test]
    fn expansion_follows_upstream() {
        for (text, wanted) in [
            ("$(A)", "a"),
            ("x$(A)y$(B)", "xayb"),
            ("$(MISSING)", "$(MISSING)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$A $(", "$A $("),
            ("$(A", "$(A"),
            ("100$", "100$"),
            ("$()", "$()"),
        ] {
            let lookup = |name: &str| match name {
                "A" => Some("a".to_owned()),
                "B" => Some("b".to_owned()),
                _ => None,
            };
            assert_eq!(expand(text, lookup), wanted, "{text}");
        }
    }

    #[test]
    fn only_whole_path_components_are_relocated() {
        let paths =
            [("/etc/mpi".to_owned(), "/run/v/0".to_owned()), ("/data".to_owned(), "/run/v/1".to_owned())];
        for (text, wanted) in [
            ("/etc/mpi/hostfile", "/run/v/0/hostfile"),
            ("--hostfile=/etc/mpi/hostfile:/data", "--hostfile=/run/v/0/hostfile:/run/v/1"),
            ("/etc/mpirc", "/etc/mpirc"),
            ("/my/data", "/my/data"),
            ("cd /data && ls", "cd /run/v/1 && ls"),
        ] {
            assert_eq!(relocate(text, &paths), wanted, "{text}");
        }
    }

    #[test]
    fn the_downward_api_offers_what_upstream_offers() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"}},
            "spec": {"nodeName": "node-0", "containers": [{"name": "main", "image": "i",
                "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}]},
        }))
        .unwrap();
        let facts = Facts { pod_ip: "10.77.0.1".into(), cpu_millis: 2000, ..Facts::default() };
        for (path, wanted) in [
            ("metadata.name", "p"),
            ("metadata.labels['a/b']", "c"),
            ("metadata.labels", "a/b=\"c\""),
            ("spec.nodeName", "node-0"),
            ("status.podIP", "10.77.0.1"),
        ] {
            assert_eq!(field(&pod, &facts, path).unwrap(), wanted);
        }
        assert!(field(&pod, &facts, "spec.hostname").is_err());
        let container = &pod.spec.as_ref().unwrap().containers[0];
        for (resource_name, divisor, wanted) in [
            ("limits.cpu", None, "2"),
            ("limits.cpu", Some("1m"), "1500"),
            ("limits.memory", Some("1Mi"), "1024"),
        ] {
            let reference = ResourceFieldSelector {
                resource: resource_name.into(),
                divisor: divisor.map(|text: &str| Amount(text.into())),
                ..ResourceFieldSelector::default()
            };
            assert_eq!(resource(&pod, container, &facts, &reference).unwrap(), wanted);
        }
    }
}
