//! One reactor after another in a process: of a server that waits to lead, and of the same one once
//! it does.

use super::Reactor;
use super::service_manager::ServiceManager;
use super::signals::Signals;
use crate::model::driver::Core;

/// What is left of a reactor that has ended. The default one is of none.
#[derive(Default)]
pub struct Remains {
    signals: Option<Signals>,
    service_manager: ServiceManager,
}

impl Remains {
    /// What the first reactor begins with.
    #[must_use]
    pub fn new(service_manager: ServiceManager) -> Self {
        Self { signals: None, service_manager }
    }

    /// The service manager, for those who have something to say to it between two reactors.
    pub fn service_manager(&mut self) -> &mut ServiceManager {
        &mut self.service_manager
    }
}

impl<C: Core> Reactor<C> {
    /// Ends it, with all its listeners and connections. What is left is for another one.
    #[must_use]
    pub fn into_remains(self) -> Remains {
        Remains { signals: Some(self.signals), service_manager: self.service_manager }
    }

    /// Takes over the service manager, and the signals that a former reactor has received since its
    /// run ended: none is lost between two.
    pub fn inherit(&mut self, remains: Remains) {
        self.service_manager = remains.service_manager;
        let mut signals = remains.signals;
        let pending = signals.iter_mut().flat_map(Signals::pending);
        for signal in pending.collect::<Vec<i32>>() {
            self.handle_signal(signal);
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
