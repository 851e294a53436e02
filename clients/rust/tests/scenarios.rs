//! Plays the table of scenarios that all clients share (`clients/scenarios`), each with a real
//! server.
#![allow(clippy::unwrap_used, clippy::unit_arg, reason = "a test may panic")]

mod support;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobcentre_client::test::Server;
use jobcentre_client::{Backoff, Client, Error, Failure, Job, NewJob, OnDuplicate, Placed, Result};
use serde_json::{Value, json};
use support::takeover::TakeoverServer;
use support::{LossyProxy, write_certificate, write_client_certificate, write_users};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);
const TABLE: &str = include_str!("../../scenarios/scenarios.json");

/// What the types of this client exclude: reports take the job.
const EXCLUDED: [&str; 1] = ["reported_twice"];

/// What a step has come to.
enum Outcome {
    Value(Value),
    Placed(Placed),
}

/// The server of a scenario.
enum Played {
    One(Server),
    Takeover(TakeoverServer),
}

impl Played {
    fn kill(&mut self) {
        match self {
            Self::One(server) => server.kill(),
            Self::Takeover(servers) => servers.kill(),
        }
    }

    fn start(&mut self) -> Result<()> {
        match self {
            Self::One(server) => server.restart(),
            Self::Takeover(servers) => servers.take_over(),
        }
    }
}

struct Player {
    server: Mutex<Played>,
    proxy: Option<LossyProxy>,
    client: Client,
    ids: Mutex<HashMap<String, u64>>,
    jobs: Mutex<HashMap<String, Job>>,
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs_f64(value.as_f64().unwrap_or_default())
}

fn text(step: &Value, name: &str) -> String {
    step[name].as_str().unwrap_or_else(|| panic!("{step} has no {name}")).to_owned()
}

impl Player {
    fn new(terms: &Value, needs_proxy: bool, folder: &Path) -> Self {
        let mut builder = Server::builder();
        let mut query = String::new();
        match terms["listen"].as_str() {
            Some("unix") => {
                builder = builder.listen(format!("unix:{}", folder.join("socket").display()));
            }
            Some("tls") => {
                let (certificate, key) = write_certificate(folder);
                if terms["trusts"] != json!(false) {
                    query = format!("?ca={}", certificate.display());
                }
                builder = builder.listen("tls:127.0.0.1:0");
                for argument in ["--tls-cert".into(), certificate, "--tls-key".into(), key] {
                    builder = builder.argument(argument.display().to_string());
                }
                if terms["asks_certificate"] == json!(true) {
                    let [trusted, own, key] = write_client_certificate(folder);
                    builder = builder.argument("--tls-client-ca");
                    builder = builder.argument(trusted.display().to_string());
                    if terms["presents"] != json!(false) {
                        write!(query, "&cert={}&key={}", own.display(), key.display()).unwrap();
                    }
                }
            }
            _ => {}
        }
        if let Some(users) = terms["users"].as_array() {
            let path = write_users(folder, users).display().to_string();
            builder = builder.argument("--config").argument(path);
        }
        if terms["data"] == json!(true) {
            builder = builder.data(folder.join("data"));
        }
        let server = builder.start().unwrap();
        let proxy = needs_proxy.then(|| LossyProxy::start(server.address().to_owned()));
        let url = match &proxy {
            Some(proxy) => format!("jobcentre://{}", proxy.address),
            None => server.url() + &query,
        };
        let mut client = Client::builder(url).timeout(PATIENCE);
        if let Some(token) = terms["token"].as_str() {
            client = client.token(token);
        }
        let client = client.build().unwrap();
        Self::of(Played::One(server), proxy, client)
    }

    fn of(server: Played, proxy: Option<LossyProxy>, client: Client) -> Self {
        let (ids, jobs) = (Mutex::default(), Mutex::default());
        Self { server: Mutex::new(server), proxy, client, ids, jobs }
    }

    fn id(&self, step: &Value) -> u64 {
        self.ids.lock().unwrap()[step["job"].as_str().unwrap()]
    }

    fn take(&self, step: &Value) -> Job {
        self.jobs.lock().unwrap().remove(step["job"].as_str().unwrap()).expect("a job that is held")
    }

    fn keep(&self, step: &Value, job: Job) {
        self.jobs.lock().unwrap().insert(text(step, "job"), job);
    }

    fn new_job(&self, step: &Value) -> Result<NewJob> {
        let mut job = NewJob::new(text(step, "queue"), &step["job"])?;
        for (name, value) in step.as_object().unwrap() {
            let number = value.as_u64().unwrap_or_default();
            let words = || value.as_str().unwrap_or_default();
            job = match name.as_str() {
                "pri" => job.pri(value.as_i64().unwrap()),
                "delay" => job.delay(seconds(value)),
                "ttl" => job.ttl(seconds(value)),
                "ttr" => job.ttr(seconds(value)),
                "max_attempts" => job.max_attempts(u32::try_from(number).unwrap()),
                "backoff" => {
                    let first = value["first_ms"].as_u64().unwrap();
                    job.backoff(Backoff::fixed(Duration::from_millis(first)))
                }
                "keep_result" => job.keep_result(seconds(value)),
                "key" => job.unique(words()),
                "key_ttl" => job.unique_for(seconds(value)),
                "on_duplicate" if words() == "replace" => job.on_duplicate(OnDuplicate::Replace),
                "on_duplicate" => job.on_duplicate(OnDuplicate::Reject),
                "after" => {
                    let ids = self.ids.lock().unwrap();
                    let names = value.as_array().unwrap().iter();
                    job.after(names.map(|name| ids[name.as_str().unwrap()]))
                }
                "safe" => job.safe(value.as_bool().unwrap()),
                "do" | "as" | "queue" | "job" | "expect" | "error" | "background" => job,
                _ => panic!("a put has no option {name}"),
            };
        }
        Ok(job)
    }

    async fn put(&self, step: &Value) -> Result<Outcome> {
        let placed = self.client.put_job(self.new_job(step)?).await?;
        self.ids.lock().unwrap().entry(text(step, "as")).or_insert(placed.id);
        Ok(Outcome::Placed(placed))
    }

    async fn get(&self, step: &Value) -> Result<Value> {
        let queues = step["queues"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
        let found = self.client.reserve(queues).wait(seconds(&step["wait"])).await?;
        let Some(job) = found else { return Ok(Value::Null) };
        let payload = job.payload()?;
        if step["as"].is_string() {
            self.jobs.lock().unwrap().insert(text(step, "as"), job);
        }
        Ok(payload)
    }

    /// Of a job the members that are expected.
    async fn peek(&self, step: &Value) -> Result<Value> {
        let found: Option<Value> = self.client.call("peek", &json!({"id": self.id(step)})).await?;
        Ok(found.map_or(Value::Null, |found| members(&found, &step["expect"])))
    }

    async fn until(&self, step: &Value) -> Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.peek(step).await?;
            if found == step["expect"] || Instant::now() > deadline {
                return Ok(found);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn many(&self, step: &Value) -> Result<Value> {
        let count = step["count"].as_u64().unwrap();
        let queue = text(step, "queue");
        if step["do"] == "put_many" {
            let jobs = (0..count).map(|n| NewJob::new(&queue, &json!({"n": n})).unwrap());
            let mut ids = std::collections::HashSet::new();
            for placed in self.client.put_many(jobs).await? {
                ids.insert(placed?.id);
            }
            return Ok(json!(ids.len()));
        }
        for n in 0..count {
            let job = self.client.reserve([queue.as_str()]).await?.expect("a job");
            assert_eq!(job.payload::<Value>()?, json!({"n": n}));
            job.complete().await?;
        }
        Ok(json!(true))
    }

    async fn result(&self, step: &Value) -> Result<Value> {
        self.client.result(self.id(step), seconds(&step["timeout"])).await
    }

    async fn fail(&self, step: &Value) -> Result<()> {
        let mut failure = Failure::new(text(step, "error_name"), text(step, "message"));
        if step["retry"] == json!(false) {
            failure = failure.no_retry();
        }
        if !step["delay"].is_null() {
            failure = failure.retry_in(seconds(&step["delay"]));
        }
        self.take(step).fail(failure).await
    }

    async fn done(&self, step: &Value) -> Result<()> {
        match step.get("result") {
            Some(result) => self.take(step).complete_with(result).await,
            None => self.take(step).complete().await,
        }
    }

    async fn tell(&self, step: &Value) -> Result<bool> {
        let job = self.take(step);
        let told = match step["do"].as_str() {
            Some("touch") => job.touch().await,
            _ => job.progress(step["part"].as_f64().unwrap(), step["message"].as_str()).await,
        };
        self.keep(step, job);
        told
    }

    async fn outcome(&self, step: &Value) -> Result<Outcome> {
        let value = match step["do"].as_str().unwrap() {
            "put" => return self.put(step).await,
            "put_many" | "get_many" => self.many(step).await?,
            "get" => self.get(step).await?,
            "done" => self.done(step).await?.into(),
            "fail" => self.fail(step).await?.into(),
            "release" => self.take(step).release().await?.into(),
            "close" => self.take(step).abandon().into(),
            "touch" | "progress" => self.tell(step).await?.into(),
            "cancel" => self.client.cancel(self.id(step)).await?.into(),
            "delete" => self.client.delete(self.id(step)).await?.into(),
            "kick" => self.client.kick(self.id(step)).await?.into(),
            "peek" => self.peek(step).await?,
            "until" => self.until(step).await?,
            "result" => self.result(step).await?,
            "count" => {
                let fields = json!({"queue": step["queue"]});
                let stats: Option<Value> = self.client.call("stats", &fields).await?;
                stats.expect("a queue")["counts"][step["state"].as_str().unwrap()].clone()
            }
            "drain" => self.client.drain(step["on"] == json!(true)).await?.into(),
            "lose_answer" => self.proxy.as_ref().unwrap().lose_answer().into(),
            "kill_server" => self.server.lock().unwrap().kill().into(),
            "start_server" => self.server.lock().unwrap().start()?.into(),
            other => panic!("there is no step {other}"),
        };
        Ok(Outcome::Value(value))
    }

    fn compare(&self, step: &Value, outcome: Result<Outcome>) {
        if let Some(kind) = step["error"].as_str() {
            let error = outcome.err().unwrap_or_else(|| panic!("{step} has succeeded"));
            let is_lost = matches!(error, Error::AnswerLost(_));
            let matches = error.kind() == kind || kind == "connection-lost" && is_lost;
            assert!(matches, "{step}: {}: {error}", error.kind());
            return;
        }
        let outcome = outcome.unwrap_or_else(|error| panic!("{step}: {}: {error}", error.kind()));
        let Some(expect) = step.get("expect") else { return };
        match outcome {
            Outcome::Value(value) => assert_eq!(&value, expect, "{step}"),
            Outcome::Placed(placed) => {
                assert_eq!(json!(placed.duplicate), expect["duplicate"], "{step}");
                if let Some(other) = expect["same_as"].as_str() {
                    assert_eq!(placed.id, self.ids.lock().unwrap()[other], "{step}");
                }
            }
        }
    }
}

fn members(found: &Value, expect: &Value) -> Value {
    let Some(expect) = expect.as_object() else { return found.clone() };
    expect.iter().map(|(name, value)| (name.clone(), members(&found[name], value))).collect()
}

async fn play(scenario: &Value) {
    let steps = scenario["steps"].as_array().unwrap();
    let needs_proxy = steps.iter().any(|step| step["do"] == "lose_answer");
    let folder = tempfile::tempdir().unwrap();
    play_with(Player::new(&scenario["server"], needs_proxy, folder.path()), steps).await;
}

async fn play_with(player: Player, steps: &[Value]) {
    let player = Arc::new(player);
    let mut background: HashMap<String, JoinHandle<Result<Outcome>>> = HashMap::new();
    for step in steps {
        if step["do"] == "join" {
            let outcome = background.remove(&text(step, "background")).unwrap().await.unwrap();
            player.compare(step, outcome);
        } else if step["background"].is_string() {
            let (player, step) = (player.clone(), step.clone());
            let name = text(&step, "background");
            background.insert(name, tokio::spawn(async move { player.outcome(&step).await }));
        } else {
            player.compare(step, player.outcome(step).await);
        }
    }
    if let Some(proxy) = &player.proxy {
        assert!(proxy.has_lost(), "no answer was lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scenario_of_the_table() {
    let table: Value = serde_json::from_str(TABLE).unwrap();
    let mut failed = Vec::new();
    let mut played = 0;
    for scenario in table["scenarios"].as_array().unwrap() {
        let name = text(scenario, "name");
        if EXCLUDED.contains(&name.as_str()) {
            continue;
        }
        let scenario = scenario.clone();
        let playing = tokio::spawn(async move { play(&scenario).await });
        played += 1;
        if let Err(panic) = playing.await {
            failed.push((name, panic.to_string()));
        }
    }
    assert!(played > 40, "the table has {played} scenarios");
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_whose_server_keeps_its_jobs_with_a_takeover() {
    let table: Value = serde_json::from_str(TABLE).unwrap();
    let scenarios = table["scenarios"].as_array().unwrap().iter();
    let kept: Vec<&Value> = scenarios.filter(|it| it["server"] == json!({"data": true})).collect();
    assert!(kept.len() >= 4, "the table has {} of them", kept.len());
    for scenario in kept {
        let folder = tempfile::tempdir().unwrap();
        let Some(servers) = TakeoverServer::start(folder.path()) else {
            return eprintln!("SKIPPED: redis-server is not installed");
        };
        let client = Client::builder(servers.url()).timeout(PATIENCE).build().unwrap();
        let player = Player::of(Played::Takeover(servers), None, client);
        play_with(player, scenario["steps"].as_array().unwrap()).await;
    }
}
