//! `conformance`: runs programs against both servers, records the real one's answers, or shows one program.
//! `cargo xtask conformance` builds what it needs and calls it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool that talks to the person who runs it")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use conformance::compare::compare;
use conformance::real::Real;
use conformance::run::{Plan, Report, Twins, run};
use conformance::{generate, known, recorded};

#[derive(Parser)]
#[command(about = "The same requests to the embedded cluster and to a real API server")]
struct Arguments {
    /// The folder with etcd and kube-apiserver.
    #[arg(long, env = "ODH_KUBE_BINARIES")]
    binaries: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs programs and fails where answers differ in a way that is not listed.
    Run {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        programs: u64,
        /// The first one's seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many at a time.
        #[arg(long, default_value_t = 24)]
        side_by_side: usize,
        /// How many groups of differences are made small and shown.
        #[arg(long, default_value_t = 12)]
        shown: usize,
        /// Shows groups as they were met, without making them small.
        #[arg(long)]
        quick: bool,
        /// Where the summary goes.
        #[arg(long)]
        summary: Option<PathBuf>,
    },
    /// Writes down the real server's answers to programs.
    Record {
        /// Where to.
        #[arg(long, default_value = "crates/conformance/recorded.jsonl")]
        file: PathBuf,
        /// How many programs.
        #[arg(long, default_value_t = 400)]
        programs: usize,
    },
    /// Runs a command with the real server alone, whose kubeconfig `ODH_REAL_KUBECONFIG` names.
    With {
        /// With the default controllers that need no node; `ODH_REAL_CONTROLLERS` says so.
        #[arg(long)]
        controllers: bool,
        /// The command.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Shows programs with both answers up to the first that differs.
    Show {
        /// Their seeds.
        seeds: Vec<u64>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match walk(Arguments::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn walk(arguments: Arguments) -> Result<ExitCode, String> {
    if let Task::With { controllers, command } = &arguments.task {
        return with(&arguments.binaries, *controllers, command).await;
    }
    let twins = Arc::new(Twins::start(Some(&arguments.binaries), known::list()?).await?);
    let code = match arguments.task {
        Task::Run { programs, seed, side_by_side, shown, quick, summary } => {
            let plan = Plan { seed, programs, side_by_side, shown: if quick { 0 } else { shown } };
            let report = run(twins.clone(), plan).await?;
            print!("{}", report.summary());
            show(&twins, &report, plan, shown).await?;
            if let Some(path) = summary {
                std::fs::write(&path, report.summary())
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
            if report.differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Task::With { .. } => ExitCode::SUCCESS,
        Task::Record { file, programs } => {
            let text = recorded::record(&twins, programs).await?;
            std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
            ExitCode::SUCCESS
        }
        Task::Show { seeds } => {
            for seed in seeds {
                show_one(&twins, seed).await?;
            }
            ExitCode::SUCCESS
        }
    };
    if let Ok(twins) = Arc::try_unwrap(twins).map_err(|_| ()) {
        twins.stop().await;
    }
    Ok(code)
}

/// Runs a command while the real server runs. Returns the command's exit code.
async fn with(binaries: &Path, controllers: bool, command: &[String]) -> Result<ExitCode, String> {
    let mut real = Real::start(binaries).await.map_err(|error| error.to_string())?;
    let (program, words) = command.split_first().ok_or("no command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(words).env("ODH_REAL_KUBECONFIG", &real.kubeconfig);
    if controllers {
        real.add_controllers(binaries).map_err(|error| error.to_string())?;
        command.env("ODH_REAL_CONTROLLERS", "1");
    }
    let status = command.status().await.map_err(|error| format!("{program}: {error}"))?;
    real.stop().await;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(twins: &Twins, report: &Report, plan: Plan, shown: usize) -> Result<(), String> {
    for (index, (signature, (count, seed, difference))) in report.groups().into_iter().enumerate() {
        println!("\n[{count} programs, the first of seed {seed}] {difference}");
        if index >= plan.shown.min(shown) {
            continue;
        }
        let program = twins.least(*seed, signature).await;
        for step in &program.steps {
            println!("    {}", serde_json::to_string(step).map_err(|error| error.to_string())?);
        }
        let (real, ours) = twins.both(&program).await?;
        let line = |value| serde_json::to_string(value).map_err(|error| error.to_string());
        println!("    real: {}", real.last().map(line).transpose()?.unwrap_or_default());
        println!("    ours: {}", ours.last().map(line).transpose()?.unwrap_or_default());
    }
    Ok(())
}

async fn show_one(twins: &Twins, seed: u64) -> Result<(), String> {
    let program = generate::program(seed);
    let (real, ours) = twins.both(&program).await?;
    let unknown = compare(&program, &real, &ours, &known::list()?).unknown;
    println!("\nprogram {seed}");
    for ((step, real), ours) in program.steps.iter().zip(&real).zip(&ours) {
        let line = |value| serde_json::to_string(value).map_err(|error| error.to_string());
        println!("{}", serde_json::to_string(step).map_err(|error| error.to_string())?);
        if unknown.iter().any(|difference| difference.step == step.id) {
            println!("    real: {}\n    ours: {}", line(real)?, line(ours)?);
            break;
        }
        println!("    both: {} {}", real.code, real.body["message"]);
    }
    for difference in unknown {
        println!("{difference}");
    }
    Ok(())
}
