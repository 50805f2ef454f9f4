//! A person without root on a shared machine runs the examples.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use stories::{Home, permits_root, places};

/// The user `nobody`, who owns nothing.
const NOBODY: &str = "65534";

/// Runs `odh local up`, `run` and `down` as another user, with the programs that were built here.
fn runs_for_nobody(story: &str, mode: Option<&str>) {
    if !permits_root() {
        // We are not root ourselves, so `main_job` and `examples` cover this story.
        stories::record(story, "as the user who runs the tests", true);
        return;
    }
    let prefix =
        ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"].map(str::to_owned).to_vec();
    let odh = places::odh();
    require_readable(&prefix, &odh);
    let home = Home::for_user(odh, prefix);
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777))
        .expect("the home can be opened");
    home.up(mode.map_or(&[][..], |_| &["--mode", "plain"][..]));
    stories::record(story, &home.mode(), mode.is_some());
    for (example, says) in [("hello.yaml", "rank"), ("pi.yaml", "3.14"), ("digits.yaml", "accuracy")] {
        let manifest = places::repository("examples").join(example);
        home.odh(&["local", "run", &manifest.to_string_lossy()]).ended(0).says(says);
    }
    home.odh(&["local", "down", "--purge"]).ended(0);
}

/// Fails early if the other user cannot read the program.
fn require_readable(prefix: &[String], odh: &Path) {
    let readable = Command::new(&prefix[0]).args(&prefix[1..]).arg("test").arg("-x").arg(odh).status();
    assert!(
        readable.is_ok_and(|status| status.success()),
        "{} cannot be reached by another user: clone the repository into a folder that others may read, for example under /srv",
        odh.display()
    );
}

#[test]
fn runs_the_examples_without_any_rights() {
    runs_for_nobody("unprivileged::examples", None);
}

#[test]
fn runs_the_examples_as_plain_processes() {
    runs_for_nobody("unprivileged::plain", Some("plain"));
}
