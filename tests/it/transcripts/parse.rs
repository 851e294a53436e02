//! From the text of a transcript to its steps.

use jobcentre::server::Settings;
use std::time::Duration;

/// A conversation.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) settings: Settings,
    /// It cannot be played against a real process.
    pub(super) pure: bool,
    pub(super) steps: Vec<Step>,
}

/// One line of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) client: char,
    pub(super) what: What,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum What {
    Close,
    Connect,
    Ended,
    Read,
    Receive(Expected),
    Reset,
    Send { bytes: Vec<u8>, last: bool },
    Silent,
    StopReading,
    Time(Duration),
}

/// What a received line must be.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// These bytes.
    Exactly(Vec<u8>),
    /// An error with this in its message.
    Error(String),
}

/// Stands for the client in a step that is nobody's.
const NOBODY: char = '@';

/// Reads a transcript, or says which line of it makes no sense.
pub(super) fn parse(text: &str) -> Result<Transcript, String> {
    let mut transcript = Transcript {
        settings: Settings { max_request: 1024 * 1024, max_clients: 100 },
        pure: false,
        steps: Vec::new(),
    };
    for (line, text) in (1..).zip(text.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        read(line, text, &mut transcript)
            .ok_or_else(|| format!("line {line} is no line of a transcript: {text}"))?;
    }
    Ok(transcript)
}

fn read(line: usize, text: &str, transcript: &mut Transcript) -> Option<()> {
    if let Some(setting) = text.strip_prefix("! ") {
        return set(setting, transcript);
    }
    if let Some(time) = text.strip_prefix("@ +") {
        let what = What::Time(match time.strip_suffix("ms") {
            Some(number) => Duration::from_millis(number.parse().ok()?),
            None => Duration::from_secs(time.strip_suffix('s')?.parse().ok()?),
        });
        transcript.pure = true;
        transcript.steps.push(Step { line, client: NOBODY, what });
        return Some(());
    }
    let client = text.chars().next().filter(char::is_ascii_uppercase)?;
    let what = step(&text[1..])?;
    transcript.pure |= matches!(what, What::StopReading | What::Read);
    transcript.steps.push(Step { line, client, what });
    Some(())
}

fn set(setting: &str, transcript: &mut Transcript) -> Option<()> {
    match setting.split_once(' ') {
        Some(("max-request", number)) => transcript.settings.max_request = number.parse().ok()?,
        Some(("max-clients", number)) => transcript.settings.max_clients = number.parse().ok()?,
        None if setting == "pure" => transcript.pure = true,
        _ => return None,
    }
    Some(())
}

fn step(text: &str) -> Option<What> {
    let rest = |text: &str| match text {
        "" => Some(String::new()),
        _ => text.strip_prefix(' ').map(str::to_owned),
    };
    if text == "." {
        return Some(What::Silent);
    }
    if text == "<|" {
        return Some(What::Ended);
    }
    if let Some(text) = text.strip_prefix(">>") {
        return Some(What::Send { bytes: bytes(text)?, last: false });
    }
    if let Some(text) = text.strip_prefix('>') {
        return Some(What::Send { bytes: (rest(text)? + "\n").into_bytes(), last: false });
    }
    if let Some(text) = text.strip_prefix("<<") {
        return Some(What::Receive(Expected::Exactly(bytes(text)?)));
    }
    if let Some(text) = text.strip_prefix("<~") {
        return Some(What::Receive(Expected::Error(rest(text)?)));
    }
    if let Some(text) = text.strip_prefix('<') {
        return Some(What::Receive(Expected::Exactly(rest(text)?.into_bytes())));
    }
    Some(match text.strip_prefix("| ")? {
        "connect" => What::Connect,
        "half-close" => What::Send { bytes: Vec::new(), last: true },
        "close" => What::Close,
        "reset" => What::Reset,
        "stop-reading" => What::StopReading,
        "read" => What::Read,
        _ => return None,
    })
}

/// Reads `"string" * number + ...`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    loop {
        let (piece, behind) = string(rest.trim_start().strip_prefix('"')?)?;
        rest = behind.trim_start();
        let mut times = 1;
        if let Some(behind) = rest.strip_prefix('*') {
            let behind = behind.trim_start();
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            times = behind[..end].parse().ok()?;
            rest = behind[end..].trim_start();
        }
        bytes.extend(piece.repeat(times));
        if rest.is_empty() {
            return Some(bytes);
        }
        rest = rest.strip_prefix('+')?;
    }
}

/// Reads a string behind its opening quote; returns it and what is behind its closing one.
fn string(text: &str) -> Option<(Vec<u8>, &str)> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    loop {
        let end = rest.find(['"', '\\'])?;
        bytes.extend_from_slice(&rest.as_bytes()[..end]);
        let (mark, behind) = rest[end..].split_at(1);
        if mark == "\"" {
            return Some((bytes, behind));
        }
        let escape = behind.chars().next()?;
        rest = &behind[1..];
        bytes.push(match escape {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            '"' => b'"',
            'x' => {
                let byte = u8::from_str_radix(rest.get(..2)?, 16).ok()?;
                rest = &rest[2..];
                byte
            }
            _ => return None,
        });
    }
}

#[test]
fn bytes_are_written_with_escapes_and_repeated() {
    assert_eq!(bytes(r#" "a\r\n\x00\xff\"\\" * 2 + "b""#).unwrap(), {
        let piece = b"a\r\n\x00\xff\"\\";
        [&piece[..], piece, b"b"].concat()
    });
    for wrong in ["a", "\"a", r#""a" b"#, r#""\q""#, r#""\x1""#, r#""a" *"#, r#""a" +"#] {
        assert_eq!(bytes(wrong), None, "{wrong}");
    }
}

#[test]
fn a_line_that_makes_no_sense_is_named() {
    for wrong in ["A", "A|", "A| dance", "a> x", "A>x", "A..", "! max-request x", "! x 1", "@ 5s"] {
        let problem = parse(&format!("# fine\n{wrong}\n")).unwrap_err();
        assert!(problem.starts_with("line 2"), "{wrong}: {problem}");
    }
}
