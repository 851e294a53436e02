//! The settings of `serve`, from three sources: flags, then `JOBCENTRE_*` variables, then a TOML
//! file.
//!
//! [`Options`] is parsed from all three, so every setting exists in each source.

use crate::access::UserSpec;
use crate::base::address_set::AddressSet;
use crate::base::limits::{BODY_BYTES_DEFAULT, MAX_CLIENTS_DEFAULT, REQUEST_BYTES_DEFAULT};
use crate::cli::log::{Format, Level};
use crate::cli::settings::duration::{BoundedDuration, QueryTimeout, ResultTtl};
use crate::cli::settings::engine::{
    AdvertisedHost, EngineConfig, EngineHandOver, EngineLease, EngineLogin, EnginePatience,
    EnginePrefix, EngineTls, EngineWait, ForwardSwitch, ServerName,
};
use crate::cli::settings::engine_url::EngineUrl;
use crate::cli::settings::fsync::Fsync;
use crate::cli::settings::http_name::{self, HttpName};
use crate::cli::settings::listen_addr::ListenAddr;
use crate::cli::settings::size::Size;
use crate::cli::settings::tick::Tick;
use crate::cli::settings::tls::{ClientAuth, TlsSettings};
use crate::cli::settings::ui::{UiLabel, UiSwitch};
use crate::cli::settings::{constraint_tables, errors, from_text, user_tables};
use crate::journal::SyncMode;
use crate::model::driver::Protocol;
use crate::model::worker::Constraint;
use crate::protocol::http::UiSettings;
use crate::reactor::{ListenAddress, PassedSocket};
use clap::Args;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod bounded;
mod stray;

/// The settings of one source. `None`: the next source decides.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::cli) struct Options {
    /// Where Job Centre clients (JSON lines) connect: HOST:PORT, :PORT, tls:HOST:PORT, unix:PATH,
    /// fd:NAME (a socket of systemd) or off [default: 127.0.0.1:11400, or off with --processor].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_LISTEN")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    listen: Option<ListenAddr>,

    /// Where clients of the networked priority queue (binary packets) connect: HOST:PORT, :PORT,
    /// tls:HOST:PORT, unix:PATH, fd:NAME or off [default: off; their usual port is 11401].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_PINPRIQ")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    pinpriq: Option<ListenAddr>,

    /// Where HTTP clients (LightJQ, Jobq, health) connect: HOST:PORT, :PORT, tls:HOST:PORT,
    /// unix:PATH, fd:NAME or off [default: 127.0.0.1:11480, or off with --processor].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_HTTP")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    http: Option<ListenAddr>,

    /// Where clients of beanstalkd connect: HOST:PORT, :PORT, tls:HOST:PORT, unix:PATH, fd:NAME or
    /// off [default: off; their usual port is 11300].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_BEANSTALKD")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    beanstalkd: Option<ListenAddr>,

    /// The longest body of a job that --beanstalkd accepts, in bytes or with KiB or MiB; at most
    /// --max-request [default: 65535].
    #[arg(long, value_name = "SIZE", env = "JOBCENTRE_BEANSTALKD_MAX_JOB_SIZE")]
    beanstalkd_max_job_size: Option<Size>,

    /// A name by which HTTP clients know this server, besides localhost and addresses in numbers:
    /// requests for other hosts are refused, because web pages could send them. Give it once for
    /// each name, or names with commas between them [default: none].
    #[arg(long = "http-name", value_name = "NAME", env = "JOBCENTRE_HTTP_NAME")]
    #[arg(value_delimiter = ',')]
    #[serde(rename = "http-name", default, deserialize_with = "http_name::read")]
    http_names: Option<Vec<HttpName>>,

    /// Whether browsers find the dashboard at the address of --http: on or off [default: on].
    #[arg(long, value_name = "on|off", env = "JOBCENTRE_UI")]
    ui: Option<UiSwitch>,

    /// The name of this stage, such as production: the dashboard shows it in colour, in its title
    /// and before whatever deletes jobs [default: none].
    #[arg(long, value_name = "TEXT", env = "JOBCENTRE_UI_LABEL")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    ui_label: Option<UiLabel>,

    /// Serve every client of other machines: without this a listener that they reach needs users
    /// (`[[user]]` in the file), or has to ask for certificates (tls: with --tls-client-ca)
    /// [default: false].
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_name = "true|false", env = "JOBCENTRE_ALLOW_ANYONE")]
    allow_anyone: Option<bool>,

    /// Process messages: read JSON lines from stdin, write job assignments to stdout, log JSON
    /// objects on stderr. No other protocol is open then unless it is given an address, and the end
    /// of stdin is the end of the server if there is none. Who it is in its messages comes from the
    /// environment: NAMESPACE_LISTENER and NAMESPACE_PUBLISHER [default: default], SERVICE_NAME
    /// [default: job_queue], SERVICE_UUID [default: random], SERVICE_HOST [default: this host].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_name = "true|false", env = "JOBCENTRE_PROCESSOR")]
    processor: Option<bool>,

    /// The interval of ticks of --processor, in milliseconds (or 3s): an assignment that is not
    /// accepted, a job without progress and a worker without a word are given up after three
    /// [default: 3000].
    #[arg(long, value_name = "MS", env = "JOBCENTRE_TICK")]
    tick: Option<Tick>,

    /// The certificate (PEM) of listeners with tls:, followed by those of the authorities that lead
    /// to it. It is read again on SIGHUP, and within a minute after a change [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_TLS_CERT")]
    tls_cert: Option<PathBuf>,

    /// The private key (PEM) of --tls-cert; best one of ECDSA [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_TLS_KEY")]
    tls_key: Option<PathBuf>,

    /// Certificates (PEM) of authorities that vouch for clients of listeners with tls: clients are
    /// asked for certificates [default: none, clients are not asked].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_TLS_CLIENT_CA")]
    tls_client_ca: Option<PathBuf>,

    /// Lists (PEM) of certificates of clients that are revoked [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_TLS_CLIENT_CRL")]
    tls_client_crl: Option<PathBuf>,

    /// Whether clients must have a certificate of --tls-client-ca, or may [default: required].
    #[arg(long, value_name = "WHEN", env = "JOBCENTRE_TLS_CLIENT_AUTH")]
    tls_client_auth: Option<ClientAuth>,

    /// The directory in which jobs survive restarts and crashes; made if need be [default: none,
    /// jobs live in memory].
    #[arg(long, value_name = "DIR", env = "JOBCENTRE_DATA")]
    data: Option<PathBuf>,

    /// When a change is on the disk: before it is answered (always), so often (50ms, 1s), or when
    /// the system thinks fit (never) [default: always].
    #[arg(long, value_name = "WHEN", env = "JOBCENTRE_FSYNC")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    fsync: Option<Fsync>,

    /// The Redis or Valkey in which jobs are kept in place of --data: redis://HOST:PORT/DB, without
    /// :PORT if it is 6379, without /DB if it is 0; redis+sentinel://HOST,HOST,HOST/SERVICE/DB for
    /// the primary that Sentinels know; redis+cluster://HOST,HOST for a cluster; rediss in place of
    /// redis for TLS. Of several servers with the same one, one leads; the others forward clients
    /// to it, and wait to take over. Its password: JOBCENTRE_ENGINE_PASSWORD or
    /// --engine-password-file [default: none].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "URL", env = "JOBCENTRE_ENGINE")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    engine: Option<EngineUrl>,

    /// The file with the password of --engine, in its first line [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_PASSWORD_FILE")]
    engine_password_file: Option<PathBuf>,

    /// The user for Sentinels that know users [default: their default user].
    #[arg(long, value_name = "NAME", env = "JOBCENTRE_ENGINE_SENTINEL_USER")]
    engine_sentinel_user: Option<String>,

    /// The file with the password that Sentinels ask for, in its first line [default: the variable
    /// JOBCENTRE_ENGINE_SENTINEL_PASSWORD].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_SENTINEL_PASSWORD_FILE")]
    engine_sentinel_password_file: Option<PathBuf>,

    /// Certificates (PEM) of the authorities that vouch for an --engine with TLS: no others are
    /// trusted then [default: those that browsers trust].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_CA")]
    engine_ca: Option<PathBuf>,

    /// The certificate (PEM) by which an --engine with TLS knows this server [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_CERT")]
    engine_cert: Option<PathBuf>,

    /// The private key (PEM) of --engine-cert [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_KEY")]
    engine_key: Option<PathBuf>,

    /// For how long a server of --engine leads after its last word: so long another one waits
    /// before it takes over (500ms, 3s) [default: 3s].
    #[arg(long, value_name = "TIME", env = "JOBCENTRE_ENGINE_LEASE")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    engine_lease: Option<BoundedDuration<EngineLease>>,

    /// How long --engine may be away until requests are refused, and at the start until it is given
    /// up (1s, 1min) [default: 10s].
    #[arg(long, value_name = "TIME", env = "JOBCENTRE_ENGINE_PATIENCE")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    engine_patience: Option<BoundedDuration<EnginePatience>>,

    /// For how long a server of --engine that is told to end waits until another one has read all
    /// jobs and can lead at once; 0s: it does not wait [default: 20s].
    #[arg(long, value_name = "TIME", env = "JOBCENTRE_ENGINE_HAND_OVER")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    engine_hand_over: Option<BoundedDuration<EngineHandOver>>,

    /// How many replicas of --engine have a change before it is answered: a number, or auto, which
    /// is 1 as long as the primary has a replica, else 0 [default: auto].
    #[arg(long, value_name = "N", env = "JOBCENTRE_ENGINE_WAIT")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    engine_wait: Option<EngineWait>,

    /// What the keys in --engine begin with: servers with another prefix have other jobs [default:
    /// jc].
    #[arg(long, value_name = "TEXT", env = "JOBCENTRE_ENGINE_PREFIX")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    engine_prefix: Option<EnginePrefix>,

    /// How this server is called by the others of its --engine, in their logs and GET /health: best
    /// where clients reach it, HOST:PORT [default: its host and the port of its first listener].
    #[arg(long, value_name = "NAME", env = "JOBCENTRE_SERVER_NAME")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    server_name: Option<ServerName>,

    /// The name or address by which the other servers of --engine reach this one, to forward their
    /// clients while it leads [default: the address of each listener, or the name of the machine if
    /// that is a wildcard].
    #[arg(long, value_name = "HOST", env = "JOBCENTRE_ADVERTISE")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    advertise: Option<AdvertisedHost>,

    /// Whether a server that waits to lead forwards its clients to the one that leads: on, or off,
    /// by which all its listeners are closed but --http [default: on].
    #[arg(long, value_name = "on|off", env = "JOBCENTRE_ENGINE_FORWARD")]
    engine_forward: Option<ForwardSwitch>,

    /// The longest request line in bytes, or with KiB or MiB; a longer one is refused and skipped.
    /// A body of an HTTP request may have 64 KiB more [default: 1MiB].
    #[arg(long, value_name = "SIZE", env = "JOBCENTRE_MAX_REQUEST")]
    #[arg(value_parser = bounded::parse_max_request)]
    #[serde(default, deserialize_with = "bounded::deserialize_max_request")]
    max_request: Option<Size>,

    /// How many clients are served at a time; further ones are told so and closed [default: 10000].
    #[arg(long, value_name = "N", env = "JOBCENTRE_MAX_CLIENTS")]
    #[arg(value_parser = bounded::parse_max_clients)]
    #[serde(default, deserialize_with = "bounded::deserialize_max_clients")]
    max_clients: Option<usize>,

    /// How much memory jobs, the tables about them and the buffers of clients may take, in bytes or
    /// with KiB, MiB or GiB: beyond it puts are refused until jobs are deleted, and everything else
    /// goes on. The process takes some more [default: none].
    #[arg(long, value_name = "SIZE", env = "JOBCENTRE_MAX_MEMORY")]
    #[arg(value_parser = bounded::parse_max_memory)]
    #[serde(default, deserialize_with = "bounded::deserialize_max_memory")]
    max_memory: Option<Size>,

    /// How long a query over HTTP may take before it is stopped (500ms, 5s) [default: 5s].
    #[arg(long, value_name = "TIME", env = "JOBCENTRE_QUERY_TIMEOUT")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    query_timeout: Option<BoundedDuration<QueryTimeout>>,

    /// How long the result of a job that was put through LightJQ is kept until it is fetched, and
    /// an error anyway (30s, 1h) [default: 1h].
    #[arg(long, value_name = "TIME", env = "JOBCENTRE_RESULT_TTL")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    result_ttl: Option<BoundedDuration<ResultTtl>>,

    /// Certificates (PEM) of authorities that may vouch for workers called by https, besides those
    /// that browsers trust [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_WORKER_CA")]
    worker_ca: Option<PathBuf>,

    /// Which addresses workers that are called may have: public, private, loopback, any, addresses,
    /// or networks such as 10.1.0.0/16, with commas between them. It is checked at each call, after
    /// the name was looked up [default: any; public if --http listens beyond loopback].
    #[arg(long, value_name = "NET,...", env = "JOBCENTRE_WORKER_NET")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    worker_net: Option<AddressSet>,

    /// How log lines on stderr look [default: human, or processor with --processor].
    #[arg(long, value_name = "FORMAT", env = "JOBCENTRE_LOG_FORMAT")]
    log_format: Option<Format>,

    /// The least important log lines that are written [default: info].
    #[arg(long, value_name = "LEVEL", env = "JOBCENTRE_LOG_LEVEL")]
    log_level: Option<Level>,

    /// Constraints: in the file only.
    #[arg(skip)]
    #[serde(rename = "constraint", default, deserialize_with = "constraint_tables::deserialize")]
    constraints: Option<Vec<Constraint>>,

    /// Users: in the file only.
    #[arg(skip)]
    #[serde(rename = "user", default, deserialize_with = "user_tables::deserialize")]
    users: Option<Vec<UserSpec>>,
}

/// All settings, complete.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Config {
    pub(in crate::cli) protocols: Vec<(Protocol, ListenAddress)>,
    pub(in crate::cli) beanstalkd_max_job_size: usize,
    pub(in crate::cli) http_names: Vec<Box<str>>,
    pub(in crate::cli) ui: UiSettings,
    pub(in crate::cli) allow_anyone: bool,
    pub(in crate::cli) processor: bool,
    pub(in crate::cli) tick: Duration,
    pub(in crate::cli) tls: TlsSettings,
    pub(in crate::cli) data: Option<PathBuf>,
    pub(in crate::cli) fsync: SyncMode,
    pub(in crate::cli) engine: Option<EngineConfig>,
    /// A setting of an engine that is given without one.
    pub(in crate::cli) stray_engine_setting: Option<&'static str>,
    pub(in crate::cli) max_request: usize,
    pub(in crate::cli) max_clients: usize,
    pub(in crate::cli) max_memory: Option<u64>,
    pub(in crate::cli) query_timeout: Duration,
    pub(in crate::cli) result_ttl: Duration,
    pub(in crate::cli) worker_ca: Option<PathBuf>,
    pub(in crate::cli) worker_net: Option<AddressSet>,
    pub(in crate::cli) log_format: Format,
    pub(in crate::cli) log_level: Level,
    pub(in crate::cli) constraints: Vec<Constraint>,
    pub(in crate::cli) users: Vec<UserSpec>,
    /// The users of the listeners, in the order of `protocols`.
    pub(in crate::cli) listener_users: Vec<Option<Box<str>>>,
    /// The sockets of listeners with fd:, in the order of `protocols`.
    pub(in crate::cli) passed: Vec<Option<PassedSocket>>,
    /// Run as the program of beanstalkd, with its flags.
    pub(in crate::cli) as_beanstalkd: bool,
}

impl Options {
    /// Reads a TOML file.
    ///
    /// # Errors
    /// A message with file, line and reason.
    pub(in crate::cli) fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::from_text(path, &text)
    }

    /// Reads the text of a TOML file.
    ///
    /// # Errors
    /// As above.
    pub(in crate::cli) fn from_text(path: &Path, text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            format!("{}, {}", path.display(), errors::explain_toml_error(text, &error))
        })
    }

    /// Fills what is not set from `fallback`.
    pub(in crate::cli) fn or(self, fallback: Self) -> Self {
        Self {
            listen: self.listen.or(fallback.listen),
            pinpriq: self.pinpriq.or(fallback.pinpriq),
            http: self.http.or(fallback.http),
            beanstalkd: self.beanstalkd.or(fallback.beanstalkd),
            beanstalkd_max_job_size: self
                .beanstalkd_max_job_size
                .or(fallback.beanstalkd_max_job_size),
            http_names: self.http_names.or(fallback.http_names),
            ui: self.ui.or(fallback.ui),
            ui_label: self.ui_label.or(fallback.ui_label),
            allow_anyone: self.allow_anyone.or(fallback.allow_anyone),
            processor: self.processor.or(fallback.processor),
            tick: self.tick.or(fallback.tick),
            tls_cert: self.tls_cert.or(fallback.tls_cert),
            tls_key: self.tls_key.or(fallback.tls_key),
            tls_client_ca: self.tls_client_ca.or(fallback.tls_client_ca),
            tls_client_crl: self.tls_client_crl.or(fallback.tls_client_crl),
            tls_client_auth: self.tls_client_auth.or(fallback.tls_client_auth),
            data: self.data.or(fallback.data),
            fsync: self.fsync.or(fallback.fsync),
            engine: self.engine.or(fallback.engine),
            engine_password_file: self.engine_password_file.or(fallback.engine_password_file),
            engine_sentinel_user: self.engine_sentinel_user.or(fallback.engine_sentinel_user),
            engine_sentinel_password_file: self
                .engine_sentinel_password_file
                .or(fallback.engine_sentinel_password_file),
            engine_ca: self.engine_ca.or(fallback.engine_ca),
            engine_cert: self.engine_cert.or(fallback.engine_cert),
            engine_key: self.engine_key.or(fallback.engine_key),
            engine_lease: self.engine_lease.or(fallback.engine_lease),
            engine_patience: self.engine_patience.or(fallback.engine_patience),
            engine_hand_over: self.engine_hand_over.or(fallback.engine_hand_over),
            engine_wait: self.engine_wait.or(fallback.engine_wait),
            engine_prefix: self.engine_prefix.or(fallback.engine_prefix),
            server_name: self.server_name.or(fallback.server_name),
            advertise: self.advertise.or(fallback.advertise),
            engine_forward: self.engine_forward.or(fallback.engine_forward),
            max_request: self.max_request.or(fallback.max_request),
            max_clients: self.max_clients.or(fallback.max_clients),
            max_memory: self.max_memory.or(fallback.max_memory),
            query_timeout: self.query_timeout.or(fallback.query_timeout),
            result_ttl: self.result_ttl.or(fallback.result_ttl),
            worker_ca: self.worker_ca.or(fallback.worker_ca),
            worker_net: self.worker_net.or(fallback.worker_net),
            log_format: self.log_format.or(fallback.log_format),
            log_level: self.log_level.or(fallback.log_level),
            constraints: self.constraints.or(fallback.constraints),
            users: self.users.or(fallback.users),
        }
    }

    /// Takes out what is about the engine that servers share, if there is one.
    fn take_engine(&mut self) -> Option<EngineConfig> {
        EngineConfig::new(
            self.engine.take(),
            EngineLogin {
                password_file: self.engine_password_file.take(),
                sentinel_user: self.engine_sentinel_user.take(),
                sentinel_password_file: self.engine_sentinel_password_file.take(),
            },
            EngineTls {
                ca: self.engine_ca.take(),
                cert: self.engine_cert.take(),
                key: self.engine_key.take(),
            },
            (self.engine_lease.take(), self.engine_patience.take(), self.engine_hand_over.take()),
            self.engine_wait.take(),
            (self.engine_prefix.take(), self.server_name.take()),
            (self.advertise.take(), self.engine_forward.take()),
        )
    }

    /// Fills in the defaults.
    pub(in crate::cli) fn complete(mut self) -> Config {
        let stray_engine_setting = self.stray_engine_setting();
        let mut engine = self.take_engine();
        let processor = self.processor.unwrap_or(false);
        let default_address = |protocol: Protocol| {
            let address = SocketAddr::from(([127, 0, 0, 1], protocol.default_port()));
            if processor { ListenAddr::Disabled } else { ListenAddr::Addr(address) }
        };
        let addresses = [
            (
                Protocol::JobCentre,
                self.listen.unwrap_or_else(|| default_address(Protocol::JobCentre)),
            ),
            (Protocol::Pinpriq, self.pinpriq.unwrap_or(ListenAddr::Disabled)),
            (Protocol::Http, self.http.unwrap_or_else(|| default_address(Protocol::Http))),
            (Protocol::Beanstalkd, self.beanstalkd.unwrap_or(ListenAddr::Disabled)),
        ];
        let (mut protocols, mut listener_users) = (Vec::new(), Vec::new());
        for (protocol, address) in addresses {
            let (address, user) = address.address();
            if let Some(address) = address {
                protocols.push((protocol, address));
                listener_users.push(user);
            }
        }
        if let Some(engine) = &mut engine {
            engine.name_by(&protocols);
        }
        let names = self.http_names.unwrap_or_default();
        let default_format = if processor { Format::Processor } else { Format::Human };
        let max_request = self.max_request.map_or(REQUEST_BYTES_DEFAULT, |size| size.0);
        let max_job = self.beanstalkd_max_job_size.map_or(BODY_BYTES_DEFAULT, |size| size.0);
        Config {
            protocols,
            beanstalkd_max_job_size: max_job.min(max_request),
            http_names: names.into_iter().map(|name| name.0).collect(),
            ui: UiSettings {
                is_on: self.ui != Some(UiSwitch::Off),
                label: self.ui_label.map(|label| label.0).unwrap_or_default(),
            },
            allow_anyone: self.allow_anyone.unwrap_or(false),
            processor,
            tick: self.tick.unwrap_or_default().0,
            tls: TlsSettings {
                certificate: self.tls_cert,
                key: self.tls_key,
                client_authorities: self.tls_client_ca,
                client_revoked: self.tls_client_crl,
                client_auth: self.tls_client_auth,
            },
            data: self.data,
            fsync: self.fsync.map_or(SyncMode::Always, |fsync| fsync.0),
            engine,
            stray_engine_setting,
            max_request,
            max_clients: self.max_clients.unwrap_or(MAX_CLIENTS_DEFAULT),
            max_memory: self.max_memory.map(|size| size.0 as u64),
            query_timeout: self.query_timeout.unwrap_or_default().0,
            result_ttl: self.result_ttl.unwrap_or_default().0,
            worker_ca: self.worker_ca,
            worker_net: self.worker_net,
            log_format: self.log_format.unwrap_or(default_format),
            log_level: self.log_level.unwrap_or(Level::Info),
            constraints: self.constraints.unwrap_or_default(),
            users: self.users.unwrap_or_default(),
            listener_users,
            passed: Vec::new(),
            as_beanstalkd: false,
        }
    }
}

#[cfg(test)]
mod tests;
