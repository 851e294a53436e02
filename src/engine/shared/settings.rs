//! Where the sink is, and who this server is to the others.

use crate::engine::shared::redis::Address;
use std::fmt;
use std::time::Duration;

/// Settings of a server that shares its engine.
#[derive(Clone)]
pub struct Settings {
    /// Where it is.
    pub address: Address,
    /// The user of the node's; `None`: its default user.
    pub user: Option<Box<str>>,
    /// The password, if it asks for one.
    pub password: Option<Box<[u8]>>,
    /// The number of the database.
    pub database: u32,
    /// What all keys begin with.
    pub prefix: Box<str>,
    /// For how long this server leads after a word of it.
    pub lease: Duration,
    /// How long the node may be away before requests are refused.
    pub patience: Duration,
    /// How many replicas have a write before it counts. `None`: one, while there is one.
    pub wait: Option<u32>,
    /// This life of this server: random.
    pub server: [u8; 8],
    /// Its name for people.
    pub name: Box<str>,
    /// Where its clients connect, as the servers that wait are told.
    pub addresses: Box<str>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        f.debug_struct("Settings").field("address", &self.address).finish_non_exhaustive()
    }
}
