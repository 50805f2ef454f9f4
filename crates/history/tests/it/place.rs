//! Where a test's store is: a folder with a SQLite database, or a database of a PostgreSQL server that this program
//! starts once and that ends with it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use history::Store;
use history::store::{Dialect, Location, Settings};
use jiff::Timestamp;
use sqlx::{AnyPool, AssertSqlSafe};
use tempfile::TempDir;

/// A place for a store, empty at first.
pub struct Place {
    pub folder: TempDir,
    pub location: Location,
    /// The same for a connection of the test's own, past the crate.
    url: String,
}

impl Place {
    pub fn settings(&self) -> Settings {
        Settings::new(self.location.clone())
    }

    /// Opens the store as one more replica.
    pub async fn open(&self) -> Store {
        Store::open(self.settings()).await.unwrap()
    }

    /// Connects past the crate, as someone who tampers with the database.
    pub async fn raw(&self) -> AnyPool {
        sqlx::any::install_default_drivers();
        AnyPool::connect(&self.url).await.unwrap()
    }

    pub fn dialect(&self) -> Dialect {
        match self.location {
            Location::File(_) => Dialect::Sqlite,
            Location::Postgres(_) => Dialect::Postgres,
        }
    }
}

/// Runs a test with SQLite and with PostgreSQL.
pub fn on_each(test: impl AsyncFn(&Place)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        test(&sqlite()).await;
        if let Some(place) = postgres().await {
            test(&place).await;
        }
    });
}

/// Runs a test with SQLite only.
pub fn on_sqlite(test: impl AsyncFn(&Place)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test(&sqlite()));
}

fn sqlite() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state of odh/history.db");
    let url = format!("sqlite://{}?mode=rw", file.display().to_string().replace(' ', "%20"));
    Place { location: Location::File(file), folder, url }
}

/// A database of its own, if this machine has PostgreSQL.
pub async fn postgres() -> Option<Place> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let server = SERVER.get_or_init(Server::start).as_ref()?;
    let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    sqlx::any::install_default_drivers();
    let pool = AnyPool::connect(&server.url("postgres")).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&pool).await.unwrap();
    let url = server.url(&name);
    Some(Place { folder: tempfile::tempdir().unwrap(), location: Location::Postgres(url.clone()), url })
}

/// A PostgreSQL server on a Unix socket. Its shell stops it when this program ends, in whatever way: its standard input
/// then closes.
struct Server {
    folder: PathBuf,
    _shell: Child,
}

const SCRIPT: &str = r#"
PATH=/usr/bin:/bin
"$1/initdb" -D "$2/data" -U odh -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$2/initdb.log" 2>&1 || { cat "$2/initdb.log" >&2; exit 1; }
"$1/pg_ctl" -D "$2/data" -l "$2/server.log" -w -o "-k $2 -c listen_addresses= -c max_connections=300" start \
    >"$2/start.log" 2>&1 || { cat "$2/server.log" >&2; exit 1; }
echo ready
read -r _
"$1/pg_ctl" -D "$2/data" -m immediate -w stop >/dev/null 2>&1
rm -rf "$2"
"#;

impl Server {
    fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            // Past the harness, which hides what a passing test prints.
            let text =
                "\nPostgreSQL was NOT tested: no /usr/lib/postgresql/*/bin/initdb (Debian: postgresql)\n";
            std::io::stderr().write_all(text.as_bytes()).unwrap();
            return None;
        };
        let folder = tempfile::Builder::new().prefix("odh-postgresql-").tempdir().unwrap().keep();
        let mut command = if nix::unistd::geteuid().is_root() {
            // PostgreSQL refuses to run as root.
            chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
            let mut command = Command::new("setpriv");
            let user =
                [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
            command.args(user).arg("/bin/sh");
            command
        } else {
            Command::new("/bin/sh")
        };
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711)).unwrap();
        let mut shell = command
            .args(["-c", SCRIPT, "sh"])
            .args([&programs, &folder])
            .current_dir("/")
            // An interrupt from the keyboard ends this program, and then this shell stops the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "PostgreSQL did not start");
        Some(Self { folder, _shell: shell })
    }

    fn url(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://odh@{folder}/{database}")
    }
}

/// Debian's user without rights.
const NOBODY: u32 = 65534;

/// Returns the folder with the programs of the newest PostgreSQL.
pub fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(Result::ok).map(|version| version.path().join("bin"));
    let version = |folder: &Path| folder.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    folders.filter(|folder| folder.join("initdb").is_file()).max_by_key(|folder| version(folder))
}

/// A moment, in seconds since some day.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}
