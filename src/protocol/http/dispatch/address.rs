//! Where a worker listens.

use crate::model::driver::Target;
use crate::wire::url::{self, UrlError};
use std::sync::Arc;

/// A worker's address, as calls need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whom to connect to.
    pub target: Arc<Target>,
    /// For the `Host` field.
    pub(super) authority: Box<str>,
    /// Where jobs are posted.
    pub(super) path: Box<str>,
}

impl Address {
    /// The address that a URL gives. O(its length).
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let url = url::parse(text)?;
        Ok(Self {
            target: Arc::new(Target { host: url.host, port: url.port, tls: url.tls }),
            authority: url.authority,
            path: format!("{}/worker-job", url.base).into(),
        })
    }
}
