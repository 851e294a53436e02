//! A put and a reserve with options, which run when they are awaited.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::client::Client;
use super::job::Job;
use crate::core::put::{Backoff, NewJob, OnDuplicate, Placed};
use crate::error::Result;

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A put with its options: see [`Client::put`]. It is executed when it is awaited.
#[must_use = "a put is executed when it is awaited"]
pub struct Put<'a> {
    pub(crate) client: &'a Client,
    pub(crate) job: Result<NewJob>,
}

/// The options of [`NewJob`].
macro_rules! options {
    ($($name:ident($argument:ident: $type:ty)),* $(,)?) => {$(
        #[doc = concat!("See [`NewJob::", stringify!($name), "`].")]
        pub fn $name(mut self, $argument: $type) -> Self {
            self.job = self.job.map(|job| job.$name($argument));
            self
        }
    )*};
}

impl Put<'_> {
    options! {
        pri(pri: i64),
        delay(delay: Duration),
        ttl(ttl: Duration),
        ttr(ttr: Duration),
        max_attempts(attempts: u32),
        backoff(backoff: Backoff),
        keep_result(time: Duration),
        unique(key: impl Into<String>),
        unique_for(time: Duration),
        on_duplicate(what: OnDuplicate),
        group(name: impl Into<String>),
        after(ids: impl IntoIterator<Item = u64>),
        after_group(name: impl Into<String>),
        safe(safe: bool),
    }
}

impl<'a> IntoFuture for Put<'a> {
    type Output = Result<Placed>;
    type IntoFuture = Boxed<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.client.put_job(self.job?).await })
    }
}

/// A reserve: see [`Client::reserve`]. It is executed when it is awaited.
#[must_use = "a reserve is executed when it is awaited"]
pub struct Reserve<'a> {
    pub(crate) client: &'a Client,
    pub(crate) queues: Vec<String>,
    pub(crate) wait: Duration,
}

impl Reserve<'_> {
    /// Waits for a job up to this time.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl<'a> IntoFuture for Reserve<'a> {
    type Output = Result<Option<Job>>;
    type IntoFuture = Boxed<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(
            async move { Ok(self.client.reserve_many(&self.queues, 1, self.wait).await?.pop()) },
        )
    }
}
