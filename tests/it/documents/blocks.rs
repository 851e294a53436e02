//! The fenced blocks of a document.

/// One block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The document, and the line of its first line.
    pub(super) place: String,
    /// The word behind the fence.
    pub(super) kind: String,
    /// The word behind that: the file that the block is.
    pub(super) file: Option<String>,
    pub(super) text: String,
}

impl Block {
    /// Its lines, each with its place in the document.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }
}

/// Takes the fenced blocks out of Markdown.
pub(super) fn blocks(document: &str, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    // The fence of the block that is open: backquotes, and blanks before them.
    let mut open: Option<(usize, usize)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        let ticks = bare.len() - bare.trim_start_matches('`').len();
        match open {
            None if ticks >= 3 => {
                let mut words = bare[ticks..].split_whitespace().map(str::to_owned);
                let (kind, file) = (words.next().unwrap_or_default(), words.next());
                let place = format!("{document}:{}", number + 1);
                found.push(Block { place, kind, file, text: String::new() });
                open = Some((ticks, indent));
            }
            Some((fence, _)) if ticks >= fence && bare.trim_start_matches('`').is_empty() => {
                open = None;
            }
            Some((_, blanks)) => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line.get(blanks.min(indent)..).unwrap_or_default());
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert_eq!(open, None, "{document}: the last block has no end");
    found
}

#[test]
fn blocks_are_found_with_their_kinds_and_places() {
    let text = "a\n```sh\necho `x`\n\n```\n\n- list\n  ```text\n  in a list\n    more\n  ```\n\
        ````python x.py\n```\n````\n";
    let found = blocks("d.md", text);
    let of = |kind: &str, file: Option<&str>, line: usize, text: &str| Block {
        place: format!("d.md:{line}"),
        kind: kind.into(),
        file: file.map(str::to_owned),
        text: text.into(),
    };
    let expected = [
        of("sh", None, 3, "echo `x`\n\n"),
        of("text", None, 9, "in a list\n  more\n"),
        of("python", Some("x.py"), 13, "```\n"),
    ];
    assert_eq!(found, expected);
}
