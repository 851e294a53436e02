//! One reactor after another in a process: of a server that waits to lead, and of the same one once
//! it does. The listeners stay open meanwhile.

use super::Reactor;
use super::forward::Arrival;
use super::listeners::Listeners;
use super::service_manager::ServiceManager;
use super::signals::Signals;
use crate::model::driver::Core;

/// What is left of a reactor that has ended. The default one is of none.
#[derive(Default)]
pub struct Remains {
    signals: Option<Signals>,
    service_manager: ServiceManager,
    listeners: Option<Listeners>,
    /// Connections that were accepted and of which nothing was read.
    arrivals: Vec<Arrival>,
}

impl Remains {
    /// What the first reactor begins with.
    #[must_use]
    pub fn new(service_manager: ServiceManager) -> Self {
        Self { service_manager, ..Self::default() }
    }

    /// Listeners for the first reactor.
    pub fn set_listeners(&mut self, listeners: Listeners) {
        self.listeners = Some(listeners);
    }

    /// The listeners, if there are any; they are another reactor's from then on.
    pub fn take_listeners(&mut self) -> Option<Listeners> {
        self.listeners.take()
    }

    /// The service manager, for those who have something to say to it between two reactors.
    pub fn service_manager(&mut self) -> &mut ServiceManager {
        &mut self.service_manager
    }
}

impl<C: Core> Reactor<C> {
    /// Ends it, with all its connections but those of which nothing was read. What is left is for
    /// another one.
    #[must_use]
    pub fn into_remains(self) -> Remains {
        Remains {
            listeners: Some(Listeners::of_ended(self.listeners, self.poll.registry())),
            arrivals: self.forwarder.into_arrivals(),
            signals: Some(self.signals),
            service_manager: self.service_manager,
        }
    }

    /// Takes over the service manager, the signals that a former reactor has received since its run
    /// ended, none of which is lost between two, and the connections that it has left.
    pub fn inherit(&mut self, remains: Remains) {
        self.service_manager = remains.service_manager;
        let mut signals = remains.signals;
        let pending = signals.iter_mut().flat_map(Signals::pending);
        for signal in pending.collect::<Vec<i32>>() {
            self.handle_signal(signal);
        }
        for arrival in remains.arrivals {
            let listener = arrival.peer.listener as usize;
            self.take(arrival, listener);
        }
    }

    /// The core, between two runs.
    pub fn core_mut(&mut self) -> &mut C {
        &mut self.core
    }

    /// Tells the service manager that the server is ready, and as what.
    pub fn tell_ready(&self, status: &str) {
        self.service_manager.ready(status);
    }
}
