//! PostgreSQL's dialect for sqlparser, with an end to its patience.
//!
//! sqlparser tries one reading of a word after the other, and each try reads everything nested in it again. So a few
//! dozen nested calls can keep it busy for years, although it limits their depth. Two things are different here: an
//! argument's name can only be a word, not an expression (each level of `f(f(f(x)))` would be read twice), and each
//! expression that is begun takes from a budget, which no honest statement uses up.
//!
//! Besides, it takes a reserved word for a column where one can't be, and finds the mistake only later:
//! `SELECT a, FROM t` is wrong at `FROM`.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// How many times an expression may be begun, a token, and how many times more. People's statements take one to three.
const TRIES_PER_TOKEN: usize = 20;
const TRIES_MORE: usize = 10_000;

/// Reserved words of PostgreSQL that no expression starts with.
const NEVER_FIRST: &[Keyword] = &[
    Keyword::AND,
    Keyword::AS,
    Keyword::ASC,
    Keyword::DESC,
    Keyword::ELSE,
    Keyword::END,
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::OR,
    Keyword::ORDER,
    Keyword::THEN,
    Keyword::UNION,
    Keyword::USING,
    Keyword::WHEN,
    Keyword::WHERE,
];

/// Functions with a syntax of their own, which sqlparser doesn't know by their full names.
const SPECIAL: &[Keyword] = &[Keyword::EXTRACT, Keyword::OVERLAY, Keyword::POSITION, Keyword::SUBSTRING, Keyword::TRIM];

/// Whether `pg_catalog.` and one of [`SPECIAL`] come next.
fn is_special_of_catalog(parser: &Parser) -> bool {
    let word = |n: usize| match &parser.peek_nth_token_ref(n).token {
        Token::Word(word) => Some(word),
        _ => None,
    };
    word(0).is_some_and(|schema| schema.value.eq_ignore_ascii_case("pg_catalog"))
        && parser.peek_nth_token_ref(1).token == Token::Period
        && word(2).is_some_and(|name| name.quote_style.is_none() && SPECIAL.contains(&name.keyword))
}

/// See the module.
#[derive(Debug)]
pub(super) struct PatientPostgres {
    tries_left: Cell<usize>,
}

impl PatientPostgres {
    /// For a statement of so many tokens.
    pub fn new(tokens: usize) -> Self {
        Self { tries_left: Cell::new(tokens.saturating_mul(TRIES_PER_TOKEN).saturating_add(TRIES_MORE)) }
    }
}

/// What follows the word OPERATOR: `(pg_catalog.=) 1`, or `(pg_catalog.=) ANY (...)`, which the parser doesn't know.
fn named_operator(parser: &mut Parser, left: Expr, precedence: u8) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut name = vec![parser.next_token().to_string()];
    while parser.consume_token(&Token::Period) {
        name.push(parser.next_token().to_string());
    }
    parser.expect_token(&Token::RParen)?;
    let left = Box::new(left);
    let compare_op = match name.last().map(String::as_str) {
        Some("=") => BinaryOperator::Eq,
        Some("<>" | "!=") => BinaryOperator::NotEq,
        Some("<") => BinaryOperator::Lt,
        Some("<=") => BinaryOperator::LtEq,
        Some(">") => BinaryOperator::Gt,
        Some(">=") => BinaryOperator::GtEq,
        _ => BinaryOperator::PGCustomBinaryOperator(name),
    };
    let Some(many) = parser.parse_one_of_keywords(&[Keyword::ANY, Keyword::SOME, Keyword::ALL]) else {
        let right = Box::new(parser.parse_subexpr(precedence)?);
        return Ok(Expr::BinaryOp { left, op: compare_op, right });
    };
    parser.expect_token(&Token::LParen)?;
    let right = if parser.peek_one_of_keywords(&[Keyword::SELECT, Keyword::WITH]).is_some() {
        parser.prev_token();
        Box::new(parser.parse_subexpr(precedence)?)
    } else {
        let right = Box::new(parser.parse_expr()?);
        parser.expect_token(&Token::RParen)?;
        right
    };
    Ok(match many {
        Keyword::ALL => Expr::AllOp { left, compare_op, right },
        _ => Expr::AnyOp { left, compare_op, right, is_some: many == Keyword::SOME },
    })
}

/// Each answer that PostgreSQL's dialect gives itself, passed on.
macro_rules! as_postgres {
    ($($method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $method(&self, $($argument: $type),*) -> $answer {
            PostgreSqlDialect {}.$method($($argument),*)
        })*
    };
}

impl Dialect for PatientPostgres {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if parser.peek_one_of_keywords(NEVER_FIRST).is_some() {
            return Some(parser.expected_ref("an expression", parser.peek_token_ref()));
        }
        if is_special_of_catalog(parser) {
            parser.next_token();
            parser.next_token();
        }
        match self.tries_left.get() {
            0 => Some(Err(ParserError::RecursionLimitExceeded)),
            left => {
                self.tries_left.set(left - 1);
                None
            }
        }
    }

    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if parser.peek_one_of_keywords(&[Keyword::OPERATOR]).is_none() {
            return PostgreSqlDialect {}.parse_infix(parser, left, precedence);
        }
        parser.next_token();
        Some(named_operator(parser, left.clone(), precedence))
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    as_postgres! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        supports_unicode_string_literal() -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        get_next_precedence(parser: &Parser) -> Option<Result<u8, ParserError>>;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        prec_value(precedence: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }
}
