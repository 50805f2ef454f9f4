//! The store on real databases: SQLite in a folder, and a PostgreSQL server of its own; its logs in a folder and on an S3
//! server.

#![expect(clippy::unwrap_used, reason = "a test's own steps end it where they fail")]

mod place;

mod alerts;
mod audit;
mod bucket;
mod jobs;
mod kills;
mod logs;
mod namespaces;
mod notifications;
mod peaks;
mod schema;
mod series;
mod sessions;
mod trouble;
mod usage;
