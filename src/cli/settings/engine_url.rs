//! The address of `--engine`: one node, or Sentinels that know it, or nodes of a cluster.

use crate::engine::shared::redis::Address;
use crate::model::driver::Target;
use std::str::FromStr;
use std::sync::Arc;

/// The variable with the password: there is no argument, because other programs can read those.
pub(in crate::cli) const PASSWORD_VARIABLE: &str = "JOBCENTRE_ENGINE_PASSWORD";

/// The same of Sentinels.
pub(in crate::cli) const SENTINEL_PASSWORD_VARIABLE: &str = "JOBCENTRE_ENGINE_SENTINEL_PASSWORD";

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Sentinels, or nodes of a cluster, in one address.
const HOSTS_MAX: usize = 32;

const HELP: &str = "give redis://HOST, redis://HOST:PORT, redis://USER@HOST:PORT/DB, or \
                    redis+sentinel://HOST,HOST,HOST/SERVICE, redis+cluster://HOST,HOST,HOST, or \
                    the same with rediss for TLS";

/// What `--engine` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct EngineUrl {
    pub(in crate::cli) address: Address,
    pub(in crate::cli) user: Option<Box<str>>,
    pub(in crate::cli) database: u32,
}

/// One host, with its port or the usual one.
fn target(text: &str, usual_port: u16, tls: bool) -> Result<Arc<Target>, String> {
    if text.is_empty() {
        return Err(format!("a host is missing: {HELP}"));
    }
    let authority: http::uri::Authority =
        text.parse().map_err(|error| format!("{text:?}: {error}: {HELP}"))?;
    let host = authority.host();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = match (authority.port_u16(), text.rsplit_once(':')) {
        (Some(port), _) if port > 0 => port,
        (Some(_), _) => return Err(format!("port 0 is none to connect to: {HELP}")),
        (None, Some((_, port))) if !port.ends_with(']') => {
            return Err(format!("{port:?} is no port: {HELP}"));
        }
        (None, _) => usual_port,
    };
    if host.is_empty() {
        return Err(format!("a host is missing: {HELP}"));
    }
    Ok(Arc::new(Target { host: host.into(), port, tls }))
}

impl FromStr for EngineUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (security, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = security == "rediss";
        if !matches!((security, kind), ("redis" | "rediss", "" | "sentinel" | "cluster")) {
            return Err(format!("this is no address of Redis: {HELP}"));
        }
        if rest.contains('?') {
            return Err(format!("nothing may follow a ?: {HELP}"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') {
            return Err(format!(
                "a password is not given in the address, where other programs can read it: use \
                 {PASSWORD_VARIABLE} or --engine-password-file"
            ));
        }
        let several = |usual_port| {
            if hosts.split(',').count() > HOSTS_MAX {
                return Err(format!("there are more than {HOSTS_MAX} hosts"));
            }
            hosts.split(',').map(|host| target(host, usual_port, tls)).collect::<Result<_, _>>()
        };
        let (address, database) = match kind {
            "sentinel" => {
                let (service, database) = path.split_once('/').unwrap_or((path, ""));
                if service.is_empty() || service.contains(char::is_whitespace) {
                    return Err(format!("the name of the service is missing: {HELP}"));
                }
                let (sentinels, service) = (several(SENTINEL_PORT)?, service.into());
                (Address::Sentinels { sentinels, service }, database)
            }
            "cluster" if !path.is_empty() => {
                return Err(format!("a cluster has no numbers of databases: {HELP}"));
            }
            "cluster" => (Address::Cluster(several(REDIS_PORT)?), ""),
            _ if hosts.contains(',') => return Err(format!("one node has one host: {HELP}")),
            _ => (Address::Node(target(hosts, REDIS_PORT, tls)?), path),
        };
        let number = if database.is_empty() { Ok(0) } else { database.parse() };
        let database = number.map_err(|_| format!("{database:?} is no number of a database"))?;
        Ok(Self {
            address,
            user: Some(user).filter(|user| !user.is_empty()).map(Into::into),
            database,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: u16, tls: bool) -> Arc<Target> {
        Arc::new(Target { host: host.into(), port, tls })
    }

    #[test]
    fn addresses_are_read() {
        for (text, host, port, user, database) in [
            ("redis://h", "h", 6379, None, 0),
            ("redis://h/", "h", 6379, None, 0),
            ("redis://127.0.0.1:7/3", "127.0.0.1", 7, None, 3),
            ("redis://me@h:7", "h", 7, Some("me"), 0),
            ("redis://[::1]:7", "::1", 7, None, 0),
            ("redis://[::1]", "::1", 6379, None, 0),
        ] {
            let url: EngineUrl = text.parse().unwrap();
            assert_eq!(url.address, Address::Node(node(host, port, false)), "{text}");
            assert_eq!((url.user.as_deref(), url.database), (user, database), "{text}");
        }
        let url: EngineUrl = "rediss://me@h/1".parse().unwrap();
        assert_eq!(url.address, Address::Node(node("h", 6379, true)));
        let url: EngineUrl = "redis+sentinel://me@a,b:7,[::1]/jobs/2".parse().unwrap();
        let sentinels = ["a", "b", "::1"].into_iter().zip([26379, 7, 26379]);
        let sentinels = sentinels.map(|(host, port)| node(host, port, false)).collect();
        assert_eq!(url.address, Address::Sentinels { sentinels, service: "jobs".into() });
        assert_eq!((url.user.as_deref(), url.database), (Some("me"), 2));
        let url: EngineUrl = "rediss+cluster://a:7,b".parse().unwrap();
        let nodes = vec![node("a", 7, true), node("b", 6379, true)];
        assert_eq!(url.address, Address::Cluster(nodes));
        assert!("rediss+sentinel://a/n".parse::<EngineUrl>().unwrap().address.has_tls());
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        for (text, why) in [
            ("redis+cluster://a,b/1", "no numbers of databases"),
            ("redis+other://a", "no address"),
            ("http://a", "no address"),
            ("h:6379", "no address"),
            ("redis://", "a host is missing"),
            ("redis://:7", "a host is missing"),
            ("redis://h:x", ""),
            ("redis://u:p@h", "password"),
            ("redis://h/x", "database"),
            ("redis://h/1?x=1", "?"),
            ("redis://a,b", "one host"),
            ("redis+sentinel://a,b", "the name of the service"),
            ("redis+sentinel://a,,b/n", "a host is missing"),
            ("redis+sentinel://a/n/x", "database"),
        ] {
            let error = text.parse::<EngineUrl>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
