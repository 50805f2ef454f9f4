//! The numbers that are looked for in every line of a job's output, while it is archived: what training programs usually
//! print. Nothing else in the service, the dashboard or the SDK knows these names. Pure.

use std::sync::LazyLock;

use history::logs::Line;
use history::series::{Point, Sample, Samples};
use regex::Regex;

/// What a program prints, and the name of the series that it becomes. A name that Trainer's protocol reports as well is one
/// series with it.
const NAMES: [(&str, &str); 14] = [
    ("loss", "loss"),
    ("train_loss", "train_loss"),
    ("eval_loss", "eval_loss"),
    ("val_loss", "val_loss"),
    ("acc", "accuracy"),
    ("accuracy", "accuracy"),
    ("eval_accuracy", "eval_accuracy"),
    ("val_acc", "val_accuracy"),
    ("val_accuracy", "val_accuracy"),
    ("lr", "learning_rate"),
    ("learning_rate", "learning_rate"),
    ("grad_norm", "grad_norm"),
    ("perplexity", "perplexity"),
    ("reward", "reward"),
];

/// A number as programs print it, also one that is none: a loss of `nan` is worth knowing.
const NUMBER: &str =
    r"(?:tensor\()?(?<value>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|nan|[-+]?inf(?:inity)?)\b";

static USUAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names: Vec<&str> = NAMES.iter().map(|(printed, _)| *printed).collect();
    // `loss=0.5`, `loss: 0.5`, `'loss': 0.5`
    Regex::new(&format!(r#"(?i)\b(?<name>{})["']?[=:\s]+{NUMBER}"#, names.join("|"))).ok()
});

static STEP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"(?i)\b(?<name>global_step|step|iteration|iter|epoch)["']?[=:\s]+\[?(?<number>[0-9]+)"#).ok()
});

/// Whether the output of this part of a job is looked at: that of the Launcher, or of the first replica.
pub fn is_sampled(part: &str, place: usize) -> bool {
    place == 0 && (part == "launcher" || part.ends_with("-0"))
}

/// Returns what the lines of a part contain.
pub fn samples(part: &str, lines: &[Line]) -> Samples {
    let samples = lines.iter().enumerate().flat_map(|(place, line)| samples_of(place, line)).collect();
    Samples { part: part.to_owned(), samples }
}

fn samples_of(place: usize, line: &Line) -> Vec<Sample> {
    let mut found: Vec<Sample> = Vec::new();
    let Some(usual) = &*USUAL else { return found };
    for groups in usual.captures_iter(&line.text) {
        let (printed, value) = (groups.name("name"), groups.name("value"));
        let name = printed.and_then(|printed| {
            let is_it = |(one, _): &&(&str, &str)| one.eq_ignore_ascii_case(printed.as_str());
            NAMES.iter().find(is_it).map(|(_, name)| *name)
        });
        let value = value.and_then(|value| value.as_str().parse().ok());
        let (Some(name), Some(value)) = (name, value) else { continue };
        if found.iter().all(|sample| sample.name != name) {
            let step = match found.first() {
                Some(first) => first.point.step,
                None => step(&line.text),
            };
            found.push(Sample { line: place, name, point: Point { at: line.at, step, value } });
        }
    }
    found
}

/// Returns the step that a line names, or else its epoch, if that is a whole number.
pub fn step(text: &str) -> Option<i64> {
    let mut epoch = None;
    for groups in STEP.as_ref()?.captures_iter(text) {
        let (Some(name), Some(number)) = (groups.name("name"), groups.name("number")) else { continue };
        let mut after = text.get(number.end()..).unwrap_or_default().chars();
        // `epoch 0.25`
        let is_whole = after.next() != Some('.') || !after.next().is_some_and(|next| next.is_ascii_digit());
        let Some(number) = number.as_str().parse().ok().filter(|_| is_whole) else { continue };
        if !name.as_str().eq_ignore_ascii_case("epoch") {
            return Some(number);
        }
        epoch = epoch.or(Some(number));
    }
    epoch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&'static str, f64, Option<i64>)> {
        let line = Line { at: jiff::Timestamp::UNIX_EPOCH, text: text.to_owned() };
        let samples = samples("launcher", &[line]).samples;
        samples.into_iter().map(|sample| (sample.name, sample.point.value, sample.point.step)).collect()
    }

    #[test]
    fn what_programs_print_is_found_with_its_step() {
        assert_eq!(
            found("step=10 loss=0.5 acc=0.75"),
            [("loss", 0.5, Some(10)), ("accuracy", 0.75, Some(10))]
        );
        assert_eq!(found("Epoch [3/10] step 200: Loss: 1e-3"), [("loss", 0.001, Some(200))]);
        assert_eq!(
            found("{'loss': 2.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.5}"),
            [("loss", 2.5, None), ("grad_norm", 1.25, None), ("learning_rate", 5e-5, None)]
        );
        assert_eq!(found("epoch: 4, val_loss = -0.25"), [("val_loss", -0.25, Some(4))]);
        assert_eq!(found("[1,0]<stdout>:loss=tensor(0.5, device='cuda:0')"), [("loss", 0.5, None)]);
        assert_eq!(found("loss=0.5 (mean loss=0.75)"), [("loss", 0.5, None)]);
        let not_finite = found("step 7 loss=nan lr=-inf");
        assert!(not_finite[0].1.is_nan() && not_finite[1].1 == f64::NEG_INFINITY);
    }

    #[test]
    fn other_text_has_no_numbers_of_a_training() {
        for text in [
            "",
            "loss",
            "glossary 5",
            "packet_loss_rate=3",
            "loss function 3",
            "loss=0x1f",
            "step=3",
            "lossy: 4",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn the_launcher_and_the_first_replica_are_looked_at() {
        let looked_at = ["launcher", "master-0", "worker-0", "worker-10", "worker-1", ""];
        assert_eq!(looked_at.map(|part| is_sampled(part, 0)), [true, true, true, false, false, false]);
        assert!(!is_sampled("launcher", 1));
    }
}
