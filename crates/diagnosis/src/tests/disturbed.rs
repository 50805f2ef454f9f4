//! The measured outputs, altered in the ways in which real ones vary: the cause must stay the same.

use proptest::prelude::*;

use super::super::Ending;
use super::samples;

/// Lines that any job may print in between; none is evidence of anything.
const CHATTER: [&str; 10] = [
    "epoch 3/10 step 400 loss 0.1273 acc 0.9731",
    "INFO:root:saved checkpoint to /checkpoints/step-400.pt",
    "2026-11-21 09:10:11,123 INFO trainer: learning rate 0.001",
    "  0%|          | 0/100 [00:00<?, ?it/s]",
    "DeprecationWarning: distutils is deprecated",
    "[W socket.cpp:601] warning: something harmless",
    "Loading dataset from /data/train ... done",
    "rank 2 of 8: throughput 1234.5 samples/s",
    "I1121 09:10:11.123456 17 main.cc:42] ready",
    "Using device: cuda:0",
];

fn right(sample: &samples::Sample, text: &str) -> Result<(), TestCaseError> {
    let got = sample.word(text);
    prop_assert!(
        sample.right.iter().any(|right| right == got),
        "{}: {got}, not {:?}\n{text}",
        sample.name,
        sample.right
    );
    Ok(())
}

/// Renames pods everywhere except in paths, where no Worker's name occurs.
fn renamed(text: &str, prefix: &str) -> String {
    text.replace("s-worker-", &format!("{prefix}-worker-"))
        .replace("a-worker-", &format!("{prefix}-worker-"))
        .replace("s-launcher", &format!("{prefix}-launcher"))
        .replace("a-launcher", &format!("{prefix}-launcher"))
}

fn with_paths(text: &str, root: &str) -> String {
    text.replace("/workspace/", &format!("{root}/"))
        .replace("/opt/", &format!("{root}/opt/"))
        .replace("/etc/mpi/", &format!("{root}/mpi/"))
        .replace("mpirun.openmpi", "mpirun")
}

/// Shifts source line numbers, process IDs and addresses.
fn with_versions(text: &str, shift: u32) -> String {
    let number = regex::Regex::new(r"(\.c:|:0|\[\[|PID |PID:\s+|pid )(\d+)").unwrap();
    number
        .replace_all(text, |found: &regex::Captures<'_>| {
            let value: u64 = found[2].parse().unwrap_or(1);
            format!("{}{}", &found[1], value + u64::from(shift))
        })
        .into_owned()
}

fn prefixed(text: &str, prefix: &str) -> String {
    text.split_inclusive('\n').map(|line| format!("{prefix}{line}")).collect()
}

/// Whether only the launcher's own words show that the run has failed: what a rank prints does not count then.
fn is_failed_success(sample: &samples::Sample) -> bool {
    sample.ending == Ending::Exited(0) && sample.right == ["DaemonLost"]
}

fn any_sample() -> impl Strategy<Value = usize> {
    0..samples::all().len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn other_names_paths_and_versions(index in any_sample(), prefix in "[a-z][a-z0-9]{1,8}(-[a-z0-9]{1,6})?", root in "(/[a-z]{2,8}){1,3}", shift in 1..900u32) {
        let sample = &samples::all()[index];
        let text = with_versions(&with_paths(&renamed(&sample.text, &prefix), &root), shift);
        right(sample, &text)?;
    }

    #[test]
    fn prefixes_of_log_tools_and_launchers(index in any_sample(), which in 0..8usize) {
        let prefix = ["[1,0]<stderr>:", "[1,3]<stdout>: ", "[prterun-x-17@1,2]<stderr>: ", "2026-11-21T09:10:11.123456789Z ",
            "[pod/train-launcher-x7k2p/mpi] ", "[0] ", "Sat Nov 21 09:10:11 2026[1,0]<stderr>:", "\u{1b}[31m"][which];
        let sample = &samples::all()[index];
        prop_assume!(!is_failed_success(sample));
        right(sample, &prefixed(&sample.text, prefix))?;
        right(sample, &sample.text.replace('\n', "\r\n"))?;
    }

    #[test]
    fn unrelated_lines_before_between_and_after(index in any_sample(), places in proptest::collection::vec((0.0..1.0f64, 0..CHATTER.len()), 1..12)) {
        let sample = &samples::all()[index];
        // "0 of 1" in every line is the evidence itself: with a rank "2 of 8" it would be a different run.
        prop_assume!(!sample.right.iter().any(|right| right == "WrongMpi" || right == "null"));
        let mut lines: Vec<&str> = sample.text.lines().collect();
        for (place, which) in &places {
            let at = (place * (lines.len() + 1) as f64) as usize;
            // Buffering can insert a line between two lines of a help text, but never splits a line.
            lines.insert(at.min(lines.len()), CHATTER[*which]);
        }
        right(sample, &lines.join("\n"))?;
    }

    #[test]
    fn cut_off_after_the_evidence(index in any_sample(), share in 0.0..1.0f64) {
        let sample = &samples::all()[index];
        let Some(diagnosis) = sample.diagnosis(&sample.text) else { return Ok(()) };
        let last = diagnosis.evidence.iter().filter_map(|evidence| evidence.line).max().unwrap_or(0);
        let lines: Vec<&str> = sample.text.lines().collect();
        let keep = last + ((lines.len().saturating_sub(last)) as f64 * share) as usize;
        // A program that the shell does not find is known to be the daemon only from the launcher's message further
        // down.
        let keep = if sample.name == "ompi_orted_not_found" { keep.max(4) } else { keep };
        right(sample, &lines[..keep.min(lines.len())].join("\n"))?;
    }

    #[test]
    fn any_input_gets_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..4000), code in any::<i32>()) {
        let output = super::super::Output::from(bytes.as_slice());
        for ending in [Ending::Unknown, Ending::Exited(code), Ending::Running { silent_seconds: code.unsigned_abs().into() }] {
            let _ = super::super::diagnose(&output, ending, &super::super::Facts::default());
        }
    }
}

/// Seven unrelated lines of a rank inside of the launcher's report in two lines.
#[test]
fn a_report_in_two_lines_is_read_across_what_ranks_print_in_between() {
    let all = samples::all();
    let reports = all.iter().filter(|sample| sample.text.contains(" exited on\nsignal "));
    let mut checked = 0;
    for sample in reports {
        for first in 0..CHATTER.len() {
            let between: Vec<&str> = (0..7).map(|line| CHATTER[(first + line) % CHATTER.len()]).collect();
            let between = format!(" exited on\n{}\nsignal ", between.join("\n"));
            let text = sample.text.replace(" exited on\nsignal ", &between);
            let got = sample.word(&text);
            assert!(sample.right.iter().any(|right| right == got), "{}: {got}\n{text}", sample.name);
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// Long host names, and a rank's output after every single line.
#[test]
fn every_sample_survives_long_names_and_a_talkative_rank() {
    let name = regex::Regex::new(r"\b([as]-(?:worker-\d|launcher))\b").unwrap();
    for sample in samples::all() {
        let long = name.replace_all(&sample.text, "$1.train.team-7.svc.cluster.local");
        let got = sample.word(&long);
        assert!(sample.right.iter().any(|right| right == got), "{}: {got} with long names", sample.name);
        if sample.right.iter().any(|right| right == "WrongMpi" || right == "null") {
            continue;
        }
        for (which, chatter) in CHATTER.iter().enumerate() {
            let talkative: String = sample
                .text
                .lines()
                .flat_map(|line| [line.to_owned(), format!("[1,{which}]<stdout>:{chatter}")])
                .map(|line| line + "\n")
                .collect();
            let got = sample.word(&talkative);
            assert!(
                sample.right.iter().any(|right| right == got),
                "{}: {got} between {chatter:?}",
                sample.name
            );
        }
    }
}

#[test]
fn every_sample_survives_each_launcher_prefix() {
    for sample in samples::all().iter().filter(|sample| !is_failed_success(sample)) {
        for prefix in ["[1,0]<stderr>:", "2026-11-21T09:10:11Z ", "[3] "] {
            let got = sample.word(&prefixed(&sample.text, prefix));
            assert!(sample.right.iter().any(|right| right == got), "{}: {got} with {prefix:?}", sample.name);
        }
    }
}
