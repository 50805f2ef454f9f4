//! The log archive in a bucket: a real S3 server of its own on loopback, which can be in trouble.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use history::error::BucketFault;
use history::logs::maintain::{Retention, prune, sweep};
use history::logs::{Archive, Bucket, append, pack_due};
use history::store::{Location, Settings};
use history::{Error, Store};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3Error, S3ErrorCode, S3Result};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::logs::{chunks_below, everything, expected, numbered, pack, source, texts};
use crate::place::{Place, at, on_each, on_sqlite};

const KEY: &str = "key-of-the-archive";
const SECRET: &str = "very-secret-text";
/// The bucket, and what names of objects begin with.
const NAME: &str = "logs";
const PREFIX: &str = "training/cluster-1";
/// How long an attempt may take here.
const SHORT: Duration = Duration::from_millis(200);

/// A place with a log archive, whose chunks are in its folder or on a server.
pub struct Home<'p> {
    pub place: &'p Place,
    pub bucket: Option<Server>,
}

impl<'p> Home<'p> {
    /// With chunks in the folder.
    pub fn in_folder(place: &'p Place) -> Self {
        Self { place, bucket: None }
    }

    /// Opens the archive as one more replica.
    pub async fn archive(&self) -> Archive {
        open_archive(self.place.open().await, self.endpoint(), self.folder()).await
    }

    /// The address of the server, if there is one.
    pub fn endpoint(&self) -> Option<String> {
        self.bucket.as_ref().map(Server::endpoint)
    }

    /// The folder of chunks, or that of the server's credentials.
    pub fn folder(&self) -> &Path {
        self.bucket.as_ref().map_or(self.place.folder.path(), Server::folder)
    }

    /// The files of chunks.
    pub fn chunks(&self) -> Vec<PathBuf> {
        self.bucket.as_ref().map_or_else(|| chunks_below(&self.folder().join("logs")), Server::chunks)
    }
}

/// Opens a log archive on the server at an endpoint, or else in a folder.
pub async fn open_archive(store: Store, endpoint: Option<String>, folder: &Path) -> Archive {
    match endpoint {
        Some(endpoint) => Archive::in_bucket(store, &bucket_at(&endpoint, folder), None).await.unwrap(),
        None => Archive::in_folder(store, &folder.join("logs")).unwrap(),
    }
}

/// Runs a test with each database, and with chunks in a folder and on a server.
pub fn on_each_archive(test: impl AsyncFn(&Home<'_>)) {
    on_each(async |place| test(&Home::in_folder(place)).await);
    on_each(async |place| test(&Home { place, bucket: Some(Server::start().await) }).await);
}

/// What is wrong with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It refuses everything.
    Forbids,
    /// Its disks are full.
    IsFull,
    /// It takes requests and answers none.
    IsSilent,
    /// It refuses this many requests, as a busy one does.
    IsBusy(usize),
}

/// A server with one bucket.
pub struct Server {
    folder: TempDir,
    address: SocketAddr,
    authority: Option<CertificateDer<'static>>,
    trouble: Arc<Mutex<Option<Trouble>>>,
}

struct Gate(Arc<Mutex<Option<Trouble>>>);

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            return Err(S3Error::new(S3ErrorCode::AccessDenied));
        }
        let now = {
            let mut trouble = self.0.lock().unwrap();
            let now = *trouble;
            match &mut *trouble {
                Some(Trouble::IsBusy(0)) => *trouble = None,
                Some(Trouble::IsBusy(left)) => *left -= 1,
                _ => {}
            }
            now
        };
        match now {
            None | Some(Trouble::IsBusy(0)) => Ok(()),
            Some(Trouble::Forbids) => Err(S3Error::with_message(S3ErrorCode::AccessDenied, "Access Denied.")),
            Some(Trouble::IsFull) => {
                let mut full = S3Error::new(S3ErrorCode::Custom("XMinioStorageFull".into()));
                full.set_status_code(http::StatusCode::INSUFFICIENT_STORAGE);
                Err(full)
            }
            Some(Trouble::IsSilent) => std::future::pending().await,
            Some(Trouble::IsBusy(_)) => Err(S3Error::new(S3ErrorCode::SlowDown)),
        }
    }
}

impl Server {
    pub async fn start() -> Self {
        Self::serve(None, None).await
    }

    async fn start_with_tls() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], PrivatePkcs8KeyDer::from(key).into())
            .unwrap();
        Self::serve(Some(TlsAcceptor::from(Arc::new(config))), Some(certificate)).await
    }

    async fn serve(tls: Option<TlsAcceptor>, authority: Option<CertificateDer<'static>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("served").join(NAME)).unwrap();
        write_credentials(folder.path(), SECRET);
        let trouble = Arc::new(Mutex::new(None));
        let mut builder =
            S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder.path().join("served")).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        builder.set_access(Gate(trouble.clone()));
        let service: S3Service = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (service, tls) = (service.clone(), tls.clone());
                tokio::spawn(async move {
                    // A client that goes away is no failure of this server.
                    let _ = match tls {
                        None => http1::Builder::new().serve_connection(TokioIo::new(socket), service).await,
                        Some(tls) => {
                            let Ok(stream) = tls.accept(socket).await else { return };
                            http1::Builder::new().serve_connection(TokioIo::new(stream), service).await
                        }
                    };
                });
            }
        });
        Self { folder, address, authority, trouble }
    }

    pub fn endpoint(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The folder with the file of credentials.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The files of chunks, of all archives.
    pub fn chunks(&self) -> Vec<PathBuf> {
        chunks_below(&self.folder.path().join("served").join(NAME))
    }

    fn set(&self, trouble: Option<Trouble>) {
        *self.trouble.lock().unwrap() = trouble;
    }

    fn bucket(&self) -> Bucket {
        Bucket {
            authorities: self.authority.iter().cloned().collect(),
            try_within: SHORT,
            ..bucket_at(&self.endpoint(), self.folder())
        }
    }

    async fn archive(&self, place: &Place) -> Archive {
        Archive::in_bucket(place.open().await, &self.bucket(), None).await.unwrap()
    }
}

fn write_credentials(folder: &Path, secret: &str) {
    std::fs::write(folder.join("credentials"), format!("{KEY}\n{secret}\n")).unwrap();
}

/// The bucket of a server, whose credentials are in a folder.
pub fn bucket_at(endpoint: &str, folder: &Path) -> Bucket {
    Bucket {
        name: NAME.to_owned(),
        prefix: PREFIX.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        credentials: Some(folder.join("credentials")),
        ..Bucket::default()
    }
}

fn fault(error: &Error) -> BucketFault {
    assert!(!error.to_string().contains(SECRET) && !error.to_string().contains(KEY), "{error}");
    let Error::Bucket { fault, .. } = error else { unreachable!("{error}") };
    *fault
}

#[test]
fn lines_stay_in_the_store_while_the_bucket_is_in_trouble() {
    on_sqlite(async |place| {
        let server = Server::start().await;
        let archive = server.archive(place).await;
        let mut next = 0;
        for (trouble, expected_fault) in [
            (Trouble::Forbids, BucketFault::Refused),
            (Trouble::IsFull, BucketFault::Full),
            (Trouble::IsSilent, BucketFault::Away),
        ] {
            server.set(Some(trouble));
            append(&archive, &source("w"), next, &numbered(next, next + 10)).await.unwrap();
            next += 10;
            let error = pack_due(&archive, Timestamp::MAX).await.unwrap_err();
            assert_eq!(fault(&error), expected_fault, "{error}");
            assert_eq!(fault(&sweep(&archive, Timestamp::MAX).await.unwrap_err()), expected_fault);
            let found = texts(&archive, &everything()).await;
            assert_eq!(found.len(), 10, "what was acknowledged under {trouble:?} is read from the store");
            server.set(None);
            pack(&archive).await;
            server.set(Some(trouble));
            let mut reader = history::logs::read(&archive, &everything()).await.unwrap();
            let error = reader.next().await.unwrap_err();
            assert_eq!(fault(&error), expected_fault, "not a chunk that is lost: {error}");
            server.set(None);
            assert_eq!(texts(&archive, &everything()).await, expected("w", next - 10, next));
            assert_eq!(prune(&archive, &Retention { after: Timestamp::MAX, bytes: 0 }).await.unwrap(), 1);
            assert_eq!(server.chunks(), <[PathBuf; 0]>::default());
            append(&archive, &source("w"), next, &[]).await.unwrap();
        }
    });
}

#[test]
fn a_server_that_is_not_there_and_a_bucket_that_does_not_exist_are_told_apart() {
    on_sqlite(async |place| {
        let server = Server::start().await;
        let absent = Bucket { name: "absent".to_owned(), ..server.bucket() };
        let archive = Archive::in_bucket(place.open().await, &absent, None).await.unwrap();
        let error = sweep(&archive, Timestamp::MAX).await.unwrap_err();
        assert_eq!(fault(&error), BucketFault::Missing, "{error}");
        // A port that nothing listens at.
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let nowhere = Bucket { endpoint: Some(format!("http://{free}")), ..server.bucket() };
        let archive = Archive::in_bucket(place.open().await, &nowhere, None).await.unwrap();
        append(&archive, &source("w"), 0, &numbered(0, 10)).await.unwrap();
        let error = pack_due(&archive, Timestamp::MAX).await.unwrap_err();
        assert_eq!(fault(&error), BucketFault::Away, "{error}");
        assert_eq!(texts(&archive, &everything()).await, expected("w", 0, 10));
    });
}

#[test]
fn a_server_that_is_busy_for_a_moment_is_asked_again() {
    on_sqlite(async |place| {
        let server = Server::start().await;
        let archive = server.archive(place).await;
        append(&archive, &source("w"), 0, &numbered(0, 10)).await.unwrap();
        server.set(Some(Trouble::IsBusy(2)));
        pack(&archive).await;
        assert_eq!(texts(&archive, &everything()).await, expected("w", 0, 10));
        assert_eq!(server.chunks().len(), 1);
    });
}

#[test]
fn stores_that_share_a_bucket_leave_each_others_chunks_alone() {
    on_sqlite(async |place| {
        let server = Server::start().await;
        let other = Store::open(Settings::new(Location::File(place.folder.path().join("other.db")))).await;
        let other = Archive::in_bucket(other.unwrap(), &server.bucket(), None).await.unwrap();
        let archives = [server.archive(place).await, other];
        for archive in &archives {
            append(archive, &source("w"), 0, &numbered(0, 10)).await.unwrap();
            pack(archive).await;
        }
        assert_eq!(server.chunks().len(), 2);
        let orphan = server.chunks()[0].with_file_name("orphan.gz");
        std::fs::write(orphan, "named by no row").unwrap();
        let mut swept = Vec::new();
        for archive in &archives {
            swept.push(sweep(archive, Timestamp::MAX).await.unwrap());
            assert_eq!(texts(archive, &everything()).await, expected("w", 0, 10));
        }
        swept.sort_unstable();
        assert_eq!(swept, [0, 1], "the orphan, by its own store");
        assert_eq!(server.chunks().len(), 2);
    });
}

#[test]
fn credentials_can_be_replaced_while_it_runs() {
    on_sqlite(async |place| {
        let server = Server::start().await;
        let archive = server.archive(place).await;
        append(&archive, &source("w"), 0, &numbered(0, 10)).await.unwrap();
        write_credentials(server.folder(), "an-old-secret");
        let error = pack_due(&archive, Timestamp::MAX).await.unwrap_err();
        assert_eq!(fault(&error), BucketFault::Refused, "{error}");
        std::fs::remove_file(server.folder().join("credentials")).unwrap();
        let error = pack_due(&archive, Timestamp::MAX).await.unwrap_err();
        assert_eq!(fault(&error), BucketFault::Refused, "{error}");
        write_credentials(server.folder(), SECRET);
        pack(&archive).await;
        assert_eq!(texts(&archive, &everything()).await, expected("w", 0, 10));
    });
}

#[test]
fn a_bucket_behind_tls_is_trusted_if_its_authority_is_named() {
    on_sqlite(async |place| {
        let server = Server::start_with_tls().await;
        let stranger = Bucket { authorities: Vec::new(), ..server.bucket() };
        let archive = Archive::in_bucket(place.open().await, &stranger, None).await.unwrap();
        append(&archive, &source("w"), 0, &numbered(0, 10)).await.unwrap();
        let error = pack_due(&archive, Timestamp::MAX).await.unwrap_err();
        assert_eq!(fault(&error), BucketFault::Away, "{error}");
        assert!(error.to_string().contains("certificate"), "{error}");
        pack(&server.archive(place).await).await;
        assert_eq!(texts(&server.archive(place).await, &everything()).await, expected("w", 0, 10));
    });
}

#[test]
fn what_was_packed_into_a_folder_is_read_and_removed_there_after_the_move_to_a_bucket() {
    on_sqlite(async |place| {
        let (server, folder) = (Server::start().await, place.folder.path().join("logs"));
        let before = Archive::in_folder(place.open().await, &folder).unwrap();
        append(&before, &source("w"), 0, &numbered(0, 10)).await.unwrap();
        pack(&before).await;
        let moved = Archive::in_bucket(place.open().await, &server.bucket(), Some(&folder)).await.unwrap();
        append(&moved, &source("w"), 10, &numbered(10, 20)).await.unwrap();
        pack(&moved).await;
        assert_eq!((chunks_below(&folder).len(), server.chunks().len()), (1, 1));
        assert_eq!(texts(&moved, &everything()).await, expected("w", 0, 20));
        assert_eq!(prune(&moved, &Retention { after: at(15), bytes: u64::MAX }).await.unwrap(), 1);
        assert_eq!((chunks_below(&folder).len(), server.chunks().len()), (0, 1));
        assert_eq!(texts(&moved, &everything()).await, expected("w", 10, 20));
    });
}
