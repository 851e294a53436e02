//! The users of the settings, compiled: who is entered how, and who may do what.

use super::digest::Digest;
use super::need::Right;
use super::pattern::Pattern;
use crate::base::time::Wall;
use crate::model::driver::Protocol;
pub use crate::model::peer::CertificateName;
use crate::model::peer::Peer;
use std::collections::HashMap;
use std::fmt;

/// A right, and on which queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    right: Right,
    /// `None`: the right is not on queues.
    pattern: Option<Pattern>,
}

impl Permission {
    /// Reads `RIGHT:PATTERN`, or one of the rights that are not on queues.
    ///
    /// # Errors
    /// A sentence that says what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, pattern) = match text.split_once(':') {
            Some((name, pattern)) => (name, Some(pattern)),
            None => (text, None),
        };
        let Some(right) = Right::ALL.into_iter().find(|right| right.name() == name) else {
            return Err(format!(
                "'{text}' is no permission: write put:QUEUES, take:QUEUES, peek:QUEUES, \
                 manage:QUEUES, observe or admin, where * in QUEUES is any text"
            ));
        };
        match pattern {
            Some("") | None if right.is_on_queues() => {
                Err(format!("'{text}' names no queues: write {name}:* for all of them"))
            }
            Some(_) if !right.is_on_queues() => {
                Err(format!("'{text}' names queues, and the right is for all: write {name}"))
            }
            pattern => Ok(Self { right, pattern: pattern.map(Pattern::new) }),
        }
    }
}

/// As in the settings.
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.right.name())?;
        self.pattern.as_ref().map_or(Ok(()), |pattern| write!(f, ":{pattern}"))
    }
}

/// A user as the settings describe it.
#[derive(Clone, Debug)]
pub struct UserSpec {
    /// Unique.
    pub name: Box<str>,
    /// Digests of its tokens.
    pub tokens: Vec<Digest>,
    /// Names in certificates of clients.
    pub certificates: Vec<CertificateName>,
    /// Users of the system, who connect to files.
    pub uids: Vec<u32>,
    /// What it may do.
    pub allow: Vec<Permission>,
    /// The protocols that it may use; `None`: all.
    pub protocols: Option<Vec<Protocol>>,
    /// From when on it may do nothing.
    pub until: Option<Wall>,
}

/// A user.
#[derive(Debug)]
pub struct User {
    spec: UserSpec,
}

impl User {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What it may do, in the order of the settings.
    #[must_use]
    pub fn permissions(&self) -> &[Permission] {
        &self.spec.allow
    }

    /// Whether it has a right on a queue. O(permissions).
    #[must_use]
    pub fn may_on(&self, right: Right, queue: &[u8]) -> bool {
        self.of(right).any(|pattern| pattern.is_some_and(|pattern| pattern.matches(queue)))
    }

    /// Whether it has a right on all queues.
    #[must_use]
    pub fn may_everywhere(&self, right: Right) -> bool {
        self.of(right).any(|pattern| pattern.is_some_and(Pattern::is_everything))
    }

    /// Whether it has a right, on any queue if it is on queues.
    #[must_use]
    pub fn may(&self, right: Right) -> bool {
        self.of(right).next().is_some()
    }

    fn of(&self, right: Right) -> impl Iterator<Item = Option<&Pattern>> {
        let has = move |permission: &&Permission| permission.right == right;
        self.spec.allow.iter().filter(has).map(|permission| permission.pattern.as_ref())
    }

    /// Whether `later`, which has taken its place, lacks one of its permissions.
    #[must_use]
    pub fn is_wider_than(&self, later: &Self) -> bool {
        self.spec.allow.iter().any(|permission| !later.spec.allow.contains(permission))
    }

    fn is_valid(&self, protocol: Protocol, now: Wall) -> bool {
        let speaks = self.spec.protocols.as_ref().is_none_or(|all| all.contains(&protocol));
        speaks && self.spec.until.is_none_or(|until| now < until)
    }
}

/// The number of a user in [`Users`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserId(u32);

/// All users.
#[derive(Debug, Default)]
pub struct Users {
    all: Vec<User>,
    /// By [`Digest::key`].
    tokens: Vec<(u64, Digest, UserId)>,
    certificates: HashMap<CertificateName, UserId>,
    uids: HashMap<u32, UserId>,
    names: HashMap<Box<str>, UserId>,
}

impl Users {
    /// Compiles users.
    ///
    /// # Errors
    /// A sentence about a name or a way in that two users have.
    pub fn new(specs: Vec<UserSpec>) -> Result<Self, String> {
        let mut users = Self::default();
        for spec in specs {
            let id = UserId(u32::try_from(users.all.len()).unwrap_or(u32::MAX));
            let name = &spec.name;
            if users.names.insert(name.clone(), id).is_some() {
                return Err(format!("there are two users named '{name}'"));
            }
            let both = |users: &Self, other: UserId, what: &str| {
                let other = users.all.get(other.0 as usize).map_or(&**name, User::name);
                format!("the users '{other}' and '{name}' have the same {what}: it names one user")
            };
            for token in &spec.tokens {
                if let Some(other) = users.token(token) {
                    return Err(both(&users, other, "token"));
                }
                let at = users.tokens.partition_point(|entry| entry.0 < token.key());
                users.tokens.insert(at, (token.key(), *token, id));
            }
            for certificate in &spec.certificates {
                if let Some(other) = users.certificates.insert(certificate.clone(), id) {
                    return Err(both(&users, other, &format!("certificate {certificate}")));
                }
            }
            for &uid in &spec.uids {
                if let Some(other) = users.uids.insert(uid, id) {
                    return Err(both(&users, other, &format!("uid {uid}")));
                }
            }
            users.all.push(User { spec });
        }
        Ok(users)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether there is one of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// A user, unless it has expired or may not use the protocol. O(1).
    #[must_use]
    pub fn get(&self, id: UserId, protocol: Protocol, now: Wall) -> Option<&User> {
        self.all.get(id.0 as usize).filter(|user| user.is_valid(protocol, now))
    }

    fn token(&self, token: &Digest) -> Option<UserId> {
        let key = token.key();
        let at = self.tokens.partition_point(|entry| entry.0 < key);
        let same = self.tokens[at..].iter().take_while(|entry| entry.0 == key);
        same.filter(|entry| entry.1.is(token)).map(|entry| entry.2).next()
    }

    /// The user with a token. O(log tokens).
    #[must_use]
    pub fn by_token(&self, token: &Digest, protocol: Protocol, now: Wall) -> Option<UserId> {
        let id = self.token(token)?;
        self.get(id, protocol, now).map(|_| id)
    }

    /// The user that a client is without a token: by its certificate, by its uid, or that of its
    /// listener, in this order. O(names in the certificate).
    #[must_use]
    pub fn by_peer(
        &self,
        peer: &Peer,
        listener: Option<&str>,
        protocol: Protocol,
        now: Wall,
    ) -> Option<UserId> {
        let certificate = peer.names.iter().find_map(|name| self.certificates.get(name));
        let uid = || peer.uid.and_then(|uid| self.uids.get(&uid));
        let listener = || listener.and_then(|name| self.names.get(name));
        let id = *certificate.or_else(uid).or_else(listener)?;
        self.get(id, protocol, now).map(|_| id)
    }

    /// When the next user expires.
    #[must_use]
    pub fn next_expiry(&self, now: Wall) -> Option<Wall> {
        self.all.iter().filter_map(|user| user.spec.until).filter(|&until| until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: Protocol = Protocol::Http;

    fn spec(name: &str, allow: &[&str]) -> UserSpec {
        UserSpec {
            name: name.into(),
            tokens: vec![Digest::of(name.as_bytes())],
            certificates: Vec::new(),
            uids: Vec::new(),
            allow: allow.iter().map(|text| Permission::parse(text).unwrap()).collect(),
            protocols: None,
            until: None,
        }
    }

    #[test]
    fn permissions_are_read_or_explained() {
        for (wrong, help) in [
            ("", "put:QUEUES"),
            ("push:q", "put:QUEUES"),
            ("put", "write put:*"),
            ("put:", "write put:*"),
            ("observe:*", "write observe"),
            ("admin:", "write admin"),
        ] {
            let error = Permission::parse(wrong).unwrap_err();
            assert!(error.contains(help), "{wrong}: {error}");
        }
        let colon = Permission::parse("put:a:b").unwrap();
        assert!(colon.pattern.is_some_and(|pattern| pattern.matches(b"a:b")));
    }

    #[test]
    fn rights_hold_on_the_queues_of_their_patterns() {
        let allow = ["put:mail-*", "take:mail-x", "manage:*", "observe"];
        let users = Users::new(vec![spec("u", &allow)]).unwrap();
        let id = users.by_token(&Digest::of(b"u"), HTTP, Wall(0)).unwrap();
        let user = users.get(id, HTTP, Wall(0)).unwrap();
        assert!(user.may_on(Right::Put, b"mail-1") && !user.may_on(Right::Put, b"mai"));
        assert!(user.may_on(Right::Take, b"mail-x") && !user.may_on(Right::Take, b"mail-1"));
        assert!(user.may_everywhere(Right::Manage) && !user.may_everywhere(Right::Put));
        assert!(user.may(Right::Observe) && !user.may(Right::Admin) && !user.may(Right::Peek));
        assert!(!user.may_on(Right::Observe, b"mail-1"));
        let narrower = Users::new(vec![spec("u", &allow[1..])]).unwrap();
        let later = narrower.get(id, HTTP, Wall(0)).unwrap();
        assert!(user.is_wider_than(later) && !later.is_wider_than(user));
    }

    #[test]
    fn user_is_entered_by_its_own_ways_only() {
        let by_certificate = UserSpec {
            tokens: Vec::new(),
            certificates: vec![CertificateName::Common("web".into())],
            uids: vec![7],
            protocols: Some(vec![HTTP]),
            until: Some(Wall(100)),
            ..spec("b", &["put:*"])
        };
        let users = Users::new(vec![spec("a", &[]), by_certificate]).unwrap();
        let token = |text: &str| users.by_token(&Digest::of(text.as_bytes()), HTTP, Wall(0));
        assert_eq!((token("a"), token("b"), token("")), (Some(UserId(0)), None, None));
        let peer = |names: &[CertificateName], uid, listener| {
            let peer = Peer { names: names.into(), uid, ..Peer::default() };
            users.by_peer(&peer, listener, HTTP, Wall(99))
        };
        let web = [CertificateName::Dns("web".into()), CertificateName::Common("web".into())];
        assert_eq!(peer(&web, None, Some("a")), Some(UserId(1)), "the certificate comes first");
        assert_eq!(peer(&web[..1], None, None), None);
        assert_eq!(peer(&[], Some(7), Some("a")), Some(UserId(1)));
        assert_eq!(peer(&[], Some(8), Some("a")), Some(UserId(0)));
        assert_eq!(peer(&[], None, Some("c")), None);
        let b = UserId(1);
        assert!(users.get(b, HTTP, Wall(99)).is_some() && users.get(b, HTTP, Wall(100)).is_none());
        assert!(users.get(b, Protocol::JobCentre, Wall(0)).is_none());
        assert_eq!(users.next_expiry(Wall(5)), Some(Wall(100)));
        assert_eq!(users.next_expiry(Wall(100)), None);
    }

    #[test]
    fn no_two_users_share_a_name_or_a_way_in() {
        let error = |other: UserSpec| {
            let mut first = spec("a", &[]);
            first.uids = vec![7];
            first.certificates = vec![CertificateName::Common("c".into())];
            Users::new(vec![first, other]).unwrap_err()
        };
        assert!(error(spec("a", &[])).contains("two users named 'a'"));
        let same = UserSpec { tokens: vec![Digest::of(b"a")], ..spec("b", &[]) };
        assert!(error(same).contains("'a' and 'b' have the same token"));
        let same = UserSpec { uids: vec![7], ..spec("b", &[]) };
        assert!(error(same).contains("uid 7"));
        let certificates = vec![CertificateName::Common("c".into())];
        assert!(error(UserSpec { certificates, ..spec("b", &[]) }).contains("certificate CN=c"));
    }
}
