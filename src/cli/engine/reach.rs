//! What all verbs about a shared engine ask it.

use super::arguments::Reached;
use crate::engine::shared::redis::{self, StartError, Status};

impl Reached {
    /// A sentence with the engine's address.
    pub(super) fn fault(&self, why: &StartError) -> String {
        Self::explain(&self.settings, why)
    }

    /// For people: which node it is.
    pub(super) fn place(&self) -> String {
        self.settings.address.to_string()
    }

    /// What is known of the partition. `None`: there is none.
    pub(super) fn look(&mut self) -> Result<Option<Status>, String> {
        let status = redis::status(&mut self.connection, &self.requests);
        status.map_err(|why| self.fault_of_node(&why))
    }

    /// What is known of the partition.
    pub(super) fn status(&mut self) -> Result<Status, String> {
        let found = self.look()?;
        found.ok_or_else(|| self.explain_none())
    }

    /// The same, unless the node is none that servers would use: then why.
    pub(super) fn fault_of_node(&mut self, why: &StartError) -> String {
        self.of_node().unwrap_or_else(|| self.fault(why))
    }

    /// Why servers would not use the node, if that is so.
    fn of_node(&mut self) -> Option<String> {
        match redis::check_node(&mut self.connection, &self.settings.address) {
            Err(why @ StartError::Fatal(_)) => Some(self.fault(&why)),
            _ => None,
        }
    }

    pub(super) fn explain_none(&mut self) -> String {
        self.of_node().unwrap_or_else(|| {
            format!(
                "there are no jobs with the prefix {} at {}: is it the right address, with the \
                 right number of the database, and the right --engine-prefix?",
                self.settings.prefix,
                self.place()
            )
        })
    }
}
