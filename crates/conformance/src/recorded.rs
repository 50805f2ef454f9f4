//! The real server's answers to some programs, one program per line, for checking the embedded server without a real
//! one.
//!
//! Programs are recorded along with their answers, so a change of the generator does not invalidate a record.

use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use crate::compare::compare;
use crate::difference::Difference;
use crate::generate;
use crate::known::Known;
use crate::program::Program;
use crate::run::Twins;
use crate::side::Answer;

/// The size limit of a record, in bytes.
const MAX_SIZE: usize = 1_600_000;
/// The length limit of a line, in bytes. A program with a longer line is skipped, because it takes the space of many.
const MAX_LINE: usize = 12_000;
/// The first seed of recorded programs.
const FIRST_SEED: u64 = 1_000_000;
/// The most programs tried for a record; the next constant is how many run concurrently.
const MAX_TRIED: u64 = 4_000;
const SIDE_BY_SIDE: usize = 16;

/// A program and the real server's answers, normalized.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The requests.
    pub program: Program,
    /// The answers.
    pub answers: Vec<Answer>,
}

/// Records programs that both servers answer alike, except for known differences.
///
/// # Errors
/// When a program cannot be run.
pub async fn record(twins: &Twins, programs: usize) -> Result<String, String> {
    let seeds = FIRST_SEED..FIRST_SEED + MAX_TRIED;
    let mut lines = futures::stream::iter(seeds).map(|seed| line(twins, seed)).buffered(SIDE_BY_SIDE);
    let (mut text, mut kept) = (String::new(), 0);
    while let Some(line) = lines.next().await {
        if kept == programs || text.len() > MAX_SIZE {
            break;
        }
        if let Some(line) = line?.filter(|line| line.len() <= MAX_LINE) {
            text.push_str(&line);
            text.push('\n');
            kept += 1;
        }
    }
    Ok(text)
}

/// Returns the record of a program with the real server's answers; `None` if it has unknown differences.
async fn line(twins: &Twins, seed: u64) -> Result<Option<String>, String> {
    let program = generate::program(seed);
    if !twins.difference(&program).await?.unknown.is_empty() {
        return Ok(None);
    }
    let (answers, _) = twins.both(&program).await?;
    serde_json::to_string(&Record { program, answers }).map(Some).map_err(|error| error.to_string())
}

/// Parses a record.
///
/// # Errors
/// The first invalid line.
pub fn read(text: &str) -> Result<Vec<Record>, String> {
    let line =
        |(index, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1));
    text.lines().enumerate().map(line).collect()
}

/// Returns the unknown differences between the embedded server's answers and the recorded ones.
///
/// # Errors
/// When the program cannot be run.
pub async fn check(twins: &Twins, record: &Record, list: &[Known]) -> Result<Vec<Difference>, String> {
    let ours = twins.ours(&record.program).await?;
    Ok(compare(&record.program, &record.answers, &ours, list).unknown)
}
