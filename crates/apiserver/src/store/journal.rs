//! The interface for making writes durable: a store in memory uses it to keep its writes on disk.

use std::io;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Event, Resource};

/// Persists the store's writes.
pub trait Journal: Send + Sync + 'static {
    /// Checks whether writes can be accepted at present.
    ///
    /// # Errors
    /// The reason if not, for example a full disk. The caller then changes nothing.
    fn ready(&self) -> io::Result<()> {
        Ok(())
    }

    /// Queues a write. Called in the order of revisions, with the store locked, so it must not block.
    fn append(&self, resource: &Resource, event: &Arc<Event>);

    /// Resolves when every write up to `revision` is durable. The writer is answered only then.
    fn durable(&self, revision: u64) -> BoxFuture<'static, io::Result<()>>;
}

/// Persists nothing: the objects live as long as the process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Volatile;

impl Journal for Volatile {
    fn append(&self, _resource: &Resource, _event: &Arc<Event>) {}

    fn durable(&self, _revision: u64) -> BoxFuture<'static, io::Result<()>> {
        futures::future::ready(Ok(())).boxed()
    }
}
