//! Requests of the native API over HTTP, for what lines cannot say: searches, exports, imports,
//! backups, schedules and constraints.

use super::address::{Address, bracketed};
use super::connection::Server;
use super::failure::{Exit, Failure, Outcome};
use super::line_client::LineClient;
use super::record::Record;
use super::request::Request;
use super::stream::Stream;
use crate::base::buf::Input;
use crate::wire::http::{
    Body, Framing, ParseError, Piece, ResponseHead, next_response, push_chunk, push_field,
    push_field_number, push_last_chunk, push_request_line,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::{self, ErrorKind, Read, Write as _};
use std::net::IpAddr;

const READ_BYTES: usize = 64 * 1024;

/// The longest answer that is kept in memory.
const ANSWER_MAX_BYTES: u64 = 1 << 30;

/// Where an HTTP listener is, and how it is called in `Host`.
#[derive(Clone, Debug)]
struct Place {
    address: Address,
    host: String,
}

/// The HTTP side of a server. Each request has a connection of its own.
#[derive(Debug)]
pub(super) struct HttpClient<'a> {
    server: &'a Server,
    place: Place,
}

/// A part of a path: a name, percent-encoded.
pub(super) fn part(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

impl<'a> HttpClient<'a> {
    /// The listener that was named, or that the server names when it is asked.
    pub(super) fn new(server: &'a Server) -> Outcome<Self> {
        if let Some(address) = &server.http_address {
            let host = match address {
                Address::Tcp { host, port } | Address::Tls { host, port } => {
                    format!("{}:{port}", bracketed(host))
                }
                Address::Unix(_) => "localhost".to_owned(),
            };
            let place = Place { address: address.clone(), host };
            return Ok(Self { server, place });
        }
        let mut client = LineClient::connect(server)?;
        let stats = client.ask(Request::new("stats"), "the server does not tell its listeners")?;
        let listeners = stats.records("listeners")?;
        let address = choose(&server.address, &listeners)?;
        Ok(Self { server, place: Place { address, host: "localhost".to_owned() } })
    }

    /// Sends a request, and returns its answer.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Outcome<Record> {
        let mut exchange = Exchange::begin(self)?;
        exchange.send_head(method, path, body.map(|body| (JSON, Some(body.len()))))?;
        exchange.send(body.unwrap_or_default().as_bytes())?;
        exchange.answer()
    }

    /// Sends a request, and writes the body of its answer as it comes. `write` says whether more is
    /// wanted.
    pub(super) fn download(
        &self,
        method: &str,
        path: &str,
        write: &mut dyn FnMut(&[u8]) -> Outcome<bool>,
    ) -> Outcome {
        let mut exchange = Exchange::begin(self)?;
        exchange.send_head(method, path, None)?;
        let (status, framing) = exchange.head()?;
        if status >= 300 {
            return Err(exchange.problem(status, framing));
        }
        exchange.body(framing, u64::MAX, write)
    }

    /// Sends a body of unknown length, and returns the answer.
    pub(super) fn upload(&self, path: &str, source: &mut dyn Read) -> Outcome<Record> {
        let mut exchange = Exchange::begin(self)?;
        exchange.send_head("POST", path, Some(("application/x-ndjson", None)))?;
        let mut buffer = vec![0; READ_BYTES];
        let mut chunk = Vec::new();
        loop {
            let count = match source.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::failed(format!("cannot read stdin: {error}"))),
            };
            chunk.clear();
            match count {
                0 => push_last_chunk(&mut chunk),
                count => push_chunk(&mut chunk, &buffer[..count]),
            }
            let sent = exchange.send(&chunk);
            if count == 0 || sent.is_err() {
                // A server that takes no more may have said why.
                let answer = exchange.answer();
                return if answer.is_ok() { sent.and(answer) } else { answer };
            }
        }
    }
}

const JSON: &str = "application/json";

/// Of the listeners that a server names the HTTP listener that this client reaches best.
fn choose(line: &Address, listeners: &[Record]) -> Outcome<Address> {
    let mut found = Vec::new();
    for listener in listeners {
        if listener.text("protocol").as_deref() == Some("http") {
            found.extend(listener.text("address").and_then(|text| reachable(line, &text)));
        }
    }
    let is_unix = |address: &Address| matches!(address, Address::Unix(_));
    let alike = found.iter().find(|address| is_unix(address) == is_unix(line));
    alike.or_else(|| found.first()).cloned().ok_or_else(|| {
        Failure::unreachable(
            "this verb needs the HTTP listener of the server, and the server names none that is \
             reached from here: start it with --http, or say --http-url",
        )
    })
}

/// The address of a listener as it is reached from here. `None`: it is on another machine's
/// loopback.
fn reachable(line: &Address, text: &str) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(Address::Unix(path.into()));
    }
    let (place, is_tls) = text.strip_prefix("tls:").map_or((text, false), |place| (place, true));
    let listener: std::net::SocketAddr = place.parse().ok()?;
    let host = match line {
        Address::Tcp { host, .. } | Address::Tls { host, .. } => host.clone(),
        Address::Unix(_) => "127.0.0.1".to_owned(),
    };
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let host = match listener.ip() {
        ip if ip.is_unspecified() => host,
        ip if ip.is_loopback() && !is_here => return None,
        // A certificate is for a name.
        _ if is_tls => host,
        ip => ip.to_string(),
    };
    let port = listener.port();
    Some(if is_tls { Address::Tls { host, port } } else { Address::Tcp { host, port } })
}

/// One request and its answer.
struct Exchange<'a> {
    client: &'a HttpClient<'a>,
    stream: Stream,
    unread: Vec<u8>,
}

impl<'a> Exchange<'a> {
    fn begin(client: &'a HttpClient<'a>) -> Outcome<Self> {
        let stream = client.server.connect(&client.place.address)?;
        Ok(Self { client, stream, unread: Vec::new() })
    }

    fn ended(&self, error: &io::Error) -> Failure {
        self.lost(&ended(error))
    }

    fn lost(&self, why: &str) -> Failure {
        Failure::unreachable(format!("{}: {why}", self.client.place.address))
    }

    fn send(&mut self, bytes: &[u8]) -> Outcome {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| self.lost(&format!("the connection was lost: {error}")))
    }

    /// Sends the head. `body`: its kind, and its length if that is known.
    fn send_head(
        &mut self,
        method: &str,
        path: &str,
        body: Option<(&str, Option<usize>)>,
    ) -> Outcome {
        let mut head = Vec::new();
        push_request_line(&mut head, method, &format!("/api/v1{path}"));
        push_field(&mut head, "Host", self.client.place.host.as_bytes());
        push_field(&mut head, "Connection", b"close");
        if let Some(token) = &self.client.server.token {
            push_field(&mut head, "Authorization", token.bearer().as_bytes());
        }
        match body {
            Some((kind, Some(length))) => {
                push_field(&mut head, "Content-Type", kind.as_bytes());
                push_field_number(&mut head, "Content-Length", length as u64);
            }
            Some((kind, None)) => {
                push_field(&mut head, "Content-Type", kind.as_bytes());
                push_field(&mut head, "Transfer-Encoding", b"chunked");
            }
            None => {}
        }
        head.extend_from_slice(b"\r\n");
        self.send(&head)
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match self.stream.read_once(&mut buffer) {
                Ok(Some(0)) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(Some(count)) => {
                    self.unread.extend_from_slice(&buffer[..count]);
                    return Ok(());
                }
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Status and framing of the final answer.
    fn head(&mut self) -> Outcome<(u16, Framing)> {
        loop {
            let mut input = Input::new(&self.unread);
            let parsed = next_response(&mut input, false)
                .map(|head| head.map(|ResponseHead { status, framing, .. }| (status, framing)));
            let left = input.unread().len();
            let taken = self.unread.len() - left;
            match parsed {
                Err(error) => return Err(self.lost(&no_http(&error))),
                Ok(Some((100..200, _))) => drop(self.unread.drain(..taken)),
                Ok(Some(head)) => {
                    self.unread.drain(..taken);
                    return Ok(head);
                }
                Ok(None) => self.read_more().map_err(|error| self.ended(&error))?,
            }
        }
    }

    /// Hands the body on as it comes.
    fn body(
        &mut self,
        framing: Framing,
        max: u64,
        write: &mut dyn FnMut(&[u8]) -> Outcome<bool>,
    ) -> Outcome {
        let mut body = Body::new(framing, max).map_err(|error| self.lost(error.why))?;
        loop {
            let mut input = Input::new(&self.unread);
            loop {
                match body.next(&mut input).map_err(|error| self.lost(&no_http(&error)))? {
                    Piece::Data(piece) => {
                        if !write(piece)? {
                            return Ok(());
                        }
                    }
                    Piece::End => return Ok(()),
                    Piece::Incomplete => break,
                }
            }
            let left = input.unread().len();
            self.unread.drain(..self.unread.len() - left);
            match self.read_more() {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && body.ends_well() => {
                    return Ok(());
                }
                read => read.map_err(|error| self.ended(&error))?,
            }
        }
    }

    fn text(&mut self, framing: Framing) -> Outcome<Vec<u8>> {
        let mut text = Vec::new();
        self.body(framing, ANSWER_MAX_BYTES, &mut |piece| {
            text.extend_from_slice(piece);
            Ok(true)
        })?;
        Ok(text)
    }

    /// The answer: an object, or nothing.
    fn answer(&mut self) -> Outcome<Record> {
        let (status, framing) = self.head()?;
        if status >= 300 {
            return Err(self.problem(status, framing));
        }
        match &*self.text(framing)? {
            b"" => Ok(Record::default()),
            text => Record::parse(text.trim_ascii()),
        }
    }

    /// What problem details say.
    fn problem(&mut self, status: u16, framing: Framing) -> Failure {
        let text = match self.text(framing) {
            Ok(text) => text,
            Err(failure) => return failure,
        };
        let detail = Record::parse(&text).ok().and_then(|problem| problem.text("detail"));
        let detail = detail.unwrap_or_else(|| format!("it answers with status {status}"));
        let exit = match status {
            401 | 403 => Exit::Denied,
            404 | 410 => Exit::Nothing,
            _ => return Failure::refused(detail),
        };
        Failure::new(exit, detail)
    }
}

fn no_http(error: &ParseError) -> String {
    format!("this does not look like the HTTP listener of a jobcentre server: {}", error.why)
}

fn ended(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "the connection was closed before its answer".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "there is no answer in time".to_owned(),
        _ => format!("the connection was lost: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::client::address::ServerUrl;

    #[test]
    fn listener_is_chosen_that_is_reached_from_here() {
        let chosen = |line: &str, listeners: &[&str]| {
            let line = ServerUrl::parse(line).unwrap().address;
            let listener = |address: &&str| {
                let json = format!("{{\"protocol\":\"http\",\"address\":\"{address}\"}}");
                Record::parse(json.as_bytes()).unwrap()
            };
            let listeners: Vec<_> = listeners.iter().map(listener).collect();
            choose(&line, &listeners).map_or_else(|it| it.sentence, |it| it.to_string())
        };
        assert_eq!(chosen("localhost:1", &["127.0.0.1:2"]), "127.0.0.1:2");
        assert_eq!(chosen("a.example:1", &["0.0.0.0:2"]), "a.example:2");
        assert_eq!(chosen("tls:a.example:1", &["tls:10.0.0.1:2"]), "tls:a.example:2");
        assert_eq!(chosen("unix:/a", &["127.0.0.1:2", "unix:/b"]), "unix:/b");
        assert_eq!(chosen("unix:/a", &["127.0.0.1:2"]), "127.0.0.1:2");
        assert!(chosen("a.example:1", &["127.0.0.1:2"]).contains("--http-url"));
        assert!(chosen("a.example:1", &[]).contains("--http-url"));
    }
}
