//! The files of the dashboard as they are served: one script and one style sheet, without comments
//! and indentation, the script's own names shortened. The build runs this (`build.rs`).
//!
//! Invariants:
//! - strings, templates and regular expressions stay as they are, byte for byte;
//! - a line end stays wherever a statement could end at it;
//! - a variable has one shorter name wherever it is seen, that of a property is never shortened
//!   (`names`, `roles`);
//! - what it does not know for sure is an error of the build, never a guess.

mod names;
mod roles;
mod style;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use names::short_names;
use roles::{Role, roles};
pub(crate) use style::style;
use write::write;

/// A piece of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    kind: Kind,
    /// What was between this piece and the one before.
    gap: Gap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Mark,
    /// A string, a regular expression, or a part of a template.
    Literal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    None,
    Space,
    Line,
}

const KEYWORDS: &str = "
    async await break case catch class const continue debugger default delete do else export
    extends false finally for function get if import in instanceof let new null of
    return set static super switch this throw true try typeof undefined var void while with
    yield
";

/// Names that browsers give a meaning to, and that scripts use. What else a script uses undeclared,
/// its type check finds; a script may not use what a browser has under a name that it declares.
const GLOBALS: &str = "
    AbortController AbortSignal addEventListener arguments Array atob BigInt Blob Boolean
    BroadcastChannel btoa clearInterval clearTimeout Date decodeURIComponent document
    encodeURIComponent Error EventSource fetch getSelection globalThis history innerHeight
    innerWidth Intl isFinite isNaN JSON localStorage location Map matchMedia Math NaN navigator
    Number Object performance Promise queueMicrotask RegExp removeEventListener
    requestAnimationFrame sessionStorage Set setInterval setTimeout String structuredClone Symbol
    TextDecoder TextEncoder Uint8Array URL URLSearchParams WeakMap window
";

/// Words behind which an expression begins.
const BEFORE_EXPRESSIONS: &str =
    "await case delete do else in instanceof new return throw typeof void yield";

fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Joins modules, each before those that import it, to one script. `modules`: names and texts; the
/// last one is where the page begins.
///
/// # Errors
/// Two modules declare the same name, or a module is not understood.
pub(crate) fn scripts(modules: &[(&str, &str)]) -> Result<String, String> {
    let mut tokens = Vec::new();
    let mut declared = BTreeMap::new();
    for &(file, text) in modules {
        let own = split(text).map_err(|why| format!("{file}: {why}"))?;
        let own = without_modules(&own);
        for name in top_names(&own) {
            if let Some(other) = declared.insert(name, file) {
                return Err(format!("{file}: `{name}` is a name of {other}, too"));
            }
        }
        tokens.extend(own);
    }
    let roles = roles(&tokens)?;
    let names = short_names(&tokens, &roles);
    Ok(write(&tokens, &roles, &names))
}

/// The names of modules that nothing uses.
///
/// # Errors
/// A module is not understood.
pub(crate) fn unused(modules: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for &(_, text) in modules {
        let own = split(text)?;
        let own = without_modules(&own);
        names.extend(top_names(&own).into_iter().map(str::to_owned));
        for (token, role) in own.iter().zip(roles(&own)?) {
            *uses.entry(token.text.to_owned()).or_default() += usize::from(role != Role::None);
        }
    }
    names.retain(|name| uses[name] < 2);
    Ok(names)
}

/// The modules that a module imports.
pub(crate) fn imports(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| line.starts_with("import "));
    lines.filter_map(|line| line.split("\"./").nth(1)?.split('"').next())
}

fn is_name_char(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '$')
}

/// The pieces of a script.
fn split(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut gap = Gap::None;
    let mut rest = text;
    // For each open brace, whether it is one of a template.
    let mut braces = Vec::new();
    while let Some(char) = rest.chars().next() {
        if char.is_whitespace() {
            gap = gap.max(if char == '\n' { Gap::Line } else { Gap::Space });
            rest = &rest[char.len_utf8()..];
            continue;
        }
        if let Some(length) = comment(rest)? {
            gap = gap.max(if rest[..length].contains('\n') { Gap::Line } else { Gap::Space });
            rest = &rest[length..];
            continue;
        }
        let (kind, length) = match char {
            '"' | '\'' => (Kind::Literal, string(rest)?),
            '`' => (Kind::Literal, template(rest)?),
            '}' if braces.pop() == Some(true) => (Kind::Literal, template(rest)?),
            '/' if begins_pattern(&tokens)? => (Kind::Literal, pattern(rest)?),
            _ if char.is_ascii_digit() => (Kind::Number, number(rest)),
            _ if is_name_char(char) => {
                (Kind::Word, rest.find(|next| !is_name_char(next)).unwrap_or(rest.len()))
            }
            _ if char.is_ascii_punctuation() => (Kind::Mark, 1),
            _ => return Err(format!("`{char}` stands for nothing here")),
        };
        let token = Token { text: &rest[..length], kind, gap };
        if token.text == "{" && kind == Kind::Mark {
            braces.push(false);
        } else if kind == Kind::Literal && token.text.ends_with("${") {
            braces.push(true);
        }
        tokens.push(token);
        gap = Gap::None;
        rest = &rest[length..];
    }
    Ok(tokens)
}

/// The length of the comment that begins here.
fn comment(text: &str) -> Result<Option<usize>, String> {
    if text.starts_with("//") {
        return Ok(Some(text.find('\n').unwrap_or(text.len())));
    }
    if !text.starts_with("/*") {
        return Ok(None);
    }
    let end = text.find("*/").ok_or("a comment has no end")?;
    Ok(Some(end + 2))
}

/// The length up to the end of what ends with the character that it begins with.
fn string(text: &str) -> Result<usize, String> {
    let quote = text.chars().next();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '\n' => break,
            _ if Some(char) == quote => return Ok(at + 1),
            _ => {}
        }
    }
    Err("a string has no end".to_owned())
}

/// The length of a part of a template: up to its end, or to the next expression in it.
fn template(text: &str) -> Result<usize, String> {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '`' => return Ok(at + 1),
            '$' if text[at..].starts_with("${") => return Ok(at + 2),
            _ => {}
        }
    }
    Err("a template has no end".to_owned())
}

/// Whether a slash behind these pieces begins a regular expression.
fn begins_pattern(tokens: &[Token<'_>]) -> Result<bool, String> {
    let text = |back: usize| {
        let at = tokens.len().checked_sub(back);
        at.map_or("", |at| tokens[at].text)
    };
    let Some(before) = tokens.last() else { return Ok(true) };
    let two_things = |what: &str| Err(format!("a slash behind {what} may mean two things"));
    match (before.kind, before.text) {
        (Kind::Word, _) if text(2) == "." => Ok(false),
        (Kind::Word, "of") => two_things("`of`"),
        (Kind::Word, word) => Ok(is_in(BEFORE_EXPRESSIONS, word)),
        (Kind::Number | Kind::Literal, _) | (_, "]") => Ok(false),
        (_, ")") => Ok(is_in("if while for with", word_before_brackets(tokens))),
        (_, "}") => two_things("a brace"),
        (_, sign @ ("+" | "-")) if text(2) == sign && before.gap == Gap::None => {
            two_things("a sign that stands twice")
        }
        _ => Ok(true),
    }
}

/// The word before the brackets that end with the last one of these pieces.
fn word_before_brackets<'a>(tokens: &[Token<'a>]) -> &'a str {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().rev() {
        match (token.kind, token.text) {
            (Kind::Mark, ")") => depth += 1,
            (Kind::Mark, "(") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at.checked_sub(1).map_or("", |at| tokens[at].text);
        }
    }
    ""
}

/// The length of a regular expression.
fn pattern(text: &str) -> Result<usize, String> {
    let mut is_in_class = false;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => drop(chars.next()),
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '\n' => break,
            '/' if !is_in_class => {
                let flags = &text[at + 1..];
                let length = flags.find(|next| !is_name_char(next)).unwrap_or(flags.len());
                return Ok(at + 1 + length);
            }
            _ => {}
        }
    }
    Err("a regular expression has no end".to_owned())
}

/// The length of a number, with its point, exponent and separators.
fn number(text: &str) -> usize {
    let mut before = ' ';
    let is_hex = text.starts_with("0x");
    let end = text.find(|char: char| {
        let is_sign = matches!(char, '+' | '-') && matches!(before, 'e' | 'E') && !is_hex;
        before = char;
        !(is_name_char(char) || char == '.' || is_sign)
    });
    end.unwrap_or(text.len())
}

/// Leaves out what joins modules: one scope holds all of them.
fn without_modules<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut out = Vec::new();
    let mut tokens = tokens.iter().copied().peekable();
    let mut depth = 0_usize;
    while let Some(token) = tokens.next() {
        let next = tokens.peek().map(|next| next.text);
        depth = depth_behind(depth, token);
        match token.text {
            "import" if depth == 0 && next != Some("(") => {
                for skipped in tokens.by_ref() {
                    if skipped.text == ";" {
                        break;
                    }
                }
            }
            "export" if depth == 0 => {
                if let Some(next) = tokens.peek_mut() {
                    next.gap = token.gap.max(Gap::Line);
                }
            }
            _ => out.push(token),
        }
    }
    out
}

/// How many brackets are open behind a piece.
fn depth_behind(depth: usize, token: Token<'_>) -> usize {
    match (token.kind, token.text) {
        (Kind::Mark, "(" | "[" | "{") => depth + 1,
        (Kind::Mark, ")" | "]" | "}") => depth.saturating_sub(1),
        (Kind::Literal, text) => {
            let opens = usize::from(text.ends_with("${"));
            (depth + opens).saturating_sub(usize::from(text.starts_with('}')))
        }
        _ => depth,
    }
}

/// The names that a module declares for all of it.
fn top_names<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    let mut depth = 0;
    let mut is_list = false;
    for pair in tokens.windows(2) {
        let (token, next) = (pair[0], pair[1]);
        depth = depth_behind(depth, token);
        if depth > 0 {
            continue;
        }
        match token.text {
            "const" | "let" => is_list = true,
            ";" => is_list = false,
            _ => {}
        }
        let begins = matches!(token.text, "const" | "let" | "function" | "class");
        if (begins || is_list && token.text == ",") && next.kind == Kind::Word {
            names.insert(next.text);
        }
    }
    names
}

/// The name of a number: a, b ... Z, aa ...
fn letters(number: usize) -> String {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut out = String::new();
    let mut left = number + 1;
    while left > 0 {
        left -= 1;
        out.insert(0, char::from(LETTERS[left % LETTERS.len()]));
        left /= LETTERS.len();
    }
    out
}
