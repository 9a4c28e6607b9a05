//! A text as tokens that know where they stand.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::secrets;
use crate::error::{Error, Result};
use crate::secret::HIDDEN;

/// A token that is neither white space nor a comment, and its place in the text.
pub(super) struct Lexeme {
    pub token: TokenWithSpan,
    /// Its first character, from 1.
    position: usize,
    /// Its bytes.
    pub start: usize,
    pub end: usize,
}

/// The whole string that was sent.
pub(super) struct Text<'a> {
    text: &'a str,
    lexemes: Vec<Lexeme>,
}

/// The tokens of one statement, and the semicolon after it.
#[derive(Clone, Copy)]
pub(super) struct Fragment<'a> {
    whole: &'a str,
    pub lexemes: &'a [Lexeme],
    pub semicolon: Option<&'a Lexeme>,
}

impl<'a> Text<'a> {
    /// Fails where a string, quoted name or comment has no end.
    pub fn read(text: &'a str) -> Result<Self> {
        let mut tokens = Vec::new();
        let outcome = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location_into_buf(&mut tokens);
        let mut walk = Walk::new(text);
        let mut lexemes = Vec::with_capacity(tokens.len() / 2 + 1);
        for token in tokens {
            let (start, position) = (walk.byte, walk.character);
            let end = walk.to(token.span.end);
            if !matches!(token.token, Token::Whitespace(_)) {
                lexemes.push(Lexeme { token, position, start, end });
            }
        }
        match outcome {
            Ok(()) => Ok(Self { text, lexemes }),
            Err(_) => {
                let rest = if secrets::may_follow(&lexemes) { HIDDEN } else { &text[walk.byte..] };
                Err(unreadable(&text[walk.byte..], rest, walk.character))
            }
        }
    }

    /// The statements, without those that have no token.
    pub fn statements(&self) -> impl Iterator<Item = Fragment<'_>> {
        self.lexemes.split_inclusive(|lexeme| lexeme.token.token == Token::SemiColon).filter_map(|lexemes| {
            let (lexemes, semicolon) = match lexemes.split_last() {
                Some((last, before)) if last.token.token == Token::SemiColon => (before, Some(last)),
                _ => (lexemes, None),
            };
            (!lexemes.is_empty()).then_some(Fragment { whole: self.text, lexemes, semicolon })
        })
    }
}

impl<'a> Fragment<'a> {
    /// The whole string that was sent.
    pub fn whole(&self) -> &'a str {
        self.whole
    }

    /// The same, without its first `n` tokens.
    pub fn skip(self, n: usize) -> Self {
        Self { lexemes: self.lexemes.get(n..).unwrap_or_default(), ..self }
    }

    /// The text from token `from` up to, but not including, token `to`, as written.
    pub fn between(&self, from: usize, to: usize) -> &'a str {
        match self.lexemes.get(from..to.min(self.lexemes.len())) {
            Some([first, .., last]) => &self.whole[first.start..last.end],
            Some([only]) => &self.whole[only.start..only.end],
            _ => "",
        }
    }

    /// The whole statement as written.
    pub fn as_written(&self) -> &'a str {
        self.between(0, self.lexemes.len())
    }

    /// Where a token starts, or the text ends: a character index from 1 into the whole string.
    pub fn position(&self, index: usize) -> usize {
        let found = self.lexemes.get(index).or(self.semicolon);
        found.map_or_else(|| self.whole.chars().count() + 1, |lexeme| lexeme.position)
    }

    /// The token that starts at `location`.
    pub fn index_of(&self, location: Location) -> Option<usize> {
        self.lexemes.binary_search_by_key(&location, |lexeme| lexeme.token.span.start).ok()
    }

    /// PostgreSQL's error for a token that fits nowhere; behind the last one, for the end.
    pub fn unexpected(&self, index: usize, hint: Option<String>) -> Error {
        let message = match self.lexemes.get(index).or(self.semicolon) {
            Some(found) if secrets::is_hidden(self, found) => format!("syntax error at or near \"{HIDDEN}\""),
            Some(found) => format!("syntax error at or near \"{}\"", &self.whole[found.start..found.end]),
            None => "syntax error at end of input".into(),
        };
        self.error_at(index, message, hint)
    }

    /// An error with a message of its own, at a token.
    pub fn error_at(&self, index: usize, message: String, hint: Option<String>) -> Error {
        Error::Syntax { message, position: Some(self.position(index)), hint }
    }
}

/// Follows the tokenizer's lines and columns through the bytes of the text.
struct Walk<'a> {
    text: &'a str,
    byte: usize,
    character: usize,
    line: u64,
    column: u64,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, byte: 0, character: 1, line: 1, column: 1 }
    }

    fn to(&mut self, end: Location) -> usize {
        for c in self.text[self.byte..].chars() {
            if (self.line, self.column) >= (end.line, end.column) {
                break;
            }
            self.byte += c.len_utf8();
            self.character += 1;
            (self.line, self.column) = if c == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.byte
    }
}

/// The error where the rest of a text, which starts at the character `position`, has no token; `shown` is what may be
/// told of it.
fn unreadable(rest: &str, shown: &str, position: usize) -> Error {
    let what = match rest.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '&').chars().next() {
        Some('\'') => "unterminated quoted string",
        Some('"') => "unterminated quoted identifier",
        Some('/') if rest.starts_with("/*") => "unterminated /* comment",
        Some('$') => "unterminated dollar-quoted string",
        _ => "syntax error",
    };
    Error::Syntax { message: format!("{what} at or near \"{shown}\""), position: Some(position), hint: None }
}
