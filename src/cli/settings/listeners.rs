//! What the settings say together about listeners: who can reach them, and who its clients are.

use super::config::Config;
use crate::access::Users;
use crate::cli::serve_error::flag_of;
use crate::model::driver::Protocol;
use crate::reactor::{ListenAddress, PassedSockets, TlsFiles};

/// Whether other machines reach it.
pub(super) fn is_beyond_loopback(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp(at) | ListenAddress::Tls(at) => !at.ip().to_canonical().is_loopback(),
        ListenAddress::Unix(_) | ListenAddress::Passed { .. } => false,
    }
}

/// The longest path of a socket, in bytes, of the systems that this runs on.
const SOCKET_PATH_MAX: usize = 107;

/// Whether one of two listeners would find its place taken by the other.
fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    use ListenAddress::{Passed, Tcp, Tls, Unix};
    match (one, other) {
        (Tcp(one) | Tls(one), Tcp(other) | Tls(other)) => one == other && one.port() > 0,
        (Unix(one), Unix(other)) => one.path == other.path,
        (Passed { name: one, .. }, Passed { name: other, .. }) => one == other,
        _ => false,
    }
}

impl Config {
    /// Takes the sockets of listeners with fd:, whose addresses are known from then on.
    ///
    /// # Errors
    /// A sentence about a name that no socket has, or a socket that no listener can be.
    pub(in crate::cli) fn take_passed(
        &mut self,
        sockets: &mut PassedSockets,
    ) -> Result<(), String> {
        for (_, address) in &mut self.protocols {
            let ListenAddress::Passed { name, is_tls } = address else {
                self.passed.push(None);
                continue;
            };
            let (found, socket) = sockets.take(name, *is_tls)?;
            *address = found;
            self.passed.push(Some(socket));
        }
        Ok(())
    }

    /// What is wrong with the address of a listener, whatever the machine is like.
    pub(in crate::cli) fn wrong_listener(&self) -> Option<String> {
        for (place, (protocol, address)) in self.protocols.iter().enumerate() {
            let flag = flag_of(*protocol);
            if let ListenAddress::Unix(unix) = address
                && unix.path.as_os_str().len() > SOCKET_PATH_MAX
            {
                return Some(format!(
                    "{flag} {address}: the path of a socket has at most {SOCKET_PATH_MAX} bytes"
                ));
            }
            let mut earlier = self.protocols[..place].iter();
            if let Some((other, _)) = earlier.find(|(_, other)| is_same(other, address)) {
                return Some(format!(
                    "{} and {flag} are both {address}: each protocol needs an address of its own",
                    flag_of(*other)
                ));
            }
        }
        None
    }

    /// The files of TLS listeners, if there are such listeners.
    ///
    /// # Errors
    /// A sentence about settings that do not fit together.
    pub(in crate::cli) fn tls_files(&self) -> Result<Option<TlsFiles>, String> {
        self.tls.clone().files(self.protocols.iter().map(|(_, address)| address))
    }

    /// The users, if there are any.
    ///
    /// # Errors
    /// A sentence about a listener whose user there is not.
    pub(in crate::cli) fn compiled_users(&self) -> Result<Option<Users>, String> {
        let users = Users::new(self.users.clone())?;
        if let Some(name) = self.listener_users.iter().flatten().find(|name| !users.has(name)) {
            return Err(format!(
                "a listener has user={name}, and there is no user of this name: add a table \
                 [[user]] with it to the settings file (--config)"
            ));
        }
        Ok((!users.is_empty()).then_some(users))
    }

    /// The listeners that other machines reach, and that do not ask who connects: there are no
    /// users, or all clients of the listener are one.
    pub(in crate::cli) fn open_listeners(
        &self,
    ) -> impl Iterator<Item = &(Protocol, ListenAddress)> {
        let asks_clients = self.tls.asks_clients();
        let asks =
            move |address: &ListenAddress| matches!(address, ListenAddress::Tls(_)) && asks_clients;
        let has_users = !self.users.is_empty();
        let users = self.listener_users.iter().map(Option::is_some);
        let users = users.chain(std::iter::repeat(false));
        self.protocols
            .iter()
            .zip(users)
            .filter(move |((_, address), is_one)| {
                is_beyond_loopback(address) && !asks(address) && (*is_one || !has_users)
            })
            .map(|(listener, _)| listener)
    }

    /// The listeners over which tokens can be read on their way between machines.
    pub(in crate::cli) fn readable_listeners(&self) -> impl Iterator<Item = &ListenAddress> {
        let addresses = self.protocols.iter().map(|(_, address)| address);
        let has_users = !self.users.is_empty();
        addresses.filter(move |address| {
            has_users && matches!(address, ListenAddress::Tcp(_)) && is_beyond_loopback(address)
        })
    }
}
