//! `cargo xtask tables CHECKOUT`: makes the tables taken from Kubernetes' sources again, for its next version.
//!
//! The checkout is a clone of kubernetes/kubernetes at the tag of that version. Each table has its `extract.py` beside it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::environment;
use crate::steps::{self, Stop};

/// A table: its file, the script that makes it, and the script's arguments, folders of a checkout.
struct Table {
    file: &'static str,
    script: &'static str,
    folders: &'static [&'static str],
}

const TABLES: [Table; 3] = [
    Table {
        file: "crates/apiserver/src/protobuf/fields.txt",
        script: "crates/apiserver/src/protobuf/extract.py",
        folders: &[
            "staging/src/k8s.io/api",
            "staging/src/k8s.io/apimachinery",
            "staging/src/k8s.io/apiextensions-apiserver",
            "staging/src/k8s.io/kube-aggregator",
        ],
    },
    Table {
        file: "crates/objects/src/schema/go_types.txt",
        script: "crates/objects/src/schema/extract.py",
        folders: &[
            "staging/src/k8s.io/api",
            "staging/src/k8s.io/apimachinery",
            "staging/src/k8s.io/apiextensions-apiserver",
        ],
    },
    Table {
        file: "crates/objects/src/access/default_roles.txt",
        script: "crates/objects/src/access/extract.py",
        folders: &["plugin/pkg/auth/authorizer/rbac/bootstrappolicy"],
    },
];

/// Makes all tables, and writes them only if all could be made.
pub fn run(checkout: &str) -> Result<(), Stop> {
    let checkout = env::current_dir().unwrap_or_default().join(checkout);
    let folders = TABLES.iter().flat_map(|table| table.folders);
    if let Some(missing) = folders.map(|folder| checkout.join(folder)).find(|folder| !folder.is_dir()) {
        return Err(Stop::new(
            format!("there is no {}", missing.display()),
            "name a checkout of the whole of Kubernetes: git clone --depth 1 --branch v1.37.0 https://github.com/kubernetes/kubernetes",
        ));
    }
    // The roles are read from YAML, which this environment's Python can.
    let python = environment::clients()?.join("bin/python");
    let made: Vec<(PathBuf, Vec<u8>)> =
        TABLES.iter().map(|table| make(table, &python, &checkout)).collect::<Result<_, _>>()?;
    for (file, text) in made {
        fs::write(&file, text).map_err(|error| Stop::io(&file, &error))?;
    }
    steps::step("The tables are made: read `git diff`, and adapt the tests that count their lines");
    Ok(())
}

fn make(table: &Table, python: &Path, checkout: &Path) -> Result<(PathBuf, Vec<u8>), Stop> {
    steps::step(&format!("Making {}", table.file));
    let output = Command::new(python)
        .arg(steps::root().join(table.script))
        .args(table.folders.iter().map(|folder| checkout.join(folder)))
        .output()
        .map_err(|error| Stop::io(python, &error))?;
    if output.status.success() && !output.stdout.is_empty() {
        return Ok((steps::root().join(table.file), output.stdout));
    }
    let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    Err(Stop::new(
        format!("{} could not read {}:\n{said}", table.script, checkout.display()),
        "Kubernetes' sources have changed in form: adapt the script",
    ))
}
