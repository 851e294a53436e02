//! Which addresses workers may have (`--worker-net`).

use super::config::Config;
use super::listeners::is_beyond_loopback;
use crate::base::address_set::AddressSet;
use crate::model::driver::Protocol;

impl Config {
    /// The setting, or its default: those who reach the HTTP listener from other machines do not
    /// choose addresses of this machine and its networks.
    pub(in crate::cli) fn worker_net(&self) -> AddressSet {
        let mut listeners = self.protocols.iter();
        let is_exposed = listeners
            .any(|(protocol, address)| *protocol == Protocol::Http && is_beyond_loopback(address));
        let default = || if is_exposed { AddressSet::public() } else { AddressSet::any() };
        self.worker_net.clone().unwrap_or_else(default)
    }
}
