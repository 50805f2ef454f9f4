//! A command on a real pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use nix::unistd::Pid;

/// Rows and columns of the terminal.
const ROWS: u16 = 50;
const COLUMNS: u16 = 100;

/// Returns everything that a command writes to its own terminal, including control sequences.
pub fn raw(command: Command) -> String {
    let mut text = Vec::new();
    attend(command, |chunk, _, _| text.extend_from_slice(chunk));
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs a command on its own terminal; returns the final screen and the exit code. The concurrent event happens once
/// the screen shows `after`.
pub fn run(command: Command, typed: Option<&str>, after: &str, meanwhile: impl FnOnce(Pid)) -> (String, i32) {
    let mut screen = vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 0);
    let (mut typed, mut meanwhile) = (typed, Some(meanwhile));
    let code = attend(command, |chunk, keyboard, pid| {
        screen.process(chunk);
        if screen.screen().contents().contains(after)
            && let Some(meanwhile) = meanwhile.take()
        {
            meanwhile(pid);
        }
        let asked = |contents: &str| contents.contains("[y/N]") || contents.contains("q quit");
        if typed.is_some() && asked(&screen.screen().contents()) {
            writeln!(keyboard, "{}", typed.take().unwrap()).unwrap();
        }
    });
    (screen.screen().contents(), code)
}

/// Runs a command on a terminal; calls `seen` with each chunk of output, the keyboard and the process.
fn attend(mut command: Command, mut seen: impl FnMut(&[u8], &mut File, Pid)) -> i32 {
    let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).unwrap();
    let end = || Stdio::from(terminal.slave.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
    let mut child = command.spawn().unwrap();
    let _watchdog = super::Watchdog::of(super::pid(&child));
    // Reading the terminal ends once the last slave end is closed.
    drop((command, terminal.slave));
    let mut keyboard = File::from(terminal.master.try_clone().unwrap());
    let mut from = File::from(terminal.master);
    let mut chunk = [0; 4096];
    // Linux returns EIO after the last slave end is closed.
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        seen(&chunk[..length], &mut keyboard, super::pid(&child));
    }
    super::code(child.wait().unwrap())
}
