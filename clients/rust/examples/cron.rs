//! Jobs by the clock. The server has the schedules: one job a moment, however many workers wait.
//!
//! `cargo run -p jobcentre-client --example cron -- set FILE FOLDER [SECONDS]` makes the schedules,
//! or changes them; `... -- list` says when each puts its next job; `... -- remove` removes them;
//! `... -- work` runs the jobs, until Ctrl-C. `jobcentre schedules` lists them all, too, and
//! `jobcentre schedules run backup` puts the job of one now.
//!
//! Schedules are made over the HTTP listener of the server, `http://127.0.0.1:11480` unless
//! `$JOBCENTRE_HTTP_URL` names another one, with the token in `$JOBCENTRE_TOKEN`, if it is set.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jobcentre_client::{Client, Context, Failure, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Clone, Serialize, Deserialize)]
struct Place {
    file: PathBuf,
    folder: PathBuf,
}

#[tokio::main]
async fn main() -> Anyhow<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["set", file, folder] => set(file, folder, 60.0)?,
        ["set", file, folder, seconds] => set(file, folder, seconds.parse()?)?,
        ["list"] => {
            for name in ["backup", "measure"] {
                println!("{name} {}", request("GET", name, None)?["next_runs"][0]);
            }
        }
        ["remove"] => {
            for name in ["backup", "measure"] {
                request("DELETE", name, None)?;
            }
        }
        ["work"] => {
            let url = std::env::var("JOBCENTRE_URL").unwrap_or_else(|_| "127.0.0.1:11400".into());
            let mut client = Client::builder(url);
            if let Ok(token) = std::env::var("JOBCENTRE_TOKEN") {
                client = client.token(token);
            }
            let worker = Worker::builder(client.connect().await?)
                .queue_blocking("cron-backup", |place: Place, job: Context| {
                    backup(&place, job.id())
                })
                .queue_blocking("cron-measure", |place: Place, _: Context| measure(&place));
            worker.run_until(tokio::signal::ctrl_c()).await?;
        }
        _ => return Err("set FILE FOLDER [SECONDS], list, remove or work is needed".into()),
    }
    Ok(())
}

/// Each deployment may do this: a schedule whose times stay keeps its next moment.
fn set(file: &str, folder: &str, seconds: f64) -> Anyhow<()> {
    let place = Place { file: fs::canonicalize(file)?, folder: fs::canonicalize(folder)? };
    let nightly = json!({"cron": "30 2 * * *", "timezone": "Europe/Berlin", "queue": "cron-backup",
        "job": {"payload": place, "max_attempts": 3}});
    let interval = Duration::from_secs_f64(seconds).as_millis();
    // While the last job is unfinished, no other one is put.
    let often = json!({"every_ms": u64::try_from(interval)?, "queue": "cron-measure",
        "overlap": "skip", "missed": "skip", "job": {"payload": place, "max_attempts": 1}});
    request("PUT", "backup", Some(&nightly))?;
    request("PUT", "measure", Some(&often))?;
    Ok(())
}

fn request(method: &str, name: &str, body: Option<&Value>) -> Anyhow<Value> {
    let server = std::env::var("JOBCENTRE_HTTP_URL");
    let server = server.unwrap_or_else(|_| "http://127.0.0.1:11480".into());
    let mut asked = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{server}/api/v1/schedules/{name}"))
        .header("Content-Type", "application/json");
    if let Ok(token) = std::env::var("JOBCENTRE_TOKEN") {
        asked = asked.header("Authorization", format!("Bearer {token}"));
    }
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let asked = asked.body(body.map_or_else(String::new, Value::to_string))?;
    let mut answer = agent.run(asked)?;
    let text = answer.body_mut().read_to_string()?;
    let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? };
    // The server says what is wrong.
    let wrong = || format!("schedule {name}: {}", value["detail"].as_str().unwrap_or(&text));
    if answer.status().is_success() { Ok(value) } else { Err(wrong().into()) }
}

/// A copy for each day of the week. A job may run twice: the second copy takes the place of the
/// first.
fn backup(place: &Place, id: u64) -> Result<(), Failure> {
    let day = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() / 86400 % 7;
    let name = place.file.file_name().unwrap_or_default().to_string_lossy();
    let written = place.folder.join(format!("{name}.{id}"));
    fs::copy(&place.file, &written)?;
    fs::rename(written, place.folder.join(format!("{name}.day-{day}")))?;
    Ok(())
}

fn measure(place: &Place) -> Result<(), Failure> {
    let table = place.folder.join("sizes.txt");
    let mut file = fs::File::options().create(true).append(true).open(table)?;
    writeln!(file, "{}", fs::metadata(&place.file)?.len())?;
    Ok(())
}
