//! Shorter names of variables.
//!
//! Invariant: two variables of the same name get the same shorter name, unless no function that
//! knows the one knows the other. So it need not know which of the two a word means.

use super::{GLOBALS, KEYWORDS, Kind, Role, Token, is_in, letters};
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

/// Where an arrow function ends whose body begins here: rather too late than too early.
fn end_of_body(tokens: &[Token<'_>], partners: &[usize], begin: usize) -> usize {
    if text(tokens, begin) == "{" {
        return partners[begin];
    }
    let mut at = begin;
    while let Some(&token) = tokens.get(at) {
        if closes(token) || token.kind == Kind::Mark && matches!(token.text, "," | ";") {
            break;
        }
        at = if opens(token) { end_of_brackets(tokens, partners, at) } else { at } + 1;
    }
    at
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

/// The pieces that declare a variable: where each is, and which function it is declared for. What
/// is named in the defaults of parameters counts, too.
fn declarations(
    tokens: &[Token<'_>],
    roles: &[Role],
    partners: &[usize],
    functions: &[Range<usize>],
) -> Vec<(usize, Range<usize>)> {
    let text = |at| text(tokens, at);
    let around = |at: usize| {
        let inside = functions.iter().rev().find(|range| range.contains(&at));
        inside.cloned().unwrap_or(0..tokens.len())
    };
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = text(at.wrapping_sub(1));
        let is_property = text(at.wrapping_sub(2)) == ".";
        let begins = matches!(before, "const" | "let") || before == "catch" && token.text == "(";
        let begins = begins && !is_property;
        if token.kind == Kind::Mark && matches!(token.text, "(" | "[" | "{") {
            let is_function = token.text == "(" && functions.iter().any(|range| range.start == at);
            if is_function || begins {
                found.extend((at..partners[at]).map(|inside| (inside, around(at))));
            }
        }
        if token.kind != Kind::Word {
            continue;
        }
        let is_arrow = text(at + 1) == "=" && text(at + 2) == ">";
        let is_named = matches!(before, "function" | "class") && !is_property;
        // In a list of declarations; whatever else is assigned there is declared, too.
        let is_next = before == "," && text(at + 1) == "=" && text(at + 2) != "=";
        if is_arrow || begins || is_next || is_named {
            // A function is known around itself.
            found.push((at, around(at)));
        }
    }
    found.retain(|&(at, _)| roles[at] != Role::None);
    found
}

/// The shorter name of each piece that is a variable, by its place.
pub(super) fn short_names(tokens: &[Token<'_>], roles: &[Role]) -> BTreeMap<usize, String> {
    let partners = partners(tokens);
    let functions = functions(tokens, &partners);
    let mut declared: BTreeMap<&str, Vec<Range<usize>>> = BTreeMap::new();
    for (at, function) in declarations(tokens, roles, &partners, &functions) {
        if !is_in(GLOBALS, tokens[at].text) {
            declared.entry(tokens[at].text).or_default().push(function);
        }
    }
    let mut variables = Vec::new();
    let mut other_words = BTreeSet::new();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate().filter(|&(at, _)| roles[at] != Role::None) {
        places.entry(token.text).or_default().push(at);
    }
    for (name, mut places) in places {
        let mut seen = declared.remove(name).unwrap_or_default();
        seen.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
        seen.dedup_by(|inner, outer| inner.end <= outer.end);
        for seen in seen {
            let inside = places.extract_if(.., |place| seen.contains(place)).collect();
            variables.push(Variable { seen, places: inside });
        }
        if !places.is_empty() {
            other_words.insert(name);
        }
    }
    choose(&variables, tokens.len(), &other_words)
}

/// Gives names, to the outer functions first.
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
        (start, std::cmp::Reverse(end), std::cmp::Reverse(one.places.len()), one.places[0])
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
