//! A client of this server with one request at a time, for scenarios whose requests `jobcentre
//! bench` does not know.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, String> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(Self { stream: BufReader::with_capacity(1 << 16, stream) })
        };
        connect().map_err(|error: std::io::Error| format!("cannot connect: {error}"))
    }

    /// Sends lines, and gives the ids in their answers.
    pub(crate) fn ids(&mut self, lines: &str, count: usize) -> Result<Vec<u64>, String> {
        self.send(lines)?;
        (0..count).map(|_| self.answer().and_then(|answer| id(&answer))).collect()
    }

    pub(crate) fn delete(&mut self, ids: &[u64]) -> Result<(), String> {
        let line = |id: &u64| format!("{{\"request\":\"delete\",\"id\":{id}}}\n");
        let lines: String = ids.iter().map(line).collect();
        self.send(&lines)?;
        for _ in ids {
            let answer = self.answer()?;
            if answer != "{\"status\":\"ok\"}\n" {
                return Err(format!("a delete was answered by {answer}"));
            }
        }
        Ok(())
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, lines: &str) -> Result<(), String> {
        let sent = self.stream.get_mut().write_all(lines.as_bytes());
        sent.map_err(|error| format!("the server took no more: {error}"))
    }

    /// The next line, with its end.
    pub(crate) fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Err("the server has closed the connection".to_owned()),
            Ok(_) => Ok(line),
            Err(error) => Err(format!("the server did not answer: {error}")),
        }
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(bytes)
    }
}

/// The id in the answer to a put or a get.
pub(crate) fn id(answer: &str) -> Result<u64, String> {
    let rest = answer.strip_prefix("{\"status\":\"ok\",\"id\":");
    let digits = rest.and_then(|rest| rest.split([',', '}']).next());
    let id = digits.and_then(|digits| digits.parse().ok());
    id.ok_or_else(|| format!("the answer has no id: {answer}"))
}
