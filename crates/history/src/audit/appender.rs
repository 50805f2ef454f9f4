//! Appends what many requests report at once in one transaction: they share one sync of the disk.

use tokio::sync::{mpsc, oneshot};

use super::{Entry, MAX_APPEND, append, text_of};
use crate::error::Error;
use crate::store::Store;

/// The maximum number of entries that wait. Further callers wait for room.
const QUEUE: usize = 4096;

/// Appends entries for all tasks of a process. Clones share one queue.
#[derive(Clone, Debug)]
pub struct Appender {
    queue: mpsc::Sender<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    entry: Entry,
    reply: oneshot::Sender<Result<Option<i64>, Error>>,
}

impl Appender {
    /// Starts the task that appends. It ends when the last clone is dropped and everything is appended.
    #[must_use]
    pub fn start(store: Store) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(run(store, waiting));
        Self { queue }
    }

    /// Appends an entry, and returns when it is durable: the number of its line, or `None` if it was there already.
    ///
    /// # Errors
    /// As [`append`]. The entry is then not stored.
    pub async fn append(&self, entry: Entry) -> Result<Option<i64>, Error> {
        // What is not acceptable must not fail the entries beside it.
        text_of(&entry)?;
        let gone = || Error::Unavailable("the audit log is closed".to_owned());
        let (reply, answer) = oneshot::channel();
        self.queue.send(Waiting { entry, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn run(store: Store, mut queue: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, MAX_APPEND).await > 0 {
        let (entries, replies): (Vec<Entry>, Vec<_>) =
            batch.drain(..).map(|Waiting { entry, reply }| (entry, reply)).unzip();
        let result = append(&store, &entries).await;
        for (place, reply) in replies.into_iter().enumerate() {
            let own = result.as_ref().map(|numbers| numbers.get(place).copied().flatten());
            // A caller that has gone away needs no answer.
            drop(reply.send(own.map_err(Clone::clone)));
        }
    }
}
