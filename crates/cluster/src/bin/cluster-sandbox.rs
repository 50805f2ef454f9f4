//! The sandbox process as a program of its own, for programs that embed the cluster without re-executing themselves.

fn main() -> std::process::ExitCode {
    cluster::node::sandbox_main()
}
