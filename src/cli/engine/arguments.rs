//! The arguments of all verbs about a shared engine: where it is.

use super::connection::Connection;
use crate::cli::settings::engine::{EngineConfig, EngineLogin, EnginePrefix, EngineTls};
use crate::cli::settings::engine_url::EngineUrl;
use crate::engine::shared::Settings;
use crate::engine::shared::redis::{Locator, Requests, StartError};
use crate::reactor::TrustStore;
use clap::Args;
use std::path::PathBuf;

/// Where the engine is.
#[derive(Args, Debug)]
pub(in crate::cli) struct EngineArguments {
    /// The Redis or Valkey that the servers share, as for serve: redis://HOST:PORT/DB.
    #[arg(long, value_name = "URL", env = "JOBCENTRE_ENGINE")]
    engine: EngineUrl,

    /// The file with its password [default: the variable JOBCENTRE_ENGINE_PASSWORD].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_PASSWORD_FILE")]
    engine_password_file: Option<PathBuf>,

    /// The user for Sentinels that know users [default: their default user].
    #[arg(long, value_name = "NAME", env = "JOBCENTRE_ENGINE_SENTINEL_USER")]
    engine_sentinel_user: Option<String>,

    /// The file with the password that Sentinels ask for [default: the variable
    /// JOBCENTRE_ENGINE_SENTINEL_PASSWORD].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_SENTINEL_PASSWORD_FILE")]
    engine_sentinel_password_file: Option<PathBuf>,

    /// Certificates (PEM) of the authorities that vouch for it over TLS [default: those that
    /// browsers trust].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_CA")]
    engine_ca: Option<PathBuf>,

    /// The certificate (PEM) by which it knows this program over TLS [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_CERT")]
    engine_cert: Option<PathBuf>,

    /// The private key (PEM) of --engine-cert [default: none].
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_ENGINE_KEY")]
    engine_key: Option<PathBuf>,

    /// What the keys begin with [default: jc].
    #[arg(long, value_name = "TEXT", env = "JOBCENTRE_ENGINE_PREFIX")]
    engine_prefix: Option<EnginePrefix>,
}

/// A connection to the engine, logged in.
pub(super) struct Reached {
    pub(super) connection: Connection,
    pub(super) settings: Settings,
    pub(super) requests: Requests,
    /// The certificates that are trusted.
    pub(super) trust: TrustStore,
}

impl Reached {
    /// A sentence with the engine's address.
    pub(super) fn explain(settings: &Settings, why: &StartError) -> String {
        format!("{}: {why}", settings.address)
    }
}

impl EngineArguments {
    /// Connects and logs in.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn reach(self) -> Result<Reached, String> {
        let tls = EngineTls { ca: self.engine_ca, cert: self.engine_cert, key: self.engine_key };
        let login = EngineLogin {
            password_file: self.engine_password_file,
            sentinel_user: self.engine_sentinel_user,
            sentinel_password_file: self.engine_sentinel_password_file,
        };
        let (url, prefix) = (self.engine, self.engine_prefix);
        let none = (None, None, None);
        let config =
            EngineConfig::new(Some(url), login, tls, none, None, (prefix, None), (None, None));
        let config = config.ok_or("there is no --engine")?;
        let settings = super::settings(&config, "")?;
        let requests = Requests::new(&settings);
        let explain = |why: StartError| Reached::explain(&settings, &why);
        let (mut locator, trust) = (Locator::new(settings.address.clone()), config.trust()?);
        let connection = Connection::reach(&mut locator, &requests, &trust);
        let connection = connection.map_err(explain)?;
        Ok(Reached { connection, settings, requests, trust })
    }
}
