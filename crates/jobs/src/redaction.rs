//! Removes possible secrets from objects and texts, so that they can be shared. Pure.
//!
//! - Only environment variables with a [`HARMLESS`] name keep their value; of code that was shipped, size and digest stay.
//! - Only annotations of Kubernetes, Kubeflow and this project keep their value.
//! - In any text, the value after a keyword is replaced, whether it follows `=`, `:`, `?`, `&`, a blank or a quote.
//!   This covers assignments, arguments, URLs and JSON. Credentials in a URL or an `Authorization` header and private
//!   keys are replaced, too.
//!
//! A secret that nothing marks as one, such as a bare word in a log, stays.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";

/// Variables whose values configure a program and are not secret: a name, or a prefix before `*`.
const HARMLESS: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "HOME",
    "HOSTNAME",
    "HYDRA_*",
    "I_MPI_*",
    "K_MPI_JOB_ROLE",
    "LANG",
    "LC_*",
    "LD_LIBRARY_PATH",
    "MPICH_*",
    "MPIR_*",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MKL_NUM_THREADS",
    "NCCL_*",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
    "ODH_LAUNCH_*",
    "ODH_POD_NAME",
    "OMP_*",
    "OMPI_MCA_*",
    "PATH",
    "PMI_*",
    "PRTE_MCA_*",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "RANK",
    "SHELL",
    "TMPDIR",
    "TZ",
    "UCX_*",
    "USER",
    "WORLD_SIZE",
];

/// The variables that hold code which was shipped with a job, `ODH_CODE_0` and on: any file of a folder may be among it.
pub(crate) const SHIPPED: &str = "ODH_CODE_";

/// Annotations that configure a job, by the suffix of the domain before the slash.
const HARMLESS_DOMAINS: [&str; 5] =
    ["kubernetes.io", "k8s.io", "kubeflow.org", "opendatahub.io", "volcano.sh"];

/// A keyword, or the end of one, that is followed by a secret.
const TELLING: &str = r"pass(?:word|wd|phrase|code)?|pwd|secret|token|api_?key|(?:access|private|secret|signing)key|\w+[_-]key|credentials?|auth|authorization|cookie|session_?id|signature|sig|dsn|connection_?string|pgpass|jwt|bearer";

/// Removes secrets from an object: values of variables and annotations, managed fields, and secrets within texts.
pub fn clean(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            if let Some(Value::Object(annotations)) = fields.get_mut("annotations") {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
                for (_, value) in annotations.iter_mut().filter(|(name, _)| !is_harmless_annotation(name)) {
                    *value = REDACTED.into();
                }
            }
            let hides_value =
                fields.get("name").and_then(Value::as_str).is_some_and(|name| !is_harmless(name));
            let is_shipped =
                fields.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with(SHIPPED));
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::String(text) if is_shipped && name == "value" => *text = digest(text),
                    Value::String(text) if (hides_value && name == "value") || is_telling(name) => {
                        *text = REDACTED.to_owned();
                    }
                    other => clean(other),
                }
            }
        }
        Value::Array(items) => clean_list(items),
        Value::String(text) => *text = redact(text),
        _ => {}
    }
}

/// The size and the digest of code, by which two jobs with the same code are known.
fn digest(text: &str) -> String {
    let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[{} bytes, sha256:{digest}]", text.len())
}

/// Cleans a list. It may hold a command's arguments, in which the value of an option is a separate item.
fn clean_list(items: &mut [Value]) {
    let mut hides = false;
    for item in items {
        let is_value = hides && item.as_str().is_some_and(|text| !text.starts_with('-'));
        hides = item.as_str().is_some_and(|text| text.starts_with('-') && is_telling(text));
        if is_value {
            *item = REDACTED.into();
        } else {
            clean(item);
        }
    }
}

fn is_harmless(variable: &str) -> bool {
    !is_telling(variable)
        && HARMLESS.iter().any(|harmless| match harmless.strip_suffix('*') {
            Some(beginning) => variable.starts_with(beginning),
            None => variable == *harmless,
        })
}

fn is_harmless_annotation(name: &str) -> bool {
    let domain = name.split_once('/').map_or("", |(domain, _)| domain);
    let below = |harmless: &&str| {
        domain.strip_suffix(*harmless).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    HARMLESS_DOMAINS.iter().any(below)
}

/// Whether a name denotes a secret, rather than a reference to one (`secretName`).
fn is_telling(name: &str) -> bool {
    static NAME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(&format!(r"(?i)(?:{TELLING})(?:s|_?(?:file|value|data))?$")).ok());
    let name = name.replace('-', "_");
    NAME.as_ref().is_none_or(|telling| telling.is_match(&name))
}

/// The forms of a secret in a text, each with the text to keep before it (`keep`) and after it (`after`).
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let forms = [
        // A private key, possibly cut off
        r"(?s)(?P<keep>-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----).*?(?P<after>-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)".to_owned(),
        // https://user:password@host, https://token@host
        r"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/@'\x22]+(?P<after>@)".to_owned(),
        // Authorization: Basic abc, Bearer abc
        r"(?i)(?P<keep>\b(?:bearer|basic|digest|negotiate)[ \t]+)[A-Za-z0-9+/=._~-]{8,}(?P<after>)".to_owned(),
        // NAME=value, name: value, "name":"value", ?name=value, --name value, --name=value
        format!(
            r#"(?i)(?P<keep>[\w.-]*(?:{})s?['\x22]?[ \t]*[=:][ \t]*)(?:'[^'\n]*'|\x22[^\x22\n]*\x22|[^\s&;,'\x22\}}\)\]]+)(?P<after>)"#,
            TELLING.replace("_?", "[_-]?")
        ),
        format!(
            r"(?i)(?P<keep>(?:^|\s)--?[\w.-]*(?:{})s?[ \t]+)[^\s-]\S*(?P<after>)",
            TELLING.replace("_?", "[_-]?")
        ),
    ];
    forms.iter().filter_map(|form| Regex::new(form).ok()).collect()
});

/// Replaces the secrets in a text.
pub fn redact(text: &str) -> String {
    FORMS.iter().fold(text.to_owned(), |text, form| {
        let replaced = |found: &Captures<'_>| format!("{}{REDACTED}{}", &found["keep"], &found["after"]);
        form.replace_all(&text, replaced).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_keep_only_values_known_to_be_harmless() {
        let mut value = json!({
            "metadata": {"managedFields": [1], "name": "pi", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "training.opendatahub.io/launch": "agent",
                "example.com/webhook": "hunter2",
                "notkubernetes.io/x": "hunter2",
            }},
            "env": [
                {"name": "WANDB_API_KEY", "value": "abc"}, {"name": "LR", "value": "0.1"},
                {"name": "OMPI_MCA_btl", "value": "tcp,self"}, {"name": "ODH_TOKEN", "value": "abc"},
                {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "secretName": "pi-ssh",
            "command": ["train", "--token=abc", "--lr=0.1", "--api-key", "abc", "--verbose"],
            "args": ["-c", "export PASSPHRASE=abc; run --token abc --epochs 3"],
        });
        clean(&mut value);
        assert_eq!(
            value,
            json!({
                "metadata": {"name": "pi", "annotations": {
                    "training.opendatahub.io/launch": "agent",
                    "example.com/webhook": REDACTED,
                    "notkubernetes.io/x": REDACTED,
                }},
                "env": [
                    {"name": "WANDB_API_KEY", "value": REDACTED}, {"name": "LR", "value": REDACTED},
                    {"name": "OMPI_MCA_btl", "value": "tcp,self"}, {"name": "ODH_TOKEN", "value": REDACTED},
                    {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ],
                "secretName": "pi-ssh",
                "command": ["train", "--token=[redacted]", "--lr=0.1", "--api-key", REDACTED, "--verbose"],
                "args": ["-c", "export PASSPHRASE=[redacted]; run --token [redacted] --epochs 3"],
            })
        );
    }

    #[test]
    fn code_that_was_shipped_is_its_size_and_digest() {
        let mut value = json!([{ "name": "ODH_CODE_0", "value": "H4sIAAAA" }, { "name": "ODH_LAUNCH_GRACE", "value": "3" },
            { "name": "ODH_ANYTHING", "value": "x" }]);
        clean(&mut value);
        let code = value[0]["value"].as_str().unwrap();
        assert!(code.starts_with("[8 bytes, sha256:") && !code.contains("H4sI"), "{code}");
        assert_eq!((&value[1]["value"], &value[2]["value"]), (&json!("3"), &json!(REDACTED)));
    }

    #[test]
    fn secrets_are_removed_from_texts_and_the_rest_is_kept() {
        for (text, clean) in [
            ("loss: 0.3 at step 4\n", "loss: 0.3 at step 4\n"),
            ("tokens per second: 400, passed 3 tests\n", "tokens per second: 400, passed 3 tests\n"),
            ("Authorization: Bearer eyJhbGciOi rest\n", "Authorization: [redacted] [redacted] rest\n"),
            ("curl -H 'X: Bearer eyJhbGciOi'\n", "curl -H 'X: Bearer [redacted]'\n"),
            ("DB_PASSWORD=x y\n", "DB_PASSWORD=[redacted] y\n"),
            ("A=1;DB_PASSWORD=SECRET;B=2", "A=1;DB_PASSWORD=[redacted];B=2"),
            (
                "DB_PWD=x OPENAI_KEY=x PGPASS=x MYSQL_DSN=x",
                "DB_PWD=[redacted] OPENAI_KEY=[redacted] PGPASS=[redacted] MYSQL_DSN=[redacted]",
            ),
            ("password: hunter2\n", "password: [redacted]\n"),
            ("password = \"two words\" x\n", "password = [redacted] x\n"),
            (r#"{"user":"b","password":"SECRET","n":1}"#, r#"{"user":"b","password":[redacted],"n":1}"#),
            ("git clone https://me:pw@host/x\n", "git clone https://[redacted]@host/x\n"),
            ("https://ghp_SECRET@github.com/a", "https://[redacted]@github.com/a"),
            ("https://h/x?access_token=SECRET&page=2", "https://h/x?access_token=[redacted]&page=2"),
            ("train --token SECRET --epochs 3", "train --token [redacted] --epochs 3"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nb",
                "a\n-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nb",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----[redacted]"),
        ] {
            assert_eq!(redact(text), clean);
        }
    }

    #[test]
    fn all_forms_are_known() {
        assert_eq!(FORMS.len(), 5);
        assert!(is_telling("x-api-key") && !is_telling("secretName") && !is_telling("name"));
    }
}
