//! All output of the program passes through here: data to stdout, prose to stderr. If the data is for a program,
//! stderr gets JSON lines.
//!
//! Colours go through anstream, which drops them where they are not wanted (`NO_COLOR`, not a terminal, `--color`). A
//! closed output (`odh … | head`) ends the command quietly.
//!
//! Names, messages and events come from others and could contain sequences that move the cursor, change the clipboard
//! or reverse the text. Everything printed for people is therefore made [`safe`] here, except a job's own output, as
//! with kubectl.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use jobs::Class;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::usage;

/// Bold red.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Yellow.
pub const CAREFUL: Style = AnsiColor::Yellow.on_default();
/// Green.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Cyan.
pub const ACCENT: Style = AnsiColor::Cyan.on_default();
/// Dim.
pub const FAINT: Style = Style::new().dimmed();
/// Bold.
pub const STRONG: Style = Style::new().bold();

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Applies a style to a text.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The settings of the command's output.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// The requested format.
    pub output: Output,
    /// Whether stderr is a terminal, so that progress can be redrawn.
    pub live: bool,
}

impl Console {
    /// Creates the console; sets colours for the process.
    pub fn new(color: Color, output: Output) -> Self {
        match color {
            Color::Auto => {}
            Color::Always => anstream::ColorChoice::Always.write_global(),
            Color::Never => anstream::ColorChoice::Never.write_global(),
        }
        Console { output, live: io::stderr().is_terminal() && !output.is_for_programs() }
    }

    /// Prints data to stdout; the text includes its final line end.
    pub fn data(&self, text: &str) -> Result<(), Failure> {
        if self.output.shows_objects() { self.document(text) } else { self.raw(&safe(text)) }
    }

    /// Prints data to stdout that a program may read: made safe on a terminal, otherwise unchanged.
    pub fn document(&self, text: &str) -> Result<(), Failure> {
        if io::stdout().is_terminal() { self.raw(&safe(text)) } else { self.raw(text) }
    }

    /// Prints the job's own output unchanged.
    pub fn raw(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let text = seen(text, anstream::AutoStream::choice(&out));
        written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// Draws over what was drawn before, on a terminal; `back` is the control sequence that moves the cursor there.
    pub fn drawing(&self, back: &str, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        let text = safe(text);
        let text = back.to_owned() + &seen(&text, anstream::AutoStream::choice(&out));
        written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// Prints a note for the user; with JSON output, a line `{"note": …}`.
    pub fn note(&self, text: &str) {
        self.say("note", text, "");
    }

    /// Prints a warning.
    pub fn warn(&self, text: &str) {
        self.say("warning", text, &format!("{} ", styled(CAREFUL, "warning:")));
    }

    /// Prints a line to stderr: an object with one key for programs, the text for people.
    pub fn say(&self, key: &str, text: &str, before: &str) {
        if self.output.is_for_programs() {
            self.event(&json!({ key: strip(text) }));
        } else {
            error_line(&format!("{before}{text}"));
        }
    }

    /// Prints a JSON line to stderr.
    pub fn event(&self, value: &Value) {
        json_line(value);
    }

    /// Prints how the command failed.
    pub fn failure(&self, failure: &Failure) {
        if self.output.is_for_programs() {
            self.event(&failure_json(failure));
            return;
        }
        error_line(&failure_lines(failure).join("\n"));
    }
}

/// Makes a text from others safe to show on a terminal. Lines, tabs and this program's colours stay; every other
/// control character and every change of direction is shown as its number.
pub fn safe(text: &str) -> Cow<'_, str> {
    let is_unsafe = |letter: char| {
        let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        turns || letter.is_control() && !matches!(letter, '\n' | '\t')
    };
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let mut letters = from.chars();
        if let Some(length) = colour(from) {
            shown.push_str(&from[..length]);
            letters = from[length..].chars();
        } else {
            shown.extend(letters.next().into_iter().flat_map(char::escape_unicode));
        }
        rest = letters.as_str();
    }
    Cow::Owned(shown + rest)
}

/// The length of the colour sequence at the start of a text, if any: bold, dim, one of the eight colours, or reset.
fn colour(text: &str) -> Option<usize> {
    let (numbers, _) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    let permitted = |number: &str| matches!(number.parse::<u8>(), Ok(0..=2 | 30..=37 | 90..=97));
    numbers.split(';').all(permitted).then_some("\u{1b}[".len() + numbers.len() + 1)
}

fn strip(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Returns the JSON object of a failure.
pub fn failure_json(failure: &Failure) -> Value {
    let mut error = json!({
        "code": failure.exit_code(),
        "reason": failure.reason,
        "message": strip(&failure.message),
        "hint": failure.hint().map(|hint| strip(&hint)),
    });
    if !failure.faults.is_empty() {
        let faults: Vec<Value> = failure
            .faults
            .iter()
            .map(|fault| {
                json!({
                    "source": fault.source,
                    "line": fault.position.map(|at| at.line),
                    "column": fault.position.map(|at| at.column),
                    "path": fault.path,
                    "message": fault.message,
                    "advice": fault.advice,
                })
            })
            .collect();
        if let Some(error) = error.as_object_mut() {
            error.insert("faults".to_owned(), Value::Array(faults));
        }
    }
    json!({ "error": error })
}

/// Returns the lines of a failure for people.
pub fn failure_lines(failure: &Failure) -> Vec<String> {
    let mut lines = vec![format!("{} {}", styled(BAD, "Error:"), failure.message)];
    lines
        .extend(failure.excerpt.iter().flat_map(|excerpt| excerpt.lines()).map(|line| format!("    {line}")));
    if failure.faults.len() > 1 {
        lines.extend(failure.faults.iter().map(|fault| format!("  {fault}")));
    }
    let heading = styled(ACCENT, "Hint:");
    let hints = failure.hints.iter().enumerate();
    lines.extend(
        hints.map(|(at, hint)| if at == 0 { format!("{heading} {hint}") } else { format!("      {hint}") }),
    );
    lines
}

/// Prints a line, or lines that belong together, to stderr in one write. Errors are ignored, as there is nowhere to
/// report them.
pub fn error_line(line: &str) {
    let mut err = io::stderr().lock();
    let line = safe(line);
    let line = seen(&line, anstream::AutoStream::choice(&err)).into_owned() + "\n";
    let _ = err.write_all(line.as_bytes());
}

/// A line of JSON on stderr.
fn json_line(value: &Value) {
    let _ = io::stderr().lock().write_all((value.to_string() + "\n").as_bytes());
}

/// The text to write, with or without colours. A stream that strips colours would write the text in pieces, and an
/// interrupted command would have printed half of it.
fn seen(text: &str, colours: anstream::ColorChoice) -> Cow<'_, str> {
    match colours {
        anstream::ColorChoice::Never => Cow::Owned(strip(text)),
        _ => Cow::Borrowed(text),
    }
}

fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Ok(()) => Ok(()),
        // Exits quietly, with the code of a program that SIGPIPE ends.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(141),
        Err(error) => Err(Failure::new(Class::Error, "Output", format!("cannot write the output: {error}"))),
    }
}

/// Prints clap's output: help and version to stdout with code 0, errors to stderr with code 2.
pub fn usage(error: clap::Error, raw: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind;
    let tip = usage::tip(&error, raw);
    let error = usage::guided(error, raw);
    let text = error.render();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = write!(anstream::stdout().lock(), "{}", text.ansi());
        return ExitCode::SUCCESS;
    }
    if asks_for_json(raw) {
        let plain = text.to_string();
        let told =
            plain.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" ");
        let message = told.trim_start_matches("error: ").to_owned();
        let failure = Failure::usage(message, tip.unwrap_or_else(|| "see --help".to_owned()));
        json_line(&failure_json(&failure));
    } else {
        let _ = write!(anstream::stderr().lock(), "{}", text.ansi());
    }
    ExitCode::from(Class::Usage.exit_code())
}

/// Whether the invalid command line asks for output for programs.
fn asks_for_json(raw: &[OsString]) -> bool {
    let words: Vec<_> =
        raw.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--").collect();
    let for_programs = |word: &str| matches!(word, "json" | "yaml");
    words.windows(2).any(|pair| matches!(&*pair[0], "-o" | "--output") && for_programs(&pair[1]))
        || words.iter().any(|word| {
            word.strip_prefix("--output=")
                .or_else(|| word.strip_prefix("-o="))
                .or_else(|| word.strip_prefix("-o"))
                .is_some_and(for_programs)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_others_cannot_control_a_terminal() {
        let red = styled(BAD, "failed");
        for (text, shown) in [
            ("two\n\tlines, häßlich 日本", "two\n\tlines, häßlich 日本"),
            ("\u{1b}]0;title\u{7}x", "\\u{1b}]0;title\\u{7}x"),
            ("\u{1b}]52;c;ZXZpbA==\u{1b}\\", "\\u{1b}]52;c;ZXZpbA==\\u{1b}\\"),
            ("\u{1b}[2J\u{1b}[1Ax\r", "\\u{1b}[2J\\u{1b}[1Ax\\u{d}"),
            ("\u{1b}[8mhidden\u{1b}[31", "\\u{1b}[8mhidden\\u{1b}[31"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("abc\u{202e}cba", "abc\\u{202e}cba"),
            (&red, &red),
        ] {
            assert_eq!(safe(text), shown);
            assert_eq!(safe(&safe(text)), shown, "once is enough");
        }
        for style in [BAD, CAREFUL, GOOD, ACCENT, FAINT, STRONG] {
            let text = styled(style, "x");
            assert_eq!(safe(&text), text);
        }
    }

    #[test]
    fn quoted_text_in_a_failure_is_made_safe() {
        let failure =
            Failure::new(Class::Error, "Exec", "it says \u{1b}]0;x\u{7}").with_hint("see \u{1b}[2J");
        let lines = failure_lines(&failure).join("\n");
        assert!(
            safe(&lines).contains("it says \\u{1b}]0;x\\u{7}") && safe(&lines).contains("see \\u{1b}[2J")
        );
    }
}
