//! Cuts a query into tokens, each with its column.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::QueryError;

/// One token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    /// A bare word: a field, a keyword, or a simple text.
    Word(String),
    /// A text in quotes.
    Quoted(String),
    /// `=`, `>=`, `<`, `!=` and the like.
    Operator(&'static str),
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// Nothing follows.
    End,
}

/// A token and the column at which it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// In characters, from 1.
    pub(super) column: usize,
    /// The token.
    pub(super) token: Token,
}

/// Longest first, so that `>=` is not read as `>`.
const OPERATORS: [&str; 8] = [">=", "<=", "!=", "<>", "==", "=", ">", "<"];

/// All tokens, the last of them `End`.
pub(super) fn tokens(query: &str) -> Result<Vec<Placed>, QueryError> {
    let mut tokens = Vec::new();
    let mut rest = query;
    loop {
        rest = rest.trim_start();
        let column = column(query, rest);
        let (token, after) = next_token(rest, column)?;
        let is_end = token == Token::End;
        tokens.push(Placed { column, token });
        if is_end {
            return Ok(tokens);
        }
        rest = after;
    }
}

fn column(query: &str, rest: &str) -> usize {
    query[..query.len() - rest.len()].chars().count() + 1
}

fn next_token(rest: &str, column: usize) -> Result<(Token, &str), QueryError> {
    let Some(first) = rest.chars().next() else {
        return Ok((Token::End, rest));
    };
    let after_first = &rest[first.len_utf8()..];
    if let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
        return Ok((Token::Operator(operator), &rest[operator.len()..]));
    }
    match first {
        '(' => Ok((Token::Open, after_first)),
        ')' => Ok((Token::Close, after_first)),
        ',' => Ok((Token::Comma, after_first)),
        '"' | '\'' => quoted(first, after_first, column),
        _ if is_word_character(first) => {
            let end = rest.find(|character| !is_word_character(character)).unwrap_or(rest.len());
            Ok((Token::Word(String::from(&rest[..end])), &rest[end..]))
        }
        _ => Err(QueryError {
            column,
            message: format!(
                "{first:?} cannot stand here: put texts in quotes, as in flowId = \"order {first}\""
            ),
        }),
    }
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || "_-.:+/@$#%".contains(character)
}

/// A backslash takes the next character as it is.
fn quoted(quote: char, rest: &str, column: usize) -> Result<(Token, &str), QueryError> {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Ok((Token::Quoted(text), &rest[at + quote.len_utf8()..]));
        }
        let taken = if character == '\\' { characters.next().map(|(_, next)| next) } else { Some(character) };
        text.extend(taken);
    }
    Err(QueryError { column, message: format!("this text does not end: close it with {quote}") })
}
