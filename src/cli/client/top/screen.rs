//! The terminal of `top`: the alternate screen, keys, and the size. Everything is as it was when it
//! is dropped.

use crate::cli::client::failure::{Failure, Outcome};
use crate::cli::client::interrupts::Interrupts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, Read as _, Stdin, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Switches to the alternate screen, and hides the cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A key, as `top` knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Character(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
}

/// The terminal while `top` has it.
pub(super) struct Screen {
    input: Stdin,
    former: Termios,
    interrupts: Interrupts,
}

/// Why a wait is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Timeout,
    Keys(Vec<Key>),
    /// A signal, or the end of the input.
    End,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn enter() -> Outcome<Self> {
        let explain = |error: Errno| Failure::failed(format!("the terminal: {error}"));
        let input = io::stdin();
        let former = tcgetattr(&input).map_err(explain)?;
        let interrupts = Interrupts::install()?;
        let mut raw = former.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Flush, &raw).map_err(explain)?;
        let screen = Self { input, former, interrupts };
        print(ENTER)?;
        Ok(screen)
    }

    /// Shows lines from the first one on.
    #[expect(clippy::unused_self, reason = "only who has the terminal draws on it")]
    pub(super) fn draw(&self, lines: &[String]) -> Outcome {
        let mut text = String::from("\u{1b}[H");
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\u{1b}[K");
        }
        text.push_str("\u{1b}[J");
        print(&text)
    }

    /// Waits for keys, at most this long.
    pub(super) fn wait(&self, time: Duration) -> Outcome<Woken> {
        let timeout = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        let (keys, signal) = {
            let input = PollFd::from_borrowed_fd(self.input.as_fd(), PollFlags::IN);
            let mut fds = [input, self.interrupts.poll_fd()];
            match poll(&mut fds, Some(&timeout)) {
                // The size may have changed.
                Err(Errno::INTR) | Ok(0) => return Ok(Woken::Timeout),
                Err(error) => return Err(Failure::failed(format!("poll: {error}"))),
                Ok(_) => {}
            }
            let [keys, signal] = fds.map(|fd| !fd.revents().is_empty());
            (keys, signal)
        };
        if signal && self.interrupts.take() {
            return Ok(Woken::End);
        }
        if !keys {
            return Ok(Woken::Timeout);
        }
        let mut bytes = [0; 256];
        match self.input.lock().read(&mut bytes) {
            Ok(count @ 1..) => Ok(Woken::Keys(parse_keys(&bytes[..count]))),
            _ => Ok(Woken::End),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print(LEAVE);
        let _ = tcsetattr(&self.input, OptionalActions::Flush, &self.former);
    }
}

fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::failed(format!("cannot write to the terminal: {error}")))
}

/// The keys that bytes of a terminal are. Sequences that are not known are left out.
fn parse_keys(bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 13] = [
        (b"\x1b[A", Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOB", Key::Down),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1bOH", Key::Home),
        (b"\x1b[1~", Key::Home),
        (b"\x1b[F", Key::End),
        (b"\x1bOF", Key::End),
        (b"\x1b[4~", Key::End),
        (b"\r", Key::Enter),
    ];
    let (mut keys, mut rest) = (Vec::new(), bytes);
    while let Some(&first) = rest.first() {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(it, _)| rest.starts_with(it)) {
            keys.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        if first == b'\x1b' && rest.len() > 1 && matches!(rest[1], b'[' | b'O') {
            let is_end = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'~';
            let end = rest[2..].iter().position(is_end).map_or(rest.len(), |at| at + 3);
            rest = &rest[end..];
            continue;
        }
        let valid = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        match (first, valid.chars().next()) {
            (b'\x1b', _) => keys.push(Key::Escape),
            (b'\n', _) => keys.push(Key::Enter),
            (0x7f | 0x08, _) => keys.push(Key::Backspace),
            // Control-C, which is no signal here.
            (3, _) => keys.push(Key::Character('q')),
            (_, Some(character)) if !character.is_control() => {
                keys.push(Key::Character(character));
                rest = &rest[character.len_utf8()..];
                continue;
            }
            _ => {}
        }
        rest = &rest[1..];
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_their_sequences() {
        let keys = parse_keys("a\u{1b}[A\u{1b}OBé\u{1b}[5~\u{1b}[1;5C\r\u{7f}\u{1b}".as_bytes());
        let expected = [
            Key::Character('a'),
            Key::Up,
            Key::Down,
            Key::Character('é'),
            Key::PageUp,
            Key::Enter,
            Key::Backspace,
            Key::Escape,
        ];
        assert_eq!(keys, expected);
        assert_eq!(parse_keys(b"\x03\xff\x1b["), [Key::Character('q')]);
    }
}
