//! Clients of several protocols on the same queues, with the pure server in virtual time, against
//! an oracle: Job Centre, Jobq over HTTP, pinpriq and beanstalkd's protocol.
//!
//! Everything in a run follows from its seed. `SIM_SEED=n` replays one. A run begins with faults;
//! then every client reads what there is to read, and no reply may be missing; then all clients
//! leave, a last client checks what is left over HTTP, and another one fetches it by lines.

mod driver;
mod generator;
mod requests;
mod users;

use crate::oracle::wire;
use crate::rng::TestRng;
use crate::seeds::{self, Plan, Summary};
use crate::server_oracle::client::State;
use crate::server_oracle::types::{DEFAULT, HttpOptions, QUEUES, Question, Request, Want};
use crate::sockets::Closed;
use driver::SimDriver;
use generator::{Generator, JOBS_MAX, Profile};
use jobcentre::base::limits::{FLUSH_TIMEOUT, HTTP_IDLE_TIMEOUT, OUTPUT_HIGH_WATER_BYTES};
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::{ClientId, JobId};
use std::time::Duration;
use users::{LISTENERS, TOKEN_OF_ALL, UserGenerator};

/// Seeds that have failed once.
const FAILED_ONCE: &[u64] = &[
    9_048,
    149_403_731_300,
    846_177_244_972,
    980_392_109_941,
    1_174_667_164_109,
    6_200_000_004_618,
    6_200_000_010_471,
    6_200_000_018_991,
    6_200_000_030_148,
    125_000_000_000_337,
    125_000_000_004_932,
    126_000_000_007_357,
    7_400_000_001_146,
    865_345_690_932,
    404_688_771_987,
    211_128_329_000,
    369_211_936_143,
    775_267_957_605,
    390_149_801_823,
    390_149_804_608,
    390_149_815_258,
];

/// The first of these failed before clients came by beanstalkd's protocol.
const WITHOUT_TUBES: usize = 9;

/// The first of these failed before there were users.
const WITHOUT_USERS: usize = 15;

const PLAN: Plan = Plan::new(300, FAILED_ONCE);

/// What must have happened in an ordinary test run, lest the simulation shows nothing.
const WANTED: [&str; 76] = [
    "HTTP misses what a line has deleted",
    "HTTP served a line that waited",
    "HTTP served packets",
    "HTTP: conflict",
    "HTTP: done",
    "HTTP: not found",
    "HTTP: refused",
    "a delivery",
    "a connection broke",
    "a connection was not used for long",
    "a connection was reset",
    "a job at work was deleted",
    "a job at work was dropped",
    "a job was popped",
    "a key group was popped",
    "a line misses what HTTP has deleted",
    "a poll found a job",
    "a poll found a job at work",
    "a poll found nothing",
    "a request took too long",
    "a search",
    "a search was given up",
    "the first that was found had changed",
    "what was found had changed",
    "a wait was called off",
    "an answer went on",
    "end: time to live, group-only",
    "end: time to live, ready",
    "forget: a job goes back",
    "job_abandoned",
    "job_aborted",
    "job_taken",
    "reply: conflict",
    "reply: queue",
    "too much was unsent",
    "user_event",
    "a command of beanstalkd was served",
    "beanstalkd: JSON of another protocol",
    "beanstalkd: a body",
    "beanstalkd: a packet of another protocol",
    "beanstalkd: a wait ended with the input",
    "beanstalkd: quit",
    "consumer: a lease comes to its end",
    "consumer: a lease is ending",
    "consumer: kick of a buried job",
    "consumer: kick of a delayed job",
    "consumer: pause",
    "consumer: reserve of a buried job",
    "consumer: reserve of a delayed job",
    "consumer: reserve of a ready job",
    "consumer: resume",
    "end: delay",
    "end: lease, back",
    "end: pause",
    "end: wait",
    "job_buried",
    "job_due",
    "job_expired",
    "job_kicked",
    "other protocols: a body of beanstalkd",
    "users: a client did not say who it is",
    "users: a client of packets is no user",
    "users: a client said who it is",
    "users: a command is denied",
    "users: a line is denied",
    "users: a pop is denied",
    "users: a push is denied",
    "users: a request before authentication",
    "users: a request of HTTP from no user",
    "users: a request of HTTP is denied",
    "users: a subscriber is denied",
    "users: a subscription is ended",
    "users: a wait is ended",
    "users: a wrong token",
    "users: the last wrong token",
    "users: the user of a client is gone",
];

/// One run.
struct Run {
    rng: TestRng,
    /// The choices of who speaks beanstalkd's protocol.
    tubes: TestRng,
    /// The users, if there are any or will be.
    users: Option<UserGenerator>,
    profile: Profile,
    author: Generator,
    driver: SimDriver,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        let mut profile = Profile::draw(&mut rng);
        // Beside the other choices, so that seeds that have failed are the same runs as then.
        let mut tubes = TestRng::new(!seed);
        if !FAILED_ONCE[..WITHOUT_TUBES].contains(&seed) {
            profile.tubes = *tubes.pick(&[0, 0, 30, 60]);
        }
        let mut driver = SimDriver::new(rng.seed());
        driver.pass_time(1_000, 1_700_000_000_000);
        let mut people = TestRng::new(seed ^ 0x5553_4552);
        let has_users = people.percent(33) && !FAILED_ONCE[..WITHOUT_USERS].contains(&seed);
        driver.has_users = has_users;
        if has_users && people.percent(50) {
            profile.packets = 40;
        }
        let users = has_users.then(|| UserGenerator::new(people));
        let mut run = Self { rng, tubes, users, profile, author: Generator::new(), driver };
        if run.users.as_mut().is_some_and(|users| users.rng().percent(75)) {
            run.change_users(3);
        }
        run
    }

    fn go(mut self) -> Summary {
        for _ in 0..self.profile.passes {
            let found = self.rng.percent(self.profile.finding);
            self.driver.set_found(found);
            self.pass_time();
            self.step();
            let mut changes = self.users.as_mut().is_some_and(UserGenerator::is_time);
            if changes && self.users.as_mut().is_some_and(|users| users.rng().percent(30)) {
                self.change_users(1);
                changes = false;
            }
            self.driver.read_all(&mut self.rng);
            if changes {
                self.change_users(1);
            }
            self.driver.end_pass();
        }
        if self.rng.percent(70) {
            self.drain();
        }
        self.disconnect_all();
        self.look_at_all();
        self.collect();
        Summary {
            fingerprint: self.driver.sockets.fingerprint(),
            seen: self.driver.pair.model.store.seen,
        }
    }

    /// The settings are read again, after some changes.
    fn change_users(&mut self, changes: usize) {
        let Some(users) = &mut self.users else { return };
        for _ in 0..changes {
            users.change(self.driver.pair.now.wall);
        }
        self.driver.pair.set_users(users.table());
    }

    fn pass_time(&mut self) {
        if self.rng.percent(self.profile.idling) {
            let seconds = *self.rng.pick(&[16, 31, 61]);
            return self.sleep(Duration::from_secs(seconds));
        }
        let ms = match self.rng.below(20) {
            0..12 => return,
            12..19 => self.rng.below(300) as u64,
            _ => self.rng.below(3_000) as u64,
        };
        // The clock on the wall is set now and then.
        let wall = *self.rng.pick(&[0, -2_000, 5_000]);
        let wall = if self.rng.percent(10) { wall } else { ms.cast_signed() };
        self.driver.pass_time(ms * 1_000_000, wall);
    }

    fn sleep(&mut self, time: Duration) {
        let ms = u32::try_from(time.as_millis()).unwrap();
        self.driver.pass_time(u64::from(ms) * 1_000_000, i64::from(ms));
    }

    /// What peers do before a pass.
    fn step(&mut self) {
        if self.driver.sockets.len() < self.profile.peers && self.rng.percent(70) {
            self.connect();
        }
        let mut ids = self.driver.sockets.ids();
        self.rng.shuffle(&mut ids);
        for id in ids {
            let socket = &self.driver.sockets[&id];
            if socket.closed == Closed::Not && !socket.driver.stuck {
                if self.rng.percent(40) {
                    self.compose(id);
                }
                let client = self.driver.pair.model.clients.get(&id);
                let searches = client.is_some_and(|it| matches!(it.state, State::Asked(_)));
                let leaving = self.profile.leaving + if searches { 20 } else { 0 };
                if self.rng.percent(leaving) && self.rng.percent(30) {
                    self.leave(id);
                }
            }
            self.move_bytes(id);
            if self.rng.percent(80) {
                self.driver.note_end(id);
            }
        }
    }

    fn connect(&mut self) {
        let protocol = match self.rng.below(100) {
            part if part < self.profile.packets => Protocol::Pinpriq,
            _ if self.tubes.percent(self.profile.tubes) => Protocol::Beanstalkd,
            _ if self.rng.percent(self.profile.http) => Protocol::Http,
            _ => Protocol::JobCentre,
        };
        let room = self.rng.below(3_000);
        let mut listener = 0;
        let mut token = None;
        if let Some(users) = &mut self.users {
            let named = if protocol == Protocol::Pinpriq { 85 } else { 30 };
            if users.rng().percent(named) {
                listener = users.rng().below(LISTENERS.len());
            }
            token = users.rng().percent(85).then_some(()).map(|()| users.token());
        }
        let id = self.driver.open(protocol, listener, room);
        let socket = self.driver.sockets.get_mut(&id).unwrap();
        socket.driver.token = token;
        socket.slow = self.rng.percent(self.profile.slow);
        socket.driver.patient = self.rng.percent(30);
    }

    /// How many jobs there may be once all have said what they were going to say.
    fn jobs_to_come(&self) -> usize {
        let scripts = self.driver.pair.model.clients.values().flat_map(|client| &client.script);
        let puts = scripts.filter(|(_, request)| request.is_put()).count();
        self.driver.pair.model.store.jobs.len() + puts
    }

    /// A peer thinks up some requests.
    fn compose(&mut self, id: ClientId) {
        let Some(client) = self.driver.pair.model.clients.get(&id) else { return };
        let (protocol, patient) = (client.protocol, self.driver.sockets[&id].driver.patient);
        if patient && (client.has_pending_reply() || client.unsent > 0 || !client.script.is_empty())
        {
            return;
        }
        let burst = if patient { 1 } else { self.profile.burst };
        for _ in 0..self.rng.between(1, burst) {
            self.say_who(id, protocol);
            let full = self.jobs_to_come() >= JOBS_MAX;
            let (rng, store) = (&mut self.rng, &self.driver.pair.model.store);
            let (mut bytes, mut request) =
                self.author.write(rng, &self.profile, (id, protocol), store, full);
            self.authorize(id, &mut bytes, &mut request);
            self.write(id, bytes, request);
        }
    }

    /// A client of lines or of beanstalkd says who it is, if it has to, or perhaps once more.
    fn say_who(&mut self, id: ClientId, protocol: Protocol) {
        let Some(users) = &mut self.users else { return };
        let is_locked = self.driver.pair.model.is_locked(id);
        let is_time = users.rng().percent(if is_locked { 50 } else { 3 });
        if is_time && matches!(protocol, Protocol::JobCentre | Protocol::Beanstalkd) {
            let token = users.token();
            self.write(id, users::auth(protocol, token), Request::Auth(token));
        }
    }

    /// A request of HTTP says who asks, mostly.
    fn authorize(&mut self, id: ClientId, bytes: &mut Vec<u8>, request: &mut Request) {
        let (Some(users), Request::Http(_, manner)) = (&mut self.users, request) else { return };
        let known = self.driver.sockets[&id].driver.token;
        let token = if users.rng().percent(10) { Some(users.token()) } else { known };
        if let Some(token) = token {
            manner.head += users::authorize(bytes, token);
            manner.token = Some(token);
        }
    }

    fn write(&mut self, id: ClientId, bytes: Vec<u8>, request: Request) {
        self.driver.sockets.get_mut(&id).unwrap().plan.extend_from_slice(&bytes);
        self.driver.pair.model.write(id, bytes, request);
    }

    /// A peer begins to leave in one of the many ways, or falls silent.
    fn leave(&mut self, id: ClientId) {
        let socket = self.driver.sockets.get_mut(&id).unwrap();
        socket.cut_short(&mut self.rng);
        if self.rng.percent(15) {
            socket.driver.stuck = true;
            return;
        }
        socket.leave(&mut self.rng);
    }

    /// The network carries bytes, and the peer reads.
    fn move_bytes(&mut self, id: ClientId) {
        let rng = &mut self.rng;
        let socket = self.driver.sockets.get_mut(&id).unwrap();
        let count = socket.draw_arriving(rng);
        socket.carry(count);
        socket.room += socket.draw_reading(rng);
    }

    /// Every client writes what it had to send and reads what it gets, until nothing moves.
    fn drain(&mut self) {
        let mut quiet = 0;
        self.driver.set_found(true);
        while quiet < 3 {
            let before = self.driver.sockets.state();
            for id in self.driver.sockets.ids() {
                let socket = self.driver.sockets.get_mut(&id).unwrap();
                socket.inbox.append(&mut socket.plan);
                if socket.closed == Closed::Not || !socket.slow {
                    socket.room = socket.room.max(1_000_000);
                }
                self.driver.note_end(id);
            }
            self.driver.pass(&mut self.rng);
            // Work that is pending is due at 0.
            let now = self.driver.pair.now;
            let due = self.driver.pair.server.poll_timeout(now).is_some_and(|at| at <= now.mono);
            quiet = if before != self.driver.sockets.state() || due { 0 } else { quiet + 1 };
        }
        for (id, client) in &self.driver.pair.model.clients {
            let socket = &self.driver.sockets[id];
            if socket.closed != Closed::Not {
                continue;
            }
            let waits = client.state == State::Waiting;
            assert!(waits || socket.inbox.is_empty(), "input was not read");
            assert!(waits || !client.has_pending_reply(), "a reply is missing");
            assert_eq!(client.unsent, 0, "output was not sent");
            let left = client.script.front().map_or(0, |(bytes, _)| bytes.len());
            assert!(waits || client.handed < left.max(1), "a request was not executed");
        }
    }

    /// Every client disconnects, and no trace of them is left.
    fn disconnect_all(&mut self) {
        for id in self.driver.sockets.ids() {
            let socket = self.driver.sockets.get_mut(&id).unwrap();
            socket.driver.stuck = false;
            while self.driver.sockets[&id].closed == Closed::Not {
                self.leave(id);
            }
        }
        for _ in 0..6 {
            self.drain();
            self.sleep(FLUSH_TIMEOUT);
        }
        assert_eq!(self.driver.pair.model.clients.len(), 0, "the oracle still sees a client");
        assert_eq!(self.driver.sockets.len(), 0, "a connection is still open");
        assert_eq!(self.driver.pair.server.counts().waiters, 0, "a waiter is left");
    }

    fn requests(&mut self, id: ClientId, question: Question) {
        let form = requests::Form::of(&mut self.rng, &question);
        let (mut bytes, mut manner) = form.write(&mut self.rng, HttpOptions::default());
        if self.users.is_some() {
            manner.head += users::authorize(&mut bytes, TOKEN_OF_ALL);
            manner.token = Some(TOKEN_OF_ALL);
        }
        self.write(id, bytes, Request::Http(question, manner));
    }

    /// A last client sees everything by HTTP: queues, jobs, states and logs.
    fn look_at_all(&mut self) {
        let id = self.driver.open(Protocol::Http, 0, 0);
        self.requests(id, Question::Queues);
        for queue in 0..QUEUES.len() {
            self.requests(id, Question::Find { queue, want: Want::default(), limit: None });
            self.requests(id, Question::List(queue));
        }
        self.drain();
        self.sleep(HTTP_IDLE_TIMEOUT);
    }

    /// Another one fetches and deletes every job that can be had, most urgent first.
    fn collect(&mut self) {
        let id = self.driver.open(Protocol::JobCentre, 0, 0);
        if self.users.is_some() {
            let auth = users::auth(Protocol::JobCentre, TOKEN_OF_ALL);
            self.write(id, auth, Request::Auth(TOKEN_OF_ALL));
        }
        let queues: Vec<usize> = (0..QUEUES.len()).collect();
        let names: Vec<&str> = QUEUES.iter().map(|name| name.written[0]).collect();
        let line = format!("{{\"request\":\"get\",\"queues\":[{}]}}\n", names.join(","));
        let mut ids: Vec<u64> =
            self.driver.pair.model.store.jobs.iter().map(|job| job.id).collect();
        self.rng.shuffle(&mut ids);
        for _ in 0..=ids.len() {
            let request = wire::Request::Get { queues: queues.clone(), wait: false };
            let request = Request::Wire(request);
            self.write(id, line.clone().into_bytes(), request);
        }
        for job in ids {
            let line = format!("{{\"request\":\"delete\",\"id\":{job}}}\n");
            self.write(id, line.into_bytes(), Request::Wire(wire::Request::Delete(JobId(job))));
        }
        self.drain();
        assert_eq!(self.driver.pair.server.counts().jobs, 0, "a job is left over");
    }
}

fn run(seed: u64) -> Summary {
    Run::new(seed).go()
}

#[test]
fn all_protocols_agree_with_the_oracle() {
    PLAN.run(&WANTED, 4, run);
}

#[test]
fn same_seed_gives_the_same_run() {
    seeds::assert_one_seed_is_one_run(run);
}

/// The peer's reading is all that happens while a long answer waits, and nothing is behind it.
#[test]
fn long_reply_to_a_slow_reader_is_completed() {
    let mut run = Run::new(1);
    let id = run.driver.open(Protocol::Http, 0, 0);
    for number in 0..8 {
        let payload = format!("{{\"n\":{number},\"s\":\"{}\"}}", "x".repeat(90_000));
        run.requests(id, Question::Post { queue: DEFAULT, payload, state: 0 });
    }
    run.drain();
    run.driver.sockets.get_mut(&id).unwrap().room = 0;
    run.requests(id, Question::Find { queue: DEFAULT, want: Want::default(), limit: None });
    let socket = run.driver.sockets.get_mut(&id).unwrap();
    socket.inbox.append(&mut socket.plan);
    for _ in 0..100 {
        run.driver.pass(&mut run.rng);
    }
    assert!(run.driver.pair.model.client(id).unsent > OUTPUT_HIGH_WATER_BYTES);
    run.drain();
    let waited = "a long answer waited for its reader";
    assert_eq!(run.driver.pair.model.store.seen.get(waited), Some(&1));
}
