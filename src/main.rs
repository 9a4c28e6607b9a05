//! The command line of Tidegate; what it does is in the library's [`tidegate::cli`].

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tidegate::cli::{backup, check, demo, exit_code, passwd, serve, watch};
use tidegate::config::Flags;
use tidegate::limits::STACK;
use tracing_subscriber::EnvFilter;

/// See how far the backfill of every split of a streaming source is, and refuse the rescale that would break it.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the main job in one go, then stay up for psql.
    Demo(demo::DemoArgs),
    /// Run the server.
    Serve(Box<Flags>),
    /// Set a user's password, from a prompt or standard input.
    Passwd(passwd::PasswdArgs),
    /// Tell whether a source may be rescaled now: exit code 0 safe, 1 not safe, 2 could not tell.
    Check(check::CheckArgs),
    /// Show live progress of every materialized view and split.
    Watch(watch::WatchArgs),
    /// Copy the state file, while the server runs.
    Backup(backup::BackupArgs),
    /// Make a backup the state of a data directory.
    Restore(backup::RestoreArgs),
    /// Look at a whole state file, and put a backup in the place of a damaged one.
    Repair(backup::RepairArgs),
}

/// Worker threads: queries read SQLite on them, so there are more than cores.
const THREADS: usize = 8;

/// How long tasks that still run at the end may take.
const LEFT_BEHIND: std::time::Duration = std::time::Duration::from_secs(1);

fn main() -> ExitCode {
    let cli = Cli::parse();
    let default = if matches!(cli.command, Command::Serve(_)) { "info" } else { "warn" };
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Nobody may be reading: a log that can't be written must not end a task.
        .log_internal_errors(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_stack_size(STACK)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime cannot be started");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(async {
        match cli.command {
            Command::Demo(args) => exit_code(demo::run(args).await),
            Command::Serve(flags) => exit_code(serve::run(*flags).await),
            Command::Passwd(args) => exit_code(passwd::run(args).await),
            Command::Check(args) => check::run(args).await,
            Command::Watch(args) => exit_code(watch::run(args).await),
            Command::Backup(args) => exit_code(backup::back_up(args).await),
            Command::Restore(args) => exit_code(backup::restore(args)),
            Command::Repair(args) => exit_code(backup::repair(args)),
        }
    });
    // A task that never comes back must not keep the process.
    runtime.shutdown_timeout(LEFT_BEHIND);
    code
}
