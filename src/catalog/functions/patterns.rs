//! Regular expressions, SIMILAR TO and LIKE.

use datafusion::common::ScalarValue;
use regex::{Regex, RegexBuilder};

use super::sets::ITEM;
use super::work::{Work, check_matching};
use super::{Call, Definition, Value, invalid, pure, text};
use crate::error::{Error, Result};

/// The pattern of a match that is done by DataFusion.
pub const PATTERN_FOR: &str = "pattern_for";

/// Gives [`of_operator`].
pub const OPERATOR_PATTERN: &str = "operator_pattern";

pub const FUNCTIONS: &[Definition] = &[
    pure("regexp_match", 2..=3, "text[]", |call| {
        let Some((subject, regex, _)) = subject(call, 2)? else { return Ok(ScalarValue::Null) };
        Ok(regex.captures(&subject).map_or(ScalarValue::Null, |found| groups(&found)))
    }),
    pure("regexp_replace", 3..=4, "text", replace),
    pure("regexp_split_to_array", 2..=3, "text[]", |call| {
        let Some((subject, regex, _)) = subject(call, 2)? else { return Ok(ScalarValue::Null) };
        Ok(super::sets::texts(split(&subject, &regex, &mut call.work())?.into_iter().map(Some)))
    }),
    pure("regexp_count", 2..=4, "int4", |call| {
        let Some((subject, regex, _)) = subject(call, 3)? else { return Ok(ScalarValue::Null) };
        let from = start(call, 2, &subject)?;
        Ok(ScalarValue::Int32(i32::try_from(regex.find_iter(&subject[from..]).count()).ok()))
    }),
    pure("regexp_instr", 2..=2, "int4", |call| {
        let Some((subject, regex, _)) = subject(call, 2)? else { return Ok(ScalarValue::Null) };
        let at = regex.find(&subject).map_or(0, |found| subject[..found.start()].chars().count() + 1);
        Ok(ScalarValue::Int32(i32::try_from(at).ok()))
    }),
    pure("regexp_like", 2..=3, "bool", |call| {
        let Some((subject, regex, _)) = subject(call, 2)? else { return Ok(ScalarValue::Null) };
        Ok(ScalarValue::Boolean(Some(regex.is_match(&subject))))
    }),
    pure("regexp_substr", 2..=4, "text", |call| {
        let Some((subject, regex, _)) = subject(call, 4)? else { return Ok(ScalarValue::Null) };
        let from = start(call, 2, &subject)?;
        let nth = usize::try_from(call.integer(3).unwrap_or(1)).unwrap_or(1).max(1);
        Ok(text(regex.find_iter(&subject[from..]).nth(nth - 1).map(|found| found.as_str())))
    }),
    // `substring(x from pattern)`: its first group, or all that it matches.
    pure("substring_regex", 2..=2, "text", |call| {
        let Some((subject, regex, _)) = subject(call, 2)? else { return Ok(ScalarValue::Null) };
        let found = regex.captures(&subject).and_then(|found| found.get(1).or_else(|| found.get(0)));
        Ok(text(found.map(|found| found.as_str())))
    }),
    pure("similar_to", 2..=3, "bool", |call| {
        let (Some(subject), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
        check_matching(&subject, &pattern)?;
        let regex = similar(&pattern, escape(call, 2)?)?;
        Ok(ScalarValue::Boolean(Some(regex.is_match(&subject))))
    }),
    pure("like_escape", 2..=2, "text", |call| {
        let (Some(pattern), Some(escape)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
        Ok(text(Some(with_backslash(&pattern, escape.chars().next())?)))
    }),
    pure("like_any", 3..=3, "bool", |call| {
        let (Some(subject), Some(patterns)) = (call.text(0), call.texts(1)) else { return Ok(ScalarValue::Null) };
        for pattern in patterns.iter().flatten() {
            if like(&subject, pattern, call.boolean(2) == Some(true))? {
                return Ok(ScalarValue::Boolean(Some(true)));
            }
        }
        Ok(ScalarValue::Boolean((!patterns.contains(&None)).then_some(false)))
    }),
    pure(PATTERN_FOR, 2..=2, "text", |call| {
        let (Some(subject), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
        check_matching(&subject, &pattern)?;
        Ok(text(Some(pattern)))
    }),
    pure(OPERATOR_PATTERN, 1..=1, "text", |call| Ok(text(call.text(0).map(|it| of_operator(&it)).transpose()?))),
    pure("regex_is_match", 3..=3, "bool", |call| {
        let (Some(subject), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(ScalarValue::Null) };
        check_matching(&subject, &pattern)?;
        let flags = if call.boolean(2) == Some(true) { "i" } else { "" };
        Ok(ScalarValue::Boolean(Some(compile(&pattern, flags)?.is_match(&subject))))
    }),
];

/// The text, the regular expression and whether it is to be used everywhere.
fn subject(call: &Call<'_>, flags: usize) -> Result<Option<(String, Regex, bool)>> {
    let (Some(subject), Some(pattern)) = (call.text(0), call.text(1)) else { return Ok(None) };
    let flags = match call.args.get(flags) {
        None => String::new(),
        Some(value) if value.is_null() => return Ok(None),
        Some(_) => call.text(flags).unwrap_or_default(),
    };
    let everywhere = flags.contains('g');
    check_matching(&subject, &pattern)?;
    Ok(Some((subject, compile(&pattern, &flags)?, everywhere)))
}

/// The byte that a search starts at.
fn start(call: &Call<'_>, index: usize, subject: &str) -> Result<usize> {
    let Some(start) = call.integer(index) else { return Ok(0) };
    let Some(before) = usize::try_from(start - 1).ok() else {
        return Err(invalid("22023", format!("invalid value for parameter \"start\": {start}")));
    };
    Ok(subject.char_indices().nth(before).map_or(subject.len(), |(at, _)| at))
}

/// A regular expression with PostgreSQL's flags.
///
/// # Errors
/// 2201B: it is none; 22023: a flag that there isn't.
pub fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    let mut literal = false;
    let (mut insensitive, mut lines, mut any_is_newline, mut extended) = (false, false, true, false);
    for flag in flags.chars() {
        match flag {
            'g' | 'e' | 'b' | 't' => {}
            'c' => insensitive = false,
            'i' => insensitive = true,
            'n' | 'm' => (lines, any_is_newline) = (true, false),
            'p' => any_is_newline = false,
            'w' => lines = true,
            's' => (lines, any_is_newline) = (false, true),
            'x' => extended = true,
            'q' => literal = true,
            other => return Err(invalid("22023", format!("invalid regular expression option: \"{other}\""))),
        }
    }
    // `***=` and `***:` are how PostgreSQL's patterns say what they are.
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    let pattern = match pattern.strip_prefix("***=") {
        Some(text) => regex::escape(text),
        None if literal => regex::escape(pattern),
        None => perl(pattern),
    };
    RegexBuilder::new(&pattern)
        .case_insensitive(insensitive)
        .multi_line(lines)
        .dot_matches_new_line(any_is_newline)
        .ignore_whitespace(extended)
        .build()
        .map_err(|error| wrong(&error))
}

/// What PostgreSQL writes otherwise than Perl.
const WORDS: [(&str, &str); 7] = [
    ("[[:<:]]", r"\b{start}"),
    ("[[:>:]]", r"\b{end}"),
    (r"\m", r"\b{start}"),
    (r"\M", r"\b{end}"),
    (r"\y", r"\b"),
    (r"\Y", r"\B"),
    (r"\Z", r"\z"),
];

/// A pattern of PostgreSQL as one of Perl.
fn perl(pattern: &str) -> String {
    let (mut out, mut rest, mut in_class) = (String::with_capacity(pattern.len()), pattern, false);
    while let Some(c) = rest.chars().next() {
        let word = WORDS.iter().find(|(word, _)| !in_class && rest.starts_with(word));
        let taken = match (word, c) {
            (Some((word, perl)), _) => {
                out.push_str(perl);
                word.len()
            }
            (None, '\\') => {
                let taken = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..taken]);
                taken
            }
            (None, '[') if !in_class => {
                in_class = true;
                // A bracket that comes first stands for itself.
                let taken = ["[^]", "[]", "[^"].iter().find(|start| rest.starts_with(**start)).map_or(1, |it| it.len());
                out.push_str(&rest[..taken]);
                taken
            }
            (None, '[') if rest.starts_with("[:") => {
                let taken = rest.find(":]").map_or(1, |end| end + 2);
                out.push_str(&rest[..taken]);
                taken
            }
            // Perl's sets have operators.
            (None, '[' | '&' | '~') if in_class => {
                out.extend(['\\', c]);
                1
            }
            (None, c) => {
                in_class &= c != ']';
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// The pattern of an operator, for DataFusion to match. A dot is any character, also a newline.
///
/// # Errors
/// 2201B: it is none.
pub fn of_operator(pattern: &str) -> Result<String> {
    if pattern.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || "^$_-/,:;'\"".contains(c)) {
        return Ok(pattern.to_owned());
    }
    compile(pattern, "").map(|regex| format!("(?s){}", regex.as_str()))
}

/// In PostgreSQL's words, as far as it has any.
fn wrong(error: &regex::Error) -> Error {
    let text = error.to_string();
    let message = [
        ("unclosed character class", "brackets [] not balanced"),
        ("unclosed group", "parentheses () not balanced"),
        ("unopened group", "parentheses () not balanced"),
        ("repetition operator missing expression", "quantifier operand invalid"),
        ("backreference", "invalid backreference number"),
        ("look-around", "look-around is not supported"),
        ("unclosed counted repetition", "braces {} not balanced"),
        ("repetition", "invalid repetition count(s)"),
        ("escape sequence", "invalid escape \\ sequence"),
        ("character class range", "invalid character range"),
        ("size limit", "regular expression is too complex"),
    ];
    let known = message.into_iter().find(|(found, _)| text.contains(found)).map_or("syntax", |(_, message)| message);
    invalid("2201B", format!("invalid regular expression: {known}"))
}

/// The groups of a match; all of it where there are none.
pub fn groups(found: &regex::Captures<'_>) -> ScalarValue {
    let all: Vec<Option<String>> = if found.len() == 1 {
        vec![Some(found[0].to_owned())]
    } else {
        found.iter().skip(1).map(|group| group.map(|group| group.as_str().to_owned())).collect()
    };
    super::sets::texts(all)
}

/// The groups of every match, or of the first one.
pub fn matches(call: &Call<'_>) -> Result<Option<Vec<ScalarValue>>> {
    let Some((subject, regex, everywhere)) = subject(call, 2)? else { return Ok(None) };
    let count = if everywhere { usize::MAX } else { 1 };
    let mut work = call.work();
    let found = regex.captures_iter(&subject).take(count);
    found
        .map(|found| work.add(ITEM * found.len() + found[0].len()).map(|()| groups(&found)))
        .collect::<Result<_>>()
        .map(Some)
}

/// The pieces between matches.
fn split(subject: &str, regex: &Regex, work: &mut Work<'_>) -> Result<Vec<String>> {
    let mut pieces = Vec::new();
    let mut last = 0;
    for found in regex.find_iter(subject) {
        // A match of nothing counts between characters only.
        if found.is_empty() && (found.start() == last || found.start() == subject.len()) {
            continue;
        }
        let piece = &subject[last..found.start()];
        work.add(ITEM + piece.len())?;
        pieces.push(piece.to_owned());
        last = found.end();
    }
    pieces.push(subject[last..].to_owned());
    Ok(pieces)
}

fn replace(call: &Call<'_>) -> Value {
    let Some((subject, regex, everywhere)) = subject(call, 3)? else { return Ok(ScalarValue::Null) };
    let Some(replacement) = call.text(2) else { return Ok(ScalarValue::Null) };
    let expand = |found: &regex::Captures<'_>, out: &mut String| {
        let mut chars = replacement.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('&')) => out.push_str(&found[0]),
                ('\\', Some(digit)) if digit.is_ascii_digit() => {
                    let group = digit.to_digit(10).and_then(|n| found.get(n as usize));
                    out.push_str(group.map_or("", |group| group.as_str()));
                }
                ('\\', Some('\\')) => out.push('\\'),
                ('\\', Some(other)) => out.extend(['\\', other]),
                (c, _) => out.push(c),
            }
        }
    };
    let (mut out, mut last, mut work) = (String::new(), 0, call.work());
    for found in regex.captures_iter(&subject).take(if everywhere { usize::MAX } else { 1 }) {
        let (Some(all), before) = (found.get(0), out.len()) else { continue };
        out.push_str(&subject[last..all.start()]);
        expand(&found, &mut out);
        last = all.end();
        work.add(out.len() - before + 1)?;
    }
    out.push_str(&subject[last..]);
    Ok(text(Some(out)))
}

/// The character that an ESCAPE names; the backslash without one.
fn escape(call: &Call<'_>, index: usize) -> Result<Option<char>> {
    match call.args.get(index) {
        None => Ok(Some('\\')),
        Some(_) => match call.text(index) {
            None => Ok(None),
            Some(text) if text.chars().count() <= 1 => Ok(text.chars().next()),
            Some(_) => Err(invalid("22025", "invalid escape string".into())),
        },
    }
}

/// A pattern of SIMILAR TO.
fn similar(pattern: &str, escape: Option<char>) -> Result<Regex> {
    let mut regex = String::from("^(?:");
    let mut chars = pattern.chars();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                let Some(next) = chars.next() else {
                    return Err(invalid("22025", "invalid escape sequence".into()));
                };
                regex.push_str(&regex::escape(&next.to_string()));
            }
            '[' | ']' => {
                in_class = c == '[';
                regex.push(c);
            }
            c if in_class => regex.push(c),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '.' | '^' | '$' | '\\' => regex.extend(['\\', c]),
            other => regex.push(other),
        }
    }
    regex.push_str(")$");
    RegexBuilder::new(&regex).dot_matches_new_line(true).build().map_err(|error| wrong(&error))
}

fn like(subject: &str, pattern: &str, insensitive: bool) -> Result<bool> {
    check_matching(subject, pattern)?;
    let mut regex = String::from("^");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '\\' => regex.push_str(&regex::escape(&chars.next().unwrap_or('\\').to_string())),
            other => regex.push_str(&regex::escape(&other.to_string())),
        }
    }
    regex.push('$');
    let regex = RegexBuilder::new(&regex).case_insensitive(insensitive).dot_matches_new_line(true).build();
    Ok(regex.map_err(|error| wrong(&error))?.is_match(subject))
}

/// A pattern of LIKE with the backslash as its escape character.
fn with_backslash(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => match chars.next() {
                Some(next) => out.extend(['\\', next]),
                None => return Err(invalid("22025", "LIKE pattern must not end with escape character".into())),
            },
            '\\' => out.push_str("\\\\"),
            other => out.push(other),
        }
    }
    Ok(out)
}
