//! `export`, `import`, `backup` and `restore`.

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::{Exit, Failure, Outcome};
use super::http_client::{HttpClient, part};
use super::jobs::State;
use super::output::{Column, Meaning, OutputArgs, column};
use crate::wire::tar::{BLOCK, Header, parse_header};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Write jobs to stdout, one a line, with everything that another server needs of them.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre export > jobs.ndjson
  jobcentre export mail letters --state buried > buried.ndjson")]
pub(in crate::cli) struct Export {
    /// Jobs of these queues only.
    #[arg(value_name = "QUEUE", add = queue_names())]
    queues: Vec<String>,

    /// Jobs in this state only.
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Writes to stdout. A closed one ends the download.
fn to_stdout(out: &mut impl Write, bytes: &[u8]) -> Outcome<bool> {
    match out.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("cannot write to stdout: {error}"))),
    }
}

impl Export {
    pub(super) fn run(&self) -> Outcome {
        let server = self.client.connect.server()?;
        let http = HttpClient::new(&server)?;
        let mut out = BufWriter::new(io::stdout());
        let of_queue = |queue: &String| format!("queue={}", part(queue));
        let mut queries: Vec<String> = self.queues.iter().map(of_queue).collect();
        if queries.is_empty() {
            queries.push(String::new());
        }
        for query in queries {
            let gap = if query.is_empty() { "" } else { "&" };
            let state = self.state.map(|state| format!("{gap}state={}", state.name()));
            let query = query + &state.unwrap_or_default();
            let mark = if query.is_empty() { "" } else { "?" };
            let path = format!("/export{mark}{query}");
            http.download("GET", &path, &mut |bytes| to_stdout(&mut out, bytes))?;
        }
        match out.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write to stdout: {error}")))
            }
            _ => Ok(()),
        }
    }
}

/// Put the jobs of an export, which is read from stdin. They get new ids.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre import < jobs.ndjson")]
pub(in crate::cli) struct Import {
    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const IMPORT_COLUMNS: &[Column] = &[
    column("imported", "imported", Meaning::Number),
    column("duplicates", "duplicates", Meaning::Number),
];

impl Import {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(IMPORT_COLUMNS, &[])?;
        let server = self.client.connect.server()?;
        let http = HttpClient::new(&server)?;
        let answer = http.upload("/import", &mut io::stdin().lock())?;
        let mut printer = self.output.printer(IMPORT_COLUMNS);
        printer.row(&answer);
        printer.finish()?;
        let errors = answer.records("errors")?;
        for error in &errors {
            let line = error.number("line").unwrap_or_default();
            let why = error.text("error.detail").or_else(|| error.text("detail"));
            crate::cli::print_error(format!(
                "line {line}: {}",
                why.unwrap_or_else(|| error.json())
            ));
        }
        match (errors.len(), answer.number("imported")) {
            (0, _) => Ok(()),
            (_, Some(0) | None) => Err(Failure::failed("no line was imported")),
            _ => Err(Failure::new(Exit::Partly, "")),
        }
    }
}

/// Write a consistent backup of a running server, an archive of its data directory.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre backup jobs.tar
  jobcentre backup - | gzip > jobs.tar.gz")]
pub(in crate::cli) struct Backup {
    /// The file to write, which must not exist yet, or - for stdout.
    file: PathBuf,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// A new file that only its owner can read.
fn create(path: &Path) -> Outcome<File> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| Failure::failed(format!("cannot make {}: {error}", path.display())))
}

/// A path with `.partial` behind it: what is there until it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

impl Backup {
    pub(super) fn run(&self) -> Outcome {
        let server = self.client.connect.server()?;
        let http = HttpClient::new(&server)?;
        if self.file == Path::new("-") {
            let mut out = io::stdout().lock();
            return http.download("POST", "/backup", &mut |bytes| to_stdout(&mut out, bytes));
        }
        if self.file.exists() {
            let shown = self.file.display();
            return Err(Failure::usage(format!("{shown} exists: give another file")));
        }
        let fresh = partial(&self.file);
        let result = self.write(&http, &fresh);
        if result.is_err() {
            // What is left says nothing.
            let _ = fs::remove_file(&fresh);
        }
        result
    }

    fn write(&self, http: &HttpClient<'_>, fresh: &Path) -> Outcome {
        let explain =
            |error| Failure::failed(format!("cannot write {}: {error}", self.file.display()));
        let mut file = create(fresh)?;
        http.download("POST", "/backup", &mut |bytes| {
            file.write_all(bytes).map(|()| true).map_err(explain)
        })?;
        file.sync_all().and_then(|()| fs::rename(fresh, &self.file)).map_err(explain)
    }
}

/// Unpack a backup from stdin into a new data directory.
///
/// It is checked by `jobcentre journal check DIR` then, and a server started with it. All of it is
/// there, or nothing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre restore restored < jobs.tar
  gunzip < jobs.tar.gz | jobcentre restore other")]
pub(in crate::cli) struct Restore {
    /// The directory, which must not exist yet.
    dir: PathBuf,
}

impl Restore {
    pub(super) fn run(&self) -> Outcome {
        let shown = self.dir.display();
        if self.dir.exists() {
            return Err(Failure::usage(format!("{shown} exists: give a new directory")));
        }
        let fresh = partial(&self.dir);
        let made = fs::DirBuilder::new().mode(0o700).create(&fresh);
        made.map_err(|error| Failure::failed(format!("cannot make {}: {error}", fresh.display())))?;
        let result = unpack(&mut io::stdin().lock(), &fresh).and_then(|files| {
            let renamed = fs::rename(&fresh, &self.dir);
            renamed.map(|()| files).map_err(|error| Failure::failed(format!("{shown}: {error}")))
        });
        match result {
            Ok(files) => {
                super::print_note(&format!("{files} files were restored into {shown}"));
                Ok(())
            }
            Err(failure) => {
                let _ = fs::remove_dir_all(&fresh);
                Err(failure)
            }
        }
    }
}

/// Unpacks an archive of plain files. Returns how many it has.
fn unpack(input: &mut impl Read, folder: &Path) -> Outcome<u64> {
    let broken = |why: &str| Failure::failed(format!("stdin is no whole backup: {why}"));
    let ends_early = |_| broken("it ends too early");
    let mut block = [0; BLOCK];
    let mut files = 0;
    loop {
        input.read_exact(&mut block).map_err(ends_early)?;
        let Some(Header { name, size }) = parse_header(&block).map_err(|why| broken(&why))? else {
            break;
        };
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(broken(&format!("it has a file called '{}'", name.escape_debug())));
        }
        let path = folder.join(&name);
        let explain = |error| Failure::failed(format!("cannot write {}: {error}", path.display()));
        let mut file = create(&path)?;
        let copied = io::copy(&mut input.by_ref().take(size), &mut file).map_err(explain)?;
        if copied != size {
            return Err(broken("it ends too early"));
        }
        file.sync_all().map_err(explain)?;
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        io::copy(&mut input.by_ref().take(padding), &mut io::sink()).map_err(ends_early)?;
        files += 1;
    }
    if files == 0 {
        return Err(broken("it has no files"));
    }
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    Ok(files)
}
