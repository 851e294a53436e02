//! Layers of tower around handlers: a handler is a service of its [`Context`].

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll};

use serde_json::value::RawValue;
use tower_layer::Layer;
use tower_service::Service;

use super::context::Context;
use super::handler::{Handler, Running};
use crate::Failure;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler has returned.
#[derive(Clone, Debug)]
pub struct Reply {
    result: Option<Box<RawValue>>,
}

impl Reply {
    /// The result as JSON text; `None` if there is none.
    pub fn result_text(&self) -> Option<&str> {
        self.result.as_ref().map(|result| result.get())
    }
}

/// The failure of a handler as an error, for layers.
#[derive(Clone, Debug)]
pub struct HandlerError(pub Failure);

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.error, self.0.message)
    }
}

impl std::error::Error for HandlerError {}

/// The innermost service: the handler of a queue.
#[derive(Clone)]
pub struct HandlerService(Arc<dyn Handler>);

impl Service<Context> for HandlerService {
    type Response = Reply;
    type Error = HandlerError;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, HandlerError>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), HandlerError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let running = self.0.call(context);
        Box::pin(async move { running.await.map(|result| Reply { result }).map_err(HandlerError) })
    }
}

/// A service that can take the place of a handler. Implemented for all services of [`Context`] that
/// return [`Reply`] and can be cloned.
pub trait Layered: Clone + Send + 'static {
    #[doc(hidden)]
    fn run(self, context: Context) -> Running;
}

impl<S> Layered for S
where
    S: Service<Context, Response = Reply> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    fn run(mut self, context: Context) -> Running {
        Box::pin(async move {
            let replied = async {
                poll_fn(|cx| self.poll_ready(cx)).await?;
                self.call(context).await
            };
            replied.await.map(|reply| reply.result).map_err(|error| failure(error.into()))
        })
    }
}

/// That of the handler, or the error of a layer.
fn failure(error: BoxError) -> Failure {
    match error.downcast::<HandlerError>() {
        Ok(error) => error.0,
        Err(error) => Failure::new("Layer", error.to_string()),
    }
}

/// A service as a handler; each call has a clone of it.
struct Wrapped<S>(Mutex<S>);

impl<S: Layered> Handler for Wrapped<S> {
    fn call(&self, context: Context) -> Running {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().run(context)
    }
}

pub(super) fn wrap<L>(layer: &L, inner: Arc<dyn Handler>) -> Arc<dyn Handler>
where
    L: Layer<HandlerService>,
    L::Service: Layered,
{
    Arc::new(Wrapped(Mutex::new(layer.layer(HandlerService(inner)))))
}
