//! Where the sink is, and who this server is to the others.

use crate::engine::shared::limits::{HAND_OVER_DEFAULT, LEASE_DEFAULT, PATIENCE_DEFAULT};
use crate::engine::shared::redis::Address;
use crate::wire::resp::{push_array, push_bulk, slot};
use std::fmt;
use std::time::Duration;

/// What keys begin with, unless they are to begin with something else.
pub const PREFIX_DEFAULT: &str = "jc";

/// The slot of a cluster in which the keys with the usual prefix are: the middle of all.
const SLOT_DEFAULT: u16 = 8192;

/// What the prefix gets while an import is under way. No `--engine-prefix` can be like that.
pub const STAGING_SUFFIX: &str = ":+import";

/// How a connection says who this server is.
#[derive(Clone, Default)]
pub struct Login {
    /// The user; `None`: the default user.
    pub user: Option<Box<str>>,
    /// The password. `None`: nothing is said.
    pub password: Option<Box<[u8]>>,
}

impl Login {
    /// Writes what is said. Returns how many answers it has.
    pub(super) fn push(&self, out: &mut Vec<u8>) -> usize {
        let Some(password) = &self.password else { return 0 };
        push_array(out, if self.user.is_some() { 3 } else { 2 });
        push_bulk(out, b"AUTH");
        if let Some(user) = &self.user {
            push_bulk(out, user.as_bytes());
        }
        push_bulk(out, password);
        1
    }
}

/// Settings of a server that shares its engine.
#[derive(Clone)]
pub struct Settings {
    /// Where it is.
    pub address: Address,
    /// Who this server is to nodes.
    pub login: Login,
    /// Who it is to Sentinels.
    pub sentinel_login: Login,
    /// The number of the database.
    pub database: u32,
    /// What all keys begin with.
    pub prefix: Box<str>,
    /// For how long this server leads after a word of it.
    pub lease: Duration,
    /// How long the node may be away before requests are refused.
    pub patience: Duration,
    /// For how long the end of this server waits until another one can lead at once.
    pub hand_over: Duration,
    /// How many replicas have a write before it counts. `None`: one, while there is one.
    pub wait: Option<u32>,
    /// This life of this server: random.
    pub server: [u8; 8],
    /// Its name for people.
    pub name: Box<str>,
    /// Where its clients connect, as the servers that wait are told.
    pub addresses: Box<str>,
}

impl Settings {
    /// The usual ones.
    #[must_use]
    pub fn new(address: Address, server: [u8; 8], name: &str) -> Self {
        Self {
            address,
            login: Login::default(),
            sentinel_login: Login::default(),
            database: 0,
            prefix: PREFIX_DEFAULT.into(),
            lease: LEASE_DEFAULT,
            patience: PATIENCE_DEFAULT,
            hand_over: HAND_OVER_DEFAULT,
            wait: None,
            server,
            name: name.into(),
            addresses: "".into(),
        }
    }

    /// The slot of a cluster in which all keys are. Each prefix has its own, so that a cluster
    /// spreads the jobs of several prefixes over its primaries; what is imported has the slot of
    /// the prefix that it gets in the end, because a key is renamed within a slot only.
    pub(super) fn slot(&self) -> u16 {
        let prefix = self.prefix.strip_suffix(STAGING_SUFFIX).unwrap_or(&self.prefix);
        if prefix == PREFIX_DEFAULT { SLOT_DEFAULT } else { slot(prefix.as_bytes()) }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the passwords.
        f.debug_struct("Settings").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::shared::redis::Requests;
    use std::collections::BTreeSet;

    fn of_prefix(prefix: &str) -> Settings {
        let address = Address::Cluster(Vec::new());
        Settings { prefix: prefix.into(), ..Settings::new(address, [0; 8], "one") }
    }

    #[test]
    fn each_prefix_has_a_slot_of_its_own_and_an_import_that_of_its_prefix() {
        assert_eq!(of_prefix("jc").slot(), 8192);
        let slots = ["jc", "mail", "video", "nightly"].map(|name| of_prefix(name).slot());
        assert_eq!(BTreeSet::from(slots).len(), slots.len(), "{slots:?}");
        for prefix in ["jc", "mail"] {
            let staged = of_prefix(&format!("{prefix}{STAGING_SUFFIX}"));
            assert_eq!(staged.slot(), of_prefix(prefix).slot());
        }
    }

    #[test]
    fn keys_are_in_the_slot_of_their_settings() {
        for prefix in ["jc", "mail"] {
            let settings = of_prefix(prefix);
            let probe = String::from_utf8(Requests::new(&settings).probe()).unwrap();
            let key = probe.lines().last().unwrap();
            assert!(key.starts_with(prefix) && key.ends_with(":meta"), "{key}");
            assert_eq!(slot(key.as_bytes()), settings.slot());
        }
    }
}
