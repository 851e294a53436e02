//! Shorter names of variables.
//!
//! Invariant: a word means the variable of the innermost function that declares its name for all of
//! itself: as a parameter, or in its body outside of blocks. What is declared in a block has the
//! name of what the functions around it declare under the same name, so that it need not be known
//! which of the two a word means.

use super::{GLOBALS, Gap, KEYWORDS, Kind, Role, Token, is_in, letters};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A variable, or several of one name that may be mistaken for each other.
struct Variable {
    /// The pieces where it may be seen: a function, or all of the script.
    seen: Range<usize>,
    /// Where it stands.
    places: Vec<usize>,
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// Whether a piece opens a bracket; a part of a template does before an expression.
pub(super) fn opens(token: Token<'_>) -> bool {
    match token.kind {
        Kind::Mark => matches!(token.text, "(" | "[" | "{"),
        Kind::Literal => token.text.ends_with("${"),
        _ => false,
    }
}

/// Whether it closes one.
pub(super) fn closes(token: Token<'_>) -> bool {
    match token.kind {
        Kind::Mark => matches!(token.text, ")" | "]" | "}"),
        Kind::Literal => token.text.starts_with('}'),
        _ => false,
    }
}

/// For each piece that is a bracket, where its partner is.
pub(super) fn partners(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut partners = vec![usize::MAX; tokens.len()];
    let mut open = Vec::new();
    for (at, &token) in tokens.iter().enumerate() {
        if closes(token)
            && let Some(begin) = open.pop()
        {
            partners[at] = begin;
            partners[begin] = at;
        }
        if opens(token) {
            open.push(at);
        }
    }
    partners
}

/// For each piece the bracket that it is in.
pub(super) fn around(tokens: &[Token<'_>]) -> Vec<Option<usize>> {
    let mut around = Vec::with_capacity(tokens.len());
    let mut open = Vec::new();
    for (at, &token) in tokens.iter().enumerate() {
        if closes(token) {
            open.pop();
        }
        around.push(open.last().copied());
        if opens(token) {
            open.push(at);
        }
    }
    around
}

/// Where an expression ends that begins here: at a comma, at the end of its statement or brackets,
/// or where a condition goes on that it is a part of.
fn end_of_expression(tokens: &[Token<'_>], partners: &[usize], begin: usize) -> usize {
    let is = |at: usize, text: &str| {
        tokens.get(at).is_some_and(|token| token.kind == Kind::Mark && token.text == text)
    };
    let statements = ["const", "let", "if", "for", "while", "return", "throw", "try"];
    let mut conditions = 0_usize;
    let mut at = begin;
    while let Some(&token) = tokens.get(at) {
        let ends = token.kind == Kind::Mark && matches!(token.text, "," | ";");
        let is_statement = token.kind == Kind::Word && token.gap == Gap::Line;
        if closes(token) || ends || is_statement && statements.contains(&token.text) {
            break;
        }
        if is(at, "?") && (is(at + 1, "?") || is(at + 1, ".")) {
            at += 2;
            continue;
        }
        if is(at, ":") && conditions == 0 {
            break;
        }
        conditions += usize::from(is(at, "?"));
        conditions -= usize::from(is(at, ":"));
        at = if opens(token) { end_of_brackets(tokens, partners, at) } else { at } + 1;
    }
    at
}

/// Where an arrow function ends whose body begins here.
fn end_of_body(tokens: &[Token<'_>], partners: &[usize], begin: usize) -> usize {
    match text(tokens, begin) {
        "{" => partners[begin],
        _ => end_of_expression(tokens, partners, begin),
    }
}

/// The last bracket of a row that begins here: a template may have several.
fn end_of_brackets(tokens: &[Token<'_>], partners: &[usize], begin: usize) -> usize {
    let mut end = partners[begin];
    while opens(tokens[end]) {
        end = partners[end];
    }
    end
}

/// The functions, each from its parameters to its end, the outer ones first.
fn functions(tokens: &[Token<'_>], partners: &[usize]) -> Vec<Range<usize>> {
    let text = |at| text(tokens, at);
    let mut found: Vec<Range<usize>> = std::iter::once(0..tokens.len()).collect();
    for (at, token) in tokens.iter().enumerate() {
        if token.kind == Kind::Word && text(at + 1) == "=" && text(at + 2) == ">" {
            found.push(at..end_of_body(tokens, partners, at + 3));
        }
        if token.kind != Kind::Mark || token.text != "(" {
            continue;
        }
        let behind = partners[at] + 1;
        let control = ["if", "for", "while", "switch", "catch"];
        if text(behind) == "=" && text(behind + 1) == ">" {
            found.push(at..end_of_body(tokens, partners, behind + 2));
        } else if text(behind) == "{" && !control.contains(&text(at.wrapping_sub(1))) {
            found.push(at..partners[behind]);
        }
    }
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    found
}

/// A piece that declares a variable.
struct Declaration {
    at: usize,
    /// The function that it is declared for.
    function: Range<usize>,
    /// Whether the function knows no other variable of this name: it is not declared in a block.
    is_whole: bool,
}

/// What a script is made of.
struct Outline<'a> {
    tokens: &'a [Token<'a>],
    partners: &'a [usize],
    functions: &'a [Range<usize>],
    /// For each piece the bracket that it is in.
    around: Vec<Option<usize>>,
}

impl Outline<'_> {
    /// The function around a piece.
    fn function(&self, at: usize) -> Range<usize> {
        let inside = self.functions.iter().rev().find(|range| range.contains(&at));
        inside.cloned().unwrap_or(0..self.tokens.len())
    }

    /// Whether a piece stands in the body of its function itself, outside of blocks: the brace
    /// around it is the partner of the function's end.
    fn is_in_body(&self, at: usize, function: &Range<usize>) -> bool {
        match self.around[at] {
            None => *function == (0..self.tokens.len()),
            Some(open) => self.partners[open] == function.end,
        }
    }

    /// Declares what stands in brackets that take something apart, or are those of parameters. What
    /// is named in defaults is not declared.
    fn take_apart(&self, open: usize, is_whole: bool, out: &mut Vec<Declaration>) {
        let mut at = open + 1;
        while at < self.partners[open] {
            if text(self.tokens, at) == "=" {
                at = end_of_expression(self.tokens, self.partners, at + 1);
                continue;
            }
            if self.tokens[at].kind == Kind::Word {
                out.push(Declaration { at, function: self.function(at), is_whole });
            }
            at += 1;
        }
    }

    /// Declares a list of variables behind its keyword.
    fn declare_list(&self, keyword: usize, out: &mut Vec<Declaration>) {
        let function = self.function(keyword);
        let is_whole = self.is_in_body(keyword, &function);
        let mut at = keyword;
        loop {
            at += 1;
            if matches!(text(self.tokens, at), "[" | "{") {
                self.take_apart(at, is_whole, out);
                at = self.partners[at];
            } else {
                out.push(Declaration { at, function: function.clone(), is_whole });
            }
            at = end_of_expression(self.tokens, self.partners, at + 1);
            if text(self.tokens, at) != "," {
                return;
            }
        }
    }
}

/// The pieces that declare a variable.
fn declarations(outline: &Outline<'_>, roles: &[Role]) -> Vec<Declaration> {
    let text = |at| text(outline.tokens, at);
    let mut found = Vec::new();
    for (at, token) in outline.tokens.iter().enumerate() {
        let before = text(at.wrapping_sub(1));
        let begins = outline.functions.iter().any(|range| range.start == at && range.start > 0);
        match (token.kind, token.text) {
            _ if before == "." => {}
            (Kind::Mark, "(") if begins => outline.take_apart(at, true, &mut found),
            (Kind::Mark, "(") if before == "catch" && text(at.wrapping_sub(2)) != "." => {
                outline.take_apart(at, false, &mut found);
            }
            (Kind::Word, "const" | "let") if text(at + 1) != ":" => {
                outline.declare_list(at, &mut found);
            }
            (Kind::Word, _) if text(at + 1) == "=" && text(at + 2) == ">" => {
                found.push(Declaration { at, function: outline.function(at), is_whole: true });
            }
            // A function is known around itself.
            (Kind::Word, _) if matches!(before, "function" | "class") => {
                let function = outline.function(at);
                let is_whole = outline.is_in_body(at, &function);
                found.push(Declaration { at, function, is_whole });
            }
            _ => {}
        }
    }
    found.retain(|found| roles[found.at] != Role::None);
    found
}

/// The shorter name of each piece that is a variable, by its place.
pub(super) fn short_names(tokens: &[Token<'_>], roles: &[Role]) -> BTreeMap<usize, String> {
    let partners = partners(tokens);
    let functions = functions(tokens, &partners);
    let around = around(tokens);
    let outline = Outline { tokens, partners: &partners, functions: &functions, around };
    let mut declared: BTreeMap<&str, Vec<Declaration>> = BTreeMap::new();
    for found in declarations(&outline, roles) {
        if !is_in(GLOBALS, tokens[found.at].text) {
            declared.entry(tokens[found.at].text).or_default().push(found);
        }
    }
    let mut variables = Vec::new();
    let mut other_words = BTreeSet::new();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate().filter(|&(at, _)| roles[at] != Role::None) {
        places.entry(token.text).or_default().push(at);
    }
    for (name, mut places) in places {
        // The innermost functions come first.
        for seen in apart(declared.remove(name).unwrap_or_default()).into_iter().rev() {
            let inside = places.extract_if(.., |place| seen.contains(place)).collect();
            variables.push(Variable { seen, places: inside });
        }
        if !places.is_empty() {
            other_words.insert(name);
        }
    }
    choose(&variables, tokens.len(), &other_words)
}

/// The functions whose variables of one name are not the same, the outer ones first.
fn apart(mut declared: Vec<Declaration>) -> Vec<Range<usize>> {
    declared.sort_by_key(|one| {
        (one.function.start, std::cmp::Reverse(one.function.end), !one.is_whole)
    });
    let mut found: Vec<Range<usize>> = Vec::new();
    for Declaration { function, is_whole, .. } in declared {
        let is_inside =
            found.iter().any(|outer| outer.start <= function.start && function.end <= outer.end);
        if !is_inside || is_whole && !found.contains(&function) {
            found.push(function);
        }
    }
    found
}

/// Gives names, to the outer functions first, in the order of places: functions that are alike have
/// the same names then, which is easy to compress.
fn choose(
    variables: &[Variable],
    length: usize,
    other_words: &BTreeSet<&str>,
) -> BTreeMap<usize, String> {
    let free = |name: &String| {
        !other_words.contains(name.as_str()) && !is_in(KEYWORDS, name) && !is_in(GLOBALS, name)
    };
    let fresh: Vec<String> = (0..).map(letters).filter(free).take(variables.len()).collect();
    let mut order: Vec<_> = variables.iter().collect();
    order.sort_by_key(|one| {
        let (start, end) = (one.seen.start, one.seen.end);
        (start, std::cmp::Reverse(end), one.places[0])
    });
    let mut names = vec![usize::MAX; length];
    for group in order.chunk_by(|one, next| one.seen == next.seen) {
        let taken: BTreeSet<usize> = names[group[0].seen.clone()].iter().copied().collect();
        let free = (0..fresh.len()).filter(|name| !taken.contains(name));
        for (variable, name) in group.iter().zip(free) {
            for &place in &variable.places {
                names[place] = name;
            }
        }
    }
    let renamed = names.into_iter().enumerate().filter(|&(_, name)| name != usize::MAX);
    renamed.map(|(at, name)| (at, fresh[name].clone())).collect()
}
