//! The start, before the loop: the node is checked, the library loaded, the partition made if need
//! be, and the lead taken. The caller has the connection.

use super::request::Term;
use super::start_error::{CallError, StartError};
use super::{Address, LIBRARY_VERSION, Primary, Requests, SCHEMA, is_passing};
use crate::base::buf::Input;
use crate::engine::shared::limits::ANSWER_BYTES_MAX;
use crate::wire::resp::{Framer, Raw};

/// A connection that waits for each answer.
pub trait Calls {
    /// Sends a request.
    ///
    /// # Errors
    /// The connection is lost.
    fn send(&mut self, request: &[u8]) -> Result<(), CallError>;

    /// Waits for the answer to the first request that has none yet: one whole value.
    ///
    /// # Errors
    /// The connection is lost.
    fn receive(&mut self) -> Result<Vec<u8>, CallError>;

    /// Sends a request, and returns its answer, if no other one is waited for.
    ///
    /// # Errors
    /// The connection is lost.
    fn call(&mut self, request: &[u8]) -> Result<Vec<u8>, CallError> {
        self.send(request)?;
        self.receive()
    }
}

/// What an operator should know of the node.
pub type Warnings = Vec<&'static str>;

/// Whether this server leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// It does, with this term; the last write and the mark of ids.
    Led {
        /// Its epoch.
        epoch: u64,
        /// The sequence of the last write.
        seq: u64,
        /// All ids given so far are below it.
        mark: u64,
    },
    /// Another one does, for this many milliseconds more at least.
    Held {
        /// The name of the other.
        name: String,
        /// Where its clients connect; empty if it does not say.
        addresses: String,
        /// The rest of its lease.
        for_ms: u64,
        /// Whether it offers its lead.
        offered: Offered,
    },
}

/// Whether a leader offers its lead to servers that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It does not.
    No,
    /// It is about to end.
    Yes,
    /// And another server follows it, so as to lead next.
    Followed,
}

/// What is known of the partition, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The fields of its meta.
    pub meta: Vec<(String, String)>,
    /// Base records, and records beside them.
    pub records: (u64, u64),
    /// The names of the servers that wait to lead.
    pub standbys: Vec<String>,
    /// The clock of the node, in milliseconds.
    pub now: u64,
}

/// The value that a call has returned.
pub(super) fn whole(bytes: &[u8]) -> Result<Raw<'_>, StartError> {
    let framed = Framer::new(ANSWER_BYTES_MAX).next(&mut Input::new(bytes));
    framed.ok().flatten().ok_or_else(|| StartError::Fatal("an answer is not whole".to_owned()))
}

/// What a function says when its user may not do what it calls: Redis 7.0, and Valkey.
const IN_FUNCTIONS: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

pub(super) fn explain(error: &[u8]) -> StartError {
    let code = error.split(|&byte| byte == b' ').next().unwrap_or_default();
    let text = String::from_utf8_lossy(error);
    match code {
        b"NOAUTH" => StartError::Fatal(format!(
            "it asks for a password ({text}): give it by JOBCENTRE_ENGINE_PASSWORD or \
             --engine-password-file"
        )),
        b"WRONGPASS" => StartError::Fatal(format!("the password is wrong ({text})")),
        _ if code == b"NOPERM" || IN_FUNCTIONS.iter().any(|words| text.contains(words)) => {
            StartError::Fatal(format!(
                "its user may not do what is needed ({text}): docs/redis.md has the rights in one \
                 line"
            ))
        }
        b"OOM" => StartError::Passing(format!(
            "its memory is full ({text}): let it have more (maxmemory of Redis)"
        )),
        b"MOVED" => StartError::Passing(text.into_owned()),
        _ if super::answer::is_unknown_function(error) => {
            StartError::Passing("its functions are gone: they are loaded again".to_owned())
        }
        _ if is_passing(error) => StartError::Passing(text.into_owned()),
        _ => StartError::Fatal(format!("it answers: {text}")),
    }
}

/// The answer of a function, as its parts; those of errors are explained.
pub(super) fn parts(answer: &[u8]) -> Result<Vec<Raw<'_>>, StartError> {
    let raw = whole(answer)?;
    match raw.error() {
        Some((_, text)) => Err(explain(text)),
        None => Ok(raw.elements().collect()),
    }
}

pub(super) fn number(parts: &[Raw<'_>], place: usize) -> u64 {
    let number = parts.get(place).and_then(|part| part.integer());
    number.and_then(|number| number.try_into().ok()).unwrap_or(0)
}

pub(super) fn text(raw: Option<&Raw<'_>>) -> String {
    String::from_utf8_lossy(raw.and_then(|raw| raw.data()).unwrap_or_default()).into_owned()
}

/// Checks that the node is one that can be used.
///
/// # Errors
/// What has to be mended.
pub fn check_node(calls: &mut dyn Calls, address: &Address) -> Result<Warnings, StartError> {
    let answer = calls.call(&Requests::info())?;
    let raw = whole(&answer)?;
    if let Some((_, error)) = raw.error() {
        return Err(explain(error));
    }
    let text = String::from_utf8_lossy(raw.data().unwrap_or_default());
    check_info(&text, address)
}

fn check_info(text: &str, address: &Address) -> Result<Warnings, StartError> {
    let value = |name: &str| {
        let named = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
        text.lines().find_map(named).unwrap_or_default()
    };
    let fatal = |why: String| Err(StartError::Fatal(why));
    let version = value("redis_version");
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 7) {
        return fatal(format!(
            "its version is {version:?}, and functions are there from Redis 7.0 on, or any Valkey"
        ));
    }
    match (value("cluster_enabled") == "1", address) {
        (true, Address::Node(_) | Address::Sentinels { .. }) => {
            let help = "it is a node of a cluster: begin the address with redis+cluster://";
            return fatal(help.into());
        }
        (false, Address::Cluster(_)) => {
            return fatal("it is no node of a cluster: begin the address with redis://".into());
        }
        _ => {}
    }
    if value("role") != "master" {
        if !matches!(address, Address::Node(_)) {
            let why = "the node that was named is a replica: a failover is under way";
            return Err(StartError::Passing(why.to_owned()));
        }
        return fatal(format!("it is a replica (of {}): name the primary", value("master_host")));
    }
    let policy = value("maxmemory_policy");
    if !policy.is_empty() && policy != "noeviction" {
        return fatal(format!(
            "its maxmemory-policy is {policy}, so it would throw jobs away: set it to noeviction"
        ));
    }
    let mut warnings = Vec::new();
    if value("aof_enabled") != "1" {
        warnings.push(
            "Redis writes no append-only file: answered jobs are lost when it dies (set \
             appendonly yes)",
        );
    }
    Ok(warnings)
}

/// Reads what a node of a cluster has answered to [`Requests::probe`]. `None`: it has the slot.
///
/// # Errors
/// It says something else.
pub fn moved(answer: &[u8]) -> Result<Option<Primary>, StartError> {
    match whole(answer)?.error() {
        None => Ok(None),
        Some((_, error)) => Primary::of_moved(error).map(Some).ok_or_else(|| explain(error)),
    }
}

/// Reads what a Sentinel has answered.
///
/// # Errors
/// It names no primary.
pub fn primary(answer: &[u8]) -> Result<Primary, StartError> {
    let answer = whole(answer)?;
    let code = answer.error().map(|(code, _)| code);
    let fault = if matches!(code, Some(b"NOAUTH" | b"NOPERM")) {
        StartError::Fatal
    } else {
        StartError::Passing
    };
    Primary::read(answer).map_err(fault)
}

/// Makes sure that the library is there, at least as new as this one.
///
/// # Errors
/// It cannot be loaded.
pub(super) fn load_library(calls: &mut dyn Calls) -> Result<(), StartError> {
    let answer = calls.call(&Requests::version())?;
    let raw = whole(&answer)?;
    if let Some((_, error)) = raw.error()
        && !super::answer::is_unknown_function(error)
    {
        return Err(explain(error));
    }
    if raw.integer().is_some_and(|version| version >= LIBRARY_VERSION) {
        return Ok(());
    }
    let answer = calls.call(&Requests::load_library())?;
    whole(&answer)?.error().map_or(Ok(()), |(_, error)| Err(explain(error)))
}

/// Loads the library, and makes the partition if there is none. Returns its birth. With the birth
/// of a partition that is `known` nothing is made: taking the lead finds whether it is there.
///
/// # Errors
/// What has to be mended.
pub fn init(
    calls: &mut dyn Calls,
    requests: &Requests,
    (birth, known): (u64, Option<&[u8]>),
) -> Result<Vec<u8>, StartError> {
    load_library(calls)?;
    if let Some(known) = known {
        return Ok(known.to_vec());
    }
    let answer = calls.call(&requests.init(SCHEMA, birth))?;
    let parts = parts(&answer)?;
    let (schema, partitions) = (number(&parts, 0), number(&parts, 1));
    if schema != SCHEMA {
        return Err(StartError::Fatal(format!(
            "its jobs have schema {schema}, and this version ({}) reads {SCHEMA}: start the \
             version that wrote them, or take another --engine-prefix",
            env!("CARGO_PKG_VERSION")
        )));
    }
    if partitions != 1 {
        let why = format!("its jobs lie in {partitions} partitions, and this version has one");
        return Err(StartError::Fatal(why));
    }
    Ok(parts.get(3).and_then(|birth| birth.data()).unwrap_or_default().to_vec())
}

/// Registers this server as one that waits to lead. Returns whether a leader offers its lead, and
/// no server follows it.
///
/// # Errors
/// See [`StartError`].
pub fn register(calls: &mut dyn Calls, requests: &Requests) -> Result<bool, StartError> {
    let answer = calls.call(&requests.hello())?;
    Ok(parts(&answer)?.get(4).and_then(|word| word.data()) == Some(b"yes"))
}

/// This server waits no more.
///
/// # Errors
/// The connection is lost: it is forgotten after the time of a lease.
pub fn leave(calls: &mut dyn Calls, requests: &Requests) -> Result<(), StartError> {
    calls.call(&requests.leave())?;
    Ok(())
}

/// Takes the lead, if no server has it.
///
/// # Errors
/// See [`StartError`].
pub fn lead(calls: &mut dyn Calls, requests: &Requests, birth: &[u8]) -> Result<Lead, StartError> {
    let answer = calls.call(&requests.lead(birth, 0))?;
    Lead::read(whole(&answer)?)
}

impl Lead {
    /// Reads the answer of the function.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn read(answer: Raw<'_>) -> Result<Self, StartError> {
        if let Some((_, error)) = answer.error() {
            return Err(explain(error));
        }
        let parts: Vec<Raw<'_>> = answer.elements().collect();
        match parts.first().and_then(|word| word.data()) {
            Some(b"LED") => Ok(Self::Led {
                epoch: number(&parts, 1),
                seq: number(&parts, 2),
                mark: number(&parts, 3),
            }),
            Some(b"HELD") => Ok(Self::Held {
                name: text(parts.get(1)),
                addresses: text(parts.get(3)),
                for_ms: number(&parts, 2),
                offered: match parts.get(4).and_then(|word| word.data()) {
                    Some(b"yes") => Offered::Yes,
                    Some(b"followed") => Offered::Followed,
                    _ => Offered::No,
                },
            }),
            _ => Err(StartError::Fatal(
                "the jobs that were there are gone (FLUSHALL, a restart of Redis without its \
                 files, another backup), and with them the ids that were given: restore Redis \
                 with all servers stopped, or start this server again to begin with no jobs"
                    .to_owned(),
            )),
        }
    }
}

impl Requests {
    /// Gives the lead back before anything was written.
    ///
    /// # Errors
    /// The connection is lost: others wait for the end of the lease.
    pub fn give_back(&self, calls: &mut dyn Calls, term: (&[u8], u64)) -> Result<(), StartError> {
        let term = Term { birth: term.0.to_vec(), epoch: term.1 };
        calls.call(&self.resign(&term, None))?;
        Ok(())
    }
}

/// Asks for what is known of the partition. `None`: there is none.
///
/// # Errors
/// See [`StartError`].
pub fn status(calls: &mut dyn Calls, requests: &Requests) -> Result<Option<Status>, StartError> {
    let answer = calls.call(&requests.status())?;
    let raw = whole(&answer)?;
    if let Some((_, error)) = raw.error() {
        let unknown = super::answer::is_unknown_function(error);
        return if unknown { Ok(None) } else { Err(explain(error)) };
    }
    let parts: Vec<Raw<'_>> = raw.elements().collect();
    let pairs = parts.first().into_iter().flat_map(|meta| meta.entries());
    let meta: Vec<_> = pairs.map(|(name, value)| (text(Some(&name)), text(Some(&value)))).collect();
    if meta.is_empty() {
        return Ok(None);
    }
    let names = parts.get(3).into_iter().flat_map(|names| names.elements());
    Ok(Some(Status {
        meta,
        // Each hash has a field that keeps it from being empty.
        records: (number(&parts, 1).saturating_sub(1), number(&parts, 2).saturating_sub(1)),
        standbys: names.map(|name| text(Some(&name))).collect(),
        now: number(&parts, 4),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::driver::Target;
    use std::sync::Arc;

    const GOOD: &str = "redis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n\
                        aof_enabled:1\r\ncluster_enabled:0\r\n";

    fn check(text: &str) -> Result<Warnings, StartError> {
        let target = Target { host: "h".into(), port: 1, tls: false };
        check_info(text, &Address::Node(Arc::new(target)))
    }

    #[test]
    fn node_is_judged_by_its_info() {
        assert_eq!(check(GOOD), Ok(Vec::new()));
        assert_eq!(check(&GOOD.replace("aof_enabled:1", "aof_enabled:0")).unwrap().len(), 1);
        for (good, bad, why) in [
            ("7.2.4", "6.2.1", "7.0"),
            ("role:master", "role:slave\r\nmaster_host:h", "replica (of h)"),
            ("noeviction", "allkeys-lru", "noeviction"),
            ("cluster_enabled:0", "cluster_enabled:1", "cluster"),
        ] {
            let StartError::Fatal(text) = check(&GOOD.replace(good, bad)).unwrap_err() else {
                panic!("{bad} may pass by itself")
            };
            assert!(text.contains(why), "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_do() {
        assert!(matches!(primary(b"-NOAUTH x\r\n"), Err(StartError::Fatal(_))));
        assert!(matches!(primary(b"-LOADING x\r\n"), Err(StartError::Passing(_))));
        assert!(explain(b"NOAUTH x").to_string().contains("JOBCENTRE_ENGINE_PASSWORD"));
        assert_eq!(explain(b"LOADING x"), StartError::Passing("LOADING x".into()));
        assert!(matches!(explain(b"ERR Function not found"), StartError::Passing(_)));
        for missing in [
            &b"NOPERM x"[..],
            b"ERR The user executing the script can't run this command",
            b"ERR ACL failure in script: User x has no permissions to run the 'hset' command",
        ] {
            assert!(explain(missing).to_string().contains("docs/redis.md"));
        }
    }
}
