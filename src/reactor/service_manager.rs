//! What the service manager (systemd) is told: `sd_notify(3)`.
//!
//! The watchdog is served by the loop itself: a pass that never ends is what it is there to find.
//! Messages are datagrams that are not waited for; one that cannot be sent is left out, because
//! nothing can be done about it.

use super::clock;
use crate::base::time::Mono;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use tracing::warn;

/// By how much a start is extended each time, while a journal is read.
const START_EXTENSION: Duration = Duration::from_secs(30);

/// How often a start is extended.
const START_EXTENDED_EVERY: Duration = Duration::from_secs(5);

/// See the module documentation. The default one has no peer.
#[derive(Debug, Default)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// The time between two heartbeats.
    interval: Option<Duration>,
    next_heartbeat: Mono,
    next_extension: Mono,
}

impl ServiceManager {
    /// The service manager that the variables `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`
    /// name, if there is one.
    #[must_use]
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let Some(path) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let socket = match connect(&path) {
            Ok(socket) => socket,
            Err(error) => {
                warn!(%error, path, "NOTIFY_SOCKET cannot be reached: systemd hears nothing");
                return Self::default();
            }
        };
        let own = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
        let is_own = variable("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(own));
        let period = variable("WATCHDOG_USEC").and_then(|text| text.parse().ok());
        // Half of it, as sd_watchdog_enabled(3) advises.
        let interval = period.filter(|&us: &u64| is_own && us > 1).map(|us| us / 2);
        let interval = interval.map(Duration::from_micros);
        Self { socket: Some(socket), interval, ..Self::default() }
    }

    fn tell(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // See the module documentation.
            let _ = socket.send(message.as_bytes());
        }
    }

    /// The server serves. A message that cannot be sent is logged: the start would time out.
    pub fn ready(&self, status: &str) {
        let message = format!("READY=1\nSTATUS={status}");
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            warn!(%error, "systemd cannot be told that the server is ready (NOTIFY_SOCKET)");
        }
    }

    /// The journal is being read, at this moment to this part: more time is needed.
    pub fn extend_start(&mut self, now: Mono, percent: u64) {
        if self.socket.is_some() && now >= self.next_extension {
            self.next_extension = now.after(START_EXTENDED_EVERY);
            let extension = START_EXTENSION.as_micros();
            let status = format!("reading the journal: {percent} %");
            self.tell(&format!("EXTEND_TIMEOUT_USEC={extension}\nSTATUS={status}"));
        }
    }

    /// Settings are read once more; [`ServiceManager::ready`] follows.
    pub(super) fn reloading(&self) {
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", clock::system_monotonic_us()));
    }

    /// The server stops.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping: answering and flushing");
    }

    /// Sends a heartbeat, if one is due.
    pub fn watch(&mut self, now: Mono) {
        if let Some(interval) = self.interval
            && now >= self.next_heartbeat
        {
            self.next_heartbeat = now.after(interval);
            self.tell("WATCHDOG=1");
        }
    }

    /// When the next heartbeat is due.
    pub(super) fn next(&self) -> Option<Mono> {
        self.interval.map(|_| self.next_heartbeat)
    }
}

/// A socket that sends to this path, or to the abstract name behind an `@`.
fn connect(path: &str) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    match path.strip_prefix('@') {
        None => socket.connect(path)?,
        Some(name) => connect_abstract(&socket, name)?,
    }
    Ok(socket)
}

#[cfg(target_os = "linux")]
fn connect_abstract(socket: &UnixDatagram, name: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    socket.connect_addr(&address)
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &UnixDatagram, _: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
