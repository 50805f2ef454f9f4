//! Sums of the cluster's GPUs, read as the service's own account: one reading for all who ask.
//!
//! A reading takes a list of all nodes, pods and queues. There is at most one at a time, and none while the last one is not
//! older than its caller wants. Of what was read, only sums without the names of nodes and pods are kept.

use std::sync::Arc;
use std::time::Duration;

use jobs::gpus::{self, GpuSum, QueueSum};
use kube::Client;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::unknown::Unknown;

/// What was read at one time.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The GPUs of the nodes.
    pub cluster: Result<Vec<GpuSum>, Unknown>,
    /// The GPUs in the quotas of all LocalQueues.
    pub queues: Result<Vec<QueueSum>, Unknown>,
}

/// The last reading.
pub struct Gpus {
    /// A client as the service's own account; `None` if the sums are turned off.
    own: Option<Client>,
    patience: Duration,
    last: Mutex<Option<(Instant, Arc<Reading>)>>,
}

impl Gpus {
    /// Creates it from a client as the service's own account, or without one, if the sums are turned off. A reading takes at
    /// most `patience`.
    pub fn new(own: Option<Client>, patience: Duration) -> Self {
        Self { own, patience, last: Mutex::default() }
    }

    /// Returns a reading that is not older than `age`.
    pub async fn read(&self, age: Duration) -> Arc<Reading> {
        let Some(own) = &self.own else {
            let (cluster, queues) = (Err(Unknown::TurnedOff), Err(Unknown::TurnedOff));
            return Arc::new(Reading { cluster, queues });
        };
        // Those who ask while another reads wait here, and share what was read.
        let mut last = self.last.lock().await;
        if let Some((at, reading)) = &*last
            && at.elapsed() < age
        {
            return reading.clone();
        }
        let (cluster, queues) = futures::join!(
            timeout(self.patience, gpus::cluster(own)),
            timeout(self.patience, gpus::queues(own)),
        );
        let reading = Arc::new(Reading {
            cluster: cluster.map_or(Err(Unknown::Late), |read| read.ok_or(Unknown::Unreadable)),
            queues: queues.map_or(Err(Unknown::Late), |read| read.ok_or(Unknown::Unreadable)),
        });
        *last = Some((Instant::now(), reading.clone()));
        reading
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A client of a server that cannot be reached.
    fn unreachable() -> Client {
        let refuse = |_: Request<Body>| async {
            Err::<Response<Body>, tower::BoxError>(std::io::Error::from(ErrorKind::ConnectionRefused).into())
        };
        Client::new(tower::service_fn(refuse), "default")
    }

    #[tokio::test]
    async fn a_reading_is_shared_until_it_is_old() {
        let gpus = Gpus::new(Some(unreachable()), Duration::from_secs(30));
        let age = Duration::from_secs(3600);
        let first = gpus.read(age).await;
        assert_eq!((&first.cluster, &first.queues), (&Err(Unknown::Unreadable), &Err(Unknown::Unreadable)));
        assert!(Arc::ptr_eq(&first, &gpus.read(age).await), "a failure, too, is not tried again at once");
        assert!(!Arc::ptr_eq(&first, &gpus.read(Duration::ZERO).await), "too old");
    }
}
