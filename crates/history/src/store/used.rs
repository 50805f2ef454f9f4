//! How much of the room for a store is taken.

use nix::sys::statvfs::statvfs;
use sqlx::Row as _;

use super::{Location, PAGE_BYTES, Store};
use crate::error::Error;

/// How much of the room for a store is taken, as parts of 1; `None` if that is unknown, or there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Of its disk, by whatever is on it.
    pub disk: Option<f64>,
    /// Of its maximum size.
    pub size: Option<f64>,
}

impl Store {
    /// Returns how much of its room is taken. Of PostgreSQL that is unknown: its disk is another machine's.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn used(&self) -> Result<Used, Error> {
        let Location::File(path) = &self.settings.location else { return Ok(Used::default()) };
        let path = path.clone();
        let disk = tokio::task::spawn_blocking(move || statvfs(&path).ok()).await.ok().flatten();
        let disk = disk.filter(|disk| disk.blocks() > 0);
        let disk = disk.map(|disk| 1.0 - disk.blocks_available() as f64 / disk.blocks() as f64);
        let Some(most) = self.settings.max_bytes.filter(|most| *most > 0) else {
            return Ok(Used { disk, size: None });
        };
        let query = sqlx::query(
            "SELECT CAST(p.page_count - f.freelist_count AS BIGINT) \
             FROM pragma_page_count() p, pragma_freelist_count() f",
        );
        let pages: Option<i64> = self.row(query).await?.map(|row| row.try_get(0)).transpose()?;
        let size = pages.map(|pages| pages as f64 * PAGE_BYTES as f64 / most as f64);
        Ok(Used { disk, size })
    }
}
