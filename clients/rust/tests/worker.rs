//! The worker against the real server: the table `programs` of `clients/scenarios`.
#![allow(clippy::unwrap_used, clippy::unit_arg, reason = "a test may panic")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jobcentre_client::test::Server;
use jobcentre_client::{Backoff, Client, Context, Error, Failure, Job, Stopped, Worker};
use serde::{Deserialize, Serialize};
use serde_json::json;
use support::takeover::TakeoverServer;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Number {
    n: u64,
}

/// A worker beside the test, and what stops it.
struct Running {
    stop: oneshot::Sender<()>,
    worker: JoinHandle<jobcentre_client::Result<Stopped>>,
}

impl Running {
    fn start(worker: jobcentre_client::WorkerBuilder) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        Self { stop, worker: tokio::spawn(worker.run_until(stopped)) }
    }

    async fn stop(self) -> Stopped {
        self.stop.send(()).unwrap();
        self.worker.await.unwrap().unwrap()
    }
}

async fn client_of(server: &Server) -> Client {
    Client::builder(server.url()).timeout(PATIENCE).connect().await.unwrap()
}

/// Waits until a job is in a state; "gone" if it is not there.
async fn until_state(client: &Client, id: u64, state: &str) {
    for _ in 0..6_000 {
        let found = client.peek(id).await.unwrap();
        if found.as_ref().map_or("gone", |job| job.state.as_str()) == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("job {id} is not {state} in a minute");
}

#[tokio::test]
async fn worker_runs_tasks() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let worker = Worker::builder(client.clone())
        .queue("double", |number: Number, _: Context| async move { Ok::<_, Failure>(number.n * 2) })
        .queue_blocking("triple", |number: Number, context: Context| {
            assert_eq!(context.queue(), "triple");
            Ok::<_, Failure>(number.n * 3)
        });
    let running = Running::start(worker);
    for (queue, factor) in [("double", 2), ("triple", 3)] {
        let placed = client.put(queue, &Number { n: 7 }).keep_result(PATIENCE).await.unwrap();
        assert_eq!(client.result::<u64>(placed.id, PATIENCE).await.unwrap(), 7 * factor);
    }
    assert_eq!(running.stop().await.finished, 2);
}

#[tokio::test]
async fn worker_retries_and_buries() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let worker = Worker::builder(client.clone())
        .queue("flaky", move |_: Number, _: Context| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move { if run < 2 { Err(std::io::Error::other("not yet")) } else { Ok(run) } }
        })
        .queue("panics", |number: Number, _: Context| async move {
            assert_eq!(number.n, 0, "no zero");
            Ok::<_, Failure>(())
        })
        .queue("typed", |_: Number, _: Context| async move { Ok::<_, Failure>(()) });
    let running = Running::start(worker);
    let quick = || Backoff::fixed(Duration::from_millis(1));
    let placed = client.put("flaky", &Number { n: 1 }).backoff(quick()).keep_result(PATIENCE);
    let placed = placed.await.unwrap();
    assert_eq!(client.result::<u64>(placed.id, PATIENCE).await.unwrap(), 2);
    let put = client.put("panics", &Number { n: 1 }).max_attempts(2).backoff(quick());
    let error = client.result::<()>(put.await.unwrap().id, PATIENCE).await.unwrap_err();
    let Error::JobFailed { error, message } = error else { panic!("{error}") };
    assert!(error == "Panic" && message.contains("no zero"), "{error}: {message}");
    let id = client.put("typed", &json!({"n": "text"})).await.unwrap().id;
    let error = client.result::<()>(id, PATIENCE).await.unwrap_err();
    assert!(matches!(&error, Error::JobFailed { error, .. } if error == "Payload"), "{error}");
    let stopped = running.stop().await;
    assert_eq!((stopped.finished, stopped.failed), (1, 5));
}

#[tokio::test]
async fn graceful_stop_waits() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (began2, go_on2) = (began.clone(), go_on.clone());
    let worker = Worker::builder(client.clone()).concurrency(1).grace(PATIENCE).queue(
        "q",
        move |_: Number, _: Context| {
            let (began, go_on) = (began2.clone(), go_on2.clone());
            async move {
                began.notify_one();
                go_on.notified().await;
                Ok::<_, Failure>(())
            }
        },
    );
    let running = Running::start(worker);
    let first = client.put("q", &Number { n: 1 }).await.unwrap().id;
    let second = client.put("q", &Number { n: 2 }).await.unwrap().id;
    began.notified().await;
    running.stop.send(()).unwrap();
    go_on.notify_one();
    assert_eq!(running.worker.await.unwrap().unwrap().finished, 1);
    until_state(&client, first, "gone").await;
    let left = client.peek(second).await.unwrap().expect("a job");
    assert_eq!((left.state.as_str(), left.attempts), ("ready", 0));
}

#[tokio::test]
async fn graceful_stop_gives_back() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let began = Arc::new(Notify::new());
    let began2 = began.clone();
    let worker = Worker::builder(client.clone()).grace(Duration::from_millis(1)).queue(
        "q",
        move |_: Number, _: Context| {
            let began = began2.clone();
            async move {
                began.notify_one();
                std::future::pending::<()>().await;
                Ok::<_, Failure>(())
            }
        },
    );
    let running = Running::start(worker);
    let id = client.put("q", &Number { n: 1 }).max_attempts(1).await.unwrap().id;
    began.notified().await;
    assert_eq!(running.stop().await.given_back, 1);
    let job = client.peek(id).await.unwrap().expect("a job");
    assert_eq!((job.state.as_str(), job.attempts), ("ready", 0));
}

#[tokio::test]
async fn lease_is_touched() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let watcher = client.clone();
    // It ends once its first lease would have ended three times over: by the server's own clock, a
    // job that is delayed by that time has come.
    let worker = Worker::builder(client.clone()).heartbeat(Duration::from_millis(200)).queue(
        "q",
        move |_: Number, _: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            let watcher = watcher.clone();
            async move {
                let clock = watcher.reserve(["clock"]).wait(PATIENCE).await?.expect("a job");
                clock.complete().await?;
                Ok::<_, Failure>(())
            }
        },
    );
    let running = Running::start(worker);
    client.put("clock", &json!({})).delay(Duration::from_secs(9)).await.unwrap();
    let ttr = Duration::from_secs(3);
    let id = client.put("q", &Number { n: 1 }).ttr(ttr).keep_result(PATIENCE).await.unwrap().id;
    client.result::<()>(id, PATIENCE).await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(running.stop().await.finished, 1);
}

#[tokio::test]
async fn cancelled_while_it_runs() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let began = Arc::new(Notify::new());
    let began2 = began.clone();
    let worker = Worker::builder(client.clone()).heartbeat(Duration::from_millis(10)).queue(
        "q",
        move |_: Number, _: Context| {
            let began = began2.clone();
            async move {
                began.notify_one();
                std::future::pending::<()>().await;
                Ok::<_, Failure>(())
            }
        },
    );
    let running = Running::start(worker.grace(PATIENCE));
    let id = client.put("q", &Number { n: 1 }).await.unwrap().id;
    began.notified().await;
    assert!(client.cancel(id).await.unwrap());
    // The grace is long: it stops because the run has ended.
    assert_eq!(running.stop().await.lost, 1);
}

#[tokio::test]
async fn run_takes_too_long() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let worker = Worker::builder(client.clone()).timeout(Duration::from_millis(20)).queue(
        "q",
        |_: Number, _: Context| async move {
            std::future::pending::<()>().await;
            Ok::<_, Failure>(())
        },
    );
    let running = Running::start(worker);
    let id = client.put("q", &Number { n: 1 }).max_attempts(1).await.unwrap().id;
    let error = client.result::<()>(id, PATIENCE).await.unwrap_err();
    assert!(matches!(&error, Error::JobFailed { error, .. } if error == "Timeout"), "{error}");
    assert_eq!(running.stop().await.failed, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_killed_in_mid_job() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::builder().data(folder.path().join("data")).start().unwrap();
    let client = client_of(&server).await;
    jobs_outlive(client, move || {
        server.kill();
        server.restart().unwrap();
        server
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeover_in_mid_job() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut servers) = TakeoverServer::start(folder.path()) else {
        return eprintln!("SKIPPED: redis-server is not installed");
    };
    let client = Client::connect(&servers.url()).await.unwrap();
    jobs_outlive(client, move || {
        servers.kill();
        servers.take_over().unwrap();
        servers
    })
    .await;
}

/// A worker has run half of the jobs when `kill` kills the server; it returns the one that goes on.
async fn jobs_outlive<T>(client: Client, kill: impl FnOnce() -> T) {
    const JOBS: u64 = 60;
    let runs: Arc<Vec<AtomicU64>> = Arc::new((0..JOBS).map(|_| AtomicU64::new(0)).collect());
    let counted = runs.clone();
    let half = Arc::new(Notify::new());
    let half2 = half.clone();
    let worker = Worker::builder(client.clone()).concurrency(8).queue(
        "q",
        move |number: Number, _: Context| {
            counted[usize::try_from(number.n).unwrap()].fetch_add(1, Ordering::SeqCst);
            if number.n == JOBS / 2 {
                half2.notify_one();
            }
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok::<_, Failure>(())
            }
        },
    );
    let jobs = (0..JOBS).map(|n| jobcentre_client::NewJob::new("q", &Number { n }).unwrap());
    for placed in client.put_many(jobs).await.unwrap() {
        placed.unwrap();
    }
    let running = Running::start(worker);
    half.notified().await;
    let _server = kill();
    for _ in 0..6_000 {
        let counts = client.queue("q").await.unwrap().map(|queue| queue.counts).unwrap_or_default();
        if counts.ready + counts.reserved + counts.scheduled + counts.buried == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.stop().await;
    let counts: Vec<u64> = runs.iter().map(|runs| runs.load(Ordering::SeqCst)).collect();
    assert!(counts.iter().all(|count| (1..=2).contains(count)), "{counts:?}");
    // Twice at most what ran when the server was killed.
    assert!(counts.iter().filter(|count| **count == 2).count() <= 8, "{counts:?}");
}

/// The worker of `worker_killed_in_mid_job`, in a process of its own: it does not end the jobs from
/// 6 on.
#[tokio::test]
#[ignore = "a process of another test"]
async fn process_of_a_worker() {
    let Ok(url) = std::env::var("URL_OF_THE_TEST") else { return };
    let client = Client::connect(&url).await.unwrap();
    let worker = Worker::builder(client).concurrency(4).queue(
        "q",
        |number: Number, _: Context| async move {
            if number.n >= 6 {
                std::future::pending::<()>().await;
            }
            Ok::<_, Failure>(())
        },
    );
    worker.run_until(std::future::pending::<()>()).await.unwrap();
}

#[tokio::test]
async fn worker_killed_in_mid_job() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder().data(folder.path().join("data")).start().unwrap();
    let client = client_of(&server).await;
    let mut ids = Vec::new();
    for n in 0..12 {
        ids.push(client.put("q", &Number { n }).await.unwrap().id);
    }
    let mut process = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process_of_a_worker", "--ignored"])
        .env("URL_OF_THE_TEST", server.url())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for id in &ids[..6] {
        until_state(&client, *id, "gone").await;
    }
    for id in &ids[6..10] {
        until_state(&client, *id, "reserved").await;
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let runs = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = runs.clone();
    let worker = Worker::builder(client.clone()).queue("q", move |number: Number, _: Context| {
        seen.lock().unwrap().push(number.n);
        async { Ok::<_, Failure>(()) }
    });
    let running = Running::start(worker);
    for id in &ids {
        until_state(&client, *id, "gone").await;
    }
    running.stop().await;
    let mut runs = runs.lock().unwrap().clone();
    runs.sort_unstable();
    // Each that the dead worker had not reported, once more; those that it had, never.
    assert_eq!(runs, [6, 7, 8, 9, 10, 11]);
}

#[tokio::test]
async fn reserve_that_is_dropped_gives_back() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let id = client.put("q", &Number { n: 1 }).max_attempts(1).await.unwrap().id;
    // Sent, and dropped before its answer is read.
    for _ in 0..20 {
        let reserve = client.reserve(["q"]).into_future();
        tokio::select! { biased; _ = reserve => {}, () = tokio::task::yield_now() => {} }
    }
    // A wait that is dropped takes nothing.
    let waiting = client.reserve(["other"]).wait(PATIENCE).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    let other = client.put("other", &Number { n: 2 }).await.unwrap().id;
    for (queue, id) in [("q", id), ("other", other)] {
        let job: Job = client.reserve([queue]).wait(PATIENCE).await.unwrap().expect("a job");
        assert_eq!(job.id(), id);
        assert_eq!(client.peek(id).await.unwrap().unwrap().attempts, 1);
        // Dropped: it is ready again, and this was no attempt.
        drop(job);
        until_state(&client, id, "ready").await;
        assert_eq!(client.peek(id).await.unwrap().unwrap().attempts, 0);
    }
}

#[cfg(feature = "tower")]
#[tokio::test]
async fn layers_go_around_handlers() {
    let server = Server::start().unwrap();
    let client = client_of(&server).await;
    let worker = Worker::builder(client.clone())
        .layer(tower::limit::ConcurrencyLimitLayer::new(1))
        .queue("q", |number: Number, _: Context| async move {
            if number.n == 0 { Err(Failure::new("Zero", "no").no_retry()) } else { Ok(number.n) }
        });
    let running = Running::start(worker);
    let id = client.put("q", &Number { n: 3 }).keep_result(PATIENCE).await.unwrap().id;
    assert_eq!(client.result::<u64>(id, PATIENCE).await.unwrap(), 3);
    let id = client.put("q", &Number { n: 0 }).await.unwrap().id;
    let error = client.result::<()>(id, PATIENCE).await.unwrap_err();
    assert!(matches!(&error, Error::JobFailed { error, .. } if error == "Zero"), "{error}");
    running.stop().await;
}
