//! Passwords in statements, kept out of everything that shows a statement.

use std::borrow::Cow;

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// What stands for a password, and for a text in which one can't be found.
const MASK: &str = "'********'";
const HIDDEN: &str = "<a statement with a password>";

/// A text without the passwords that `CREATE USER` and `ALTER USER` give in it, for logs and `pg_stat_activity`.
pub fn masked(text: &str) -> Cow<'_, str> {
    if !text.as_bytes().windows(8).any(|word| word.eq_ignore_ascii_case(b"password")) {
        return Cow::Borrowed(text);
    }
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, text).with_unescape(false).tokenize() else {
        return Cow::Borrowed(HIDDEN);
    };
    let mut shown = String::with_capacity(text.len());
    let mut found = false;
    let mut after_password = false;
    for token in tokens {
        match &token {
            Token::Whitespace(_) => {}
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("password") => {
                after_password = true;
            }
            _ if std::mem::take(&mut after_password) && is_string(&token) => {
                shown.push_str(MASK);
                found = true;
                continue;
            }
            _ => {}
        }
        shown.push_str(&token.to_string());
    }
    if found { Cow::Owned(shown) } else { Cow::Borrowed(text) }
}

const fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
    )
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn a_password_is_masked_however_it_is_quoted() {
        for quoted in
            ["'geheim'", "E'geh\\x65im'", "$$geheim$$", "$x$geheim$x$", "U&'geheim'", "/* */ 'geheim'", "'it''s'"]
        {
            let text = format!("SELECT 1; alter user u ENCRYPTED Password {quoted} VALID UNTIL '2030-01-01'");
            let shown = masked(&text);
            assert!(shown.contains("'********' VALID UNTIL '2030-01-01'"), "{shown}");
            assert!(!shown.contains("geh") && !shown.contains("it"), "{shown}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_read_is_hidden_and_others_are_as_they_are() {
        assert!(!masked("ALTER USER u PASSWORD 'geheim").contains("geheim"));
        for text in ["SELECT 'password'", "SELECT password, 'x' FROM t", "ALTER USER u PASSWORD $1", "SELECT 1"] {
            assert_eq!(masked(text), text);
        }
    }
}
