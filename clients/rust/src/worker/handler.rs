//! Handlers of all types behind one trait: payload text in, result text or failure out.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::context::Context;
use crate::Failure;

pub(crate) type Outcome = Result<Option<Box<RawValue>>, Failure>;
pub(crate) type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

pub(crate) trait Handler: Send + Sync {
    fn call(&self, context: Context) -> Running;
}

/// A payload of another type does not become right by waiting.
fn payload<T: DeserializeOwned>(context: &Context) -> Result<T, Failure> {
    serde_json::from_str(context.payload_text()).map_err(|wrong| {
        Failure::new("Payload", format!("the payload is not what is expected: {wrong}")).no_retry()
    })
}

fn outcome<R: Serialize, E: Into<Failure>>(returned: Result<R, E>) -> Outcome {
    let result = returned.map_err(Into::into)?;
    let text = to_raw_value(&result).map_err(|wrong| {
        Failure::new("Result", format!("the result is no JSON: {wrong}")).no_retry()
    })?;
    // `()` is no result.
    Ok((text.get() != "null").then_some(text))
}

/// An asynchronous function.
pub(super) struct Typed<T, H> {
    handler: H,
    payload: PhantomData<fn(T)>,
}

impl<T, H> Typed<T, H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler, payload: PhantomData }
    }
}

impl<T, F, R, E, H> Handler for Typed<T, H>
where
    T: DeserializeOwned + Send + 'static,
    F: Future<Output = Result<R, E>> + Send + 'static,
    R: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
    H: Fn(T, Context) -> F + Send + Sync + 'static,
{
    fn call(&self, context: Context) -> Running {
        match payload(&context) {
            Ok(payload) => {
                let running = (self.handler)(payload, context);
                Box::pin(async move { outcome(running.await) })
            }
            Err(failure) => Box::pin(std::future::ready(Err(failure))),
        }
    }
}

/// A function that blocks.
pub(super) struct Blocking<T, H> {
    handler: Arc<H>,
    payload: PhantomData<fn(T)>,
}

impl<T, H> Blocking<T, H> {
    pub(super) fn new(handler: H) -> Self {
        Self { handler: Arc::new(handler), payload: PhantomData }
    }
}

impl<T, R, E, H> Handler for Blocking<T, H>
where
    T: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    E: Into<Failure> + Send + 'static,
    H: Fn(T, Context) -> Result<R, E> + Send + Sync + 'static,
{
    fn call(&self, context: Context) -> Running {
        let handler = self.handler.clone();
        Box::pin(async move {
            let call = move || outcome(handler(payload(&context)?, context));
            tokio::task::spawn_blocking(call).await.unwrap_or_else(|error| Err(panicked(error)))
        })
    }
}

/// The failure of a handler that has panicked.
pub(super) fn panicked(error: tokio::task::JoinError) -> Failure {
    let text = match error.try_into_panic() {
        Ok(panic) => match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("a panic").to_owned(),
        },
        Err(error) => error.to_string(),
    };
    Failure::new("Panic", text)
}
