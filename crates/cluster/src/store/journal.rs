//! Where the store's writes become durable: the seam at which a store on disk is put under the one in memory.

use std::io;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Event, Resource};

/// Keeps the store's writes.
pub trait Journal: Send + Sync + 'static {
    /// Whether a write may be made at present.
    ///
    /// # Errors
    /// Why not, e.g. because the disk is full; nothing is changed then.
    fn ready(&self) -> io::Result<()> {
        Ok(())
    }

    /// Takes a write, in the order of revisions. Called while the store is locked: it must not block.
    fn append(&self, resource: &Resource, event: &Arc<Event>);

    /// Resolves when every write up to `revision` is durable; the writer is answered then.
    fn durable(&self, revision: u64) -> BoxFuture<'static, io::Result<()>>;
}

/// Keeps nothing: the cluster lives as long as its process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Volatile;

impl Journal for Volatile {
    fn append(&self, _resource: &Resource, _event: &Arc<Event>) {}

    fn durable(&self, _revision: u64) -> BoxFuture<'static, io::Result<()>> {
        futures::future::ready(Ok(())).boxed()
    }
}
