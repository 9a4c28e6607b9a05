//! Secrets among the options of a source: which are, and how they are kept out of sight.
//!
//! They are kept in the state file, as they must survive a restart, in a column that no catalog view reads
//! (`sources.secrets_json`). Wherever options or statements are shown or logged, [`HIDDEN`] stands in their place.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

/// What is shown in place of a secret. As the value of a secret option it is refused, so that a statement that was shown
/// can't be run by mistake.
pub const HIDDEN: &str = "[hidden]";

/// An option is a secret when its name contains one of these, whatever its connector: rather one too many than one too
/// few.
const WORDS: [&str; 10] = [
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "private.key",
    "jaas",
    "oauthbearer.config",
    "ssl_key",
    "access_key",
];

/// The same, as a word between dots: it is part of other words.
const PART: &str = "pem";

/// Whether an option's value is a secret.
pub fn is_secret(option: &str) -> bool {
    let option = option.to_lowercase();
    WORDS.iter().any(|word| option.contains(word)) || option.split(['.', '_']).any(|part| part == PART)
}

/// Whether a name is one that a person meant to be that of a secret: `pasword`, `passwd`, `IDENTIFIED` (as others have
/// it).
pub fn resembles_one(name: &str) -> bool {
    let name = name.to_lowercase();
    let alike = |part: &str| {
        ["identified", "pwd"].contains(&part)
            || part.contains("passw")
            || ["password", "encrypted"].iter().any(|word| strsim::osa_distance(part, word) <= 2)
    };
    name.split('.').any(alike)
}

/// Whether a text may name a secret, or be about one. Quick, and never wrong when it says no.
pub fn may_name_one(text: &str) -> bool {
    // Names may be written with blanks around their dots, so only what stands before a dot is searched for. The last
    // words are those of statements on users, and what is left of a password that is misspelt.
    let parts = WORDS.iter().filter_map(|word| word.split('.').next());
    let parts = parts.chain([PART, "user", "role", "identif", "pwd", "pas", "ssw", "wor", "encr"]);
    let text = text.as_bytes();
    parts.map(str::as_bytes).any(|part| text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part)))
}

/// Options by name. Printed with [`Debug`](fmt::Debug), they show no secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Options(pub BTreeMap<String, String>);

impl Options {
    /// The options as they may be shown.
    pub fn shown(&self) -> BTreeMap<&str, &str> {
        self.0.iter().map(|(name, value)| (name.as_str(), shown(name, value))).collect()
    }

    /// The secrets alone.
    pub fn secrets(&self) -> BTreeMap<&str, &str> {
        let secrets = self.0.iter().filter(|(name, _)| is_secret(name));
        secrets.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// An option's value as it may be shown.
pub fn shown<'a>(option: &str, value: &'a str) -> &'a str {
    if is_secret(option) { HIDDEN } else { value }
}

impl Deref for Options {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_by_their_names() {
        for option in [
            "properties.sasl.password",
            "properties.SASL.Password",
            "properties.ssl.key.password",
            "properties.ssl.key.pem",
            "properties.ssl.keystore.password",
            "properties.sasl.oauthbearer.client.secret",
            "properties.sasl.oauthbearer.config",
            "properties.sasl.oauthbearer.assertion.private.key.passphrase",
            "properties.sasl.jaas.config",
            "s3.credentials.secret",
        ] {
            assert!(is_secret(option), "{option}");
            assert!(may_name_one(option), "{option}");
            assert!(may_name_one(&option.replace('.', " . ")), "{option}");
        }
        for option in ["topic", "properties.sasl.username", "properties.ssl.key.location", "temperature", "pemmican"] {
            assert!(!is_secret(option), "{option}");
        }
        assert!(!may_name_one("SELECT a FROM b WHERE c = 'd'"));
        for name in
            ["pasword", "PASSWRD", "passwort", "pssword", "passwd", "pwd", "IDENTIFIED", "encrypt", "sasl.pasword"]
        {
            assert!(resembles_one(name) && may_name_one(name), "{name}");
        }
        for name in ["topic", "path", "login", "valid", "world", "word"] {
            assert!(!resembles_one(name), "{name}");
        }
    }

    #[test]
    fn options_are_printed_and_shown_without_their_secrets() {
        let given = [("topic", "t"), ("properties.sasl.password", "hunter2")];
        let options = Options(given.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(format!("{options:?}"), r#"{"properties.sasl.password": "[hidden]", "topic": "t"}"#);
        assert_eq!(options.secrets(), BTreeMap::from([("properties.sasl.password", "hunter2")]));
    }
}
