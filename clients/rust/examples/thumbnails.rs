//! Thumbnails of pictures on the web, in threads: work that keeps a core busy.
//!
//! `cargo run -p jobcentre-client --example thumbnails -- work` fetches pictures and shrinks them,
//! until Ctrl-C; `... -- FOLDER URL...` puts a job for each picture, and waits for them.
//!
//! Pictures are PPM (P6), which needs no library.

use std::fs;
use std::time::Duration;

use jobcentre_client::{Client, Context, Failure, Result, Worker};
use serde::{Deserialize, Serialize};

const FACTOR: usize = 8;
const BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Picture {
    folder: String,
    url: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("JOBCENTRE_URL").unwrap_or_else(|_| "127.0.0.1:11400".into());
    let client = Client::connect(&url).await?;
    let mut words = std::env::args().skip(1);
    let folder = words.next().unwrap_or_default();
    if folder == "work" {
        let worker = Worker::builder(client)
            .queue_blocking("thumbnails", |picture: Picture, job: Context| {
                thumbnail(&picture, &job)
            });
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        worker.concurrency(cores).run_until(tokio::signal::ctrl_c()).await?;
        return Ok(());
    }
    let mut jobs = Vec::new();
    for url in words {
        // One job for each picture, however often it is asked for.
        let key = format!("{folder} {url}");
        let picture = Picture { folder: folder.clone(), url };
        let put = client.put("thumbnails", &picture).unique(key).max_attempts(3);
        jobs.push((picture.url, put.keep_result(Duration::from_secs(600)).await?.id));
    }
    for (url, id) in jobs {
        let path: String = client.result(id, Duration::from_secs(300)).await?;
        println!("{url} {path}");
    }
    Ok(())
}

/// Returns the path of the thumbnail, each pixel of which is the mean of FACTOR x FACTOR pixels.
fn thumbnail(picture: &Picture, job: &Context) -> std::result::Result<String, Failure> {
    let (width, height, pixels) = read_ppm(fetch(&picture.url)?)?;
    let (columns, rows) = (width / FACTOR, height / FACTOR);
    let mut small = format!("P6 {columns} {rows} 255\n").into_bytes();
    for row in 0..rows {
        if job.is_ended() {
            return Err(Failure::new("Ended", "the job was cancelled, or the worker stops"));
        }
        for column in 0..columns {
            for colour in 0..3 {
                let sum: u32 = (0..FACTOR * FACTOR)
                    .map(|n| (row * FACTOR + n / FACTOR) * width + column * FACTOR + n % FACTOR)
                    .map(|pixel| u32::from(pixels[pixel * 3 + colour]))
                    .sum();
                small.push(u8::try_from(sum as usize / (FACTOR * FACTOR))?);
            }
        }
    }
    let path = format!("{}/{}.ppm", picture.folder, name_of(&picture.url));
    let written = format!("{path}.{}", job.id());
    fs::write(&written, small)?;
    // In one step: others read a whole picture, or none.
    fs::rename(written, &path)?;
    Ok(path)
}

/// A URL as the name of a file: without slashes, and no two have the same.
fn name_of(url: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
    let name = |byte| if plain(byte) { char::from(byte).into() } else { format!("_{byte:02x}") };
    url.bytes().map(name).collect()
}

fn fetch(url: &str) -> std::result::Result<Vec<u8>, Failure> {
    let agent = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(30)));
    let agent: ureq::Agent = agent.build().into();
    match agent.get(url).call() {
        Ok(mut answer) => Ok(answer.body_mut().with_config().limit(BYTES_MAX).read_to_vec()?),
        // Another attempt would be answered in the same way.
        Err(
            error @ (ureq::Error::StatusCode(400..=407 | 409..=428 | 430..=499)
            | ureq::Error::BadUri(_)),
        ) => Err(Failure::from(error).no_retry()),
        Err(error) => Err(error.into()),
    }
}

fn read_ppm(mut data: Vec<u8>) -> std::result::Result<(usize, usize, Vec<u8>), Failure> {
    let end = data.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let pixels = data.split_off(end);
    let header = String::from_utf8_lossy(&data);
    if let ["P6", width, height, "255"] = *header.split_whitespace().collect::<Vec<_>>() {
        let (width, height) = (width.parse::<usize>()?, height.parse::<usize>()?);
        if width.checked_mul(height).and_then(|area| area.checked_mul(3)) == Some(pixels.len()) {
            return Ok((width, height, pixels));
        }
    }
    Err(Failure::new("NoPpm", "this is no PPM file with its header in one line").no_retry())
}
