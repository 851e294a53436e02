//! Client and worker for the jobcentre job queue server.
//!
//! ```
//! # #[cfg(feature = "test")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use jobcentre_client::{Client, test::Server};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Mail {
//!     to: String,
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let server = Server::start()?; // the real program: see `test::Server`
//! let client = Client::connect(&server.url()).await?;
//! let mail = Mail { to: "ann".into() };
//! client.put("mail", &mail).pri(5).unique("mail:ann").await?;
//!
//! let job = client.reserve(["mail"]).wait(Duration::from_secs(5)).await?.expect("a job");
//! let mail: Mail = job.payload()?;
//! assert_eq!(mail.to, "ann");
//! job.complete().await?;
//! # Ok(())
//! # })
//! # }
//! # #[cfg(not(feature = "test"))]
//! # fn main() {}
//! ```
//!
//! - [`Client`]: puts, reserves, results, on tokio. Requests are pipelined over one connection,
//!   which is opened again when it is lost; what is unanswered is bounded.
//! - `Worker`: handlers with types, retries, leases that are renewed, a stop in good order.
//! - `blocking`: the same client without a runtime.
//! - [`Error`]: one enum, a variant a kind.
//!
//! # What is promised
//!
//! A put whose answer is lost is repeated under its key, or under a key that was drawn for it:
//! there is one job. A get is repeated: jobs that were handed out on a connection go back with it. What
//! cannot be repeated safely fails with [`Error::AnswerLost`]. A job is handed out again if its
//! worker or its connection dies: handlers run at least once, not exactly once.
//!
//! # Features
//!
//! `async` (unless switched off): the client and worker on tokio. `blocking`: the client of
//! threads. `tls`: addresses of `jobcentres://`, by rustls. `tower`: layers around handlers. `test`: the
//! real server as a child process, for tests.

#[cfg(not(any(feature = "async", feature = "blocking")))]
compile_error!("jobcentre-client needs the feature `async` or the feature `blocking`");

mod core;
mod error;
mod failure;
mod info;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "async")]
mod aio;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(feature = "test")]
pub mod test;
#[cfg(feature = "async")]
mod worker;

#[cfg(feature = "async")]
pub use aio::builders::{Put, Reserve};
#[cfg(feature = "async")]
pub use aio::client::{Client, ClientBuilder};
#[cfg(feature = "async")]
pub use aio::job::Job;
pub use core::put::{Backoff, NewJob, OnDuplicate, Placed};
pub use error::{Error, Result};
pub use failure::Failure;
pub use info::{Counts, JobInfo, LastError, QueueInfo};
#[cfg(feature = "async")]
pub use worker::{Context, Stopped, Worker, WorkerBuilder};
#[cfg(feature = "tower")]
pub use worker::{HandlerError, HandlerService, Layered, Reply};

/// The examples of the README are compiled.
#[cfg(all(doctest, feature = "async"))]
#[doc = include_str!("../README.md")]
struct Readme;
