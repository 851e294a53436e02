//! Pieces of a script as text, with as little as their meaning allows.

use super::names::{around, partners};
use super::{Gap, Kind, Role, Token};
use std::collections::BTreeMap;

/// A script whose brackets are known.
struct Script<'a> {
    tokens: &'a [Token<'a>],
    roles: &'a [Role],
    /// For each bracket its partner.
    partners: Vec<usize>,
    /// For each piece the bracket that it is in.
    around: Vec<Option<usize>>,
}

impl<'a> Script<'a> {
    fn new(tokens: &'a [Token<'a>], roles: &'a [Role]) -> Self {
        Self { tokens, roles, partners: partners(tokens), around: around(tokens) }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn before(&self, at: usize) -> &'a str {
        at.checked_sub(1).map_or("", |at| self.text(at))
    }

    fn is_mark(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == Kind::Mark && token.text == text)
    }

    /// Whether the brace here begins a block: not an object, a class, or the body of an arrow.
    fn begins_block(&self, at: usize) -> bool {
        let before = self.before(at);
        self.is_mark(at, "{")
            && matches!(before, "" | ")" | ";" | "{" | "}" | "else" | "try" | "finally" | "do")
    }

    /// Whether a piece stands among statements.
    fn is_in_statements(&self, at: usize) -> bool {
        self.around[at].is_none_or(|open| {
            let is_arrow = self.before(open) == ">" && self.before(open - 1) == "=";
            self.begins_block(open) || self.is_mark(open, "{") && is_arrow
        })
    }

    /// Whether the brackets that begin here hold one parameter of an arrow, which needs none.
    fn holds_one_parameter(&self, open: usize) -> bool {
        self.is_mark(open, "(")
            && self.partners[open] == open + 2
            && self.roles[open + 1] == Role::Variable
            && self.text(open + 3) == "="
            && self.text(open + 4) == ">"
    }

    /// Whether a piece can be left out.
    fn is_needless(&self, at: usize) -> bool {
        let next = self.text(at + 1);
        match self.text(at) {
            _ if self.tokens[at].kind != Kind::Mark => false,
            "(" => self.holds_one_parameter(at),
            ")" => self.holds_one_parameter(self.partners[at]),
            // A hole of an array has a comma before it.
            "," => matches!(next, ")" | "]" | "}") && !matches!(self.before(at), "," | "["),
            ";" => self.is_mark(at + 1, "}") && self.is_in_statements(at) && !self.is_empty(at),
            _ => false,
        }
    }

    /// Whether nothing is before this semicolon that it ends: the loop or condition has no body.
    fn is_empty(&self, at: usize) -> bool {
        let control = ["if", "for", "while"];
        match self.before(at) {
            ")" => control.contains(&self.before(self.partners[at - 1])),
            before => matches!(before, "else" | "do" | ":"),
        }
    }

    /// Whether the brace here begins the body of a function that is a value: its end ends no
    /// statement.
    fn begins_value(&self, open: usize) -> bool {
        let Some(behind) = open.checked_sub(1).filter(|&at| self.is_mark(at, ")")) else {
            return false;
        };
        // `function NAME (`, without the name, with `*`.
        let head = self.partners[behind];
        let first = (head.saturating_sub(3)..head).find(|&at| self.text(at) == "function");
        first.is_some_and(|at| {
            let at = if self.before(at) == "async" { at - 1 } else { at };
            !matches!(self.before(at), "" | ";" | "{" | "}")
        })
    }

    /// Whether a statement has ended at the piece before, whatever follows.
    fn is_behind_block(&self, at: usize) -> bool {
        let Some(close) = at.checked_sub(1).filter(|&close| self.is_mark(close, "}")) else {
            return false;
        };
        let open = self.partners[close];
        self.begins_block(open) && !self.begins_value(open) && self.is_in_statements(close)
    }

    /// Whether a word may stand for a property of its name and its value: `{ word }`.
    fn is_short(&self, at: usize) -> bool {
        matches!(self.before(at), "{" | ",")
            && matches!(self.text(at + 1), "," | "}")
            && self.around[at].is_some_and(|open| self.is_mark(open, "{"))
    }

    /// What is written for a piece.
    fn written(&self, at: usize) -> &'a str {
        let text = self.text(at);
        let before = self.before(at);
        let is_key = before == "." || self.text(at + 1) == ":" && matches!(before, "{" | ",");
        match text {
            _ if self.tokens[at].kind != Kind::Word || is_key => text,
            // Nothing is assigned twice: the type check has seen to it.
            "const" => "let",
            "true" => "!0",
            "false" => "!1",
            "undefined" if !self.is_short(at) => "void 0",
            _ => text,
        }
    }
}

/// Writes a script.
pub(super) fn write(
    tokens: &[Token<'_>],
    roles: &[Role],
    names: &BTreeMap<usize, String>,
) -> String {
    let script = Script::new(tokens, roles);
    // For each bracket, and for what is in none: whether the statement there declares variables.
    let mut declares = vec![false; tokens.len() + 1];
    let mut out = String::new();
    let mut before: Option<Token<'_>> = None;
    let mut gap = Gap::None;
    for (at, &token) in tokens.iter().enumerate() {
        gap = gap.max(token.gap);
        let declares = &mut declares[script.around[at].map_or(tokens.len(), |open| open)];
        let begins = matches!(token.text, "const" | "let") && token.kind == Kind::Word;
        let mut next = Token { text: script.written(at), gap, ..token };
        // The statement may end here.
        *declares &= before.is_none_or(|before| between(before, next) != "\n");
        if begins && *declares && script.before(at) == ";" {
            continue;
        }
        if script.is_mark(at, ";") && script.is_in_statements(at) {
            *declares &= matches!(script.text(at + 1), "const" | "let");
            next.text = if *declares { "," } else { ";" };
        }
        *declares |= begins;
        if script.is_needless(at) {
            if before.is_some_and(|before| before.kind == Kind::Word) {
                // It may not become one word with what follows.
                gap = gap.max(Gap::Space);
            }
            continue;
        }
        if next.text.starts_with('!') && token.kind == Kind::Word {
            next.kind = Kind::Mark;
        }
        if let Some(before) = before.filter(|_| gap != Gap::None) {
            let is_ended = gap == Gap::Line && script.is_behind_block(at);
            out.push_str(if is_ended { "" } else { between(before, next) });
        }
        let short = names.get(&at).map(String::as_str);
        if roles[at] == Role::Short && short.is_some_and(|short| short != token.text) {
            out.push_str(token.text);
            out.push(':');
        }
        out.push_str(short.unwrap_or(next.text));
        before = Some(Token { kind: token.kind, ..next });
        gap = Gap::None;
    }
    out.push('\n');
    out
}

/// What has to stand between two pieces.
fn between(before: Token<'_>, next: Token<'_>) -> &'static str {
    let is_mark =
        |token: Token<'_>, marks: &str| token.kind == Kind::Mark && marks.contains(token.text);
    let goes_on = is_mark(before, ";{([,=:?&|*%<>!") || is_mark(next, "}]),;.?:&|=*%<>");
    if next.gap == Gap::Line && !goes_on {
        return "\n";
    }
    let is_wordy = |token: Token<'_>| matches!(token.kind, Kind::Word | Kind::Number);
    let is_pattern = next.kind == Kind::Literal && next.text.starts_with('/');
    let would_join = is_wordy(before) && is_wordy(next)
        || before.kind == Kind::Number && next.text == "."
        || is_mark(before, "<") && is_mark(next, "!")
        || is_mark(before, "+-/") && (is_mark(next, "+-/") || is_pattern)
        || before.kind == Kind::Literal && is_wordy(next);
    if would_join { " " } else { "" }
}
