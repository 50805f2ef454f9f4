//! The real server's answers to some programs, one program a line, so that the embedded server is held against them
//! where no real one can be had.
//!
//! Programs are recorded with their answers: a change of the generator does not make a record worthless.

use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use crate::compare::{Difference, compare};
use crate::generate;
use crate::known::Known;
use crate::program::Program;
use crate::run::Twins;
use crate::side::Answer;

/// A record's size at most, in bytes.
const MAX_SIZE: usize = 1_600_000;
/// A program whose line is longer is left out: it would take the room of many.
const MAX_LINE: usize = 12_000;
/// Seeds of recorded programs begin here.
const FIRST_SEED: u64 = 1_000_000;
/// Programs that are tried for a record at most, and how many at a time.
const MAX_TRIED: u64 = 4_000;
const SIDE_BY_SIDE: usize = 16;

/// A program and what the real server answers to it, normalised.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The requests.
    pub program: Program,
    /// The answers.
    pub answers: Vec<Answer>,
}

/// Records programs that the embedded server answers alike, but for known differences.
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

/// A program of which both servers say the same, with the real one's answers.
async fn line(twins: &Twins, seed: u64) -> Result<Option<String>, String> {
    let program = generate::program(seed);
    if !twins.difference(&program).await?.unknown.is_empty() {
        return Ok(None);
    }
    let (answers, _) = twins.both(&program).await?;
    serde_json::to_string(&Record { program, answers }).map(Some).map_err(|error| error.to_string())
}

/// Reads a record.
///
/// # Errors
/// Which line is not what it has to be.
pub fn read(text: &str) -> Result<Vec<Record>, String> {
    let line =
        |(index, line)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1));
    text.lines().enumerate().map(line).collect()
}

/// What the embedded server answers otherwise than is recorded, and not as is known.
///
/// # Errors
/// When the program cannot be run.
pub async fn check(twins: &Twins, record: &Record, list: &[Known]) -> Result<Vec<Difference>, String> {
    let ours = twins.ours(&record.program).await?;
    Ok(compare(&record.program, &record.answers, &ours, list).unknown)
}
