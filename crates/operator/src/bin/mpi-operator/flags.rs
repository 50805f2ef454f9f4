//! The flags: upstream's, parsed as Go's `flag` package does, and ours.
//!
//! Upstream's are those of `cmd/mpi-operator/app/options/options.go` and klog's. Flags whose bounds do not exist
//! here are accepted without effect; [`Flags::without_effect`] names them for the log.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::{Parser, ValueEnum};
use operator::Settings;
use operator::lease::LEASE_DURATION;
use operator::webhook::KUEUE_ACCOUNTS;

/// Runs MPIJobs (kubeflow.org/v2beta1).
#[derive(Clone, Debug, Parser)]
#[command(name = "mpi-operator", version, args_override_self = true)]
pub struct Flags {
    /// URL of the API server; overrides that of the kubeconfig.
    #[arg(long)]
    pub master: Option<http::Uri>,
    /// Kubeconfig file; the environment variable KUBECONFIG overrides it. Without either, the pod's service account is used.
    #[arg(long = "kubeConfig", alias = "kubeconfig", value_name = "FILE")]
    pub kubeconfig: Option<std::path::PathBuf>,
    /// Watch only this namespace.
    #[arg(long, env = "KUBEFLOW_NAMESPACE", default_value = "")]
    pub namespace: String,
    /// Namespace of the leader election lease.
    #[arg(long, default_value = "mpi-operator")]
    pub lock_namespace: String,
    /// Seconds after which another operator takes over a lease that is not renewed.
    #[arg(long, default_value_t = LEASE_DURATION.as_secs(), value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(5..=600))]
    pub lease_duration: u64,
    /// DNS domain of the cluster, appended to host names in hostfiles, e.g. cluster.local.
    #[arg(long, default_value = "")]
    pub cluster_domain: String,
    /// Transport of jobs that do not specify one.
    #[arg(long, value_enum, default_value = "ssh")]
    pub default_launch: Transport,
    /// Image of the launch agent.
    #[arg(long, default_value = api::LAUNCH_IMAGE)]
    pub launch_image: String,
    /// Gang scheduler: `volcano`, `kubernetes` (its own PodGroups, from 1.37 on), or the name of a scheduler with the
    /// coscheduling plug-in of scheduler-plugins.
    #[arg(long, default_value = "", value_name = "SCHEDULER")]
    pub gang_scheduling: String,
    /// Reconcile TrainJobs (trainer.kubeflow.org/v1alpha1) too, unless Kubeflow Trainer runs in the cluster.
    #[arg(long)]
    pub trainjobs: bool,
    /// Port on all addresses at which the programs of TrainJobs and MPIJobs report their progress; 0 disables it. It needs
    /// --webhook-port, whose Service and certificate it shares.
    #[arg(long, default_value_t = 0, value_name = "PORT", requires = "webhook_port")]
    pub progress_port: u16,
    /// Maximum number of concurrent writes to the API server.
    #[arg(long, default_value_t = Settings::default().writes)]
    pub writes: usize,
    /// Port for metrics on all addresses, over TLS, for clients whose token may `get` /metrics; 0 disables it.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub monitoring_port: u16,
    /// Address for metrics instead of a port; a loopback address needs neither TLS nor a token.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "monitoring_port")]
    pub monitoring_address: Option<SocketAddr>,
    /// Serve metrics without TLS and tokens to anybody who can reach the port, as upstream does.
    #[arg(long)]
    pub monitoring_open: bool,
    /// Port for /healthz, /livez and /readyz on all addresses; 0 disables it.
    #[arg(long, default_value_t = 8080, value_name = "PORT")]
    pub health_port: u16,
    /// Address for these probes instead of a port.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "health_port")]
    pub health_address: Option<SocketAddr>,
    /// Port for admission reviews on all addresses; 0 disables it.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub webhook_port: u16,
    /// Service through which the API server reaches that port.
    #[arg(long, default_value = "mpi-operator", value_name = "NAME")]
    pub webhook_service: String,
    /// Namespace of that Service, of the certificate's Secret and of the quota leases.
    #[arg(long, env = "POD_NAMESPACE", default_value = "mpi-operator", value_name = "NAME")]
    pub webhook_namespace: String,
    /// Secret of the certificate; created if it does not exist.
    #[arg(long, default_value = "mpi-operator-webhook-tls", value_name = "NAME")]
    pub webhook_secret: String,
    /// Answer only clients whose certificate is signed by an authority in this PEM file; the API server presents a
    /// certificate if its --admission-control-config-file configures one. Read once, at startup.
    #[arg(long, value_name = "FILE")]
    pub webhook_client_ca: Option<std::path::PathBuf>,
    /// Users who may create jobs on behalf of others, e.g. system:serviceaccount:kubeflow:ml-pipeline: such a job keeps the
    /// owner that it names. Any other job is its creator's.
    #[arg(long, value_name = "USER,…", value_delimiter = ',', requires = "webhook_port")]
    pub trusted_creators: Vec<String>,
    /// Accounts of Kueue: jobs that they resume are not refused for the namespace's max-concurrent-jobs, because Kueue has
    /// reserved their quota. Empty for none.
    #[arg(long, value_name = "USER,…", value_delimiter = ',', default_values = KUEUE_ACCOUNTS, requires = "webhook_port")]
    pub kueue_accounts: Vec<String>,
    /// Address of the training service whose audit log gets what the webhook sees: `https://odh-training.NAMESPACE.svc`.
    #[arg(long, value_name = "URL", requires = "webhook_port")]
    pub audit_url: Option<String>,
    /// Authority of that service's certificate, a PEM file.
    #[arg(long, value_name = "FILE")]
    pub audit_ca: Option<std::path::PathBuf>,
    /// Token of an account that may `post` to `/training/audit`.
    #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount/token", value_name = "FILE")]
    pub audit_token: std::path::PathBuf,
    /// Log format; auto is text on a terminal and JSON elsewhere.
    #[arg(long, value_enum, default_value = "auto")]
    pub log_format: LogFormat,
    /// klog's verbosity; from 4 on, the operator logs details. RUST_LOG overrides it.
    #[arg(long = "v", default_value_t = 0, value_name = "LEVEL", allow_negative_numbers = true)]
    pub verbosity: i32,
    #[command(flatten)]
    upstream: Upstream,
}

/// Flags of upstream's that have no effect here.
#[derive(Clone, Debug, clap::Args)]
struct Upstream {
    #[arg(long, hide = true)]
    threadiness: Option<i64>,
    #[arg(long, hide = true)]
    kube_api_qps: Option<i64>,
    #[arg(long, hide = true)]
    kube_api_burst: Option<i64>,
    #[arg(long, hide = true)]
    controller_queue_rate_limit: Option<i64>,
    #[arg(long, hide = true)]
    controller_queue_burst: Option<i64>,
    #[command(flatten)]
    klog: Klog,
}

/// klog's flags, which say where and how upstream logs.
#[derive(Clone, Debug, clap::Args)]
struct Klog {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    alsologtostderr: Option<bool>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<bool>,
    #[arg(long = "add_dir_header", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    add_dir_header: Option<bool>,
    #[arg(long = "one_output", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    one_output: Option<bool>,
    #[arg(long = "skip_headers", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_headers: Option<bool>,
    #[arg(long = "skip_log_headers", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_log_headers: Option<bool>,
    #[arg(long = "legacy_stderr_threshold_behavior", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    legacy_stderr_threshold_behavior: Option<bool>,
    #[arg(long = "log_backtrace_at", hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long = "log_dir", hide = true)]
    log_dir: Option<String>,
    #[arg(long = "log_file", hide = true)]
    log_file: Option<String>,
    #[arg(long = "log_file_max_size", hide = true)]
    log_file_max_size: Option<u64>,
    #[arg(long, hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long, hide = true)]
    vmodule: Option<String>,
}

/// How the Launcher reaches the Workers.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Transport {
    /// sshd in the Workers, as upstream.
    Ssh,
    /// The launch agent.
    Agent,
}

/// How lines are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object per line.
    Json,
    /// Plain text.
    Text,
}

impl Flags {
    /// Parses the command line. An invalid one ends the process with an error and a hint.
    pub fn read(arguments: impl Iterator<Item = OsString>) -> Self {
        Self::parse_from(as_clap_reads_them(arguments))
    }

    /// Returns the operator's settings.
    pub fn settings(&self) -> Settings {
        Settings {
            namespace: Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            plan: plan::Settings {
                cluster_domain: self.cluster_domain.clone(),
                default_launch: match self.default_launch {
                    Transport::Ssh => plan::Launch::Ssh,
                    Transport::Agent => plan::Launch::Agent,
                },
                launch_image: self.launch_image.clone(),
                gang: plan::Gang::named(&self.gang_scheduling),
                progress: None,
            },
            writes: self.writes,
            trainjobs: self.trainjobs,
            ..Settings::default()
        }
    }

    /// Returns the given flags that have no effect.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let Upstream {
            threadiness,
            kube_api_qps,
            kube_api_burst,
            controller_queue_rate_limit,
            controller_queue_burst,
            klog,
        } = &self.upstream;
        let Klog {
            alsologtostderr,
            logtostderr,
            add_dir_header,
            one_output,
            skip_headers,
            skip_log_headers,
            legacy_stderr_threshold_behavior,
            log_backtrace_at,
            log_dir,
            log_file,
            log_file_max_size,
            stderrthreshold,
            vmodule,
        } = klog;
        [
            ("threadiness", threadiness.is_some()),
            ("kube-api-qps", kube_api_qps.is_some()),
            ("kube-api-burst", kube_api_burst.is_some()),
            ("controller-queue-rate-limit", controller_queue_rate_limit.is_some()),
            ("controller-queue-burst", controller_queue_burst.is_some()),
            ("alsologtostderr", alsologtostderr.is_some()),
            ("logtostderr", logtostderr.is_some()),
            ("add_dir_header", add_dir_header.is_some()),
            ("one_output", one_output.is_some()),
            ("skip_headers", skip_headers.is_some()),
            ("skip_log_headers", skip_log_headers.is_some()),
            ("legacy_stderr_threshold_behavior", legacy_stderr_threshold_behavior.is_some()),
            ("log_backtrace_at", log_backtrace_at.is_some()),
            ("log_dir", log_dir.is_some()),
            ("log_file", log_file.is_some()),
            ("log_file_max_size", log_file_max_size.is_some()),
            ("stderrthreshold", stderrthreshold.is_some()),
            ("vmodule", vmodule.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect()
    }
}

/// Go's `flag` accepts one dash or two, in `-name value` and `-name=value`; clap accepts two.
fn as_clap_reads_them(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    arguments.map(|argument| match argument.to_str() {
        Some("-v") => "--v".into(),
        Some(text) if text.starts_with("-v=") => format!("-{text}").into(),
        Some(text)
            if text.len() > 2
                && text.starts_with('-')
                && text[1..].starts_with(|c: char| c.is_ascii_alphabetic()) =>
        {
            format!("-{text}").into()
        }
        _ => argument,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags, clap::Error> {
        let arguments = std::iter::once("mpi-operator").chain(line.split_whitespace()).map(OsString::from);
        Flags::try_parse_from(as_clap_reads_them(arguments))
    }

    /// Every row of UPSTREAM §4 and the arguments of upstream's own Deployment.
    #[test]
    fn upstreams_flags_are_read_as_go_reads_them() {
        let flags = read(
            "-alsologtostderr -v=4 -master http://127.0.0.1:1 --kubeConfig=/k -namespace team --threadiness=2 \
             -monitoring-port 9090 -lock-namespace locks -kube-api-qps=5 -kube-api-burst 10 \
             -controller-queue-rate-limit 10 -controller-queue-burst=100 -cluster-domain cluster.local -stderrthreshold INFO",
        )
        .unwrap();
        assert_eq!(flags.master.as_ref().unwrap().to_string(), "http://127.0.0.1:1/");
        assert_eq!(flags.kubeconfig.as_deref(), Some(std::path::Path::new("/k")));
        assert_eq!(
            (flags.lock_namespace.as_str(), flags.monitoring_port, flags.verbosity),
            ("locks", 9090, 4)
        );
        let settings = flags.settings();
        assert_eq!(
            (settings.namespace.as_deref(), settings.plan.cluster_domain.as_str()),
            (Some("team"), "cluster.local")
        );
        let without = [
            "threadiness",
            "kube-api-qps",
            "kube-api-burst",
            "controller-queue-rate-limit",
            "controller-queue-burst",
            "alsologtostderr",
            "stderrthreshold",
        ];
        assert_eq!(flags.without_effect(), without);
    }

    #[test]
    fn defaults_are_upstreams() {
        let flags = read("").unwrap();
        let defaults = (flags.lock_namespace.as_str(), flags.monitoring_port, flags.health_port);
        assert_eq!(defaults, ("mpi-operator", 0, 8080));
        assert!(flags.without_effect().is_empty() && flags.settings().namespace.is_none());
    }

    #[test]
    fn kueues_accounts_are_those_of_its_manifests_unless_they_are_given() {
        assert_eq!(read("").unwrap().kueue_accounts, KUEUE_ACCOUNTS);
        let given = read("--webhook-port 9443 -kueue-accounts a,b --kueue-accounts=c").unwrap();
        assert_eq!(given.kueue_accounts, ["a", "b", "c"]);
    }

    #[test]
    fn an_unknown_flag_is_refused_with_a_hint() {
        let error = read("--lock-namespaces x").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--lock-namespace"), "{error}");
    }
}
