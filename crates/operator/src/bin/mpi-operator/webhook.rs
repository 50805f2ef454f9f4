//! The webhook's port and certificate, and the API server's trust in it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::config::Kubeconfig;
use operator::certificates::{Kept, Shown, load_or_make};
use operator::webhook::{Reporter, TrainingService, Webhook, trust};
use operator::{Vitals, serve as server};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::flags::Flags;

/// How often the certificate is checked: a renewed one is trusted for months before the old one ends.
const LOOK_EVERY: Duration = Duration::from_secs(12 * 3600);
/// How soon it is checked again after a failure.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Answers reviews, if enabled. Any replica does, whether it leads or not. Returns the presented certificate, which
/// is kept in a Secret and renewed.
///
/// # Errors
/// If the port is taken, or there is no certificate.
pub async fn serve(
    flags: &Flags,
    vitals: &Vitals,
    client: &Client,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<Option<Arc<Shown>>, Box<dyn std::error::Error>> {
    if flags.webhook_port == 0 {
        return Ok(None);
    }
    let listener = server::bind_everywhere(flags.webhook_port).await?;
    let kept = load(flags, client).await?;
    let shown = Shown::new(&kept)?;
    tracing::info!(address = %listener.local_addr()?, "serving admission reviews");
    let reporter = reporter(flags, tasks, stop)?;
    let webhook = Webhook::new(client.clone(), &flags.webhook_namespace, vitals.clone());
    let webhook = webhook
        .reporting_to(reporter)
        .trusting(flags.trusted_creators.clone())
        .with_kueue_accounts(flags.kueue_accounts.clone());
    let (webhook, acceptor) = match &flags.webhook_client_ca {
        Some(path) => {
            let unreadable = |error| format!("cannot read --webhook-client-ca {}: {error}", path.display());
            let authorities = std::fs::read_to_string(path).map_err(unreadable)?;
            (webhook.of_proved_callers(), shown.acceptor_for(&authorities)?)
        }
        None => {
            tracing::warn!(
                "the webhook answers anybody who can reach its port; restrict it with --webhook-client-ca"
            );
            (webhook, shown.acceptor()?)
        }
    };
    let webhook = Arc::new(webhook);
    let answer = move |request| webhook.clone().answer(request);
    tasks.spawn(server::serve(listener, Some(acceptor), answer, stop.clone()));
    let renewing = renew(flags.clone(), client.clone(), shown.clone(), kept);
    let stop = stop.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = renewing => {}
            () = stop.cancelled() => {}
        }
    });
    Ok(Some(shown))
}

/// Reports to the training service's audit log, if that is asked for.
fn reporter(
    flags: &Flags,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Result<Option<Reporter>, Box<dyn std::error::Error>> {
    let Some(url) = &flags.audit_url else { return Ok(None) };
    // The client of Kubernetes also keeps the connection, trusts the authority and reads a renewed token.
    let kubeconfig = serde_json::json!({
        "clusters": [{ "name": "service", "cluster":
            { "server": url, "certificate-authority": flags.audit_ca } }],
        "users": [{ "name": "operator", "user": { "tokenFile": flags.audit_token } }],
        "contexts": [{ "name": "service", "context": { "cluster": "service", "user": "operator" } }],
        "current-context": "service",
    });
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig)?;
    let (reporter, work) = Reporter::new(Arc::new(TrainingService::new(kubeconfig)), stop.clone());
    tasks.spawn(work);
    Ok(Some(reporter))
}

async fn load(flags: &Flags, client: &Client) -> Result<Kept, operator::certificates::Error> {
    let Flags { webhook_namespace: namespace, webhook_service: service, .. } = flags;
    let names = [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")];
    load_or_make(client, namespace, &flags.webhook_secret, &names, Timestamp::now()).await
}

/// Makes the API server trust the certificate, and checks it now and then for ever.
async fn renew(flags: Flags, client: Client, shown: Arc<Shown>, first: Kept) {
    let mut kept = Ok(first);
    loop {
        let done = match kept {
            Ok(kept) => {
                trust(&client, &kept.authorities, flags.trainjobs).await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &done {
            tracing::warn!(error, "the API server does not trust the webhook yet; trying again");
        }
        tokio::time::sleep(if done.is_ok() { LOOK_EVERY } else { LOOK_AGAIN }).await;
        kept = match load(&flags, &client).await {
            Ok(kept) => shown.change(&kept).map(|()| kept).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
    }
}
