//! What a server and its reactor are made of, but for the engine: prepared once, as a server that
//! shares its engine is made several times, to wait and to lead.

use super::descriptors::{self, DescriptorShares};
use super::engine::Pump;
use super::machine_memory::machine_memory;
use super::serve_error::{ServeError, explain_reactor_error};
use super::settings::config::Config;
use super::settings::engine::EngineConfig;
use super::settings::processor;
use super::{entropy, reload};
use crate::access::Users;
use crate::engine::Engine;
use crate::model::driver::Protocol;
use crate::protocol::beanstalkd::Identity;
use crate::query::value_max;
use crate::reactor::query_threads::QueryThreads;
use crate::reactor::{Clock, Listeners, LoopWaker, Reactor, ServerTls, TlsFiles, TrustStore};
use crate::server::{ConnectionLimits, Server, Settings};
use std::io;
use std::path::Path;

/// See the module documentation.
pub(super) struct ServerParts<'a> {
    pub(super) config: &'a Config,
    /// The settings file, which is read once more on SIGHUP.
    file: Option<&'a Path>,
    trust: Option<TrustStore>,
    pub(super) engine_trust: Option<TrustStore>,
    tls: Option<TlsFiles>,
    shares: DescriptorShares,
    processor: crate::protocol::processor::Settings,
    pub(super) seed: u64,
}

impl<'a> ServerParts<'a> {
    /// Reads what is named by the settings, and raises the limit on open files.
    ///
    /// # Errors
    /// A sentence about a setting.
    pub(super) fn prepare(config: &'a Config, file: Option<&'a Path>) -> io::Result<Self> {
        let trust = config.worker_ca.as_deref().map(read_trust).transpose()?;
        let engine_trust = config.engine.as_ref().map(EngineConfig::trust).transpose();
        let engine_trust = engine_trust.map_err(io::Error::other)?;
        let tls = config.tls_files().map_err(io::Error::other)?;
        let forwards = config.engine.as_ref().is_some_and(|engine| engine.forwards);
        let shares = descriptors::reserve_descriptors_for_clients(
            config.max_clients,
            tls.is_some(),
            forwards,
        );
        let processor = processor::settings(config.tick, |name| std::env::var(name));
        let processor = processor.map_err(io::Error::other)?;
        let seed = entropy::random_u64();
        Ok(Self { config, file, trust, engine_trust, tls, shares, processor, seed })
    }

    /// What moves the bytes of the engine's connection before the loop runs.
    pub(super) fn pump(&self) -> Pump {
        Pump::new(self.engine_trust.clone())
    }

    /// The clients that can be served at a time.
    pub(super) fn max_clients(&self) -> usize {
        self.shares.clients
    }

    /// The connections that can be forwarded at a time.
    pub(super) fn max_forwards(&self) -> usize {
        self.shares.forwards
    }

    /// The users. A server of an engine may wait for days before it leads: its are those of now.
    fn users(&self) -> Result<Option<Users>, String> {
        match self.file {
            Some(file) if self.config.engine.is_some() => reload::users_of_now(file, self.config),
            _ => self.config.compiled_users(),
        }
    }

    /// Whether there are users now.
    pub(super) fn has_users(&self) -> bool {
        self.users().is_ok_and(|users| users.is_some())
    }

    /// All listeners, bound.
    ///
    /// # Errors
    /// One cannot be bound.
    pub(super) fn listeners(&self) -> Result<Listeners, ServeError> {
        Listeners::bind(&self.config.protocols, &self.config.passed)
            .map_err(|error| explain_reactor_error(&error, self.config.as_beanstalkd))
    }

    /// The same engine, with queries and the limit on memory.
    pub(super) fn with_limits(&self, engine: Engine, wake: &LoopWaker) -> Engine {
        let queries = QueryThreads::new(value_max(self.config.max_request), wake);
        engine
            .with_queries(Box::new(queries), self.config.query_timeout)
            .with_memory_limit(self.config.max_memory)
    }

    /// The server over an engine; `config` has its listeners.
    fn server(&self, config: &Config, engine: Engine, clock: &mut Clock) -> io::Result<Server> {
        let settings = Settings {
            max_request: config.max_request,
            max_clients: self.shares.clients,
            max_memory: config.max_memory.or_else(machine_memory),
        };
        let mut server = Server::new(settings, engine)
            .with_result_ttl(config.result_ttl)
            .with_http_names(config.http_names.clone())
            .with_ui(config.ui.clone())
            .with_secret(entropy::secret().map_err(io::Error::other)?)
            .with_worker_net(config.worker_net())
            .with_body_limit(config.beanstalkd_max_job_size)
            .with_identity(identity())
            .with_processor(self.processor.clone())
            .with_connection_limits(ConnectionLimits {
                outbound: self.shares.outbound,
                rejected: self.shares.rejected,
            })
            .with_listener_users(config.listener_users.clone());
        if let Some(users) = self.users().map_err(io::Error::other)? {
            server.set_users(users, clock.sample());
        }
        Ok(server)
    }

    /// A reactor with all listeners, which are bound if they are not given, and a server over this
    /// engine.
    ///
    /// # Errors
    /// A listener that cannot be bound, or a certificate that cannot be used.
    pub(super) fn reactor(
        &self,
        engine: Engine,
        listeners: Option<Listeners>,
        clock: &Clock,
        wake: &LoopWaker,
    ) -> Result<Reactor<Server>, ServeError> {
        self.reactor_with(self.config, engine, listeners, clock, wake)
    }

    /// The same of a server that waits to lead: with these listeners, or else with that of HTTP.
    ///
    /// # Errors
    /// As above.
    pub(super) fn standby_reactor(
        &self,
        listeners: Option<Listeners>,
        clock: &Clock,
        wake: &LoopWaker,
    ) -> Result<Reactor<Server>, ServeError> {
        let mut config = self.config.clone();
        if listeners.is_none() {
            let is_http: Vec<bool> =
                config.protocols.iter().map(|(protocol, _)| *protocol == Protocol::Http).collect();
            let mut places = is_http.iter();
            config.protocols.retain(|_| places.next() == Some(&true));
            let mut places = is_http.iter();
            config.listener_users.retain(|_| places.next() == Some(&true));
            let mut places = is_http.iter();
            config.passed.retain(|_| places.next() == Some(&true));
        }
        self.reactor_with(&config, Engine::in_memory(self.seed), listeners, clock, wake)
    }

    fn reactor_with(
        &self,
        config: &Config,
        engine: Engine,
        listeners: Option<Listeners>,
        clock: &Clock,
        wake: &LoopWaker,
    ) -> Result<Reactor<Server>, ServeError> {
        let mut clock = clock.clone();
        let server = self.server(config, engine, &mut clock)?;
        let tls = self.tls.clone().map(|files| ServerTls::load(files, clock.sample())).transpose();
        let tls = tls.map_err(io::Error::other)?;
        let reactor = match listeners {
            Some(listeners) => Reactor::on(server, listeners, clock, wake),
            None => Reactor::bind_with(server, &config.protocols, &config.passed, clock, wake),
        };
        let mut reactor =
            reactor.map_err(|error| explain_reactor_error(&error, config.as_beanstalkd))?;
        reactor.set_lingering_max(self.shares.lingering);
        reactor.set_handshakes_max(self.shares.handshakes);
        if self.shares.clients < config.max_clients {
            reactor.set_lacks_descriptors();
        }
        if let Some(file) = self.file {
            reactor.set_reload(reload::reload_users(file, config));
        }
        if let Some(trust) = &self.trust {
            reactor.set_trust(trust.clone());
        }
        if let Some(trust) = &self.engine_trust {
            reactor.set_engine_trust(trust.clone());
        }
        reactor.set_permitted_addresses(config.worker_net());
        if let Some(tls) = tls {
            reactor.set_server_tls(tls);
        }
        Ok(reactor)
    }
}

/// What the process and its machine are called.
fn identity() -> Identity {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into();
    Identity {
        pid: std::process::id(),
        start: entropy::random_u64(),
        hostname: text(system.nodename()),
        os: text(system.version()),
        platform: text(system.machine()),
    }
}

/// The trust store with the certificates of `--worker-ca`.
fn read_trust(path: &Path) -> io::Result<TrustStore> {
    let explain = |kind, reason: String| {
        io::Error::new(kind, format!("--worker-ca {}: {reason}", path.display()))
    };
    let pem = std::fs::read(path)
        .map_err(|error| explain(error.kind(), format!("cannot be read: {error}")))?;
    TrustStore::with(&pem).map_err(|reason| explain(io::ErrorKind::InvalidData, reason))
}
