//! What runs a client's script.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Fixture;

/// What runs a client, with the name of its script in the runtime's folder of `tests/clients`.
#[derive(Clone, Copy)]
pub enum Runtime {
    /// This program itself.
    TokioPostgres,
    /// The Python that `fetch.sh` made, with its packages.
    Python(&'static str),
    /// The Python of another folder, whose script may use what those of [`Runtime::Python`] share.
    PythonOf(&'static str, &'static str),
    /// Node, with the packages that `fetch.sh` fetched.
    Node(&'static str),
    /// Java, which compiles the one source file itself, with the jars that `fetch.sh` fetched.
    Java(&'static str),
    /// A Go program that `fetch.sh` built.
    Go(&'static str),
    /// A program of the system, in whose folder the script is, and the question whether its driver is there.
    System(&'static str, &'static [&'static str], &'static str),
}

impl Runtime {
    /// The lines that the script printed, or what is missing to run it.
    pub async fn run(&self, fixture: &Fixture) -> Result<Vec<String>, String> {
        // What hangs is ended, so that the test tells which feature came before.
        let mut command = Command::new("timeout");
        command.arg("300");
        match self {
            Self::TokioPostgres => return Ok(super::tokio_postgres::outcomes(fixture).await),
            Self::Python(script) => command.arg(fetched("python/bin/python")?).arg(source("python", script)),
            Self::PythonOf(folder, script) => command
                .env("PYTHONPATH", source("python", ""))
                .arg(fetched(&format!("{folder}/bin/python"))?)
                .arg(source(folder, script)),
            Self::Node(script) => {
                // Packages are looked for beside the script, so that it runs as a copy beside them.
                let packages = fetched("node/node_modules")?;
                let (script, copies) = (source("node", script), packages.parent().unwrap_or(&packages).to_owned());
                let copy = copies.join(script.file_name().unwrap());
                for file in [&script, &source("node", "common.js")] {
                    std::fs::copy(file, copies.join(file.file_name().unwrap())).unwrap();
                }
                command.arg("node").arg(copy)
            }
            Self::Java(script) => {
                let jars = fetched("java/fetched")?.with_file_name("*");
                command.arg("java").arg("-cp").arg(jars).arg(source("java", script))
            }
            Self::Go(program) => command.arg(fetched(&format!("go/{program}"))?),
            Self::System(program, question, script) => {
                let answer = Command::new(program).args(*question).output();
                if !answer.is_ok_and(|answer| answer.status.success()) {
                    return Err(format!("`{program} {}` doesn't answer", question.join(" ")));
                }
                command.arg(program).arg(source(program, script))
            }
        };
        command.envs(fixture.environment());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
        Ok(out.lines().map(str::to_owned).collect())
    }
}

/// A script's path.
fn source(runtime: &str, script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(runtime).join(script)
}

/// A file of those that `fetch.sh` fetched: in what TIDEGATE_CLIENTS names, or else in the target folder.
fn fetched(file: &str) -> Result<PathBuf, String> {
    let clients = match std::env::var_os("TIDEGATE_CLIENTS") {
        Some(clients) => PathBuf::from(clients),
        None => PathBuf::from(env!("CARGO_BIN_EXE_tidegate")).ancestors().nth(2).unwrap().join("clients"),
    };
    let file = clients.join(file);
    if file.exists() { Ok(file) } else { Err(format!("tests/clients/fetch.sh hasn't fetched {}", file.display())) }
}
