//! `tidegate passwd`: sets a user's password in a data directory that no server has open.

use std::path::PathBuf;

use clap::Args;

use crate::auth::passwords;
use crate::error::Result;
use crate::store::{FILE_NAME, Store};

/// What `passwd` takes. The password itself comes from a prompt, or from standard input.
#[derive(Debug, Args)]
pub struct PasswdArgs {
    /// The user.
    #[arg(default_value = "root")]
    user: String,
    /// The data directory. While a server has it open, use psql's \password instead.
    #[arg(long, value_name = "DIR", env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
}

/// Asks for the password, and sets it.
///
/// # Errors
/// When a server has the directory, or there is no such user.
#[expect(clippy::print_stderr, reason = "this is what the command line shows")]
pub async fn run(args: PasswdArgs) -> Result<()> {
    let is_new = !args.data_dir.join(FILE_NAME).exists();
    let store = Store::open(&args.data_dir)?;
    // Who forgot --data-dir has to see it before the password is asked for.
    let dir = std::path::absolute(&args.data_dir).unwrap_or(args.data_dir);
    if is_new {
        eprintln!("Made a new data directory, {}: serve it with --data-dir.", dir.display());
    }
    let password = passwords::ask(&args.user)?;
    passwords::set(&store, &args.user, &password).await?;
    eprintln!("The password of user \"{}\" in {} is set.", args.user, dir.display());
    Ok(())
}
