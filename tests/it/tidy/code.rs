//! Just enough parsing of Rust for the rules: what is code, where functions end, which paths are
//! named.

/// The text with comments, strings and characters blanked out: same lines, same columns.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = chars.clone();
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => find(&chars, at, "\n"),
            '/' if chars.get(at + 1) == Some(&'*') => find(&chars, at, "*/") + 2,
            '"' => end_of_quoted(&chars, at),
            'r' if !follows_word(&chars, at) || chars[at - 1] == 'b' => {
                let hashes = chars[at + 1..].iter().take_while(|&&next| next == '#').count();
                if chars.get(at + 1 + hashes) == Some(&'"') {
                    let close = format!("\"{}", "#".repeat(hashes));
                    find(&chars, at + 2 + hashes, &close) + 1 + hashes
                } else {
                    at
                }
            }
            '\'' if chars.get(at + 1) == Some(&'\\') => find(&chars, at + 3, "'") + 1,
            '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
            _ => at,
        };
        for blank in code.iter_mut().take(end).skip(at) {
            if *blank != '\n' {
                *blank = ' ';
            }
        }
        at = end.max(at + 1);
    }
    code.into_iter().collect()
}

fn follows_word(chars: &[char], at: usize) -> bool {
    at > 0 && is_word(chars[at - 1])
}

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn find(chars: &[char], from: usize, what: &str) -> usize {
    let what: Vec<char> = what.chars().collect();
    let rest = chars.get(from..).unwrap_or_default();
    from + rest.windows(what.len()).position(|window| window == what).unwrap_or(rest.len())
}

fn end_of_quoted(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The numbers, from 1, of the lines of `code` in which `token` stands as a word of its own.
pub(super) fn lines_with(code: &str, token: &str) -> Vec<usize> {
    let holds = |line: &str| {
        line.match_indices(token)
            .any(|(at, _)| !line[..at].chars().next_back().is_some_and(is_word))
    };
    code.lines().enumerate().filter(|(_, line)| holds(line)).map(|(at, _)| at + 1).collect()
}

/// Every path in `code` that begins with `root::`, lists in braces taken apart, with its line.
pub(super) fn paths(code: &str, root: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let start = format!("{root}::");
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|before| is_word(before) || before == ':') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let mut leaves = Vec::new();
        tree(&mut code[at + start.len()..].trim_start(), &mut Vec::new(), &mut leaves);
        found.extend(leaves.into_iter().map(|path| (line, path)));
    }
    found
}

/// One branch of a `use` tree, from behind its `::`.
fn tree(rest: &mut &str, prefix: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) {
    if let Some(list) = rest.strip_prefix('{') {
        *rest = list.trim_start();
        while !rest.is_empty() && !rest.starts_with('}') {
            tree(rest, &mut prefix.clone(), leaves);
            let next = rest.find([',', '}']).unwrap_or(rest.len());
            *rest = rest[next..].trim_start_matches(',').trim_start();
        }
        *rest = rest.strip_prefix('}').unwrap_or(rest);
        return;
    }
    let end = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
    prefix.push(rest[..end].to_owned());
    *rest = &rest[end..];
    match rest.strip_prefix("::") {
        Some(more) => {
            *rest = more.trim_start();
            tree(rest, prefix, leaves);
        }
        None => leaves.push(prefix.clone()),
    }
}

/// Every function with a body: its name, its first line, and how many lines it takes.
pub(super) fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let rest = &code[at + 3..];
        let name: String = rest.chars().take_while(|&char| is_word(char)).collect();
        if name.is_empty() {
            continue;
        }
        let Some(open) = rest.find(['{', ';']) else { continue };
        let mut depth = 0_usize;
        for (end, char) in rest.char_indices().skip_while(|&(end, _)| end < open) {
            match char {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                if char == '}' {
                    let first = code[..at].matches('\n').count() + 1;
                    found.push((name, first, rest[..end].matches('\n').count() + 1));
                }
                break;
            }
        }
    }
    found
}

mod tests {
    use super::{code_only, functions, lines_with, paths};

    #[test]
    fn comments_and_strings_are_removed() {
        let text =
            "a(\"b\\\"c\"); // d\nr#\"e\"f\"#; /* g\n */ 'h'; '\\''; h::<'i>(b\"j\", br\"k\");";
        let code = code_only(text);
        let left: String = code.split_whitespace().collect();
        assert_eq!(left, "a();;;;h::<'i>(b,b);");
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn tokens_are_matched_as_whole_words() {
        let code = "mio::x;\nsignal_hook_mio::y;\n mio::z";
        assert_eq!(lines_with(code, "mio::"), [1, 3]);
    }

    #[test]
    fn lists_in_paths_are_expanded() {
        let code = "use crate::{base::{a, b::c}, model,\n wire::*};\ncrate::x::Y::z(crate::w)";
        let found: Vec<String> = paths(code, "crate")
            .iter()
            .map(|(line, path)| format!("{line}:{}", path.join("/")))
            .collect();
        let expected = ["1:base/a", "1:base/b/c", "1:model", "1:wire/", "3:x/Y/z", "3:w"];
        assert_eq!(found, expected);
    }

    #[test]
    fn functions_are_measured() {
        let code = "trait T { fn no(); }\nfn a() {}\nfn b(f: fn()) {\n if x {\n }\n}\n";
        let expected = [("a".to_owned(), 2, 1), ("b".to_owned(), 3, 4)];
        assert_eq!(functions(code), expected);
    }
}
