//! A connection to Redis that waits for each answer, with a bound on how long.

use crate::base::buf::{InBuf, progress};
use crate::engine::shared::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use crate::engine::shared::redis::{CallError, Calls, StartError};
use crate::model::driver::Target;
use crate::wire::resp::Framer;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

/// The connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    input: InBuf,
    framer: Framer,
    scratch: Vec<u8>,
}

fn lost(error: &io::Error) -> CallError {
    let is_late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    let late = format!("no answer within {} s", ANSWER_TIMEOUT.as_secs());
    CallError(if is_late { late } else { error.to_string() })
}

/// Connects to the first address of a name that takes a connection.
pub(super) fn connect(target: &Target) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in (&*target.host, target.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Connection {
    pub(super) fn open(target: &Target) -> Result<Self, CallError> {
        let stream = connect(target).map_err(|error| lost(&error))?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(|error| lost(&error))?;
        let (input, framer) = (InBuf::default(), Framer::new(ANSWER_BYTES_MAX));
        Ok(Self { stream, input, framer, scratch: vec![0; 256 * 1024] })
    }

    /// Says who this is, if it has to be said.
    pub(super) fn log_in(&mut self, (login, answers): (&[u8], usize)) -> Result<(), StartError> {
        if answers > 0 {
            self.stream.write_all(login).map_err(|error| lost(&error))?;
        }
        for _ in 0..answers {
            let answer = self.next()?;
            if answer.first() == Some(&b'-') {
                let text = String::from_utf8_lossy(&answer[1..]);
                return Err(StartError::Fatal(format!("the login failed: {}", text.trim_end())));
            }
        }
        Ok(())
    }

    /// The next whole answer.
    fn next(&mut self) -> Result<Vec<u8>, CallError> {
        loop {
            let mut input = self.input.peek();
            let answer = self
                .framer
                .next(&mut input)
                .map_err(|error| CallError(format!("what it answers {error}: it is not Redis")))?;
            let answer = answer.map(|raw| raw.bytes().to_vec());
            let (used, scanned) = progress(&input);
            self.input.commit(used, scanned);
            if let Some(answer) = answer {
                return Ok(answer);
            }
            match self.stream.read(&mut self.scratch) {
                Ok(0) => return Err(CallError("it has closed the connection".to_owned())),
                Ok(count) => self.input.append(&self.scratch[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&error)),
            }
        }
    }
}

impl Calls for Connection {
    fn call(&mut self, request: &[u8]) -> Result<Vec<u8>, CallError> {
        self.stream.write_all(request).map_err(|error| lost(&error))?;
        self.next()
    }
}
