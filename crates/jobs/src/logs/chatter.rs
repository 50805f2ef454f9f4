//! Lines in pods' output that no program of the user wrote and that say nothing about the job: of the launch agent, and of MPI's
//! starters. They are hidden unless they are asked for. Pure.

/// How the launch agent's own lines begin.
const AGENT: &str = "odh-launch: ";
/// How the agent reports in the Launcher that it waits for a Worker. Its other lines there are errors.
const AGENT_WAITS: &str = "odh-launch: waiting for ";

/// Whether a line is chatter, in the output of a Worker or of another pod.
pub fn is_chatter(line: &str, is_worker: bool) -> bool {
    line.starts_with(if is_worker { AGENT } else { AGENT_WAITS }) || diagnosis::is_noise(line.trim_end())
}

/// Whether the agent reports with a line that it waits for a Worker.
pub fn is_wait(line: &str) -> bool {
    line.starts_with(AGENT_WAITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chatter_is_neither_an_error_nor_what_a_program_wrote() {
        let table = [
            ("odh-launch: serving on [::]:7222", true, false),
            ("odh-launch: waiting for pi-worker-0.pi.team.svc (10 s of 600 s): no address", true, true),
            ("odh-launch: cannot reach pi-worker-0", true, false),
            (
                "[pi-launcher:5] plm:rsh: Warning: setpgid(5,5) failed in parent with errno=Permission denied(13)",
                true,
                true,
            ),
            (
                "[pi-launcher:00005] plm:ssh: Warning: setpgid(5,5) failed in parent with errno=Permission denied(13)",
                true,
                true,
            ),
            ("(null): Forwarding signal 18 to job", true, true),
            ("prterun: Forwarding signal 18 to job", true, true),
            ("train: Forwarding signal 18 to job", false, false),
            ("step 1", false, false),
        ];
        for (line, of_worker, of_launcher) in table {
            assert_eq!((is_chatter(line, true), is_chatter(line, false)), (of_worker, of_launcher), "{line}");
        }
    }
}
