//! The users of a run: a table that changes at random moments, and what clients say about
//! themselves.

use crate::rng::TestRng;
use crate::server_oracle::users::{Allowed, Table, Token, User, token_text};
use jobcentre::access::Right;
use jobcentre::base::time::Wall;
use jobcentre::model::driver::Protocol;

/// The user that stays, may do everything, and has this token.
pub(super) const ALL: &str = "all";
pub(super) const TOKEN_OF_ALL: Token = 0;

/// The users that come and go.
const OTHERS: [&str; 4] = ["one", "two", "three", "four"];

/// Tokens are these numbers, some of which are those of a user.
const TOKENS: usize = 9;

/// What permissions are for.
const PATTERNS: [&str; 8] = ["*", "*", "a", "a*", "default", "*a*l*", "\0", "é*"];

/// The users of the listeners. One that is not in the table at the moment is none.
pub(super) const LISTENERS: [Option<&str>; 6] =
    [None, Some(ALL), Some(OTHERS[0]), Some(OTHERS[1]), Some(OTHERS[2]), Some(OTHERS[3])];

const PROTOCOLS: [Protocol; 4] =
    [Protocol::JobCentre, Protocol::Http, Protocol::Beanstalkd, Protocol::Pinpriq];

/// What the users of a run do.
pub(super) struct UserGenerator {
    rng: TestRng,
    table: Table,
    /// How many in a hundred passes the users change.
    changing: usize,
    /// How many in a hundred users may do everything.
    generous: usize,
}

fn permission(rng: &mut TestRng) -> Allowed {
    let right = *rng.pick(&Right::ALL);
    (right, if right.is_on_queues() { rng.word(&PATTERNS) } else { "" })
}

impl UserGenerator {
    pub(super) fn new(mut rng: TestRng) -> Self {
        let everything =
            Right::ALL.map(|right| (right, if right.is_on_queues() { "*" } else { "" }));
        let all = User {
            name: ALL,
            tokens: vec![TOKEN_OF_ALL],
            allow: everything.to_vec(),
            protocol: None,
            until: None,
        };
        let (changing, generous) = (*rng.pick(&[3, 10, 30]), *rng.pick(&[20, 60, 90]));
        Self { rng, table: Table(vec![all]), changing, generous }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the users change now.
    pub(super) fn is_time(&mut self) -> bool {
        self.rng.percent(self.changing)
    }

    /// The other choices of a run with users.
    pub(super) fn rng(&mut self) -> &mut TestRng {
        &mut self.rng
    }

    fn new_user(&mut self, name: &'static str, now: Wall) -> User {
        let rng = &mut self.rng;
        let allow = if rng.percent(self.generous) {
            self.table.0[0].allow.clone()
        } else {
            (0..rng.between(0, 7)).map(|_| permission(rng)).collect()
        };
        let protocol = rng.percent(7).then(|| *rng.pick(&PROTOCOLS));
        let until = rng.percent(10).then(|| Wall(now.0 + rng.below(8_000) as u64));
        let mut user = User { name, tokens: Vec::new(), allow, protocol, until };
        for _ in 0..rng.between(0, 2) {
            user.tokens.extend(self.free_token());
        }
        user.tokens.dedup();
        user
    }

    /// A token that no user has.
    fn free_token(&mut self) -> Option<Token> {
        let token = self.rng.between(1, TOKENS - 1);
        let is_taken = self.table.0.iter().any(|user| user.tokens.contains(&token));
        (!is_taken).then_some(token)
    }

    /// Changes something about one user.
    pub(super) fn change(&mut self, now: Wall) {
        let name = self.rng.word(&OTHERS);
        let Some(at) = self.table.0.iter().position(|user| user.name == name) else {
            let user = self.new_user(name, now);
            // Others get other numbers by that.
            let at = self.rng.below(self.table.0.len()) + 1;
            return self.table.0.insert(at, user);
        };
        match self.rng.below(10) {
            0..3 => drop(self.table.0.remove(at)),
            3..5 => {
                let token = self.free_token();
                let user = &mut self.table.0[at];
                user.tokens.extend(token);
                if user.tokens.len() > 1 && self.rng.percent(60) {
                    user.tokens.remove(0);
                }
            }
            5..8 => {
                let allow = &mut self.table.0[at].allow;
                if !allow.is_empty() {
                    allow.remove(self.rng.below(allow.len()));
                }
            }
            8 => self.table.0[at].allow.push(permission(&mut self.rng)),
            _ => {
                let until = Wall(now.0 + self.rng.below(8_000) as u64);
                self.table.0[at].until = self.rng.percent(70).then_some(until);
            }
        }
    }

    /// A token, mostly one that counts.
    pub(super) fn token(&mut self) -> Token {
        if self.rng.percent(15) {
            return self.rng.below(TOKENS);
        }
        let user = self.rng.pick(&self.table.0);
        if user.tokens.is_empty() { TOKEN_OF_ALL } else { *self.rng.pick(&user.tokens) }
    }
}

/// What says who a client is, before anything else.
pub(super) fn auth(protocol: Protocol, token: Token) -> Vec<u8> {
    let token = token_text(token);
    match protocol {
        Protocol::Beanstalkd => format!("auth {token}\r\n"),
        _ => format!("{{\"request\":\"auth\",\"token\":\"{token}\"}}\n"),
    }
    .into_bytes()
}

/// Puts a token into the head of a request. Returns by how much it has grown.
pub(super) fn authorize(bytes: &mut Vec<u8>, token: Token) -> usize {
    let field = format!("Authorization: Bearer {}\r\n", token_text(token));
    let first = bytes.windows(2).position(|two| two == b"\r\n").unwrap() + 2;
    bytes.splice(first..first, field.bytes());
    field.len()
}
