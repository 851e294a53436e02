//! The circumstances of a measurement: machine, cores, versions, date.

use crate::targets::{Programs, Target, in_path};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// One core for the server and another for the generator, kept apart by `taskset`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cores {
    #[serde(skip)]
    taskset: PathBuf,
    pub(crate) server: usize,
    pub(crate) generator: usize,
    /// They are two threads of one physical core, and slow each other down.
    pub(crate) siblings: bool,
}

impl Cores {
    /// Chooses them.
    ///
    /// # Errors
    /// Says why nothing can be pinned.
    pub(crate) fn choose() -> Result<Self, String> {
        let taskset = in_path("taskset")?;
        let allowed = allowed();
        let [server, .., _] = allowed[..] else {
            return Err("there is only one core to run on".to_owned());
        };
        let siblings = siblings(server);
        // The last core that is a core of its own.
        let apart = allowed.iter().rev().find(|&core| !siblings.contains(core));
        let generator = *apart.unwrap_or(&allowed[allowed.len() - 1]);
        Ok(Self { taskset, server, generator, siblings: siblings.contains(&generator) })
    }

    /// A command that runs on one core.
    pub(crate) fn command(&self, core: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.taskset);
        command.arg("-c").arg(core.to_string()).arg(program);
        command
    }

    /// A command that has both cores.
    pub(crate) fn command_on_both(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.taskset);
        command.arg("-c").arg(format!("{},{}", self.server, self.generator)).arg(program);
        command
    }

    /// Puts this process onto the generator's core: it is a client in some scenarios.
    pub(crate) fn pin_this(&self) {
        self.pin_this_to(self.generator);
    }

    /// Measures something as this process, on the server's core.
    pub(crate) fn as_server<T>(&self, measure: impl FnOnce() -> T) -> T {
        self.pin_this_to(self.server);
        let measured = measure();
        self.pin_this();
        measured
    }

    fn pin_this_to(&self, core: usize) {
        let pid = std::process::id().to_string();
        let core = core.to_string();
        // Without it the numbers are noisier, not wrong.
        let _ = Command::new(&self.taskset).args(["-a", "-cp", &core, &pid]).output();
    }
}

/// The cores that this process may run on.
fn allowed() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(numbers).unwrap_or_default()
}

fn siblings(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    numbers(&fs::read_to_string(path).unwrap_or_default())
}

/// A list as the kernel writes it: 0-3,8,10-11.
pub(crate) fn numbers(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<usize>().ok()?..=to.trim().parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

/// The head of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Header {
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    /// A short run: a trial of the instrument, not a measurement.
    pub(crate) quick: bool,
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) memory: String,
    pub(crate) load: String,
    pub(crate) cores: Option<Cores>,
    pub(crate) versions: Vec<(String, String)>,
    pub(crate) absent: Vec<(Target, String)>,
    /// What could not be done as it should be.
    pub(crate) notes: Vec<String>,
}

impl Header {
    pub(crate) fn new(programs: &Programs, rounds: usize, seconds: f64, quick: bool) -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (info, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':'));
            value.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
        };
        let words = std::env::args().skip(1).filter(|word| word != "--bench");
        let words: Vec<String> = words.collect();
        let mut command = "cargo bench --bench report".to_owned();
        if !words.is_empty() {
            command = format!("{command} -- {}", words.join(" "));
        }
        let load = read("/proc/loadavg");
        Self {
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
            command,
            rounds,
            seconds,
            quick,
            cpu: field(&info, "model name"),
            cpus: info.lines().filter(|line| line.starts_with("processor")).count(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory: field(&memory, "MemTotal"),
            load: load.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
            cores: programs.cores.clone(),
            versions: versions(programs),
            absent: programs.absent.clone(),
            notes: Vec::new(),
        }
    }
}

fn versions(programs: &Programs) -> Vec<(String, String)> {
    let commit = said("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
    let own = format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"));
    let mut versions =
        vec![("jobcentre".to_owned(), own), ("rustc".to_owned(), said("rustc", &["--version"]))];
    for (target, argument) in [(Target::Beanstalkd, "-v"), (Target::Redis, "--version")] {
        if let Some(program) = programs.program(target) {
            versions.push((target.name().to_owned(), said(program, &[argument])));
        }
    }
    let crates = ["mio", "tokio", "monoio"].map(|name| (name, locked(name)));
    let crates = crates.into_iter().filter_map(|(name, version)| Some((name.to_owned(), version?)));
    versions.extend(crates);
    versions
}

/// The version of a crate of this build. The newest, if there are several.
fn locked(name: &str) -> Option<String> {
    let lock = include_str!("../../Cargo.lock");
    let head = format!("name = \"{name}\"\nversion = \"");
    let rest = lock.split(&head).skip(1).last()?;
    rest.split('"').next().map(str::to_owned)
}

/// What a program prints, in one line.
fn said(program: impl AsRef<OsStr>, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
