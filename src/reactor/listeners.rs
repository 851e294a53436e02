//! The listeners of a server. They may outlive a reactor, so that no client is refused between two:
//! connections wait in their backlogs.

use super::FIRST_LISTENER;
use super::listen_address::ListenAddress;
use super::listener::Listener;
use super::passed_sockets::PassedSocket;
use crate::model::driver::Protocol;
use mio::{Registry, Token};
use std::io;

/// Listening sockets, in the order of their protocols in the settings.
#[derive(Debug, Default)]
pub struct Listeners(pub(super) Vec<Listener>);

impl Listeners {
    /// Binds every protocol; `passed` has the sockets of those that need not be bound, in their
    /// order.
    ///
    /// # Errors
    /// If an address cannot be bound, with [`CannotListen`](super::CannotListen).
    pub fn bind(
        protocols: &[(Protocol, ListenAddress)],
        passed: &[Option<PassedSocket>],
    ) -> io::Result<Self> {
        let listen =
            |(number, (protocol, address)): (usize, &(Protocol, ListenAddress))| match passed
                .get(number)
                .and_then(Option::as_ref)
            {
                Some(socket) => Listener::on(*protocol, address, socket),
                None => Listener::bind(*protocol, address),
            };
        protocols.iter().enumerate().map(listen).collect::<io::Result<_>>().map(Self)
    }

    /// Their protocols, and the bound addresses, with the actual ports.
    pub fn addresses(&self) -> impl Iterator<Item = (Protocol, &ListenAddress)> {
        self.0.iter().map(|listener| (listener.protocol(), listener.address()))
    }

    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        for (number, listener) in self.0.iter_mut().enumerate() {
            listener.register(registry, Token(FIRST_LISTENER + number))?;
        }
        Ok(())
    }

    /// Those of a reactor that has ended, for another one. A listener that its poll does not let go
    /// is left out, and so closed.
    pub(super) fn of_ended(mut listeners: Vec<Listener>, registry: &Registry) -> Self {
        listeners.retain_mut(|listener| listener.deregister(registry).is_ok());
        Self(listeners)
    }
}
