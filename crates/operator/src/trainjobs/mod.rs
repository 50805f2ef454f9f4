//! The controller of TrainJobs: the same walk as for MPIJobs, with the same writes, bounds and events.
//!
//! Where Kubeflow Trainer itself runs, it reconciles every TrainJob, and two controllers would fight over them: then this
//! controller does not start, and says so.

mod beside;
mod memory;
mod observe;
mod publish;
mod reconcile;
mod tracked;
mod watch;

use std::ops::Deref;
use std::sync::Arc;

use api::TrainJob;
use futures::StreamExt;
use kube::api::{Api, ListParams};
use kube::runtime::controller;
use kube::runtime::reflector::Store;
use tokio::sync::watch as channel;

use crate::context::Shared;
use crate::error::{Class, Error};
use crate::events;
use crate::memory::Memory;
use crate::progression;
use crate::watch::scoped;

use beside::Beside;
pub(crate) use beside::is_trainer_here;
use memory::TrainMemory;
pub(crate) use observe::as_runtime;
use reconcile::{after_failure, pass};
use tracked::tracked;
use watch::Stores;

/// Jobs looked at at once.
const JOBS_AT_ONCE: u16 = 32;
/// The source of the events.
const EVENT_SOURCE: &str = "trainjob-controller";

/// What every pass over a TrainJob works with.
pub(crate) struct Context {
    shared: Shared,
    jobs: Store<TrainJob>,
    stores: Stores,
    /// Whether every watch has listed once.
    listed: channel::Receiver<bool>,
    memories: Arc<TrainMemory>,
}

impl Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// Runs until it is dropped; returns at once, after saying why, where TrainJobs are left alone.
///
/// # Errors
/// If the API server cannot be reached at the start.
pub(crate) async fn operate(shared: &Shared) -> Result<(), Error> {
    let namespace = shared.settings.namespace.clone();
    if !are_served(shared, namespace.as_deref()).await? {
        tracing::warn!("the cluster does not serve TrainJobs: only MPIJobs are reconciled");
        return Ok(());
    }
    if let Beside::Trainer(found) = beside::look(&shared.client).await {
        beside::tell(shared, &found).await;
        return Ok(());
    }
    let shared = Shared { memory: Arc::new(Memory::default()), ..shared.clone() };
    let memories = Arc::new(TrainMemory::default());
    let (controller, stores, mut unreadable) =
        watch::controller(&shared.client, namespace.as_deref(), &memories);
    let (now_listed, listed) = channel::channel(false);
    let context = Arc::new(Context { shared, jobs: controller.store(), stores, listed, memories });
    let passes = controller
        .with_config(controller::Config::default().concurrency(JOBS_AT_ONCE))
        .run(pass, after_failure, context.clone())
        .for_each(|outcome| {
            let failed = outcome.err().filter(|error| {
                !matches!(
                    error,
                    controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)
                )
            });
            if let Some(error) = failed {
                tracing::warn!(%error, "TrainJob controller error");
            }
            std::future::ready(())
        });
    let all_listed = async {
        context.stores.ready().await;
        now_listed.send_replace(true);
        std::future::pending().await
    };
    tracing::info!("TrainJobs are reconciled");
    tokio::select! {
        () = passes => {}
        () = all_listed => {}
        () = events::tell_of_unreadable(&context, &mut unreadable, EVENT_SOURCE) => {}
        () = progression::track(&context.shared, || tracked(&context)) => {}
    }
    Ok(())
}

async fn are_served(shared: &Shared, namespace: Option<&str>) -> Result<bool, Error> {
    let jobs: Api<TrainJob> = scoped(&shared.client, namespace);
    let listed = jobs.list_metadata(&ListParams::default().limit(1)).await;
    match listed.map_err(Error::request("list TrainJobs")) {
        Ok(_) => Ok(true),
        Err(error) if error.class() == Class::Gone => Ok(false),
        Err(error) => Err(error),
    }
}
