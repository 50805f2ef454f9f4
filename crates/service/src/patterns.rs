//! Compiles the patterns of callers: away from the runtime, in turns, and within a budget of memory that they hold as long as
//! they are used.

use std::sync::{Arc, LazyLock};

use connections::{Budget, Share};
use jobs::logs::pattern::Pattern;

use crate::body::exhausted;
use crate::operation;
use crate::problem::Problem;
use crate::turns::{Bounds, Turns};

/// The memory for compiled patterns: of all callers, and of each.
const MEMORY: usize = 192 << 20;
const MEMORY_OF_CALLER: usize = 48 << 20;
/// What a pattern counts while it is compiled.
const WHILE_COMPILED: usize = 1 << 20;
/// How many requests compile patterns at a time, and how many wait for that.
const COMPILING: Bounds = Bounds { places: 1, waiting_of_share: 32, waiting: 1024 };

static BUDGET: LazyLock<Arc<Budget>> = LazyLock::new(|| Budget::new(MEMORY, MEMORY_OF_CALLER));
static TURNS: LazyLock<Arc<Turns>> = LazyLock::new(|| Turns::new(COMPILING));

/// The patterns of one request, and the memory that they count.
pub struct Compiled {
    /// In the order in which they were sent.
    pub patterns: Vec<Pattern>,
    share: Option<Share>,
}

impl Compiled {
    /// Takes the patterns; the memory is counted until the share is dropped.
    pub fn into_parts(self) -> (Vec<Pattern>, Option<Share>) {
        (self.patterns, self.share)
    }
}

/// Compiles patterns, each with the field in which it was sent.
///
/// # Errors
/// 422 if one is wrong or too large, 429 or 503 if there is no memory for them now.
pub async fn compile(sent: Vec<(&'static str, String)>) -> Result<Compiled, Problem> {
    if sent.is_empty() {
        return Ok(Compiled { patterns: Vec::new(), share: None });
    }
    compile_within(&BUDGET, &operation::share(), sent).await
}

async fn compile_within(
    budget: &Arc<Budget>,
    caller: &str,
    sent: Vec<(&'static str, String)>,
) -> Result<Compiled, Problem> {
    let share = budget.share(caller);
    share.pin().map_err(exhausted)?;
    let reserved = sent.len() * WHILE_COMPILED;
    share.take(reserved).map_err(exhausted)?;
    // The memory is counted until the work ends, even if nobody waits for it any more.
    let compiled = TURNS.run(caller, move || (all(&sent), share)).await.map_err(exhausted)?;
    let (patterns, share) =
        compiled.map_err(|_| Problem::unavailable("the patterns cannot be compiled now"))?;
    let patterns = patterns?;
    let bytes: usize = patterns.iter().map(Pattern::bytes).sum();
    share.release(reserved.saturating_sub(bytes));
    share.take(bytes.saturating_sub(reserved)).map_err(exhausted)?;
    Ok(Compiled { patterns, share: Some(share) })
}

fn all(sent: &[(&'static str, String)]) -> Result<Vec<Pattern>, Problem> {
    let one = |(field, text): &(&'static str, String)| {
        let fix = "send a regular expression; a part that is repeated often makes it large";
        Pattern::new(text, false).map_err(|fault| Problem::invalid(field, fault, fix))
    };
    sent.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(texts: &[&str]) -> Vec<(&'static str, String)> {
        texts.iter().map(|text| ("pattern", (*text).to_owned())).collect()
    }

    #[tokio::test]
    async fn patterns_in_use_hold_no_more_memory_than_a_caller_may_have() {
        let budget = Budget::new(16 << 20, 8 << 20);
        let large = sent(&[r"\w+ \w+ \w+"]);
        let mut used = Vec::new();
        let refused = loop {
            match compile_within(&budget, "jane", large.clone()).await {
                Ok(compiled) => used.push(compiled),
                Err(refused) => break refused,
            }
            assert!(used.len() < 8);
        };
        assert_eq!(refused.status, 429);
        assert!(!used.is_empty());
        assert!(compile_within(&budget, "joe", large.clone()).await.is_ok());
        used.pop();
        assert!(compile_within(&budget, "jane", large).await.is_ok());
    }

    #[tokio::test]
    async fn a_wrong_pattern_is_named_by_its_field() {
        let refused = compile(vec![("grep", "x".to_owned()), ("exclude", r"\w{25}".to_owned())]).await;
        let refused = refused.err().unwrap();
        assert_eq!((refused.status.as_u16(), refused.fields[0].path.as_str()), (422, "exclude"));
        assert!(refused.message.contains("too large"), "{}", refused.message);
    }
}
