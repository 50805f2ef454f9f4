//! Failures to start the daemons and the program on the Workers: names, connections, keys, programs.

mod access;
mod daemons;
mod programs;

use super::Rule;

/// What every sign of Windows line ends means, and how to get rid of them.
const CRLF: &str = "A script has Windows line ends (CRLF): the carriage return at the end of each line counts as a part of the last word";
pub(super) const CRLF_ADVICE: &str = "Convert the script (sed -i 's/\\r$//' SCRIPT, or dos2unix), also where it is in a ConfigMap, and keep it so in git (.gitattributes: *.sh text eol=lf).";

/// A program that the kernel cannot run.
const FORMAT: &str = "{path|The program} cannot run on {host|the node}: it is built for another architecture, or it is a script whose first line names no interpreter";
pub(super) const FORMAT_ADVICE: &str = "Build the image for the architecture of the nodes, which is mostly amd64 (platform linux/amd64; an image that is built on a Mac is for arm64 otherwise, and the label kubernetes.io/arch of the nodes says what they are). If it is a script, let its first line be #!/bin/sh or another interpreter.";

/// All of them; what follows from the others is last.
pub(super) const RULES: [&[Rule]; 4] =
    [access::RULES, daemons::RULES, programs::RULES, daemons::CONSEQUENCES];
