//! Sessions of browsers: a token once, a cookie from then on.
//!
//! Invariants:
//! - an id is 128 bits that cannot be guessed without the secret of this run;
//! - only digests of ids are kept, and of the tokens behind them: a session ends when its token is
//!   taken away from its user;
//! - there are at most [`SESSIONS_MAX`]; the oldest one makes room, and the oldest one of the same
//!   token if that has [`SESSIONS_OF_TOKEN_MAX`].

use super::digest::Digest;
use crate::base::time::Mono;
use ring::hmac;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

/// How long a session lasts.
pub const SESSION_TIME: Duration = Duration::from_hours(12);

/// Sessions at a time.
const SESSIONS_MAX: usize = 1_024;

/// Sessions of one token at a time.
const SESSIONS_OF_TOKEN_MAX: usize = 64;

/// Bytes of an id.
const ID_BYTES: usize = 16;

#[derive(Debug)]
struct Session {
    id: Digest,
    token: Digest,
    until: Mono,
}

/// The sessions of browsers.
#[derive(Debug)]
pub struct BrowserSessions {
    key: hmac::Key,
    /// How many ids were given out.
    count: u64,
    /// The oldest first: they end in this order.
    all: VecDeque<Session>,
}

impl BrowserSessions {
    /// No sessions. `secret`: random bits.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        Self { key, count: 0, all: VecDeque::new() }
    }

    fn random(&self, purpose: &[u8], bytes: usize) -> String {
        let mut text = String::new();
        for byte in hmac::sign(&self.key, purpose).as_ref().iter().take(bytes) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// A name for this run of the server, which says nothing about its ids.
    #[must_use]
    pub fn name(&self) -> String {
        self.random(b"name", 4)
    }

    /// Opens a session of a token, and returns its id. O(sessions).
    pub fn open(&mut self, token: Digest, now: Mono) -> String {
        self.end_expired(now);
        let same = |session: &&Session| session.token.is(&token);
        if self.all.iter().filter(same).count() >= SESSIONS_OF_TOKEN_MAX
            && let Some(at) = self.all.iter().position(|session| session.token.is(&token))
        {
            self.all.remove(at);
        }
        if self.all.len() >= SESSIONS_MAX {
            self.all.pop_front();
        }
        self.count += 1;
        let mut purpose = *b"id:\0\0\0\0\0\0\0\0";
        purpose[3..].copy_from_slice(&self.count.to_be_bytes());
        let id = self.random(&purpose, ID_BYTES);
        let until = now.after(SESSION_TIME);
        self.all.push_back(Session { id: Digest::of(id.as_bytes()), token, until });
        id
    }

    /// The token of a session, if it has not ended. O(sessions).
    #[must_use]
    pub fn token(&self, id: &Digest, now: Mono) -> Option<Digest> {
        let found = self.all.iter().find(|session| session.id.is(id))?;
        (now < found.until).then_some(found.token)
    }

    /// Ends a session. O(sessions).
    pub fn close(&mut self, id: &Digest) {
        self.all.retain(|session| !session.id.is(id));
    }

    /// Drops the sessions whose time is over. Returns whether there were any.
    pub fn end_expired(&mut self, now: Mono) -> bool {
        let before = self.all.len();
        while self.all.pop_front_if(|session| session.until <= now).is_some() {}
        self.all.len() < before
    }

    /// When the next one ends.
    #[must_use]
    pub fn next_end(&self) -> Option<Mono> {
        self.all.front().map(|session| session.until)
    }
}

impl Default for BrowserSessions {
    /// For servers whose sessions are no secret: in tests.
    fn default() -> Self {
        Self::new([0; 32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono(5);

    #[test]
    fn session_is_found_by_its_id_until_it_ends() {
        let mut sessions = BrowserSessions::new([7; 32]);
        let token = Digest::of(b"token");
        let id = sessions.open(token, NOW);
        assert_eq!(id.len(), 2 * ID_BYTES);
        assert_ne!(id, BrowserSessions::new([8; 32]).open(token, NOW));
        let digest = Digest::of(id.as_bytes());
        let later = NOW.after(SESSION_TIME);
        assert!(sessions.token(&digest, Mono(later.0 - 1)).is_some_and(|found| found.is(&token)));
        assert!(sessions.token(&digest, later).is_none());
        assert!(sessions.token(&Digest::of(b""), NOW).is_none());
        assert_eq!(sessions.next_end(), Some(later));
        let other = Digest::of(sessions.open(token, NOW).as_bytes());
        sessions.close(&digest);
        assert!(sessions.token(&digest, NOW).is_none() && sessions.token(&other, NOW).is_some());
        assert!(sessions.end_expired(later) && !sessions.end_expired(later));
    }

    #[test]
    fn sessions_are_bounded() {
        let mut sessions = BrowserSessions::default();
        let patient = Digest::of(sessions.open(Digest::of(b"patient"), NOW).as_bytes());
        let first = Digest::of(sessions.open(Digest::of(b"greedy"), NOW).as_bytes());
        for _ in 0..SESSIONS_MAX {
            sessions.open(Digest::of(b"greedy"), NOW);
        }
        assert!(sessions.token(&patient, NOW).is_some(), "one token pushes no other out");
        assert!(sessions.token(&first, NOW).is_none());
        assert_eq!(sessions.all.len(), 1 + SESSIONS_OF_TOKEN_MAX);
        for number in 0..SESSIONS_MAX {
            sessions.open(Digest::of(number.to_string().as_bytes()), NOW);
        }
        assert_eq!(sessions.all.len(), SESSIONS_MAX);
        assert!(sessions.token(&patient, NOW).is_none());
    }
}
