//! The programs in `examples`, against the real server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/web.rs"]
mod web;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobcentre_client::Client;
use jobcentre_client::test::Server;
use serde_json::json;
use web::Answer;

const PATIENCE: Duration = Duration::from_secs(60);

/// A program with the variables that say where the server is.
fn program(path: impl AsRef<Path>, server: &Server) -> Command {
    let path = path.as_ref();
    let mut command = Command::new(path);
    command.env("JOBCENTRE_URL", server.url()).env_remove("JOBCENTRE_TOKEN");
    if let Some(http) = server.http_url() {
        command.env("JOBCENTRE_HTTP_URL", http);
    }
    command
}

/// `cargo test` without `--test` has built it.
fn example(name: &str, server: &Server) -> Command {
    let folder = std::env::current_exe().unwrap();
    let path = folder.parent().unwrap().join("../examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    program(path, server)
}

fn jobcentre(server: &Server, words: &[&str]) -> String {
    let binary = std::env::var_os("JOBCENTRE_BINARY").unwrap_or_else(|| "jobcentre".into());
    printed(program(PathBuf::from(binary), server).args(words))
}

fn printed(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The worker of an example, which is killed when the test is over.
struct Work(Child);

impl Work {
    fn start(mut command: Command) -> Self {
        Self(command.arg("work").stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "in vain waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn thumbnails() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (site, _) = web::start(Duration::ZERO, |path, before| {
        let rows = |upper: [u8; 6], lower: [u8; 6]| [upper.repeat(32), lower.repeat(32)].concat();
        let (header, pixels) = match path {
            "/grey.ppm" => ("P6 16 8 255\n", [100, 150, 200].repeat(128)),
            _ => ("P6 8 16 255\n", rows([7; 6], [0, 0, 9, 0, 0, 11])),
        };
        // The site is out of order for a moment.
        let status = if before == 0 { 503 } else { 200 };
        Answer { status, header: "", body: [header.as_bytes(), &pixels].concat() }
    });
    let _work = Work::start(example("thumbnails", &server));
    let urls = ["grey", "rows"].map(|name| format!("{site}/{name}.ppm"));
    let printed = printed(example("thumbnails", &server).arg(folder.path()).args(&urls));
    let mut paths = Vec::new();
    for (line, url) in printed.lines().zip(&urls) {
        paths.push(line.strip_prefix(&format!("{url} ")).unwrap());
    }
    assert_eq!(std::fs::read(paths[0]).unwrap(), b"P6 2 1 255\n\x64\x96\xc8\x64\x96\xc8");
    assert_eq!(std::fs::read(paths[1]).unwrap(), b"P6 1 2 255\n\x07\x07\x07\x00\x00\x0a");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn import_orders() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.csv"), folder.path().join("two.csv"));
    std::fs::write(&one, "ann,6\n".repeat(50_000) + "bob,7\n").unwrap();
    std::fs::write(&two, "ann,10\n").unwrap();
    let text = printed(example("import_orders", &server).args([&one, &two]));
    assert_eq!(text, "ann 300010\nbob 7\n");
    // A report that did not wait for the files would have failed before.
    assert_eq!(
        jobcentre(&server, &["peek", "3", "--columns", "queue,attempts"]),
        "orders-report\t1\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn api_calls() {
    let server = Server::builder().http().start().unwrap();
    let (api, seen) = web::start(Duration::from_millis(50), |path, before| {
        let busy = path == "/busy" && before == 0;
        let (status, header) = if busy { (429, "Retry-After: 3456000\r\n") } else { (200, "") };
        Answer { status, header, body: json!(path).to_string().into_bytes() }
    });
    // The command that the example names.
    let text = include_str!("../examples/api_calls.rs").replace("//!", "");
    let (_, constraint) = text.split_once("jobcentre constraints set api-calls '").unwrap();
    let constraint = constraint.split('\'').next().unwrap();
    jobcentre(&server, &["constraints", "set", "api-calls", constraint]);

    let mut work = example("api_calls", &server);
    work.env("API_URL", &api);
    let _work = Work::start(work);
    let client = Client::connect(&server.url()).await.unwrap();
    client.pause("api-calls").await.unwrap();
    let paths: Vec<String> =
        (0..41).map(|n| if n == 0 { "/busy".into() } else { format!("/{n}") }).collect();
    let mut calls = example("api_calls", &server);
    let calling = calls.args(&paths).stdout(Stdio::piped()).spawn().unwrap();
    while client
        .queue("api-calls")
        .await
        .unwrap()
        .is_none_or(|queue| queue.counts.ready + queue.counts.blocked < 41)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let begin = Instant::now();
    client.resume("api-calls").await.unwrap();
    // The call that was refused is due in forty days; it is not waited for.
    let columns = ["peek", "1", "--columns", "state,created_at,available_at"];
    let mut months = None;
    until("a call that was refused", || {
        let line = jobcentre(&server, &columns);
        let fields: Vec<&str> = line.trim().split('\t').collect();
        months = Some((fields[1][..7].to_owned(), fields[2][..7].to_owned()));
        fields[0] == "scheduled"
    });
    let (put, due) = months.unwrap();
    assert!(due > put, "put in {put}, due in {due}");
    assert!(client.kick(1).await.unwrap());
    let done = calling.wait_with_output().unwrap();
    let expected: Vec<_> = paths.iter().map(|path| format!("{path} \"{path}\"")).collect();
    assert_eq!(String::from_utf8(done.stdout).unwrap().lines().collect::<Vec<_>>(), expected);

    let mut seen = seen.lock().unwrap();
    assert!(seen.most_at_a_time <= 3, "{} at a time", seen.most_at_a_time);
    assert_eq!(seen.asked.len(), paths.len() + 1);
    // Ten at once, then ten a second: a busy machine makes calls later, never earlier.
    seen.asked.sort_by_key(|asked| asked.at);
    for (n, asked) in seen.asked.iter().enumerate().skip(10) {
        let least = Duration::from_millis(100) * u32::try_from(n - 9).unwrap();
        let late = asked.at - begin;
        assert!(late + Duration::from_millis(10) >= least, "call {n} after {late:?}");
    }
}

#[test]
fn cron() {
    let server = Server::builder().http().start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, copies) = (folder.path().join("shop.db"), folder.path().join("copies"));
    std::fs::write(&file, "17").unwrap();
    std::fs::create_dir(&copies).unwrap();
    let set = |seconds: &str| {
        let mut command = example("cron", &server);
        printed(command.arg("set").args([&file, &copies]).arg(seconds));
    };
    set("0.2");
    let _work = Work::start(example("cron", &server));
    // The clock of Berlin is one or two hours ahead.
    let listed = printed(example("cron", &server).arg("list"));
    let backup = listed.lines().next().unwrap().strip_prefix("backup ").unwrap();
    assert!(
        backup.ends_with("T01:30:00.000Z\"") || backup.ends_with("T00:30:00.000Z\""),
        "{backup}"
    );
    let lines = |text: String| text.lines().filter(|line| *line == "2").count();
    let sizes = copies.join("sizes.txt");
    until("three runs", || std::fs::read_to_string(&sizes).is_ok_and(|text| lines(text) >= 3));
    jobcentre(&server, &["schedules", "run", "backup"]);
    let is_copy = |path: &Path| path.to_string_lossy().contains("shop.db.day-");
    until("a copy", || {
        std::fs::read_dir(&copies)
            .unwrap()
            .flatten()
            .any(|found| is_copy(&found.path()) && std::fs::read(found.path()).unwrap() == b"17")
    });
    // The next deployment changes the interval; another one removes the schedules.
    set("3600");
    let listed = jobcentre(&server, &["schedules", "--columns", "name,cron,every_ms"]);
    assert_eq!(listed, "backup\t30 2 * * *\t\nmeasure\t\t3600000\n");
    printed(example("cron", &server).arg("remove"));
    assert_eq!(jobcentre(&server, &["schedules"]), "");
    // The server says what is wrong.
    let done = example("cron", &server).arg("list").output().unwrap();
    assert!(String::from_utf8_lossy(&done.stderr).contains("there is no schedule of this name"));
}
