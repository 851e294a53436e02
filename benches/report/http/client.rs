//! A client of the HTTP protocol with one request at a time.

use crate::client::Client as Lines;
use std::io::Read;
use std::net::SocketAddr;

/// A status without a body.
const NO_CONTENT: u16 = 204;

#[derive(Debug)]
pub(super) struct Client {
    stream: Lines,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Self, String> {
        Ok(Self { stream: Lines::connect(address)? })
    }

    /// Posts JSON; gives status and body.
    pub(super) fn post(&mut self, path: &str, body: &str) -> Result<(u16, String), String> {
        self.send(&Self::request("POST", path, body))?;
        self.answer()
    }

    /// A request as it is sent.
    pub(super) fn request(method: &str, path: &str, body: &str) -> String {
        let length = body.len();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let fields = format!("Host: localhost\r\n{kind}Content-Length: {length}\r\n\r\n");
        format!("{method} {path} HTTP/1.1\r\n{fields}{body}")
    }

    /// Sends requests.
    pub(super) fn send(&mut self, requests: &str) -> Result<(), String> {
        self.stream.send(requests)
    }

    /// The next answer: status and body.
    pub(super) fn answer(&mut self) -> Result<(u16, String), String> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| format!("this is no HTTP: {line}"))?;
        let (mut length, mut chunked) = (None, false);
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("Content-Length", value)) => length = value.parse().ok(),
                Some(("Transfer-Encoding", value)) => chunked = value == "chunked",
                None if line.is_empty() => break,
                _ => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            while self.chunk(&mut body)? {}
        } else if status != NO_CONTENT {
            self.bytes(length.ok_or("an answer has no length")?, &mut body)?;
        }
        let body = String::from_utf8(body);
        body.map(|body| (status, body)).map_err(|error| format!("an answer is no text: {error}"))
    }

    /// Whether there was one.
    fn chunk(&mut self, body: &mut Vec<u8>) -> Result<bool, String> {
        let line = self.line()?;
        let size = usize::from_str_radix(&line, 16);
        let size = size.map_err(|_| format!("this is no size of a chunk: {line}"))?;
        self.bytes(size, body)?;
        match self.line()? {
            end if end.is_empty() => Ok(size > 0),
            other => Err(format!("behind a chunk stands {other}")),
        }
    }

    fn bytes(&mut self, count: usize, body: &mut Vec<u8>) -> Result<(), String> {
        let start = body.len();
        body.resize(start + count, 0);
        let read = self.stream.read_exact(&mut body[start..]);
        read.map_err(|error| format!("the server did not say all: {error}"))
    }

    /// A line of a head, without its end.
    fn line(&mut self) -> Result<String, String> {
        Ok(self.stream.answer()?.trim_end().to_owned())
    }
}
