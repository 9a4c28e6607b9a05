//! `to_char` and `to_number`: numbers by PostgreSQL's template patterns.

use super::datetime::ordinal_suffix;
use crate::error::{Error, Result};

/// Where a sign goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Before the number, in a place of its own.
    Default,
    /// `S` at the start: before the first digit.
    Before,
    /// `S` at the end.
    After,
    /// `MI`, `PL` or `SG`, where they stand.
    InPlace,
    /// `PR`: angle brackets.
    Brackets,
}

/// A template, taken apart.
#[derive(Debug)]
struct Template {
    pieces: Vec<Piece>,
    fill: bool,
    sign: Sign,
    /// Digits before and behind the point.
    whole: usize,
    fraction: usize,
    /// Digits that V shifts by.
    shift: usize,
    /// The first 0 before the point, counted in digits from the left.
    zero_from: Option<usize>,
    /// The last 0 behind the point, counted in digits from the point.
    zero_to: usize,
    scientific: bool,
    roman: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// `9` or `0`, before or behind the point.
    Whole,
    Fraction,
    Point,
    Group(char),
    Minus,
    Plus,
    Either,
    Currency,
    Ordinal(bool),
    Literal(char),
}

impl Template {
    fn read(text: &str) -> Result<Self> {
        let mut this = Self {
            pieces: Vec::new(),
            fill: true,
            sign: Sign::Default,
            whole: 0,
            fraction: 0,
            shift: 0,
            zero_from: None,
            zero_to: 0,
            scientific: false,
            roman: None,
        };
        let (mut rest, mut behind, mut shifting) = (text, false, false);
        while let Some(c) = rest.chars().next() {
            let upper = |prefix: &str| rest.get(..prefix.len()).is_some_and(|s| s.eq_ignore_ascii_case(prefix));
            let mut used = c.len_utf8();
            if c == '"' {
                let inner = &rest[1..];
                let end = inner.find('"').unwrap_or(inner.len());
                this.pieces.extend(inner[..end].chars().map(Piece::Literal));
                rest = inner.get(end + 1..).unwrap_or_default();
                continue;
            }
            if upper("FM") {
                (this.fill, used) = (false, 2);
            } else if upper("EEEE") {
                (this.scientific, used) = (true, 4);
            } else if upper("PR") {
                (this.sign, used) = (Sign::Brackets, 2);
            } else if upper("MI") || upper("PL") || upper("SG") {
                this.pieces.push(if upper("MI") {
                    Piece::Minus
                } else if upper("PL") {
                    Piece::Plus
                } else {
                    Piece::Either
                });
                (this.sign, used) = (Sign::InPlace, 2);
            } else if upper("TH") {
                this.pieces.push(Piece::Ordinal(c == 'T'));
                used = 2;
            } else if upper("RN") {
                (this.roman, used) = (Some(c == 'R'), 2);
            } else {
                match c {
                    '9' | '0' if behind => {
                        this.pieces.push(Piece::Fraction);
                        this.fraction += 1;
                        if c == '0' {
                            this.zero_to = this.fraction;
                        }
                    }
                    '9' | '0' => {
                        this.pieces.push(Piece::Whole);
                        if c == '0' && this.zero_from.is_none() {
                            this.zero_from = Some(this.whole);
                        }
                        this.whole += 1;
                        this.shift += usize::from(shifting);
                    }
                    '.' | 'D' | 'd' => {
                        if behind {
                            return Err(syntax("multiple decimal points"));
                        }
                        behind = true;
                        this.pieces.push(Piece::Point);
                    }
                    ',' | 'G' | 'g' => this.pieces.push(Piece::Group(',')),
                    'V' | 'v' => shifting = true,
                    'S' | 's' => this.sign = if this.whole + this.fraction == 0 { Sign::Before } else { Sign::After },
                    'L' | 'l' => this.pieces.push(Piece::Currency),
                    other => this.pieces.push(Piece::Literal(other)),
                }
            }
            rest = &rest[used..];
        }
        Ok(this)
    }
}

fn syntax(message: &str) -> Error {
    Error::Data { sqlstate: "42601", message: message.into() }
}

/// A number as a template prints it. `number` is decimal text, as PostgreSQL prints numeric.
///
/// # Errors
/// 42601: the template has no meaning.
pub fn to_char(number: &str, template: &str) -> Result<String> {
    let template = Template::read(template)?;
    let negative = number.starts_with('-');
    let digits = number.trim_start_matches(['-', '+']);
    if let Some(upper) = template.roman {
        return Ok(roman(digits, upper, template.fill));
    }
    if template.scientific {
        return Ok(scientific(number, &template));
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Ok(format!(" {}", digits));
    }
    let (whole, fraction) = round(&shifted(digits, template.shift), template.fraction);
    let whole = whole.trim_start_matches('0');
    let too_long = whole.len() > template.whole;
    let negative = negative && !(whole.is_empty() && fraction.bytes().all(|b| b == b'0'));
    Ok(Printer { template: &template, whole, fraction: &fraction, negative, too_long }.print())
}

/// The point moved to the right.
fn shifted(digits: &str, by: usize) -> String {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if by == 0 {
        return digits.to_owned();
    }
    let fraction = format!("{fraction:0<by$}");
    format!("{whole}{}.{}", &fraction[..by], &fraction[by..])
}

/// Rounded to so many digits behind the point, halves away from zero.
fn round(digits: &str, scale: usize) -> (String, String) {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept: String = format!("{fraction:0<scale$}").chars().take(scale).collect();
    let mut all: Vec<u8> = format!("0{whole}{kept}").into_bytes();
    if fraction.as_bytes().get(scale).is_some_and(|digit| *digit >= b'5') {
        for digit in all.iter_mut().rev() {
            if *digit == b'9' {
                *digit = b'0';
            } else {
                *digit += 1;
                break;
            }
        }
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    let (whole, fraction) = text.split_at(text.len() - scale);
    (whole.to_owned(), fraction.to_owned())
}

struct Printer<'a> {
    template: &'a Template,
    whole: &'a str,
    fraction: &'a str,
    negative: bool,
    too_long: bool,
}

impl Printer<'_> {
    fn print(&self) -> String {
        let template = self.template;
        let mut out = String::new();
        let mut sign_written = template.sign == Sign::InPlace;
        let sign = match (template.sign, self.negative) {
            (Sign::Default | Sign::Before, true) => "-",
            (Sign::Before, false) => "+",
            (Sign::Brackets, true) => "<",
            (Sign::Default | Sign::Brackets, false) if template.fill => " ",
            _ => "",
        };
        // Digits that are zeros or spaces before the number starts.
        let empty = template.whole.saturating_sub(self.whole.len());
        let zero_from = template.zero_from.unwrap_or(template.whole);
        let (mut at, mut behind) = (0, 0);
        let mut started = false;
        for piece in &template.pieces {
            match piece {
                Piece::Whole => {
                    let shown = self.too_long || at >= empty || at >= zero_from;
                    if shown {
                        if !sign_written {
                            out.push_str(sign);
                            sign_written = true;
                        }
                        started = true;
                        out.push(match self.whole.as_bytes().get(at.wrapping_sub(empty)) {
                            _ if self.too_long => '#',
                            Some(digit) => char::from(*digit),
                            None => '0',
                        });
                    } else if template.fill {
                        out.push(' ');
                    }
                    at += 1;
                    // `9` alone shows a zero.
                    if at == template.whole && !started && template.fraction == 0 {
                        out.truncate(out.len() - usize::from(template.fill));
                        if !sign_written {
                            out.push_str(sign);
                            sign_written = true;
                        }
                        out.push('0');
                        started = true;
                    }
                }
                Piece::Group(c) if started => out.push(if self.too_long { '#' } else { *c }),
                Piece::Group(_) => out.push_str(if template.fill { " " } else { "" }),
                Piece::Point => {
                    if !sign_written {
                        out.push_str(sign);
                        sign_written = true;
                    }
                    started = true;
                    out.push('.');
                }
                Piece::Fraction => {
                    let digit = self.fraction.as_bytes().get(behind).copied().unwrap_or(b'0');
                    behind += 1;
                    let rest_is_zero = self.fraction[behind - 1..].bytes().all(|digit| digit == b'0');
                    if self.too_long {
                        out.push('#');
                    } else if template.fill || behind <= template.zero_to || !rest_is_zero {
                        out.push(char::from(digit));
                    }
                }
                Piece::Minus => out.push_str(match (self.negative, template.fill) {
                    (true, _) => "-",
                    (false, true) => " ",
                    (false, false) => "",
                }),
                Piece::Plus => out.push_str(match (self.negative, template.fill) {
                    (false, _) => "+",
                    (true, true) => " ",
                    (true, false) => "",
                }),
                Piece::Either => out.push(if self.negative { '-' } else { '+' }),
                Piece::Currency => out.push_str(if template.fill { " " } else { "" }),
                Piece::Ordinal(_) if self.negative || self.template.fraction > 0 => {}
                Piece::Ordinal(upper) => {
                    let suffix = ordinal_suffix(self.whole);
                    out.push_str(&if *upper { suffix.to_uppercase() } else { suffix.to_owned() });
                }
                Piece::Literal(c) => out.push(*c),
            }
        }
        match (template.sign, self.negative) {
            (Sign::After, true) => out.push('-'),
            (Sign::After, false) => out.push('+'),
            (Sign::Brackets, true) => out.push('>'),
            (Sign::Brackets, false) if template.fill => out.push(' '),
            _ => {}
        }
        // With a sign of its own, PL and the like leave the place of the default sign.
        let leading = template.pieces.contains(&Piece::Plus) && template.fill;
        if leading && template.pieces.first() == Some(&Piece::Plus) {
            out.insert(1, ' ');
        }
        out
    }
}

fn scientific(number: &str, template: &Template) -> String {
    let value: f64 = number.parse().unwrap_or(0.0);
    let text = format!("{:.*e}", template.fraction, value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = match value < 0.0 {
        true => "-",
        false if template.fill => " ",
        false => "",
    };
    format!("{sign}{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn roman(digits: &str, upper: bool, fill: bool) -> String {
    const NUMERALS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let (whole, _) = round(digits, 0);
    let mut left: u32 = whole.parse().unwrap_or(0);
    if !(1..=3999).contains(&left) {
        return "#".repeat(15);
    }
    let mut out = String::new();
    for (value, name) in NUMERALS {
        while left >= value {
            left -= value;
            out.push_str(name);
        }
    }
    let out = if upper { out } else { out.to_lowercase() };
    if fill { format!("{out:>15}") } else { out }
}

/// Digits behind the point of what a template reads.
pub fn scale(template: &str) -> i8 {
    Template::read(template).ok().and_then(|template| i8::try_from(template.fraction).ok()).unwrap_or(0)
}

/// The decimal text of a number that a template reads.
///
/// # Errors
/// 22P02: there is no number.
pub fn to_number(text: &str, template: &str) -> Result<String> {
    let template = Template::read(template)?;
    let negative = text.contains('-') || (template.sign == Sign::Brackets && text.contains('<'));
    let wanted = template.pieces.iter().filter(|piece| matches!(piece, Piece::Whole | Piece::Fraction)).count();
    let mut out = String::from(if negative { "-" } else { "" });
    let (mut digits, mut point) = (0, false);
    for c in text.chars() {
        match c {
            '0'..='9' if digits < wanted => {
                digits += 1;
                out.push(c);
            }
            '.' if template.fraction > 0 && !point => {
                point = true;
                out.push('.');
            }
            _ => {}
        }
    }
    if digits == 0 {
        return Err(Error::Data {
            sqlstate: "22P02",
            message: format!("invalid input syntax for type numeric: \"{}\"", text.trim()),
        });
    }
    Ok(out.trim_end_matches('.').to_owned())
}
