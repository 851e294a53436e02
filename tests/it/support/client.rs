//! A blocking client of the Job Centre protocol.

use super::TIMEOUT;
use socket2::SockRef;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// One connection. It closes when it is dropped.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect_timeout(&address, TIMEOUT).unwrap())
    }

    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::with_capacity(4096, stream) }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// The port that it comes from.
    pub(crate) fn port(&self) -> u16 {
        self.stream().local_addr().unwrap().port()
    }

    /// Sends a line.
    pub(crate) fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// The next line, without its newline.
    pub(crate) fn receive(&mut self) -> String {
        String::from_utf8(self.try_receive().expect("a line")).unwrap()
    }

    /// The next line, or nothing at the end of the connection.
    pub(crate) fn try_receive(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(_) if line.pop() == Some(b'\n') => Some(line),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("nothing was received: {error}"),
        }
    }

    /// The next bytes, as many as `expected` has, or fewer if they differ or no more come.
    pub(crate) fn receive_like(&mut self, expected: &[u8]) -> Vec<u8> {
        let mut received = Vec::new();
        while received.len() < expected.len() && expected.starts_with(&received) {
            let arrived = self.arrived();
            let count = arrived.len().min(expected.len() - received.len());
            if count == 0 {
                break;
            }
            received.extend_from_slice(&arrived[..count]);
            self.stream.consume(count);
        }
        received
    }

    /// The next `count` bytes, or fewer if no more come.
    pub(crate) fn receive_count(&mut self, count: usize) -> Vec<u8> {
        let mut received = Vec::new();
        while received.len() < count {
            let arrived = self.arrived();
            let taken = arrived.len().min(count - received.len());
            if taken == 0 {
                break;
            }
            received.extend_from_slice(&arrived[..taken]);
            self.stream.consume(taken);
        }
        received
    }

    /// What has arrived and was not looked at, waiting for the first of it. Nothing at the end of
    /// the connection.
    pub(crate) fn arrived(&mut self) -> &[u8] {
        match self.stream.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => b"",
            Err(error) => panic!("nothing was received: {error}"),
        }
    }

    /// Sends a line and receives one.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.receive()
    }

    /// Sends `bytes` and receives `count` lines at the same time, so that neither side has to wait
    /// for the other.
    pub(crate) fn exchange(&mut self, bytes: &[u8], count: usize) -> Vec<String> {
        let mut sending = self.stream().try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || sending.write_all(bytes).unwrap());
            (0..count).map(|_| self.receive()).collect()
        })
    }

    /// Returns once the server has read and answered all that arrived before, on any connection.
    pub(crate) fn settle(&mut self) {
        for _ in 0..2 {
            self.ask("");
        }
    }

    /// What has arrived and was not looked at. Does not wait.
    pub(crate) fn pending(&mut self) -> Vec<u8> {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let (mut bytes, mut piece) = (self.stream.buffer().to_vec(), [0; 4096]);
        match stream.peek(&mut piece) {
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset),
                "{error}"
            ),
        }
        stream.set_nonblocking(false).unwrap();
        bytes
    }

    /// Receives everything until the server closes.
    pub(crate) fn receive_all(mut self) -> String {
        let mut text = String::new();
        match self.stream.read_to_string(&mut text) {
            Ok(_) => text,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => text,
            Err(error) => panic!("the server does not close: {error}"),
        }
    }

    /// Shuts down the sending side.
    pub(crate) fn half_close(&self) {
        self.stream().shutdown(Shutdown::Write).unwrap();
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        SockRef::from(self.stream()).set_linger(Some(Duration::ZERO)).unwrap();
    }
}
