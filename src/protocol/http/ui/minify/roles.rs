//! What the words of a script are: variables, which may be shortened, or names that others know.
//!
//! Invariant: a brace of which it is not sure what it begins is an error of the build.

use super::{KEYWORDS, Kind, Token, is_in};

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// No variable: a keyword, the name of a property, or no word at all.
    None,
    Variable,
    /// A variable that is written once for itself and for the property of its name: `{ word }`.
    Short,
}

/// What is between two brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// What is in round or square brackets, or in a template.
    Expression,
    Statements,
    /// Properties: of a value, or of what is taken apart.
    Properties,
    Class,
}

/// The role of each piece.
///
/// # Errors
/// A brace may mean two things, or a class has more than methods.
pub(super) fn roles(tokens: &[Token<'_>]) -> Result<Vec<Role>, String> {
    let mut roles = Vec::with_capacity(tokens.len());
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let mut role = Role::None;
        match (token.kind, token.text) {
            (Kind::Mark, "(" | "[") => open.push(Inside::Expression),
            (Kind::Mark, "{") => open.push(behind(&tokens[..at])?),
            (Kind::Mark, ")" | "]" | "}") => drop(open.pop()),
            (Kind::Literal, part) => {
                if part.starts_with('}') {
                    open.pop();
                }
                if part.ends_with("${") {
                    open.push(Inside::Expression);
                }
            }
            (Kind::Word, word) if !is_in(KEYWORDS, word) => {
                role = of_word(tokens, at, open.last().copied())?;
            }
            _ => {}
        }
        roles.push(role);
    }
    Ok(roles)
}

/// What a brace begins that comes behind these pieces.
fn behind(before: &[Token<'_>]) -> Result<Inside, String> {
    let text = |back: usize| {
        let at = before.len().checked_sub(back);
        at.map_or("", |at| before[at].text)
    };
    let is_arrow = text(1) == ">" && text(2) == "=";
    let is_class = text(2) == "class" || text(2) == "extends";
    let last = before.last().map(|token| token.kind);
    match text(1) {
        _ if is_class => Ok(Inside::Class),
        _ if is_arrow => Ok(Inside::Statements),
        "" | ")" | ";" | "{" | "}" | "else" | "try" | "finally" | "catch" | "do" => {
            Ok(Inside::Statements)
        }
        "(" | "[" | "," | "=" | "?" | ":" | "|" | "&" | "." | "return" | "const" | "let" | "of" => {
            Ok(Inside::Properties)
        }
        part if last == Some(Kind::Literal) && part.ends_with("${") => Ok(Inside::Properties),
        part => Err(format!("a brace behind `{part}` may mean two things")),
    }
}

fn of_word(tokens: &[Token<'_>], at: usize, inside: Option<Inside>) -> Result<Role, String> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let (before, behind) = (text(at.wrapping_sub(1)), text(at + 1));
    let is_spread = text(at.wrapping_sub(2)) == "." && text(at.wrapping_sub(3)) == ".";
    if before == "." && !is_spread {
        return Ok(Role::None);
    }
    let is_generator = before == "*" && matches!(text(at.wrapping_sub(2)), "{" | "," | "async");
    let begins = matches!(before, "{" | "," | "async" | "get" | "set") || is_generator;
    match (inside, behind) {
        (Some(Inside::Class), "(") => Ok(Role::None),
        (Some(Inside::Class), _) => Err(format!("`{}` is no method of a class", tokens[at].text)),
        (Some(Inside::Properties), ":" | "(") if begins => Ok(Role::None),
        (Some(Inside::Properties), "," | "}" | "=") if begins => Ok(Role::Short),
        _ => Ok(Role::Variable),
    }
}
