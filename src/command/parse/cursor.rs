//! A place in a statement, and the few things that every statement is made of: words, names and literals.
//!
//! Words are compared as text rather than by sqlparser's keywords, which don't have all of ours.

use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::PatientPostgres;
use super::text::{Fragment, Lexeme};
use crate::command::ast::Elsewhere;
use crate::error::{Error, Result, nearest};

/// A literal of one of our statements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    String(String),
    /// With its sign.
    Number(String),
    Boolean(bool),
    Null,
    /// `$n`, to be bound.
    Parameter,
}

/// Reads a statement from front to back.
pub(super) struct Cursor<'a> {
    parser: Parser<'a>,
    pub fragment: Fragment<'a>,
    /// The right form of the statement being read: the hint of its syntax errors.
    pub form: Option<&'static str>,
}

impl<'a> Cursor<'a> {
    pub fn new(dialect: &'a PatientPostgres, fragment: Fragment<'a>) -> Self {
        let tokens: Vec<TokenWithSpan> = fragment.lexemes.iter().map(|lexeme| lexeme.token.clone()).collect();
        Self { parser: Parser::new(dialect).with_tokens_with_locations(tokens), fragment, form: None }
    }

    /// How many tokens have been read.
    pub fn index(&self) -> usize {
        self.parser.index().min(self.fragment.lexemes.len())
    }

    /// The token `n` after the next one.
    pub fn peek(&self, n: usize) -> Option<&'a Token> {
        self.fragment.lexemes.get(self.index() + n).map(|lexeme: &Lexeme| &lexeme.token.token)
    }

    /// The token `n` after the next one, if it is an unquoted word.
    pub fn peek_word(&self, n: usize) -> Option<&'a str> {
        match self.peek(n) {
            Some(Token::Word(word)) if word.quote_style.is_none() => Some(&word.value),
            _ => None,
        }
    }

    pub fn at_end(&self) -> bool {
        self.peek(0).is_none()
    }

    /// Takes whatever comes next.
    pub fn skip(&mut self) {
        self.parser.advance_token();
    }

    /// Takes all that is left.
    pub fn skip_rest(&mut self) {
        while !self.at_end() {
            self.parser.advance_token();
        }
    }

    /// Whether these words come next.
    pub fn at(&self, words: &[&str]) -> bool {
        words
            .iter()
            .enumerate()
            .all(|(n, word)| self.peek_word(n).is_some_and(|found| found.eq_ignore_ascii_case(word)))
    }

    /// Reads these words, if they come next.
    pub fn accept(&mut self, words: &[&str]) -> bool {
        let here = self.at(words);
        if here {
            words.iter().for_each(|_| self.parser.advance_token());
        }
        here
    }

    /// Reads one of these words, if one comes next.
    pub fn accept_one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.accept(&[word]))
    }

    /// Reads one of these words.
    pub fn one_of(&mut self, words: &[&'static str]) -> Result<&'static str> {
        match self.accept_one_of(words) {
            Some(word) => Ok(word),
            None => Err(self.expected(words)),
        }
    }

    /// Reads these words.
    pub fn expect(&mut self, words: &[&'static str]) -> Result<()> {
        words.iter().try_for_each(|word| self.one_of(&[word]).map(drop))
    }

    pub fn accept_token(&mut self, token: &Token) -> bool {
        self.parser.consume_token(token)
    }

    pub fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.accept_token(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Nothing may be left.
    pub fn expect_end(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The error for the next token.
    pub fn unexpected(&self) -> Error {
        self.expected(&[])
    }

    /// The error for the next token where one of these words should be; tells which one was perhaps meant.
    pub fn expected(&self, words: &[&str]) -> Error {
        let meant = self.peek_word(0).and_then(|found| {
            let lowered: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
            nearest(found, lowered.iter().map(String::as_str))
        });
        // Settings are written in lower case, all else in upper case.
        let meant = meant.and_then(|near| words.iter().find(|word| word.eq_ignore_ascii_case(&near)));
        let hints =
            [meant.map(|word| format!("Perhaps you meant \"{word}\".")), self.form.map(|f| format!("Form: {f}"))];
        let hint = hints.into_iter().flatten().collect::<Vec<_>>().join(" ");
        self.fragment.unexpected(self.index(), (!hint.is_empty()).then_some(hint))
    }

    /// An error with a message of its own, at token `index`.
    pub fn error_at(&self, index: usize, message: String) -> Error {
        self.fragment.error_at(index, message, self.form.map(|form| format!("Form: {form}")))
    }

    /// A name without a schema, folded.
    pub fn name(&mut self) -> Result<String> {
        let Some(Token::Word(word)) = self.peek(0) else { return Err(self.unexpected()) };
        let name = match word.quote_style {
            Some(_) if word.value.is_empty() => {
                return Err(self.error_at(self.index(), "zero-length delimited identifier at or near \"\"\"\"".into()));
            }
            Some(_) => word.value.clone(),
            None if is_reserved(&word.value) => return Err(self.unexpected()),
            None => word.value.to_ascii_lowercase(),
        };
        self.parser.advance_token();
        Ok(name)
    }

    /// The name of a source or a materialized view: `s`, `"S"`, `public.s`, `dev.public.s`. What is wrong with another is
    /// for who wants to run the statement all the same; `kind` is for its words.
    pub fn relation_or(&mut self, kind: &'static str) -> Result<std::result::Result<String, Elsewhere>> {
        let (qualifier, name) = self.qualified()?;
        Ok(match Elsewhere::find(&qualifier, &name, kind) {
            None => Ok(name),
            Some(elsewhere) => Err(elsewhere),
        })
    }

    /// The same, of one that has to be there.
    pub fn relation(&mut self, kind: &'static str) -> Result<String> {
        self.relation_or(kind)?.map_err(Error::from)
    }

    /// The same, of one that is to be made.
    pub fn new_relation(&mut self) -> Result<String> {
        self.relation_or("relation")?.map_err(Elsewhere::when_created)
    }

    /// A name, and what stands before it.
    pub fn qualified(&mut self) -> Result<(Vec<String>, String)> {
        let from = self.index();
        let mut name = self.name()?;
        let mut qualifier = Vec::new();
        while self.accept_token(&Token::Period) {
            qualifier.push(std::mem::replace(&mut name, self.name()?));
        }
        if qualifier.len() > 2 {
            let written = self.fragment.between(from, self.index());
            let message = format!("improper qualified name (too many dotted names): {written}");
            return Err(self.error_at(from, message));
        }
        Ok((qualifier, name))
    }

    /// A name with dots in it, as settings and options have: `a.b`, folded, whatever words it is made of.
    pub fn dotted(&mut self) -> Result<String> {
        let mut name = String::new();
        loop {
            match self.peek(0) {
                Some(Token::Word(word)) if word.quote_style.is_some() => name.push_str(&word.value),
                Some(Token::Word(word)) => name.push_str(&word.value.to_ascii_lowercase()),
                _ => return Err(self.unexpected()),
            }
            self.parser.advance_token();
            if !self.accept_token(&Token::Period) {
                return Ok(name);
            }
            name.push('.');
        }
    }

    /// Names between commas.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A literal; `None`, and nothing read, where there is none.
    pub fn accept_literal(&mut self) -> Option<Literal> {
        let sign = match self.peek(0) {
            Some(Token::Minus) => "-",
            Some(Token::Plus) => "+",
            _ => "",
        };
        let literal = match self.peek(usize::from(!sign.is_empty()))? {
            Token::Number(digits, _) => Literal::Number(format!("{}{digits}", sign.trim_start_matches('+'))),
            _ if !sign.is_empty() => return None,
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
                Literal::String(text.clone())
            }
            Token::DollarQuotedString(quoted) => Literal::String(quoted.value.clone()),
            Token::Placeholder(_) => Literal::Parameter,
            Token::Word(_) if self.at(&["TRUE"]) => Literal::Boolean(true),
            Token::Word(_) if self.at(&["FALSE"]) => Literal::Boolean(false),
            Token::Word(_) if self.at(&["NULL"]) => Literal::Null,
            _ => return None,
        };
        if !sign.is_empty() {
            self.parser.advance_token();
        }
        self.parser.advance_token();
        Some(literal)
    }

    /// A literal.
    pub fn literal(&mut self) -> Result<Literal> {
        self.accept_literal().ok_or_else(|| self.unexpected())
    }

    /// A whole number, bare or quoted, that `T` holds. A `$n` gives the stand-in `T::default()`.
    pub fn integer<T: std::str::FromStr + Default>(&mut self, what: &str, allowed: &str) -> Result<T> {
        let value = match self.literal()? {
            Literal::Parameter => return Ok(T::default()),
            Literal::Number(text) | Literal::String(text) => text,
            Literal::Boolean(value) => value.to_string(),
            Literal::Null => "NULL".into(),
        };
        value.trim().parse().map_err(|_| Error::InvalidValue { what: what.into(), value, allowed: allowed.into() })
    }

    /// Lets sqlparser read on.
    pub fn sqlparser<T>(&mut self, read: impl FnOnce(&mut Parser<'a>) -> Result<T, ParserError>) -> Result<T> {
        read(&mut self.parser).map_err(|error| self.translate(error))
    }

    /// sqlparser's error in PostgreSQL's words.
    fn translate(&self, error: ParserError) -> Error {
        let message = match error {
            ParserError::RecursionLimitExceeded => {
                return Error::StatementTooComplex { position: self.fragment.position(self.index()) };
            }
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
        };
        let found = location(&message).and_then(|location| self.fragment.index_of(location));
        let index = match found {
            Some(index) => index,
            None if message.ends_with("found: EOF") => self.fragment.lexemes.len(),
            // The token that was read last is the one that it stumbled over.
            None => self.index().saturating_sub(1),
        };
        let wanted = message.strip_prefix("Expected: ").and_then(|rest| rest.split_once(", found: "));
        let hint = match wanted {
            Some((wanted, _)) if !wanted.starts_with("end of statement") => Some(format!("Expected {wanted}.")),
            _ => None,
        };
        self.fragment.unexpected(index, hint)
    }
}

/// sqlparser ends a message with ` at Line: 1, Column: 8`.
fn location(message: &str) -> Option<datafusion::sql::sqlparser::tokenizer::Location> {
    let (_, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some(datafusion::sql::sqlparser::tokenizer::Location { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// Whether PostgreSQL reserves the word, so that it is a name only in quotes.
fn is_reserved(word: &str) -> bool {
    RESERVED.split_ascii_whitespace().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

const RESERVED: &str = "all analyse analyze and any array as asc asymmetric both case cast check collate column \
    constraint create current_catalog current_date current_role current_time current_timestamp current_user default \
    deferrable desc distinct do else end except false fetch for foreign from grant group having in initially intersect \
    into lateral leading limit localtime localtimestamp not null offset on only or order placing primary references \
    returning select session_user some symmetric system_user table then to trailing true union unique user using \
    variadic when where window with";
