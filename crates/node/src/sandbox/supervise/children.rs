//! What children report, and how they end.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use super::{Child, SuperviseError, Supervisor, Task};
use crate::sandbox::cgroups::Group;
use crate::sandbox::protocol::{AnswerBody, Exit, Failure, Usage};
use crate::sandbox::tree;

/// The most that is read of a child's report, which is a few lines, or the usage of hundreds of containers.
const MAX_REPORT_BYTES: usize = 256 << 10;

impl Supervisor {
    pub(super) fn read_report(&mut self, pid: Pid) -> Result<(), SuperviseError> {
        let Some(child) = self.children.get_mut(&pid) else { return Ok(()) };
        let ended = child.read_status();
        let made = child.report.first() == Some(&b'N');
        if let (true, Task::Pod(name)) = (made, &child.task) {
            let (name, id) = (name.clone(), child.request);
            child.report.clear();
            if let Err(failure) = self.connect_pod(pid, &name) {
                let _ = kill(pid, Signal::SIGKILL);
                return self.fail(id, failure);
            }
            return Ok(());
        }
        if let Some(main) = child.reported_main() {
            child.main = main;
        }
        let started = ended && child.failure().is_none();
        let (id, is_program) = (child.request, matches!(child.task, Task::Container(_) | Task::Exec(_)));
        if started && is_program {
            return self.answer(id, AnswerBody::Started);
        }
        Ok(())
    }

    pub(super) fn reap(&mut self) -> Result<(), SuperviseError> {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            match tree::ending(status) {
                Some((pid, how)) => self.ended(pid, how)?,
                None if status == nix::sys::wait::WaitStatus::StillAlive => break,
                None => {}
            }
        }
        Ok(())
    }

    fn ended(&mut self, pid: Pid, how: tree::Ending) -> Result<(), SuperviseError> {
        // Process its last report first.
        if self.children.get(&pid).is_some_and(|child| child.status.is_some()) {
            self.read_report(pid)?;
        }
        let Some(child) = self.children.remove(&pid) else { return Ok(()) };
        self.by_request.remove(&child.request);
        let id = child.request;
        let failure = child.failure();
        match (&child.task, failure) {
            (Task::Pod(name), failure) => {
                if let (None, (0, _)) = (&failure, how) {
                    return self.answer(id, AnswerBody::PodReady);
                }
                self.remove_pod(&name.clone());
                self.fail(
                    id,
                    failure.unwrap_or_else(|| Failure::new("creating the pod's network was interrupted")),
                )
            }
            (Task::Check, failure) => {
                self.answer(id, AnswerBody::Checked(failure.map_or(Ok(()), |f| Err(f.message))))
            }
            (Task::Measure, _) => match child.usage() {
                Some(usage) => self.answer(id, AnswerBody::Used(usage)),
                None => self.fail(id, Failure::new("cannot measure the usage of containers")),
            },
            (task, failure) => {
                let group = if let Task::Container(group) = task { group.as_ref() } else { None };
                let out_of_memory = group.is_some_and(Group::out_of_memory);
                group.inspect(|group| group.remove());
                if child.result.is_some() {
                    if let Task::Container(_) = task {
                        self.end_execs_of(id);
                    }
                    self.kill_orphans();
                }
                if let Some(failure) = failure {
                    return self.fail(id, failure);
                }
                let (code, signal) = child.kept_result().unwrap_or(how);
                self.answer(id, AnswerBody::Exited(Exit { code, signal, out_of_memory }))
            }
        }
    }

    /// Plain mode: ends the processes run beside a container. Otherwise the kernel does that.
    fn end_execs_of(&self, container: u64) {
        for (pid, child) in &self.children {
            if matches!(child.task, Task::Exec(beside) if beside == container) {
                let _ = kill(*pid, Signal::SIGTERM);
            }
        }
    }

    /// Plain mode: kills processes of a keeper that was killed. They have become our children.
    fn kill_orphans(&self) {
        // Read this list first: a process forked later than this is not in it and is not killed by mistake.
        let all = tree::descendants(getpid());
        let kept: Vec<Pid> = self.children.keys().copied().collect();
        let mut theirs: Vec<Pid> = kept.iter().flat_map(|pid| tree::descendants(*pid)).collect();
        theirs.extend(&kept);
        for pid in all {
            if !theirs.contains(&pid) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    }

    pub(super) fn end_all(&mut self) {
        for (pid, child) in &self.children {
            let kept = child.result.is_some();
            let _ = kill(*pid, if kept { Signal::SIGTERM } else { Signal::SIGKILL });
        }
        if !self.setup.mode.isolates() {
            tree::kill_descendants(getpid());
        }
        for child in self.children.values() {
            if let Task::Container(Some(group)) = &child.task {
                group.remove();
            }
        }
    }
}

impl Child {
    pub(super) fn new(request: u64, task: Task, pid: Pid, status: OwnedFd) -> Child {
        Child { request, task, pod: None, main: pid, status: Some(status), report: Vec::new(), result: None }
    }

    /// Reads what is available. At the end of the pipe, closes it and returns `true`.
    fn read_status(&mut self) -> bool {
        let Some(status) = &self.status else { return false };
        let mut chunk = [0; 4096];
        loop {
            match nix::unistd::read(status, &mut chunk) {
                Ok(0) => {
                    self.status = None;
                    return true;
                }
                Ok(count) if self.report.len() < MAX_REPORT_BYTES => {
                    self.report.extend_from_slice(&chunk[..count]);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.report.split(|byte| *byte == b'\n')
    }

    fn failure(&self) -> Option<Failure> {
        let text = self.lines().find_map(|line| line.strip_prefix(b"F"))?;
        Some(serde_json::from_slice(text).unwrap_or_else(|_| Failure::new("a step failed without a message")))
    }

    fn usage(&self) -> Option<Usage> {
        serde_json::from_slice(self.lines().find_map(|line| line.strip_prefix(b"U"))?).ok()
    }

    fn reported_main(&self) -> Option<Pid> {
        let text = self.lines().find_map(|line| line.strip_prefix(b"M"))?;
        std::str::from_utf8(text).ok()?.parse().ok().map(Pid::from_raw)
    }

    fn kept_result(&self) -> Option<tree::Ending> {
        let mut text = String::new();
        fs::File::from(self.result.as_ref()?.try_clone().ok()?).read_to_string(&mut text).ok()?;
        let (code, signal) = text.split_once(' ')?;
        Some((code.parse().ok()?, signal.parse().ok().filter(|signal| *signal != 0)))
    }
}
