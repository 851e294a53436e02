//! Socket code shared by the loops of this program.

use mio::net::TcpStream;
use std::io::{ErrorKind, Write};

/// Writes what the socket takes of the output. The rest goes when it is writable again.
///
/// # Errors
/// The server took no more, and why.
pub(crate) fn flush(mut stream: &TcpStream, output: &mut Vec<u8>) -> Result<(), String> {
    while !output.is_empty() {
        match stream.write(output) {
            Ok(count) => drop(output.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("the server took no more: {error}")),
        }
    }
    Ok(())
}
