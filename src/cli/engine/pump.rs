//! Moves the bytes of an engine's connection while there is no loop that does.

use super::connection::Stream;
use crate::base::time::Now;
use crate::engine::{CommandExecutor, Engine};
use crate::model::driver::{Link, LinkAction, Target};
use crate::reactor::TrustStore;
use std::io::ErrorKind;
use std::time::Duration;

/// How long a read waits.
const READ_TIMEOUT: Duration = Duration::from_millis(1);

/// The connection, once there is one.
#[derive(Debug, Default)]
pub(in crate::cli) struct Pump {
    stream: Option<Stream>,
    trust: Option<TrustStore>,
}

impl Pump {
    /// With the certificates that are trusted.
    pub(in crate::cli) fn new(trust: Option<TrustStore>) -> Self {
        Self { stream: None, trust }
    }

    /// Does what the engine's connection asks for, and waits a moment for its answers. Returns
    /// whether the engine has one.
    pub(in crate::cli) fn drive(&mut self, engine: &mut Engine, now: Now) -> bool {
        let Some(link) = engine.link() else { return false };
        while let Some(action) = link.poll_action() {
            self.stream = None;
            let LinkAction::Connect(target) = action else { continue };
            match connect(&target, self.trust.get_or_insert_default()) {
                Ok(stream) => {
                    self.stream = Some(stream);
                    link.handle_connected(now);
                }
                Err(why) => link.handle_lost(&why, now),
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
    pub(in crate::cli) fn end(&mut self, engine: &mut Engine, now: Now) {
        if self.stream.take().is_some()
            && let Some(link) = engine.link()
        {
            link.handle_lost("the start is over", now);
        }
    }
}

fn connect(target: &Target, trust: &TrustStore) -> Result<Stream, String> {
    let stream = Stream::connect(target, trust).map_err(|error| error.to_string())?;
    stream.set_read_timeout(READ_TIMEOUT).map_err(|error| error.to_string())?;
    Ok(stream)
}

fn transfer(stream: &mut Stream, link: &mut dyn Link, now: Now) -> Result<(), String> {
    let count = link.output().len();
    if count > 0 {
        stream.send(link.output()).map_err(|error| error.to_string())?;
        link.handle_sent(count);
    }
    let mut scratch = [0; 4096];
    match stream.read_once(&mut scratch) {
        Ok(Some(0)) => Err("it has closed the connection".to_owned()),
        Ok(Some(count)) => {
            link.handle_input(&scratch[..count], now);
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
            _ => Err(error.to_string()),
        },
    }
}
