//! Users in the settings file: tables `[[user]]`. They are read at the start and on SIGHUP.

use crate::access::{CertificateName, Digest, Permission, UserSpec, Users};
use crate::base::limits::USERS_MAX;
use crate::base::time::Wall;
use crate::cli::settings::errors::located;
use crate::model::driver::Protocol;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::Error as _;
use toml::Spanned;

/// The longest name of a user, in bytes.
const NAME_MAX: usize = 64;

/// A table `[[user]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    name: String,
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    certificates: Vec<String>,
    #[serde(default)]
    uids: Vec<u32>,
    allow: Vec<String>,
    protocols: Option<Vec<String>>,
    until: Option<String>,
}

impl UserTable {
    /// The user. The error is a sentence without its name.
    fn spec(self) -> Result<UserSpec, String> {
        let token = |text: &String| {
            Digest::parse(text).ok_or_else(|| {
                "'tokens' holds something that is no digest: make a token by 'jobcentre token new' \
                 and write the 'sha256:...' that it prints, not the token"
                    .to_owned()
            })
        };
        let certificate = |text: &String| {
            CertificateName::parse(text).ok_or_else(|| {
                format!(
                    "'{text}' in 'certificates' is no name: write CN=NAME, DNS:NAME or URI:NAME"
                )
            })
        };
        Ok(UserSpec {
            tokens: self.tokens.iter().map(token).collect::<Result<_, _>>()?,
            certificates: self.certificates.iter().map(certificate).collect::<Result<_, _>>()?,
            uids: self.uids,
            allow: self.allow.iter().map(|it| Permission::parse(it)).collect::<Result<_, _>>()?,
            protocols: self.protocols.map(|names| protocols(&names)).transpose()?,
            until: self.until.map(|text| moment(&text)).transpose()?,
            name: self.name.into(),
        })
    }
}

fn protocols(names: &[String]) -> Result<Vec<Protocol>, String> {
    // Users do not apply to the processor, which belongs to the program that starts the server.
    let known = Protocol::ALL.into_iter().filter(|&protocol| protocol != Protocol::Processor);
    let known: Vec<Protocol> = known.collect();
    let find = |name: &String| {
        known.iter().copied().find(|protocol| protocol.name() == name).ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|protocol| protocol.name()).collect();
            format!("'{name}' in 'protocols' is none: there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

fn moment(text: &str) -> Result<Wall, String> {
    let moment: Timestamp = text.parse().map_err(|_| {
        format!("'{text}' in 'until' is no moment: write one such as \"2030-01-31T12:00:00Z\"")
    })?;
    Ok(Wall(u64::try_from(moment.as_millisecond()).unwrap_or(0)))
}

/// Checks the name of a user.
///
/// # Errors
/// A sentence.
pub(in crate::cli) fn check_user_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
    if (1..=NAME_MAX).contains(&name.len()) && is_plain {
        return Ok(());
    }
    Err(format!(
        "the name of a user must be 1 to {NAME_MAX} printable ASCII characters without blanks"
    ))
}

/// Deserializes all tables, and checks that they fit together.
pub(in crate::cli) fn deserialize<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Vec<UserSpec>>, D::Error> {
    let tables = Vec::<Spanned<UserTable>>::deserialize(toml)?;
    if tables.len() > USERS_MAX {
        return Err(D::Error::custom(format!("there are more than {USERS_MAX} users")));
    }
    let mut users = Vec::new();
    for table in tables {
        let (at, table) = (table.span().start, table.into_inner());
        let located = |why: String| D::Error::custom(located(at, &why));
        check_user_name(&table.name).map_err(located)?;
        let name = table.name.clone();
        users.push(table.spec().map_err(|why| located(format!("user '{name}': {why}")))?);
    }
    Users::new(users.clone()).map_err(D::Error::custom)?;
    Ok(Some(users))
}
