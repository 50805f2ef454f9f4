//! The tags that MPI launchers put before the lines of their ranks. Pure.
//!
//! `[1,3]<stdout>:` is Open MPI 4's (`--tag-output`), `[prterun-node-7@1,3]<stdout>: ` Open MPI 5's, and `[3] ` that of MPICH and
//! Intel MPI (`-prepend-rank`, `-l`). Only the tag is taken off: the rest is what the rank wrote, with its indentation.

/// The names of the streams in Open MPI's tags.
const STREAMS: [&str; 3] = ["<stdout>", "<stderr>", "<stddiag>"];

/// Returns the rank that a line is tagged with, and what the rank wrote.
pub fn split(line: &str) -> Option<(u32, &str)> {
    let (inside, after) = line.strip_prefix('[')?.split_once(']')?;
    // A second bracket has the host and the process.
    let after_place = match after.strip_prefix('[').and_then(|after| after.split_once(']')) {
        Some((place, rest)) if place.contains(':') && !place.contains(char::is_whitespace) => rest,
        _ => after,
    };
    let stream = STREAMS.iter().find_map(|stream| after_place.strip_prefix(stream));
    if let Some(text) = stream {
        let (job, rank) = inside.rsplit_once([',', '@']).unwrap_or(("", inside));
        let text = text.strip_prefix(':').unwrap_or(text);
        // Open MPI 5 puts a space between the tag and the text; Open MPI 4 does not.
        let text = if job.contains('@') { text.strip_prefix(' ').unwrap_or(text) } else { text };
        return Some((number(rank)?, text));
    }
    match after.strip_prefix(' ') {
        Some(text) => Some((number(inside)?, text)),
        None if after.is_empty() => Some((number(inside)?, "")),
        None => None,
    }
}

/// A rank in digits only.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launchers_tags_are_taken_off_and_nothing_else() {
        let table = [
            ("[1,3]<stdout>:step 1", Some((3, "step 1"))),
            ("[1,12]<stderr>:  File \"a.py\"", Some((12, "  File \"a.py\""))),
            ("[1,0]<stdout>:2026-01-01 00:00:00,1 INFO x", Some((0, "2026-01-01 00:00:00,1 INFO x"))),
            ("[prterun-node-1-77@1,3]<stdout>: step", Some((3, "step"))),
            ("[prterun-node-1-77@1,3]<stdout>:   indented", Some((3, "  indented"))),
            ("[1,3][node-1:77]<stdout>:step", Some((3, "step"))),
            ("[1,3]<stddiag>:", Some((3, ""))),
            ("[3] step", Some((3, "step"))),
            ("[3]", Some((3, ""))),
            ("[3]: text", None),
            ("[INFO] text", None),
            ("[2026-01-01 00:00:00] text", None),
            ("[node-1:77] *** An error occurred", None),
            ("[1,x]<stdout>:text", None),
            ("[-1] text", None),
            ("[99999999999] text", None),
            ("text [1,3]<stdout>:", None),
            ("[", None),
            ("", None),
        ];
        for (line, expected) in table {
            assert_eq!(split(line), expected, "{line}");
        }
    }
}
