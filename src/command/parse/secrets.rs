//! Statements as they may be shown and logged: without the secrets that they hold.

use std::borrow::Cow;
use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::Token;

use super::text::{Fragment, Lexeme, Text};
use crate::secret::{self, HIDDEN};

/// What is shown of a text that can't be cut into tokens.
const UNREADABLE: &str = "(a text that can't be read and may hold a secret)";

/// A text of any statements, with [`HIDDEN`] in place of every secret.
pub(super) fn hide(sql: &str) -> Cow<'_, str> {
    // EXECUTE gives values to a statement that is not in sight.
    if !secret::may_name_one(sql) && !sql.as_bytes().windows(7).any(|word| word.eq_ignore_ascii_case(b"EXECUTE")) {
        return Cow::Borrowed(sql);
    }
    let Ok(text) = Text::read(sql) else { return Cow::Borrowed(UNREADABLE) };
    let ranges: Vec<_> = text.statements().flat_map(|statement| hidden(statement.lexemes)).collect();
    if ranges.is_empty() { Cow::Borrowed(sql) } else { Cow::Owned(without(sql, 0..sql.len(), &ranges)) }
}

/// A statement as written, with [`HIDDEN`] in place of every secret.
pub(super) fn hide_in(fragment: &Fragment<'_>) -> String {
    match (fragment.lexemes.first(), fragment.lexemes.last()) {
        (Some(first), Some(last)) => without(fragment.whole(), first.start..last.end, &hidden(fragment.lexemes)),
        _ => String::new(),
    }
}

/// Whether a secret stands at a token.
pub(super) fn is_hidden(fragment: &Fragment<'_>, lexeme: &Lexeme) -> bool {
    hidden(fragment.lexemes).iter().any(|range| range.contains(&lexeme.start))
}

/// Whether a secret may stand behind these tokens, where the text can't be read any more.
pub(super) fn may_follow(lexemes: &[Lexeme]) -> bool {
    let last = lexemes.iter().rposition(|lexeme| lexeme.token.token == Token::SemiColon).map_or(0, |at| at + 1);
    let statement = &lexemes[last..];
    let words = statement.iter().filter_map(|lexeme| match &lexeme.token.token {
        Token::Word(word) => Some(word.value.as_str()),
        _ => None,
    });
    let words: Vec<&str> = words.collect();
    is_on_users(statement)
        || is_word(statement.first(), "EXECUTE")
        || secret::is_secret(&words.join("."))
        || words.iter().any(|word| secret::resembles_one(word))
}

fn without(sql: &str, part: Range<usize>, ranges: &[Range<usize>]) -> String {
    let mut shown = String::with_capacity(part.len());
    let mut copied = part.start;
    for range in ranges {
        shown.extend([&sql[copied..range.start], "'", HIDDEN, "'"]);
        copied = range.end;
    }
    shown.push_str(&sql[copied..part.end]);
    shown
}

/// Where the secrets of a statement are, in bytes: the token behind the name of a secret option and a `=`, whatever it
/// is, and literals behind it; and literals directly behind such a name.
fn hidden(lexemes: &[Lexeme]) -> Vec<Range<usize>> {
    if is_word(lexemes.first(), "EXECUTE") {
        let open = lexemes.iter().position(|lexeme| lexeme.token.token == Token::LParen);
        return open.and_then(|open| values(&lexemes[open + 1..])).into_iter().collect();
    }
    let mut ranges = Vec::new();
    let mut name = String::new();
    if is_on_users(lexemes) {
        // Whatever is wrong with it, a password can stand anywhere.
        let strings = lexemes.iter().filter(|lexeme| is_string(&lexeme.token.token));
        return strings.map(|lexeme| lexeme.start..lexeme.end).collect();
    }
    for (at, lexeme) in lexemes.iter().enumerate() {
        match &lexeme.token.token {
            Token::Word(word) => {
                if !name.ends_with('.') {
                    name.clear();
                }
                name.push_str(&word.value);
            }
            Token::Period => name.push('.'),
            other => {
                let last = std::mem::take(&mut name);
                let named = secret::is_secret(&last) || secret::resembles_one(&last);
                ranges.extend(if named { value(lexemes, at, *other == Token::Eq) } else { None });
            }
        }
    }
    ranges
}

/// Whether a statement makes or changes users, or is meant to: its words may be misspelt.
fn is_on_users(lexemes: &[Lexeme]) -> bool {
    let is_near = |at: usize, words: &[&str], distance: usize| match lexemes.get(at).map(|lexeme| &lexeme.token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            let found = word.value.to_lowercase();
            words.iter().any(|word| strsim::osa_distance(&found, word) <= distance)
        }
        _ => false,
    };
    let behind_prefix = usize::from(is_word(lexemes.first(), "EXPLAIN"));
    is_near(behind_prefix, &["create", "alter"], 2) && is_near(behind_prefix + 1, &["user", "role", "group"], 1)
}

/// The value that starts at a token, or behind it.
fn value(lexemes: &[Lexeme], at: usize, behind: bool) -> Option<Range<usize>> {
    let from = at + usize::from(behind);
    let literals = lexemes.get(from..)?.iter().take_while(|lexeme| is_literal(&lexeme.token.token)).count();
    let run = lexemes.get(from..from + literals.max(usize::from(behind)))?;
    let (first, last) = (run.first()?, run.last()?);
    (!matches!(first.token.token, Token::Placeholder(_))).then_some(first.start..last.end)
}

/// All up to the last closing bracket.
fn values(lexemes: &[Lexeme]) -> Option<Range<usize>> {
    let end = lexemes.iter().rposition(|lexeme| lexeme.token.token == Token::RParen).unwrap_or(lexemes.len());
    let (first, last) = (lexemes[..end].first()?, lexemes[..end].last()?);
    Some(first.start..last.end)
}

fn is_word(lexeme: Option<&Lexeme>, word: &str) -> bool {
    matches!(lexeme.map(|lexeme| &lexeme.token.token), Some(Token::Word(found)) if found.value.eq_ignore_ascii_case(word))
}

fn is_literal(token: &Token) -> bool {
    is_string(token) || matches!(token, Token::Number(..))
}

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::DollarQuotedString(_)
    )
}
