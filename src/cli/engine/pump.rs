//! Moves the bytes of an engine's connection while there is no loop that does.

use super::connection::connect;
use crate::base::time::Now;
use crate::engine::{CommandExecutor, Engine};
use crate::model::driver::{Link, LinkAction};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a read waits.
const READ_TIMEOUT: Duration = Duration::from_millis(1);

/// The connection, once there is one.
#[derive(Debug, Default)]
pub(in crate::cli) struct Pump {
    stream: Option<TcpStream>,
}

impl Pump {
    /// Does what the engine's connection asks for, and waits a moment for its answers. Returns
    /// whether the engine has one.
    pub(in crate::cli) fn drive(&mut self, engine: &mut Engine, now: Now) -> bool {
        let Some(link) = engine.link() else { return false };
        while let Some(action) = link.poll_action() {
            self.stream = None;
            let LinkAction::Connect(target) = action else { continue };
            let connected = connect(&target).and_then(|stream| {
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                Ok(stream)
            });
            match connected {
                Ok(stream) => {
                    self.stream = Some(stream);
                    link.handle_connected(now);
                }
                Err(error) => link.handle_lost(&error.to_string(), now),
            }
        }
        if let Some(stream) = &mut self.stream
            && let Err(why) = transfer(stream, link, now)
        {
            self.stream = None;
            link.handle_lost(&why, now);
        }
        true
    }

    /// Ends the connection: the loop has one of its own.
    pub(in crate::cli) fn end(self, engine: &mut Engine, now: Now) {
        if self.stream.is_some()
            && let Some(link) = engine.link()
        {
            link.handle_lost("the start is over", now);
        }
    }
}

fn transfer(stream: &mut TcpStream, link: &mut dyn Link, now: Now) -> Result<(), String> {
    let count = link.output().len();
    if count > 0 {
        stream.write_all(link.output()).map_err(|error| error.to_string())?;
        link.handle_sent(count);
    }
    let mut scratch = [0; 4096];
    match stream.read(&mut scratch) {
        Ok(0) => Err("it has closed the connection".to_owned()),
        Ok(count) => {
            link.handle_input(&scratch[..count], now);
            Ok(())
        }
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
            _ => Err(error.to_string()),
        },
    }
}
