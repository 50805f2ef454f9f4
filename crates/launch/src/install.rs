//! `odh-launch install DIR`: copies the running program, so that any image with MPI can be a Worker's image.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file name of the installed program.
const PROGRAM: &str = "odh-launch";
/// Readable and executable by every uid, because a pod's containers may run as different ones.
const MODE: u32 = 0o755;

/// Why the program could not be installed.
#[derive(Debug, thiserror::Error)]
#[error("cannot install into {}: {step}: {source}", directory.display())]
pub struct InstallFault {
    directory: PathBuf,
    step: &'static str,
    source: io::Error,
}

/// Copies the running program to `DIRECTORY/odh-launch`, completely or not at all. Creates the folder if it is
/// missing.
pub fn install(directory: &Path) -> Result<(), InstallFault> {
    let failed = |step| move |source| InstallFault { directory: directory.to_owned(), step, source };
    fs::create_dir_all(directory).map_err(failed("create the folder"))?;
    let unfinished = directory.join(format!(".{PROGRAM}.{}", std::process::id()));
    let outcome = fs::copy("/proc/self/exe", &unfinished)
        .map_err(failed("copy the program"))
        .and_then(|_| {
            fs::set_permissions(&unfinished, fs::Permissions::from_mode(MODE))
                .map_err(failed("make it executable"))
        })
        .and_then(|()| {
            fs::rename(&unfinished, directory.join(PROGRAM)).map_err(failed("move it into place"))
        });
    if outcome.is_err() {
        drop(fs::remove_file(&unfinished));
    }
    outcome
}
