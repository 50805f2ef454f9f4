//! Runs that did not fail although their programs print the same words; fakes; outputs of any size and content.

use std::time::Instant;

use super::super::{Collector, Confidence, Ending, Facts, Output, diagnose};
use super::{of, samples, word};

/// All evidence of all samples, as a program might print it: a test suite's log, a tutorial, a chatbot's answer. Those of runs
/// that have failed although they end with 0 are left out.
fn everything() -> String {
    samples::all()
        .iter()
        .filter(|sample| !sample.name.contains("app_is"))
        .filter(|sample| sample.ending != Ending::Exited(0) || sample.word(&sample.text) == "null")
        .map(|sample| sample.text.clone())
        .collect()
}

#[test]
fn a_successful_run_has_no_diagnosis_whatever_it_printed() {
    let quoted: String = everything().lines().map(|line| format!("assistant: {line}\n")).collect();
    for text in [
        everything(),
        quoted,
        "Connection refused, retrying\nssh: connect to host a port 22: Connection refused\nretry 2: connected\n".to_owned(),
        "CUDA out of memory. Tried to allocate 2.00 GiB\nhalving the batch size\nepoch 1 done\n".to_owned(),
        "rank 0 of 4 on w-0\nrank 1 of 4 on w-0\nrank 2 of 4 on w-1\nrank 3 of 4 on w-1\n".to_owned(),
        "rank 0/1 epoch 1 loss 0.3\nrank 0/1 epoch 2 loss 0.2\n".to_owned(),
        String::new(),
    ] {
        assert_eq!(of(&text, Ending::Exited(0)), None, "{}", &text[..text.len().min(200)]);
    }
}

#[test]
fn a_run_that_goes_on_is_left_alone() {
    let progress: String = (0..200).map(|step| format!("epoch 1 step {step} loss 0.{step}\n")).collect();
    for (text, silent_seconds) in [
        (String::new(), 3),
        (format!("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n{progress}"), 9),
        (progress.clone(), 3),
        (format!("ssh: connect to host w-1 port 22: Connection refused\n{progress}"), 1),
        ("CUDA out of memory. Tried to allocate 2.00 GiB\nhalving the batch size\n".to_owned(), 1),
        ("odh-launch: waiting for w-1 (10 s of 600 s): connect to host w-1 (10.0.0.7) port 7222: Connection refused (os error 111)\n".to_owned(), 5),
    ] {
        assert_eq!(of(&text, Ending::Running { silent_seconds }), None, "{}", &text[..text.len().min(200)]);
    }
}

#[test]
fn an_error_that_a_program_survived_does_not_explain_a_later_silence() {
    let progress = "epoch 1 loss 0.3\n".repeat(200);
    let text = format!("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n{progress}");
    assert_eq!(word(&text, Ending::Running { silent_seconds: 60 }), "SilentHang");
}

#[test]
fn what_a_program_fakes_does_not_win_over_what_the_launcher_says() {
    let fake = "ssh: Could not resolve hostname db: Name or service not known\n\
                There are not enough slots available in the system to satisfy the 8\n\
                mpirun noticed that process rank 0 with PID 7 on node w-0 exited on signal 9 (Killed).\n";
    let real = "--------------------------------------------------------------------------\n\
                mpirun detected that one or more processes exited with non-zero status, thus causing\n\
                the job to be terminated. The first process to do so was:\n\n  Process name: [[42395,1],1]\n  Exit code:    3\n";
    let diagnosis = of(&format!("{fake}{real}"), Ending::Exited(3)).unwrap();
    assert_eq!(
        (diagnosis.cause.word(), diagnosis.confidence),
        ("RankExited", Confidence::High),
        "{diagnosis:#?}"
    );
    let tagged: String = fake.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    assert_eq!(word(&format!("{tagged}{real}"), Ending::Exited(3)), "RankExited");
}

/// As in every job that is started with tags: hardly any line is the launcher's own.
#[test]
fn where_nearly_all_lines_are_tagged_a_message_without_a_tag_is_the_launchers() {
    let progress = "[1,0]<stdout>:epoch 1 loss 0.3\n".repeat(200);
    let message = |rank: u8, signal: &str| {
        format!(
            "mpirun noticed that process rank {rank} with PID 7 on node w-{rank} exited on signal {signal}.\n"
        )
    };
    let (fake, real) = (message(0, "11 (Segmentation fault)"), message(1, "9 (Killed)"));
    let text = format!("{progress}[1,0]<stdout>:{fake}{real}");
    assert_eq!(word(&text, Ending::Exited(1)), "RankKilled");
    // A log tool that tags everything says nothing.
    let text = format!("{progress}[1,0]<stdout>:{real}");
    assert_eq!(word(&text, Ending::Exited(137)), "RankKilled");
}

#[test]
fn evidence_that_only_the_program_gives_is_called_weak() {
    let text = "[1,0]<stdout>:hello\nmpirun: starting\n[1,0]<stdout>:ssh: connect to host db port 22: Connection refused\nmpirun: done\n";
    let diagnosis = of(text, Ending::Exited(1)).unwrap();
    assert_eq!(diagnosis.confidence, Confidence::Low, "{diagnosis:#?}");
    assert!(diagnosis.message.contains("weak evidence"), "{diagnosis:#?}");
}

#[test]
fn a_failure_without_evidence_is_unknown() {
    for (text, code) in [("", 1), ("", 255), ("hello\n", 1), ("something went wrong\n", 255)] {
        let diagnosis = of(text, Ending::Exited(code)).unwrap();
        assert_eq!(
            (diagnosis.cause.word(), diagnosis.confidence),
            ("Unknown", Confidence::Low),
            "{text:?} {code}"
        );
    }
    let only_consequence = "ORTE was unable to reliably start one or more daemons.\n";
    assert_eq!(word(only_consequence, Ending::Exited(255)), "Unknown");
    assert_eq!(word(only_consequence, Ending::Exited(127)), "DaemonMissing");
}

#[test]
fn evidence_cannot_drive_a_terminal() {
    let text = "\u{1b}]0;owned\u{7}\u{1b}[2Jssh: Could not resolve hostname \u{202e}1-w\u{1b}[31m: Name or service not known\u{7}\n";
    let diagnosis = of(text, Ending::Exited(255)).unwrap();
    let shown = serde_json::to_string(&diagnosis).unwrap();
    assert_eq!(diagnosis.cause.word(), "HostUnresolvable");
    assert!(!shown.chars().any(|letter| letter.is_control() || letter == '\u{202e}'), "{shown}");
}

#[test]
fn an_endless_line_binary_and_a_huge_output_are_bounded() {
    let mut endless = "x".repeat(8 << 20);
    endless.push_str("\nssh: connect to host w-1 port 22: Connection refused\n");
    assert_eq!(word(&endless, Ending::Exited(255)), "ConnectionRefused");
    let binary: Vec<u8> = (0..4_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(diagnose(&Output::from(binary.as_slice()), Ending::Exited(0), &Facts::default()), None);
    let mut collector = Collector::default();
    let chunk = "epoch 1 loss 0.25\n".repeat(60_000);
    collector.push(b"ssh: connect to host w-1 port 22: Connection refused\n");
    (0..64).for_each(|_| collector.push(chunk.as_bytes()));
    collector
        .push(b"mpirun noticed that process rank 1 with PID 6 on node w-1 exited on signal 9 (Killed).\n");
    let output = collector.finish();
    assert!(output.skipped_bytes > 60_000_000);
    let diagnosis = diagnose(&output, Ending::Exited(137), &Facts::default()).unwrap();
    assert_eq!(diagnosis.cause.word(), "RankKilled");
    assert_eq!(diagnosis.evidence[0].line, Some(64 * 60_000 + 2));
}

#[test]
fn lines_that_all_look_like_evidence_are_read_in_bounded_time() {
    let text = everything().repeat(40);
    let begun = Instant::now();
    assert!(of(&text, Ending::Exited(1)).is_some());
    // For unoptimized builds on busy machines: this guards against quadratic behaviour; the benchmark measures speed.
    assert!(begun.elapsed().as_secs() < 60, "{:?} for {} lines", begun.elapsed(), text.lines().count());
}
