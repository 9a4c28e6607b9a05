//! Passwords kept in PostgreSQL's password file: PGPASSFILE, or ~/.pgpass.

use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::auth::passwords::is_shared;

/// The password that the file has for a connection. As for libpq, a file that others can read doesn't count, and one
/// that isn't there is none.
pub fn password(config: &Config) -> Option<String> {
    let path = match std::env::var_os("PGPASSFILE") {
        Some(path) => PathBuf::from(path),
        None => std::env::home_dir()?.join(".pgpass"),
    };
    std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    if is_shared(&path) {
        tracing::warn!(file = %path.display(), "the password file is not used: others can read it (chmod 0600)");
        return None;
    }
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) => "localhost".into(),
        None => config.get_hostaddrs().first()?.to_string(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let wanted = [&host, &port, config.get_dbname()?, config.get_user()?];
    find(&std::fs::read_to_string(path).ok()?, wanted)
}

/// The password of the first line `host:port:database:user:password` that fits; `*` fits everything.
fn find(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, names) = fields.split_last()?;
        let fits = names.len() == 4 && names.iter().zip(wanted).all(|(name, wanted)| name == "*" || name == wanted);
        fits.then(|| password.clone())
    })
}

/// At most five fields; a backslash takes the meaning from a colon or backslash.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut chars) = (vec![String::new()], line.chars());
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => chars.next().unwrap_or('\\'),
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            c => c,
        };
        fields.last_mut().into_iter().for_each(|field| field.push(plain));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# a comment\nother:*:*:*:no\nhost:4567:dev:bi:a\\:b\\\\c:d\n*:*:*:*:any\n";
        assert_eq!(find(text, ["host", "4567", "dev", "bi"]).as_deref(), Some("a:b\\c:d"));
        assert_eq!(find(text, ["host", "4567", "dev", "root"]).as_deref(), Some("any"));
        assert_eq!(find("host:1:dev:bi:x\nshort:line", ["host", "2", "dev", "bi"]), None);
    }
}
