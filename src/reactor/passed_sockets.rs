//! Listening sockets that the service manager (systemd) has opened and passed on:
//! `sd_listen_fds_with_names(3)`.
//!
//! The manager goes on owning what it has made: a file of a socket is not removed. Clients that
//! connect while the server is restarted wait in the socket's backlog.

use super::listen_address::ListenAddress;
use super::unix_socket::UnixAddress;
use listenfd::ListenFd;
use socket2::Socket;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The most sockets that are looked at.
const SOCKETS_MAX: usize = 64;

/// The first descriptor that is passed on.
const FIRST_DESCRIPTOR: usize = 3;

/// The names are in `LISTEN_FDNAMES`; without it each is called this, as in `systemd`.
const NO_NAME: &str = "unknown";

/// A listening socket that was passed on. Clones are the same socket.
#[derive(Clone, Debug)]
pub struct PassedSocket(Arc<Socket>);

impl PassedSocket {
    /// Another descriptor of it.
    pub(super) fn try_clone(&self) -> io::Result<Socket> {
        self.0.try_clone()
    }
}

/// The sockets that were passed on to this process, by name.
#[derive(Debug, Default)]
pub struct PassedSockets {
    /// Those that were not taken, with the names of all.
    sockets: Vec<(String, Option<Socket>)>,
    /// What keeps them from being used.
    why_none: &'static str,
}

impl PassedSockets {
    /// Those of the variables `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES`. To be called before
    /// files are opened.
    #[must_use]
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let none = |why_none| Self { sockets: Vec::new(), why_none };
        let count = variable("LISTEN_FDS").and_then(|text| text.parse::<usize>().ok());
        let Some(count) = count.filter(|&count| count > 0) else {
            return none("the variable LISTEN_FDS does not say how many there are");
        };
        let own = rustix::process::getpid().as_raw_nonzero().get();
        if variable("LISTEN_PID").and_then(|text| text.parse().ok()) != Some(own) {
            return none("the variable LISTEN_PID names another process");
        }
        if count > SOCKETS_MAX {
            return none("the variable LISTEN_FDS names more than 64");
        }
        let names = variable("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').filter(|name| !name.is_empty());
        let mut descriptors = ListenFd::from_env();
        let mut next = |number| {
            let name = names.next().unwrap_or(NO_NAME).to_owned();
            (name, listening_socket(&mut descriptors, number))
        };
        Self { sockets: (0..count).map(&mut next).collect(), why_none: "" }
    }

    /// Takes the socket of this name for a listener, and tells its address.
    ///
    /// # Errors
    /// A sentence: there is none of this name, or several; or it is no listening socket of TCP or a
    /// file.
    pub fn take(
        &mut self,
        name: &str,
        is_tls: bool,
    ) -> Result<(ListenAddress, PassedSocket), String> {
        let known: Vec<&str> = self.sockets.iter().map(|(name, _)| &**name).collect();
        let same = || known.iter().enumerate().filter(|(_, known)| **known == name);
        let place = match (same().next(), same().count()) {
            (Some((place, _)), 1) => place,
            (None, _) if known.is_empty() => {
                return Err(format!(
                    "there is no socket fd:{name}, because no sockets were passed on: {}. Start \
                     the server by a socket unit of systemd, or give another address",
                    self.why_none
                ));
            }
            (None, _) => {
                return Err(format!(
                    "there is no socket fd:{name}: the names of those that were passed on are {}",
                    known.join(", ")
                ));
            }
            (Some(_), count) => {
                return Err(format!(
                    "{count} sockets are called fd:{name}: give each a unit of its own with \
                     another FileDescriptorName="
                ));
            }
        };
        let socket = self.sockets[place].1.take().ok_or_else(|| {
            format!(
                "the socket fd:{name} (descriptor {}) is taken by another listener, or no \
                 listening socket of TCP or a file (ListenStream=, Accept=no)",
                FIRST_DESCRIPTOR + place
            )
        })?;
        let explain = |error: io::Error| format!("the socket fd:{name} cannot be used: {error}");
        let address = address_of(&socket).map_err(explain)?;
        let address = match (address, is_tls) {
            (ListenAddress::Tcp(address), true) => ListenAddress::Tls(address),
            (ListenAddress::Unix(_), true) => {
                return Err(format!("tls:fd:{name} is a file: TLS is for TCP"));
            }
            (address, _) => address,
        };
        socket.set_nonblocking(true).map_err(explain)?;
        Ok((address, PassedSocket(Arc::new(socket))))
    }

    /// The names of those that were not taken.
    pub fn left(&self) -> impl Iterator<Item = &str> {
        let is_left = |(_, socket): &&(String, Option<Socket>)| socket.is_some();
        self.sockets.iter().filter(is_left).map(|(name, _)| &**name)
    }
}

/// The socket with this number, if it is of TCP or a file and listens.
fn listening_socket(descriptors: &mut ListenFd, number: usize) -> Option<Socket> {
    let tcp = descriptors.take_tcp_listener(number).ok().flatten();
    let socket = match tcp {
        Some(tcp) => Socket::from(tcp),
        None => Socket::from(descriptors.take_unix_listener(number).ok().flatten()?),
    };
    socket.is_listener().is_ok_and(|listens| listens).then_some(socket)
}

/// Where a socket listens.
fn address_of(socket: &Socket) -> io::Result<ListenAddress> {
    let address = socket.local_addr()?;
    if let Some(address) = address.as_socket() {
        return Ok(ListenAddress::Tcp(address));
    }
    // An abstract one, whose name is no path, is shown without it.
    let path = address.as_pathname().map_or_else(PathBuf::new, Into::into);
    Ok(ListenAddress::Unix(UnixAddress { path, mode: None, group: None }))
}
