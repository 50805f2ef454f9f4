//! The training service as a program for a cluster: parses flags, sets up logs, and stops at a signal.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser};
use history::notifications::address::{Network, Policy};
use history::notifications::mail;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use service::tls::{self, Files};
use service::traces::Traces;
use service::{Bucket, Keep, Origin, Outgoing, Prometheus, Retention, Service, Settings};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Serves training jobs over REST and gRPC, as the caller.
#[derive(Debug, Parser)]
#[command(name = "training-service", version)]
struct Flags {
    /// The address to serve at, REST and gRPC alike.
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    listen: SocketAddr,
    /// The file with the TLS certificate, in PEM; it is read again when it changes.
    #[arg(long, value_name = "FILE")]
    tls_certificate: PathBuf,
    /// The file with the certificate's key, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// The file with the authority of proxies that pass on their users' tokens as x-forwarded-access-token, in PEM. A proxy
    /// shows a client certificate of it; from others, the header is ignored.
    #[arg(long, value_name = "FILE")]
    proxy_client_ca: Option<PathBuf>,
    /// Accept such a header from any program that connects from loopback, e.g. a proxy in the same pod.
    #[arg(long)]
    trust_proxy_on_loopback: bool,
    /// An origin under which browsers reach this service, e.g. https://training.example.com, if a proxy changes the Host
    /// header; repeatable.
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<Origin>,
    /// An origin whose pages may embed the dashboard; repeatable. None if not given.
    #[arg(long = "frame-ancestor", value_name = "ORIGIN")]
    frame_ancestors: Vec<Origin>,
    /// An audience that tokens must be for; the API server must accept it too. Its own if not given.
    #[arg(long = "audience", value_name = "NAME")]
    audiences: Vec<String>,
    /// Requests a second of one user, in the long run.
    #[arg(long, value_name = "N", default_value_t = Settings::default().rate)]
    requests_per_second: u32,
    /// Requests of one user at once.
    #[arg(long, value_name = "N", default_value_t = Settings::default().burst)]
    burst: u32,
    /// Open streams of one user.
    #[arg(long, value_name = "N", default_value_t = Settings::default().streams)]
    streams: usize,
    /// Do not show how many GPUs of the cluster and of the queues are free, in sums, to everybody who may create jobs.
    #[arg(long)]
    hide_gpu_sums: bool,
    #[command(flatten)]
    store: StoreFlags,
    #[command(flatten)]
    outgoing: OutgoingFlags,
    #[command(flatten)]
    prometheus: PrometheusFlags,
    /// The address of an OpenTelemetry collector to which the spans of requests are exported: http://collector:4318. Without
    /// it, OTEL_EXPORTER_OTLP_ENDPOINT counts; without both, nothing is exported.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// The kubeconfig of the service's own account; the pod's account if not given.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// What outlives the jobs.
#[derive(Debug, Args)]
struct StoreFlags {
    /// The folder for everything that outlives jobs: a SQLite database and logs.
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/training-service")]
    store_directory: PathBuf,
    /// The file with the URL of a PostgreSQL database in place of SQLite, or set ODH_TRAINING_STORE_URL.
    #[arg(long, value_name = "FILE")]
    store_url_file: Option<PathBuf>,
    /// The folder of packed logs beside a PostgreSQL database; all replicas share it. Without one, logs stay in the
    /// database.
    #[arg(long, value_name = "DIRECTORY")]
    log_directory: Option<PathBuf>,
    #[command(flatten)]
    bucket: BucketFlags,
    /// Days for which the history of deleted jobs is kept.
    #[arg(long, value_name = "N", default_value_t = 90)]
    keep_history_days: u32,
    /// Days for which usage is kept.
    #[arg(long, value_name = "N", default_value_t = 400)]
    keep_usage_days: u32,
    /// Days for which the audit log is kept; export what is needed for longer.
    #[arg(long, value_name = "N", default_value_t = 400)]
    keep_audit_days: u32,
    /// Days for which logs are kept.
    #[arg(long, value_name = "N", default_value_t = 30)]
    keep_log_days: u32,
    /// The maximum size of all logs in MiB, compressed; the oldest go first.
    #[arg(long, value_name = "N", default_value_t = 10_240)]
    keep_log_mib: u32,
    /// Whether the audit log has reads too.
    #[arg(long)]
    audit_reads: bool,
}

/// Where packed logs are, if not in a folder.
#[derive(Debug, Args)]
struct BucketFlags {
    /// The bucket of packed logs: of Amazon S3, or of a server with its API. Credentials come from --log-credentials or from the
    /// environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN).
    #[arg(long, value_name = "NAME")]
    log_bucket: Option<String>,
    /// What the names of objects in the bucket begin with.
    #[arg(long, value_name = "PREFIX", default_value = "", requires = "log_bucket")]
    log_prefix: String,
    /// The address of a server other than Amazon's: https://minio.example.com
    #[arg(long, value_name = "URL", requires = "log_bucket")]
    log_endpoint: Option<String>,
    /// The region of the bucket, or set AWS_DEFAULT_REGION.
    #[arg(long, value_name = "NAME", requires = "log_bucket")]
    log_region: Option<String>,
    /// The file with the access key's id and, on the next line, the secret; it is read again for each request.
    #[arg(long, value_name = "FILE", requires = "log_bucket")]
    log_credentials: Option<PathBuf>,
}

impl BucketFlags {
    fn bucket(self, authorities: &[CertificateDer<'static>]) -> Option<Bucket> {
        Some(Bucket {
            name: self.log_bucket?,
            prefix: self.log_prefix,
            endpoint: self.log_endpoint,
            region: self.log_region,
            credentials: self.log_credentials,
            authorities: authorities.to_vec(),
            ..Bucket::default()
        })
    }
}

/// Where notifications may go, and how they get there.
#[derive(Debug, Args)]
struct OutgoingFlags {
    /// A range of addresses that webhooks may reach although they are not public: 10.0.0.0/8.
    #[arg(long = "webhook-allow", value_name = "RANGE")]
    webhook_allow: Vec<Network>,
    /// Whether webhooks may be http.
    #[arg(long)]
    webhook_allow_http: bool,
    /// The file with certificate authorities of webhooks, the SMTP server, the bucket and the collector of traces, in PEM.
    #[arg(long, value_name = "FILE")]
    outgoing_ca: Option<PathBuf>,
    /// The SMTP server for e-mails, as HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["smtp_from", "smtp_allow_domain"])]
    smtp: Option<String>,
    /// How the connection to it is protected.
    #[arg(long, value_name = "HOW", default_value = "starttls", value_parser = ["tls", "starttls", "plain"])]
    smtp_security: String,
    /// The sender of e-mails: Training <training@example.com>.
    #[arg(long, value_name = "ADDRESS")]
    smtp_from: Option<String>,
    /// A domain that e-mails may go to: example.com; * for every domain, to which anybody who may change jobs can then send in
    /// the sender's name.
    #[arg(long, value_name = "DOMAIN", requires = "smtp")]
    smtp_allow_domain: Vec<String>,
    /// The file with the user and, on the next line, the password for the SMTP server.
    #[arg(long, value_name = "FILE")]
    smtp_credentials: Option<PathBuf>,
}

/// Where jobs' metrics come from that the cluster's metrics API lacks.
#[derive(Debug, Args)]
struct PrometheusFlags {
    /// The address of a Prometheus, or of a Thanos Query, that has the network traffic of pods (cAdvisor) and their GPUs (NVIDIA's
    /// DCGM exporter): http://prometheus.monitoring.svc:9090. Without it, jobs' metrics are CPU and memory.
    #[arg(long, value_name = "URL", env = "ODH_TRAINING_PROMETHEUS_URL")]
    prometheus_url: Option<String>,
    /// The file with the bearer token for it; it is read for each query.
    #[arg(long, value_name = "FILE", requires = "prometheus_url")]
    prometheus_token_file: Option<PathBuf>,
    /// The file with its certificate authority, in PEM; the machine's authorities are trusted too.
    #[arg(long, value_name = "FILE", requires = "prometheus_url")]
    prometheus_ca: Option<PathBuf>,
}

impl PrometheusFlags {
    fn prometheus(self) -> Result<Option<Prometheus>, Box<dyn Error>> {
        let Some(url) = self.prometheus_url.filter(|url| !url.is_empty()) else { return Ok(None) };
        let authorities = authorities(self.prometheus_ca.as_deref())?;
        Ok(Some(Prometheus::new(&url, self.prometheus_token_file, &authorities)?))
    }
}

impl StoreFlags {
    fn keep(self, notifications: Outgoing) -> std::io::Result<Keep> {
        let days = |days: u32| Duration::from_secs(u64::from(days) * 24 * 3600);
        let keep = match service::store_url(self.store_url_file.as_deref())? {
            Some(url) => Keep { logs: self.log_directory, ..Keep::in_postgres(url) },
            None => Keep::in_folder(&self.store_directory),
        };
        let retention = Retention {
            history: days(self.keep_history_days),
            usage: days(self.keep_usage_days),
            audit: days(self.keep_audit_days),
            logs: days(self.keep_log_days),
            log_bytes: u64::from(self.keep_log_mib) << 20,
            ..keep.retention
        };
        let bucket = self.bucket.bucket(&notifications.authorities);
        Ok(Keep { bucket, retention, notifications, audit_reads: self.audit_reads, ..keep })
    }
}

impl OutgoingFlags {
    fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error>> {
        authorities(self.outgoing_ca.as_deref())
    }

    fn outgoing(self) -> Result<Outgoing, Box<dyn Error>> {
        let authorities = self.authorities()?;
        let is_any = self.smtp_allow_domain.iter().any(|domain| domain == "*");
        let email_domains = if is_any { Vec::new() } else { self.smtp_allow_domain };
        let policy =
            Policy { allowed: self.webhook_allow, allow_http: self.webhook_allow_http, email_domains };
        let mail = match (self.smtp, self.smtp_from) {
            (Some(server), Some(from)) => {
                let (host, port) = server.rsplit_once(':').ok_or("--smtp: expected HOST:PORT")?;
                let security = match self.smtp_security.as_str() {
                    "tls" => mail::Security::Tls,
                    "plain" => mail::Security::Plain,
                    _ => mail::Security::StartTls,
                };
                let credentials = self.smtp_credentials.map(std::fs::read_to_string).transpose()?;
                let credentials = credentials.map(|text| {
                    let (user, password) = text.trim_end().split_once('\n').unwrap_or((text.trim_end(), ""));
                    (user.to_owned(), password.to_owned())
                });
                let (host, port, authorities) = (host.to_owned(), port.parse()?, authorities.clone());
                Some(mail::Settings { host, port, security, credentials, from, authorities })
            }
            _ => None,
        };
        Ok(Outgoing { policy, authorities, mail })
    }
}

/// Reads the authorities in a file, if there is one.
fn authorities(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error>> {
    match file {
        Some(file) => Ok(CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>()?),
        None => Ok(Vec::new()),
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let started = traces(&flags);
    let traces = started.as_ref().ok().and_then(Option::as_ref);
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr).with_filter(filter);
    tracing_subscriber::registry().with(log).with(traces.map(Traces::layer)).init();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listen = %flags.listen, "starting");
    let lived = match started {
        Ok(traces) => {
            let lived = live(flags).await;
            if let Some(traces) = traces {
                traces.stop().await;
            }
            lived
        }
        Err(error) => Err(error),
    };
    match lived {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "stopping because of an error");
            ExitCode::FAILURE
        }
    }
}

/// Starts the export of traces, if the flags or the environment name a collector.
fn traces(flags: &Flags) -> Result<Option<Traces>, Box<dyn Error>> {
    let authorities = flags.outgoing.authorities()?;
    let traces = Traces::start(flags.otlp_endpoint.as_deref(), &authorities);
    traces.map_err(|error| format!("cannot export traces: {error}").into())
}

async fn live(flags: Flags) -> Result<(), Box<dyn Error>> {
    let config = match &flags.kubeconfig {
        Some(path) => {
            Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
                .await?
        }
        None => Config::infer().await?,
    };
    let own = client::connect(config.clone())?;
    let mut without_credentials = config;
    without_credentials.auth_info = AuthInfo::default();
    let nobody = client::connect(without_credentials)?;
    let stop = CancellationToken::new();
    let files =
        Files { certificate: flags.tls_certificate, key: flags.tls_key, proxies: flags.proxy_client_ca };
    let tls = tls::from_files(files, stop.clone())?;
    let listener = TcpListener::bind(flags.listen).await?;
    tracing::info!(address = %listener.local_addr()?, "serving");
    let settings = Settings {
        audiences: flags.audiences,
        rate: flags.requests_per_second,
        burst: flags.burst,
        streams: flags.streams,
        trusts_loopback: flags.trust_proxy_on_loopback,
        origins: flags.origins,
        frame_ancestors: flags.frame_ancestors,
        hides_gpu_sums: flags.hide_gpu_sums,
        prometheus: flags.prometheus.prometheus()?,
        ..Settings::default()
    };
    let keep = flags.store.keep(flags.outgoing.outgoing()?)?;
    let service = Service::start(&own, &nobody, settings, &keep, &stop);
    let serving = service::serve(listener, tls, service.clone(), stop.clone());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        served = serving.as_mut() => return Ok(served?),
        error = service.store_too_new() => {
            return Err(format!("{error}: upgrade the training service, or give it another store").into());
        }
        () = stop_signal() => tracing::info!("stopping: ending streams and requests in progress"),
    }
    stop.cancel();
    Ok(serving.await?)
}

/// Resolves at the first signal that asks the process to stop.
async fn stop_signal() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            // Without a handler, the default action ends the process.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = terminated => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
