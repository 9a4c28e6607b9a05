//! Where passwords come from when no SQL gives them: a file, the environment, a terminal. Never the command line, which
//! every user of the machine can read.

use std::io::{BufRead as _, IsTerminal as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::scram::verifier_of;
use crate::error::{Error, Result};
use crate::store::users::{self, User};
use crate::store::{Durability, Store};

/// The variable that holds root's first password.
pub const ROOT_PASSWORD: &str = "TIDEGATE_ROOT_PASSWORD";

/// The first password of user root, from a file's first line or else the environment. `None`: neither is given.
///
/// # Errors
/// [`Error::Config`] for a file that can't be read, or an empty password.
pub fn first(file: Option<&Path>) -> Result<Option<String>> {
    let (password, from) = match (file, std::env::var(ROOT_PASSWORD)) {
        (Some(path), _) => (read_file(path)?, path.display().to_string()),
        (None, Ok(password)) => (password, ROOT_PASSWORD.to_owned()),
        (None, Err(std::env::VarError::NotPresent)) => return Ok(None),
        (None, Err(error)) => return Err(unusable(ROOT_PASSWORD, &error.to_string())),
    };
    if password.is_empty() { Err(unusable(&from, "it is empty")) } else { Ok(Some(password)) }
}

/// Whether others than its owner may do anything with a file. False for one that can't be looked at.
pub fn is_shared(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

/// Says so in the log when others can read a file that holds a secret. Files that an orchestrator mounts often have such
/// permissions and one reader, so it is no reason to stop.
pub fn warn_of_readers(path: &Path) {
    if is_shared(path) {
        tracing::warn!(file = %path.display(), "this file holds a secret, and others than its owner may read it (chmod 0600)");
    }
}

fn read_file(path: &Path) -> Result<String> {
    warn_of_readers(path);
    let text =
        std::fs::read_to_string(path).map_err(|error| unusable(&path.display().to_string(), &error.to_string()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn unusable(what: &str, why: &str) -> Error {
    Error::Config {
        message: format!("{what} gives no password: {why}"),
        hint: "The password is the first line of the file, or the value of the variable.".into(),
    }
}

/// Gives user root a password, if it has none: it is the first one, not one to go back to at every start.
///
/// # Errors
/// Those of the store, and [`Error::Data`] for a password that can't be used.
pub async fn set_first(store: &Store, password: &str) -> Result<()> {
    let verifier = verifier_of(password)?;
    let set = move |tx: &rusqlite::Transaction<'_>| {
        let Some(root) = users::first(tx)?.filter(|root| root.verifier.is_none()) else { return Ok(false) };
        users::update(tx, &User { verifier: Some(verifier), ..root })?;
        Ok(true)
    };
    if store.write(Durability::Full, set).await? {
        tracing::info!("the first user has its first password now");
    }
    Ok(())
}

/// Gives a user another password; for who can write to the data directory.
///
/// # Errors
/// Those of the store, and when there is no such user.
pub async fn set(store: &Store, name: &str, password: &str) -> Result<()> {
    let (name, verifier) = (name.to_owned(), verifier_of(password)?);
    let set = move |tx: &rusqlite::Transaction<'_>| {
        let user = users::get(tx, &name)?;
        users::update(tx, &User { verifier: Some(verifier), ..user })
    };
    store.write(Durability::Full, set).await
}

/// Asks for a new password, twice on a terminal, else for one line of standard input.
///
/// # Errors
/// [`Error::Config`] when the two differ, or nothing can be read.
pub fn ask(name: &str) -> Result<String> {
    let failed = |error: std::io::Error| unusable("standard input", &error.to_string());
    if !std::io::stdin().is_terminal() {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map_err(failed)?;
        return Ok(line.trim_end_matches(['\n', '\r']).to_owned());
    }
    let password = rpassword::prompt_password(format!("New password for user \"{name}\": ")).map_err(failed)?;
    if rpassword::prompt_password("Again: ").map_err(failed)? != password {
        return Err(Error::Config { message: "the two passwords differ".into(), hint: "Nothing was changed.".into() });
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_file_is_the_password() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, "geheim \r\nmore\n").unwrap();
        assert_eq!(first(Some(&path)).unwrap().as_deref(), Some("geheim "));
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(first(Some(&path)).unwrap_err().sqlstate(), "F0000");
        assert_eq!(first(Some(&dir.path().join("none"))).unwrap_err().sqlstate(), "F0000");
    }

    #[tokio::test]
    async fn only_the_first_password_is_set_at_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let kept = || store.snapshot().unwrap().with(|connection| users::get(connection, "root")).unwrap().verifier;
        set_first(&store, "one").await.unwrap();
        let first = kept();
        assert!(first.as_deref().is_some_and(|verifier| verifier.starts_with("SCRAM-SHA-256$4096:")));
        set_first(&store, "two").await.unwrap();
        assert_eq!(kept(), first);
        set(&store, "root", "three").await.unwrap();
        assert_ne!(kept(), first);
        assert_eq!(set(&store, "nobody", "x").await.unwrap_err().sqlstate(), "42704");
    }
}
