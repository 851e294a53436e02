//! The fields of a head that frame the message. All others are ignored.

use super::ParseError;
use super::terms::{Expect, Framing};
use httparse::Header;

/// What the fields of a head say together.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) length: Option<u64>,
    pub(super) chunked: bool,
    /// `Connection: close`
    pub(super) close: bool,
    /// `Connection: keep-alive`
    pub(super) keep_alive: bool,
    pub(super) host: Option<&'a [u8]>,
    pub(super) origin: Option<&'a [u8]>,
    pub(super) fetch_site: Option<&'a [u8]>,
    pub(super) expect: Expect,
    pub(super) content_type: Option<&'a [u8]>,
    pub(super) accept: Option<&'a [u8]>,
    pub(super) accept_encoding: Option<&'a [u8]>,
    pub(super) worker_id: Option<&'a [u8]>,
    pub(super) authorization: Option<&'a [u8]>,
    pub(super) cookie: Option<&'a [u8]>,
    pub(super) if_none_match: Option<&'a [u8]>,
    /// The body is compressed, or whatever else has been done to it.
    pub(super) coded: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn read(headers: &[Header<'a>]) -> Result<Self, ParseError> {
        let mut fields = Self::default();
        for header in headers {
            fields.note(header.name, header.value.trim_ascii())?;
        }
        if fields.chunked && fields.length.is_some() {
            return Err(ParseError::bad("Content-Length and Transfer-Encoding exclude each other"));
        }
        Ok(fields)
    }

    fn note(&mut self, name: &str, value: &'a [u8]) -> Result<(), ParseError> {
        // Most names are told apart by their lengths.
        match name.len() {
            4 if is(name, "host") => {
                once(&mut self.host, value, "there are two Host fields")?;
                if !value.iter().all(u8::is_ascii_graphic) {
                    return Err(ParseError::bad("the Host field names no host"));
                }
            }
            6 if is(name, "origin") => {
                return once(&mut self.origin, value, "there are two Origin fields");
            }
            6 if is(name, "expect") => self.note_expectation(value),
            6 if is(name, "accept") => self.accept = Some(value),
            6 if is(name, "cookie") => self.cookie = Some(value),
            9 if is(name, "worker-id") => {
                return once(&mut self.worker_id, value, "there are two Worker-Id fields");
            }
            10 if is(name, "connection") => self.note_options(value),
            12 if is(name, "content-type") => self.content_type = Some(value),
            13 if is(name, "authorization") => {
                return once(&mut self.authorization, value, "there are two Authorization fields");
            }
            13 if is(name, "if-none-match") => self.if_none_match = Some(value),
            14 if is(name, "sec-fetch-site") => {
                return once(&mut self.fetch_site, value, "there are two Sec-Fetch-Site fields");
            }
            14 if is(name, "content-length") => return self.note_length(value),
            15 if is(name, "accept-encoding") => self.accept_encoding = Some(value),
            16 if is(name, "content-encoding") => {
                self.coded |= !value.eq_ignore_ascii_case(b"identity") && !value.is_empty();
            }
            17 if is(name, "transfer-encoding") => return self.note_coding(value),
            _ => {}
        }
        Ok(())
    }

    fn note_expectation(&mut self, value: &[u8]) {
        let known = value.eq_ignore_ascii_case(b"100-continue") && self.expect != Expect::Unknown;
        self.expect = if known { Expect::Continue } else { Expect::Unknown };
    }

    fn note_options(&mut self, value: &[u8]) {
        for option in value.split(|&byte| byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn note_length(&mut self, value: &[u8]) -> Result<(), ParseError> {
        if self.length.is_some() {
            return Err(ParseError::bad("there are two Content-Length fields"));
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(ParseError::bad("Content-Length is no plain number"));
        }
        let digit = |byte: &u8| u64::from(byte - b'0');
        let more = |sum: u64, byte: &u8| sum.saturating_mul(10).saturating_add(digit(byte));
        self.length = Some(value.iter().fold(0, more));
        Ok(())
    }

    fn note_coding(&mut self, value: &[u8]) -> Result<(), ParseError> {
        if std::mem::replace(&mut self.chunked, true) {
            return Err(ParseError::bad("there are two Transfer-Encoding fields"));
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(ParseError {
                status: 501,
                why: "the only Transfer-Encoding known is chunked",
            });
        }
        Ok(())
    }

    /// How the body is framed, if anything says so.
    pub(super) fn framing(&self) -> Option<Framing> {
        if self.chunked { Some(Framing::Chunked) } else { self.length.map(Framing::Length) }
    }
}

/// Notes the value of a field that there is only one of.
fn once<'a>(
    place: &mut Option<&'a [u8]>,
    value: &'a [u8],
    twice: &'static str,
) -> Result<(), ParseError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParseError::bad(twice)),
    }
}

fn is(name: &str, lower: &str) -> bool {
    name.eq_ignore_ascii_case(lower)
}
