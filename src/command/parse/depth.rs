//! Refuses a statement that would make too deep a tree, before there is one.
//!
//! sqlparser limits how deep expressions nest while it reads them, but not how long a chain of operators gets
//! (`1 + 1 + ...` is a tree as deep as it is long), nor how deep types nest. Such a tree overflows the stack when it
//! is dropped, if not before.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::text::Fragment;
use crate::error::{Error, Result};

/// How deep the tree of a statement may be. A copy of one twice as deep still fits a stack of 2 MB, unoptimised.
const MAX_DEPTH: usize = 1000;
/// What a set operation counts for: copying a tree of queries takes that much more stack than one of expressions.
const SET_OPERATION: usize = 6;
/// How many brackets may be open at once.
const MAX_NESTING: usize = 200;

/// What is known of one bracket that is still open.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Depth of the item being read: its operators, one on top of the other, on the deepest group among them.
    operators: usize,
    deepest_group: usize,
    /// Depth of the deepest item before it.
    before: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.operators + self.deepest_group)
    }
}

/// Goes on in the bracket around the one that ends here.
fn close(open: &mut Vec<Level>, level: &mut Level) {
    if let Some(outer) = open.pop() {
        let inner = level.depth();
        *level = outer;
        level.deepest_group = level.deepest_group.max(inner);
    }
}

/// An upper bound, from the tokens alone: each operator and keyword adds one, a comma starts anew, a bracket is as deep
/// as the deepest item in it and one more.
pub(super) fn check(fragment: &Fragment<'_>) -> Result<()> {
    let mut open = Vec::new();
    let mut level = Level::default();
    let mut angles = 0;
    let mut after_array = false;
    for (index, lexeme) in fragment.lexemes.iter().enumerate() {
        let token = &lexeme.token.token;
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                // A subscript, or the brackets of an array type, deepen what is before them.
                level.operators += 1;
                open.push(std::mem::take(&mut level));
            }
            Token::RParen | Token::RBracket | Token::RBrace => close(&mut open, &mut level),
            // The arms of a CASE stand side by side, as the items in a bracket do.
            Token::Word(word) if word.keyword == Keyword::CASE => {
                level.operators += 1;
                open.push(std::mem::take(&mut level));
            }
            Token::Word(word) if word.keyword == Keyword::END => close(&mut open, &mut level),
            Token::Word(word) if matches!(word.keyword, Keyword::WHEN | Keyword::THEN | Keyword::ELSE) => {
                level = Level { before: level.depth(), ..Level::default() };
            }
            Token::Comma => level = Level { before: level.depth(), ..Level::default() },
            Token::Lt if after_array => angles += 1,
            Token::Word(word) if word.keyword == Keyword::NoKeyword => {}
            Token::Word(word) if matches!(word.keyword, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT) => {
                level.operators += SET_OPERATION;
            }
            Token::Period | Token::Number(..) | Token::Placeholder(_) | Token::SingleQuotedString(_) => {}
            _ => level.operators += 1,
        }
        after_array = matches!(token, Token::Word(word) if word.keyword == Keyword::ARRAY);
        if level.depth() > MAX_DEPTH || open.len() + angles > MAX_NESTING {
            return Err(Error::StatementTooComplex { position: fragment.position(index) });
        }
    }
    Ok(())
}
