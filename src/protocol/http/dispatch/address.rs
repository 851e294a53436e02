//! The addresses of workers, from their URLs.

use crate::model::driver::Target;
use crate::wire::url::{self, UrlError};
use std::sync::Arc;

/// The address of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host and port, and whether TLS is used.
    pub target: Arc<Target>,
    /// The value of the `Host` field.
    pub(super) authority: Box<str>,
    /// The path of `POST` requests with jobs.
    pub(super) path: Box<str>,
}

impl Address {
    /// Parses the URL of a worker. O(length).
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let url = url::parse(text)?;
        Ok(Self {
            target: Arc::new(Target { host: url.host, port: url.port, tls: url.tls }),
            authority: url.authority,
            path: format!("{}/worker-job", url.base).into(),
        })
    }
}
