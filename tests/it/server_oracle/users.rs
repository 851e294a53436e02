//! Users as the oracle sees them: a table, and what each of them may do.

use super::types::Queue;
use jobcentre::access::{Digest, Permission, Right, UserSpec, Users};
use jobcentre::base::time::Wall;
use jobcentre::model::driver::Protocol;

/// A token, by its number.
pub(crate) type Token = usize;

/// What clients say.
pub(crate) fn token_text(token: Token) -> String {
    format!("jc_{token}")
}

/// A right, and the pattern of the queues on which it holds; none for rights that are not on
/// queues.
pub(crate) type Allowed = (Right, &'static str);

/// A user.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: &'static str,
    pub(crate) tokens: Vec<Token>,
    pub(crate) allow: Vec<Allowed>,
    /// The only one that it may use, if there is one.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) until: Option<Wall>,
}

/// Whether a pattern matches a name, by definition.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|at| matches(rest, &name[at..])),
        Some((byte, rest)) => {
            name.split_first().is_some_and(|(first, others)| first == byte && matches(rest, others))
        }
    }
}

impl User {
    fn spec(&self) -> UserSpec {
        let text = |&(right, pattern): &Allowed| match pattern {
            "" => right.name().to_owned(),
            pattern => format!("{}:{pattern}", right.name()),
        };
        let digest = |&token: &Token| Digest::of(token_text(token).as_bytes());
        UserSpec {
            name: self.name.into(),
            tokens: self.tokens.iter().map(digest).collect(),
            certificates: Vec::new(),
            uids: Vec::new(),
            allow: self.allow.iter().map(|it| Permission::parse(&text(it)).unwrap()).collect(),
            protocols: self.protocol.map(|only| vec![only]),
            until: self.until,
        }
    }

    pub(super) fn may(&self, right: Right) -> bool {
        self.allow.iter().any(|it| it.0 == right)
    }

    pub(super) fn may_on(&self, right: Right, queue: &[u8]) -> bool {
        self.allow.iter().any(|it| it.0 == right && matches(it.1.as_bytes(), queue))
    }

    fn is_valid(&self, protocol: Protocol, now: Wall) -> bool {
        let speaks = self.protocol.is_none_or(|only| only == protocol);
        speaks && self.until.is_none_or(|until| now < until)
    }
}

/// All users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(pub(crate) Vec<User>);

impl Table {
    pub(crate) fn compiled(&self) -> Users {
        Users::new(self.0.iter().map(User::spec).collect()).unwrap()
    }

    pub(crate) fn named(&self, name: &str) -> Option<&User> {
        self.0.iter().find(|user| user.name == name)
    }

    /// A user that may do something at this moment.
    pub(super) fn valid(&self, name: &str, protocol: Protocol, now: Wall) -> Option<&User> {
        self.named(name).filter(|user| user.is_valid(protocol, now))
    }

    pub(super) fn with_token(
        &self,
        token: Token,
        protocol: Protocol,
        now: Wall,
    ) -> Option<&'static str> {
        let user = self.0.iter().find(|user| user.tokens.contains(&token))?;
        user.is_valid(protocol, now).then_some(user.name)
    }

    /// When the next user expires.
    pub(super) fn next_expiry(&self, now: Wall) -> Option<Wall> {
        self.0.iter().filter_map(|user| user.until).filter(|&until| until > now).min()
    }
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Denied {
    /// Its client is no user.
    Unknown,
    /// The rights of its user have changed.
    Changed,
    Missing(&'static str, Right, Option<Queue>),
    OfJob(&'static str, Right),
}

impl Denied {
    /// What a client is told. `names`: of the queues.
    pub(super) fn sentence(self, names: &[&[u8]]) -> String {
        let end = "and nothing was carried out: it would stand under 'allow' of that user in the \
                   settings";
        match self {
            Self::Unknown => {
                "authenticate first: this server has users, and nothing was carried out".to_owned()
            }
            Self::Changed => "the rights of this user have changed before the request was \
                              answered: a wait has ended, and a purge, move or other action on \
                              many jobs goes on"
                .to_owned(),
            Self::Missing(user, right, queue) => {
                let queues = match queue {
                    _ if !right.is_on_queues() => String::new(),
                    Some(queue) => format!(":{}", std::str::from_utf8(names[queue]).unwrap()),
                    None => ":*".to_owned(),
                };
                format!("the user '{user}' lacks the right '{}{queues}', {end}", right.name())
            }
            Self::OfJob(user, right) => {
                let right = right.name();
                format!(
                    "the user '{user}' lacks the right '{right}' on the queue of this job, {end}"
                )
            }
        }
    }
}
