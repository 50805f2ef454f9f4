//! The documents generated from the rules and the samples. `UPDATE=1 cargo test -p plan generated_` rewrites them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use super::super::{Cause, Ending, troubleshooting};
use super::samples;

fn compare(path: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "{} is out of date: UPDATE=1 cargo test -p plan generated_", path.display());
}

const INTRODUCTION: &str = "When a job fails, its status, its events and `odh training describe` name one of these causes. For an output that \
     you have saved, `odh training diagnose FILE` applies the same rules. Each section says what you see, what it means and what to do.";

#[test]
fn generated_troubleshooting_guide() {
    let guide = troubleshooting(INTRODUCTION);
    for cause in Cause::ALL {
        let anchor = cause.link().split_once('#').unwrap().1.to_owned();
        assert!(guide.contains(&format!("\n## {}\n", cause.word())), "{cause:?}");
        assert!(guide.contains(&format!("](#{anchor})")), "{cause:?}");
    }
    compare("docs/guides/troubleshooting.md", &guide);
}

/// The last section: how the rules did on outputs that they were not written for.
const FRESH: &str = "\n## Judged before any rule was written for them\n\n\
     The right causes were written down before the diagnosis was asked. What was wrong was fixed afterwards, so the tables above \
     show it no longer. The outputs of `*_ssh_*` were made with real sshd, in pods with their own network namespaces; those of \
     `*_local_*` and `*_fresh_*` on one machine, through a remote shell that gives each host its name.\n\n\
     | outputs | right at once | wrong, low confidence | wrong, medium or high | wrong at medium or high |\n|---|---|---|---|---|\n\
     | 54 of `*_ssh_*` | 46 | 4 | 4 | an error of MPI_Comm_spawn as RankAborted; processes that were each alone as success; \
     ssh that ended with 255 under Intel MPI as PeerUnreachable; a full /dev/shm, which the output did not name, as StorageUnusable |\n\
     | 26 more | 23 | 3 | 0 | |\n\
     | 16 of `*_ssh_trap_*`, whose programs print misleading words | 11 | 1 | 4 | errors of memory and of MPI that the program had \
     caught; a crash that MPICH reports as a rank killed by itself |\n\
     | 13 of `*_ssh_more_*` | 10 | 3 | 0 | |\n\
     | 40 of `*_local_*`, of other kinds | 35 | 4 | 1 | a second MPI_Init, which MPICH calls another error, as RankAborted |\n\
     | 45 of `*_fresh_*`, again of other kinds | 44 | 1 | 0 | |\n\n\
     `impi18_ssh_trap_memory` is still taken for OutOfMemory, with low confidence: the program had caught that exception. \
     In five of the first 80 the output has nothing of the reason, so that a general answer is accepted too: `impi18_ssh_key_broken`, \
     `impi18_ssh_exit_one_slot`, `ompi418_ssh_py_shm_full`, `ompi5_ssh_callback_reset`, `mpich502_ssh_ppn`. The same holds for `mpich502_ssh_more_hosts`, `mpich502_local_sigsys` and `mpich502_fresh_exec`. \
     For `impi18_ssh_key_broken` and `impi18_ssh_more_drop` that answer is PeerUnreachable with low confidence: Intel MPI reports no more than \
     that ssh ended with 255. Two runs of `*_local_*` did something else than was meant, and what was diagnosed is what happened: in \
     `ompi5_local_count` mpi4py refuses the count itself, and in `mpich502_local_netmod` an unknown setting makes MPICH crash. Five more \
     ended well, and nothing was found in them.\n";

#[test]
fn generated_diagnosis_samples() {
    let mut rows = String::new();
    let mut table: BTreeMap<(String, String), usize> = BTreeMap::new();
    for sample in samples::all() {
        let got = sample.diagnosis(&sample.text);
        let cause = got.as_ref().map_or("null", |diagnosis| diagnosis.cause.word());
        let expected = sample.right.iter().find(|right| *right == cause).unwrap_or(&sample.right[0]);
        *table.entry((expected.clone(), cause.to_owned())).or_default() += 1;
        let ended = match sample.ending {
            Ending::Exited(code) => format!("exit code {code}"),
            Ending::Running { silent_seconds } => format!("hung, {silent_seconds} s"),
            Ending::Unknown => "unknown".to_owned(),
        };
        let confidence =
            got.as_ref().map_or(String::new(), |found| format!("{:?}", found.confidence).to_lowercase());
        let worker = got.as_ref().and_then(|found| found.worker.clone()).unwrap_or_default();
        let message = got.map_or(String::new(), |found| found.message.replace('|', "\\|"));
        let _ = writeln!(
            rows,
            "| {} | {ended} | {} | {cause} | {confidence} | {worker} | {message} |",
            sample.name,
            sample.right.join(" or ")
        );
    }
    let mut text = format!(
        "# What the diagnosis makes of measured failures\n\n\
         <!-- Written by the test `generated_diagnosis_samples` of crates/plan; UPDATE=1 rewrites it. -->\n\n\
         {} outputs of real launches, nearly all of which failed, with Open MPI 4.1 and 5.0, MPICH 4.0 to 5.0 and Intel MPI 2021, most of \
         them in pods with their own network namespaces, through the launch agent, through ssh, and through other programs in its place. They are in \
         `crates/diagnosis/testdata/samples`. `null` means that nothing failed.\n\n\
         ## Confusion table\n\n| expected | diagnosed | outputs |\n|---|---|---|\n",
        samples::all().len()
    );
    for ((expected, got), count) in &table {
        let mark = if expected == got { "" } else { " **wrong**" };
        let _ = writeln!(text, "| {expected} | {got}{mark} | {count} |");
    }
    text.push_str("\n## One by one\n\n| output | ended | right | diagnosed | confidence | worker | message |\n|---|---|---|---|---|---|---|\n");
    text.push_str(&rows);
    text.push_str(FRESH);
    compare("docs/reference/diagnosis-samples.md", &text);
}
