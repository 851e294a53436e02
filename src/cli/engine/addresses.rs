//! Where a leader's clients connect: the text that it leaves in Redis, `PROTOCOL=ADDRESS` with
//! spaces between, and which listener of the leader is for which of another server.
//!
//! An address is written as in the settings: `HOST:PORT`, with `tls:` before it, and `,user=NAME`
//! behind it. Listeners on files are left out: other machines do not reach them. `users=on` and
//! `certificates=on` say what the leader asks of clients: a server that asks for it forwards to no
//! leader that does not, since its clients would be let in there.

use crate::cli::settings::config::Config;
use crate::model::driver::{Protocol, Target};
use crate::reactor::ListenAddress;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A listener, as far as others have to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry<'a> {
    protocol: &'a str,
    is_tls: bool,
    host: &'a str,
    port: u16,
    user: Option<&'a str>,
}

/// What a server asks of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asks {
    /// Who they are: there are users.
    pub(super) users: bool,
    /// Certificates, on listeners with TLS.
    pub(super) certificates: bool,
}

impl Asks {
    const USERS: &str = "users=on";
    const CERTIFICATES: &str = "certificates=on";

    pub(super) fn of(config: &Config) -> Self {
        Self { users: !config.users.is_empty(), certificates: config.tls.asks_clients() }
    }

    fn read(text: &str) -> Self {
        let has = |wanted| text.split(' ').any(|word| word == wanted);
        Self { users: has(Self::USERS), certificates: has(Self::CERTIFICATES) }
    }

    fn words(self) -> impl Iterator<Item = String> {
        let users = self.users.then_some(Self::USERS);
        let certificates = self.certificates.then_some(Self::CERTIFICATES);
        users.into_iter().chain(certificates).map(str::to_owned)
    }

    /// Whether a leader that asks for this lets no client in that is kept out here.
    fn is_kept_by(self, leader: Self, is_tls: bool) -> bool {
        let certificates = !is_tls || !self.certificates || leader.certificates;
        certificates && (!self.users || leader.users)
    }
}

/// The text about these listeners. `host`: what they are reached by, if it was given.
pub(super) fn text<'a>(
    listeners: impl Iterator<Item = (Protocol, &'a ListenAddress)>,
    (users, asks): (&[Option<Box<str>>], Asks),
    host: Option<&str>,
) -> Box<str> {
    let mut words = Vec::new();
    for (number, (protocol, address)) in listeners.enumerate() {
        let (address, tls) = match address {
            ListenAddress::Tcp(address) => (address, ""),
            ListenAddress::Tls(address) => (address, "tls:"),
            ListenAddress::Unix(_) | ListenAddress::Passed { .. } => continue,
        };
        if address.port() == 0 {
            // It is not bound yet.
            continue;
        }
        let (place, name) = (place(address, host), protocol.name());
        let user = users.get(number).and_then(Option::as_ref);
        let user = user.map_or_else(String::new, |user| format!(",user={user}"));
        words.push(format!("{name}={tls}{place}{user}"));
    }
    words.extend(asks.words());
    words.join(" ").into()
}

/// Host and port by which others reach a listener.
fn place(address: &SocketAddr, host: Option<&str>) -> String {
    let port = address.port();
    match host {
        Some(host) if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) => {
            format!("[{host}]:{port}")
        }
        Some(host) => format!("{host}:{port}"),
        None if address.ip().is_unspecified() => {
            let system = rustix::system::uname();
            format!("{}:{port}", system.nodename().to_string_lossy())
        }
        None => address.to_string(),
    }
}

/// Reads the text; what is not understood is left out.
fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    text.split(' ').filter_map(|word| {
        let (protocol, rest) = word.split_once('=')?;
        let (address, user) = match rest.split_once(",user=") {
            Some((address, user)) => (address, Some(user)),
            None => (rest, None),
        };
        let (address, is_tls) =
            address.strip_prefix("tls:").map_or((address, false), |address| (address, true));
        let (host, port) = address.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Entry { protocol, is_tls, host, port: port.parse().ok()?, user })
    })
}

/// For each listener of this server that of a leader, of which this is the text: of the same
/// protocol, with TLS as it has or without, for the same user, and no less careful with clients.
pub(super) fn targets<'a>(
    text: &str,
    listeners: impl Iterator<Item = (Protocol, &'a ListenAddress)>,
    (users, asks): (&[Option<Box<str>>], Asks),
) -> Vec<Option<Arc<Target>>> {
    let leader = Asks::read(text);
    let target = |(number, (protocol, address)): (usize, (Protocol, &ListenAddress))| {
        let user = users.get(number).and_then(Option::as_deref);
        let is_tls = matches!(address, ListenAddress::Tls(_));
        if !asks.is_kept_by(leader, is_tls) {
            return None;
        }
        let fits = |entry: &Entry<'_>| {
            entry.protocol == protocol.name() && entry.is_tls == is_tls && entry.user == user
        };
        let Entry { host, port, .. } = entries(text).find(fits)?;
        // TLS, if there is any, is between the client and the leader.
        Some(Arc::new(Target { host: host.into(), port, tls: false }))
    };
    listeners.enumerate().map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::UnixAddress;

    fn tcp(text: &str) -> ListenAddress {
        ListenAddress::Tcp(text.parse().unwrap())
    }

    fn file() -> ListenAddress {
        ListenAddress::Unix(UnixAddress { path: "/a".into(), mode: None, group: None })
    }

    #[test]
    fn text_names_what_others_reach() {
        let tls = ListenAddress::Tls("[2001:db8::1]:3".parse().unwrap());
        let (one, any) = (tcp("10.0.0.1:1"), tcp("0.0.0.0:2"));
        let listeners = [
            (Protocol::JobCentre, one),
            (Protocol::Pinpriq, any),
            (Protocol::Http, tls),
            (Protocol::Beanstalkd, file()),
        ];
        let listeners = || listeners.iter().map(|(protocol, address)| (*protocol, address));
        let users = [None, None, Some("web".into()), None];
        let asks = Asks { users: true, certificates: false };
        let found = text(listeners(), (&users, asks), Some("a.example"));
        let expected =
            "job-centre=a.example:1 pinpriq=a.example:2 http=tls:a.example:3,user=web users=on";
        assert_eq!(&*found, expected);
        let nothing = Asks::default();
        let found = text(listeners(), (&users, nothing), Some("::2"));
        assert!(found.starts_with("job-centre=[::2]:1 "), "{found}");
        let found = text(listeners(), (&users, nothing), None);
        assert!(found.starts_with("job-centre=10.0.0.1:1 pinpriq="), "{found}");
        assert!(found.ends_with(":2 http=tls:[2001:db8::1]:3,user=web"), "{found}");
        assert!(!found.contains("0.0.0.0"), "{found}");
    }

    #[test]
    fn listener_goes_to_the_one_of_its_protocol_kind_and_user() {
        let leader = "job-centre=h:1 http=tls:[::2]:3,user=web unknown=h:9 pinpriq=nowhere";
        let (one, two) = (tcp("127.0.0.1:7"), tcp("127.0.0.1:8"));
        let tls = ListenAddress::Tls("127.0.0.1:9".parse().unwrap());
        let find = |protocol, address: &ListenAddress, user: Option<&str>| {
            let (listeners, users) = ([(protocol, address)].into_iter(), [user.map(Into::into)]);
            let found = targets(leader, listeners, (&users, Asks::default()));
            found[0].as_ref().map(|target| (target.host.to_string(), target.port))
        };
        assert_eq!(find(Protocol::JobCentre, &one, None), Some(("h".into(), 1)));
        assert_eq!(find(Protocol::JobCentre, &file(), None), Some(("h".into(), 1)));
        assert_eq!(find(Protocol::JobCentre, &one, Some("web")), None, "others are this user");
        assert_eq!(find(Protocol::JobCentre, &tls, None), None);
        assert_eq!(find(Protocol::Http, &tls, Some("web")), Some(("::2".into(), 3)));
        assert_eq!(find(Protocol::Http, &tls, None), None);
        assert_eq!(find(Protocol::Http, &two, Some("web")), None);
        assert_eq!(find(Protocol::Pinpriq, &two, None), None);
        assert_eq!(find(Protocol::Beanstalkd, &two, None), None);
        let nothing = targets("", [(Protocol::Http, &two)].into_iter(), (&[], Asks::default()));
        assert_eq!(nothing, [None]);
    }

    #[test]
    fn server_forwards_to_no_leader_that_asks_less_of_clients() {
        let goes = |leader: &str, is_tls: bool, asks: Asks| {
            let address = "127.0.0.1:9".parse().unwrap();
            let address =
                if is_tls { ListenAddress::Tls(address) } else { ListenAddress::Tcp(address) };
            let listeners = [(Protocol::JobCentre, &address)].into_iter();
            targets(leader, listeners, (&[None], asks))[0].is_some()
        };
        let (plain, tls) = ("job-centre=h:1", "job-centre=tls:h:1");
        let users = Asks { users: true, certificates: false };
        assert!(!goes(plain, false, users) && !goes(tls, true, users));
        assert!(goes(&format!("{plain} users=on"), false, users));
        assert!(goes(&format!("{plain} users=on"), false, Asks::default()));
        let certificates = Asks { users: false, certificates: true };
        assert!(!goes(tls, true, certificates) && goes(plain, false, certificates));
        assert!(goes(&format!("{tls} certificates=on"), true, certificates));
    }
}
