//! The settings of `serve`, from three sources: flags, then `JOBCENTRE_*` variables, then a TOML
//! file.
//!
//! [`Options`] is parsed from all three, so every setting exists in each source.

use super::duration::{BoundedDuration, QueryTimeout, ResultTtl};
use super::fsync::Fsync;
use super::http_name::{self, HttpName};
use super::listen_addr::ListenAddr;
use super::size::Size;
use super::tick::Tick;
use super::tls::{ClientAuth, TlsSettings};
use super::{constraint_tables, errors, from_text, whole_number};
use crate::base::limits::{
    BODY_BYTES_DEFAULT, MAX_CLIENTS_DEFAULT, MAX_CLIENTS_MAX, REQUEST_BYTES_CEILING,
    REQUEST_BYTES_DEFAULT, REQUEST_BYTES_FLOOR,
};
use crate::cli::log::{Format, Level};
use crate::journal::SyncMode;
use crate::model::driver::Protocol;
use crate::model::worker::Constraint;
use crate::reactor::{ListenAddress, TlsFiles};
use clap::Args;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Smallest `--max-memory`: some jobs fit.
const MEMORY_FLOOR_BYTES: usize = 64 * 1024;

/// The settings of one source. `None`: the next source decides.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in crate::cli) struct Options {
    /// Where Job Centre clients (JSON lines) connect: HOST:PORT, :PORT, tls:HOST:PORT,
    /// unix:PATH or off [default: 127.0.0.1:11400, or off with --processor].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_LISTEN")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    listen: Option<ListenAddr>,

    /// Where clients of the networked priority queue (binary packets) connect: HOST:PORT, :PORT,
    /// tls:HOST:PORT, unix:PATH or off [default: off; their usual port is 11401].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_PINPRIQ")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    pinpriq: Option<ListenAddr>,

    /// Where HTTP clients (LightJQ, Jobq, health) connect: HOST:PORT, :PORT, tls:HOST:PORT,
    /// unix:PATH or off [default: 127.0.0.1:11480, or off with --processor].
    #[arg(long, value_name = "ADDR", env = "JOBCENTRE_HTTP")]
    #[serde(default, deserialize_with = "from_text::deserialize")]
    http: Option<ListenAddr>,

    /// Where clients of beanstalkd connect: HOST:PORT, :PORT, tls:HOST:PORT, unix:PATH or off
    /// [default: off; their usual port is 11300].
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

    /// Serve every client of other machines: without this a listener that they reach has to ask for
    /// certificates (tls: with --tls-client-ca) [default: false].
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

    /// The longest request line in bytes, or with KiB or MiB; a longer one is refused and skipped.
    /// A body of an HTTP request may have 64 KiB more [default: 1MiB].
    #[arg(long, value_name = "SIZE", env = "JOBCENTRE_MAX_REQUEST")]
    #[arg(value_parser = parse_max_request)]
    #[serde(default, deserialize_with = "deserialize_max_request")]
    max_request: Option<Size>,

    /// How many clients are served at a time; further ones are told so and closed [default: 10000].
    #[arg(long, value_name = "N", env = "JOBCENTRE_MAX_CLIENTS")]
    #[arg(value_parser = parse_max_clients)]
    #[serde(default, deserialize_with = "deserialize_max_clients")]
    max_clients: Option<usize>,

    /// How much memory jobs, the tables about them and the buffers of clients may take, in bytes or
    /// with KiB, MiB or GiB: beyond it puts are refused until jobs are deleted, and everything else
    /// goes on. The process takes some more [default: none].
    #[arg(long, value_name = "SIZE", env = "JOBCENTRE_MAX_MEMORY")]
    #[arg(value_parser = parse_max_memory)]
    #[serde(default, deserialize_with = "deserialize_max_memory")]
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
}

/// All settings, complete.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Config {
    pub(in crate::cli) protocols: Vec<(Protocol, ListenAddress)>,
    pub(in crate::cli) beanstalkd_max_job_size: usize,
    pub(in crate::cli) http_names: Vec<Box<str>>,
    pub(in crate::cli) allow_anyone: bool,
    pub(in crate::cli) processor: bool,
    pub(in crate::cli) tick: Duration,
    pub(in crate::cli) tls: TlsSettings,
    pub(in crate::cli) data: Option<PathBuf>,
    pub(in crate::cli) fsync: SyncMode,
    pub(in crate::cli) max_request: usize,
    pub(in crate::cli) max_clients: usize,
    pub(in crate::cli) max_memory: Option<u64>,
    pub(in crate::cli) query_timeout: Duration,
    pub(in crate::cli) result_ttl: Duration,
    pub(in crate::cli) worker_ca: Option<PathBuf>,
    pub(in crate::cli) log_format: Format,
    pub(in crate::cli) log_level: Level,
    pub(in crate::cli) constraints: Vec<Constraint>,
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
        toml::from_str(&text).map_err(|error| {
            format!("{}, {}", path.display(), errors::explain_toml_error(&text, &error))
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
            max_request: self.max_request.or(fallback.max_request),
            max_clients: self.max_clients.or(fallback.max_clients),
            max_memory: self.max_memory.or(fallback.max_memory),
            query_timeout: self.query_timeout.or(fallback.query_timeout),
            result_ttl: self.result_ttl.or(fallback.result_ttl),
            worker_ca: self.worker_ca.or(fallback.worker_ca),
            log_format: self.log_format.or(fallback.log_format),
            log_level: self.log_level.or(fallback.log_level),
            constraints: self.constraints.or(fallback.constraints),
        }
    }

    /// Fills in the defaults.
    pub(in crate::cli) fn complete(self) -> Config {
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
        let mut protocols = Vec::new();
        for (protocol, address) in addresses {
            if let Some(address) = address.address() {
                protocols.push((protocol, address));
            }
        }
        let names = self.http_names.unwrap_or_default();
        let default_format = if processor { Format::Processor } else { Format::Human };
        let max_request = self.max_request.map_or(REQUEST_BYTES_DEFAULT, |size| size.0);
        let max_job = self.beanstalkd_max_job_size.map_or(BODY_BYTES_DEFAULT, |size| size.0);
        Config {
            protocols,
            beanstalkd_max_job_size: max_job.min(max_request),
            http_names: names.into_iter().map(|name| name.0).collect(),
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
            max_request,
            max_clients: self.max_clients.unwrap_or(MAX_CLIENTS_DEFAULT),
            max_memory: self.max_memory.map(|size| size.0 as u64),
            query_timeout: self.query_timeout.unwrap_or_default().0,
            result_ttl: self.result_ttl.unwrap_or_default().0,
            worker_ca: self.worker_ca,
            log_format: self.log_format.unwrap_or(default_format),
            log_level: self.log_level.unwrap_or(Level::Info),
            constraints: self.constraints.unwrap_or_default(),
            as_beanstalkd: false,
        }
    }
}

impl Config {
    /// The files of TLS listeners, if there are such listeners.
    ///
    /// # Errors
    /// A sentence about settings that do not fit together.
    pub(in crate::cli) fn tls_files(&self) -> Result<Option<TlsFiles>, String> {
        self.tls.clone().files(self.protocols.iter().map(|(_, address)| address))
    }

    /// The listeners that other machines reach, and that do not ask who connects.
    pub(in crate::cli) fn open_listeners(
        &self,
    ) -> impl Iterator<Item = &(Protocol, ListenAddress)> {
        let asks_clients = self.tls.asks_clients();
        self.protocols.iter().filter(move |(_, address)| match address {
            ListenAddress::Tls(_) if asks_clients => false,
            ListenAddress::Tcp(at) | ListenAddress::Tls(at) => {
                !at.ip().to_canonical().is_loopback()
            }
            ListenAddress::Unix(_) => false,
        })
    }
}

fn check_max_request(size: Size) -> Result<Size, String> {
    if (REQUEST_BYTES_FLOOR..=REQUEST_BYTES_CEILING).contains(&size.0) {
        Ok(size)
    } else {
        Err(format!(
            "a size from {REQUEST_BYTES_FLOOR} to {REQUEST_BYTES_CEILING} bytes is possible"
        ))
    }
}

fn check_max_memory(size: Size) -> Result<Size, String> {
    if size.0 >= MEMORY_FLOOR_BYTES {
        Ok(size)
    } else {
        Err(format!("a size from {} KiB on is possible", MEMORY_FLOOR_BYTES >> 10))
    }
}

fn check_max_clients(count: usize) -> Result<usize, String> {
    if (1..=MAX_CLIENTS_MAX).contains(&count) {
        Ok(count)
    } else {
        Err(format!("a number from 1 to {MAX_CLIENTS_MAX} is possible"))
    }
}

fn parse_max_request(text: &str) -> Result<Size, String> {
    check_max_request(text.parse()?)
}

fn parse_max_memory(text: &str) -> Result<Size, String> {
    check_max_memory(text.parse()?)
}

fn parse_max_clients(text: &str) -> Result<usize, String> {
    check_max_clients(whole_number::parse(text)?)
}

fn deserialize_max_request<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Size>, D::Error> {
    let size = Size::deserialize(toml)?;
    check_max_request(size).map(Some).map_err(serde::de::Error::custom)
}

fn deserialize_max_memory<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Size>, D::Error> {
    let size = Size::deserialize(toml)?;
    check_max_memory(size).map(Some).map_err(serde::de::Error::custom)
}

fn deserialize_max_clients<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<usize>, D::Error> {
    // Any integer of TOML is accepted here, so that the message about the range is ours.
    let count = usize::try_from(i64::deserialize(toml)?).unwrap_or(0);
    check_max_clients(count).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(address: &str) -> ListenAddress {
        ListenAddress::Tcp(address.parse().unwrap())
    }

    fn options(toml: &str) -> Result<Options, String> {
        toml::from_str(toml).map_err(|error| errors::explain_toml_error(toml, &error))
    }

    #[test]
    fn file_sets_every_setting_that_flags_set() {
        let toml = "listen = ':7'\npinpriq = '[::1]:8'\nhttp = ':9'\nhttp-name = 'h'\ndata = 'd'\n\
                    fsync = '50ms'\nmax-request = '64KiB'\nmax-clients = 9\nmax-memory = '1GiB'\n\
                    query-timeout = '2s'\nresult-ttl = '30s'\n\
                    worker-ca = 'ca.pem'\nprocessor = true\ntick = 500\n\
                    log-format = 'json'\nlog-level = 'warn'\n\
                    [[constraint]]\nname = 'c'\nmatcher = []\nmax_running = 3\n";
        let config = options(toml).unwrap().complete();
        let [lines, packets, http] = ["127.0.0.1:7", "[::1]:8", "127.0.0.1:9"].map(tcp);
        let protocols =
            [(Protocol::JobCentre, lines), (Protocol::Pinpriq, packets), (Protocol::Http, http)];
        assert_eq!(config.protocols, protocols);
        assert_eq!(config.http_names, [Box::from("h")]);
        let names = options("http-name = ['a', 'b.example']").unwrap().complete().http_names;
        assert_eq!(names, [Box::from("a"), Box::from("b.example")]);
        assert_eq!((config.max_request, config.max_clients), (65_536, 9));
        assert_eq!(config.max_memory, Some(1 << 30));
        assert_eq!(config.query_timeout, Duration::from_secs(2));
        assert_eq!(config.result_ttl, Duration::from_secs(30));
        assert!(config.processor);
        assert_eq!(config.tick, Duration::from_millis(500));
        assert_eq!(config.data, Some(PathBuf::from("d")));
        assert_eq!(config.worker_ca, Some(PathBuf::from("ca.pem")));
        assert_eq!(config.fsync, SyncMode::Every(Duration::from_millis(50)));
        assert_eq!((config.log_format, config.log_level), (Format::Json, Level::Warn));
        assert_eq!(config.constraints[0].max_running, Some(3));
        assert_eq!(options("max-request = 100").unwrap().complete().max_request, 100);
    }

    #[test]
    fn error_of_a_file_names_its_line() {
        for invalid in [
            "\nmax-clients = 0",
            "\nmax-clients = 'x'",
            "\nmax-request = '1MB'",
            "\nmax-request = 1",
            "\nmax-memory = '63KiB'",
            "\nmax-memory = -1",
            "\nlisten = '11400'",
            "\npinpriq = true",
            "\nhttp = '11480'",
            "\nhttp-name = 7",
            "\nhttp-name = 'h:80'",
            "\nhttp-name = ['h', 'http://h']",
            "\nfsync = 'sometimes'",
            "\nquery-timeout = 5",
            "\nresult-ttl = 5",
            "\nprocessor = 'yes'",
            "\ntick = 0",
            "\ntick = -1",
            "\ntick = 'soon'",
            "\ntick = 1.5",
            "\nlog-format = 'xml'",
            "\nunknown = 1",
            "\n[[constraint]]\nname = 'c'",
            "\n[constraint]\nname = 'c'",
            "\nlisten = ",
        ] {
            let error = options(invalid).unwrap_err();
            assert!(error.contains("line 2"), "{invalid}: {error}");
        }
    }

    #[test]
    fn earlier_source_has_precedence() {
        let flags = options("max-clients = 1").unwrap();
        let file = options("max-clients = 2\nlisten = 'off'\nhttp = 'off'").unwrap();
        let config = flags.or(file).complete();
        assert_eq!(config.max_clients, 1);
        assert!(config.protocols.is_empty());
        let protocols = Options::default().complete().protocols;
        let [lines, http] = ["127.0.0.1:11400", "127.0.0.1:11480"].map(tcp);
        assert_eq!(protocols, [(Protocol::JobCentre, lines), (Protocol::Http, http)]);
        assert!(!config.processor);
        assert_eq!(config.tick, Duration::from_secs(3));
        assert_eq!(config.max_request, REQUEST_BYTES_DEFAULT);
        assert_eq!(config.query_timeout, Duration::from_secs(5));
        assert_eq!(config.result_ttl, Duration::from_hours(1));
    }

    #[test]
    fn processor_disables_the_default_listeners() {
        let config = options("processor = true").unwrap().complete();
        assert!(config.processor && config.protocols.is_empty());
        assert_eq!(config.log_format, Format::Processor);
        let both = options("processor = true\nhttp = ':7'\nlog-format = 'json'\ntick = '1s'");
        let config = both.unwrap().complete();
        assert_eq!(config.protocols, [(Protocol::Http, tcp("127.0.0.1:7"))]);
        assert_eq!(config.log_format, Format::Json);
        assert_eq!(config.tick, Duration::from_secs(1));
        let not = options("processor = false").unwrap();
        assert!(!not.or(options("processor = true").unwrap()).complete().protocols.is_empty());
    }
}
