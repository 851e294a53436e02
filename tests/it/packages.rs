//! What `packaging/` names exists in the program: metrics, settings, flags, files.

use crate::support::{Program, TempDir};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const METRICS: &str = include_str!("../texts/metrics.txt");
const DASHBOARD: &str = include_str!("../../packaging/monitoring/grafana.json");
const ALERTS: &str = include_str!("../../packaging/monitoring/alerts.yml");
const ALERTS_TEST: &str = include_str!("../../packaging/monitoring/alerts_test.yml");
const SETTINGS: &str = include_str!("../../packaging/jobcentre.toml");
const SERVICE: &str = include_str!("../../packaging/systemd/jobcentre.service");
const SOCKET: &str = include_str!("../../packaging/systemd/jobcentre-lines.socket");
const SYSTEM_CALLS: &str = include_str!("../texts/system-calls.txt");
const MANIFEST: &str = include_str!("../../Cargo.toml");

/// The metrics that a text names, each with what follows it.
fn named_metrics(text: &str) -> Vec<(&str, &str)> {
    let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let mut found = Vec::new();
    for (at, _) in text.match_indices("jobcentre_") {
        if !text[..at].ends_with(is_name) {
            let end = text[at..].find(|it| !is_name(it)).map_or(text.len(), |end| at + end);
            found.push((&text[at..end], &text[end..]));
        }
    }
    found
}

/// Labels whose values are those of an installation: servers and queues.
const FREE_LABELS: [&str; 3] = ["instance=", "job=", "queue="];

/// Pairs of a label and its value, of those that are given by `=`.
fn labels(after: &str) -> Vec<String> {
    let inside = after.strip_prefix('{').and_then(|it| it.split('}').next()).unwrap_or_default();
    let pairs = inside.split(',').map(|pair| pair.trim().replace('\\', ""));
    let is_free = |pair: &str| FREE_LABELS.iter().any(|free| pair.starts_with(free));
    pairs.filter(|pair| pair.contains("=\"") && !is_free(pair)).collect()
}

/// Metrics and labels that a text names and the server does not have.
fn unknown(text: &str) -> Vec<String> {
    let samples: Vec<_> = METRICS.lines().filter(|line| !line.starts_with('#')).collect();
    let mut wrong = Vec::new();
    for (name, after) in named_metrics(text) {
        let of_metric =
            |line: &&&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let own: Vec<_> = samples.iter().filter(of_metric).collect();
        if own.is_empty() {
            wrong.push(name.to_owned());
        }
        for label in labels(after) {
            if !own.iter().any(|line| line.contains(&label)) {
                wrong.push(format!("{name}{{{label}}}"));
            }
        }
    }
    wrong
}

#[test]
fn dashboard_and_alert_rules_name_metrics_that_exist() {
    let wrong = unknown(
        "rate(jobcentre_jobs_x{a=\"b\"}[1m]) jobcentre_jobs jobcentre_queue_jobs{\
        instance=~\"x\", status=\"red\"}",
    );
    let expected =
        ["jobcentre_jobs_x", "jobcentre_jobs_x{a=\"b\"}", "jobcentre_queue_jobs{status=\"red\"}"];
    assert_eq!(wrong, expected);

    for (name, text, least) in
        [("grafana.json", DASHBOARD, 20), ("alerts.yml", ALERTS, 12), ("its test", ALERTS_TEST, 12)]
    {
        assert_eq!(unknown(text), [""; 0], "{name} names what the server does not have");
        let names: BTreeSet<_> = named_metrics(text).into_iter().map(|(name, _)| name).collect();
        assert!(names.len() >= least, "{name}: {names:?}");
    }
    serde_json::from_str::<serde_json::Value>(DASHBOARD).unwrap();
}

/// What stands behind a key, in the lines that have it.
fn behind<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(key)).collect()
}

/// `promtool test rules` plays the test; it is not everywhere (`.ci/long`).
#[test]
fn alert_rules_lead_to_pages_and_are_tested_both_ways() {
    let names = behind(ALERTS, "- alert: ");
    let pages = behind(ALERTS, "page: ");
    assert!(names.len() >= 12 && names.len() == pages.len(), "{names:?} {pages:?}");
    for page in pages {
        let (file, anchor) = page.trim_matches('"').split_once('#').unwrap();
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let text = text.unwrap_or_else(|why| panic!("{file}: {why}"));
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let mut anchors =
            headings.map(|it| it.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"));
        assert!(anchors.any(|it| it == anchor), "{file} has no heading {anchor}");
    }
    let (fires, quiet) = ALERTS_TEST.split_once("name: all is well").unwrap();
    for name in names {
        assert!(behind(fires, "alertname: ").contains(&name), "no test in which {name} fires");
        let silent = format!("alertname: {name}, exp_alerts: []");
        assert!(quiet.contains(&silent), "no test in which {name} is silent");
    }
}

/// The settings of `jobcentre serve`.
fn known_settings() -> BTreeSet<String> {
    let output = Program::output(&["serve", "--help"], &[]);
    let help = String::from_utf8(output.stdout).unwrap();
    let is_part = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    let flags = help.lines().filter_map(|line| line.trim().split_once("--"));
    let flags = flags.filter(|(before, _)| before.is_empty() || before.ends_with(", "));
    let names = flags.map(|(_, name)| name.split(|it| !is_part(it)).next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// What `jobcentre config check` says about a file.
fn check(settings: &str) -> Result<(), String> {
    let dir = TempDir::new();
    fs::create_dir(dir.path()).unwrap();
    let path = format!("{}/settings.toml", dir.text());
    fs::write(&path, settings).unwrap();
    let output = Program::output(&["config", "check", &path], &[]);
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

/// A line of the settings file that sets something, also if it is commented out: key and line.
fn setting(line: &str) -> Option<(&str, &str)> {
    let bare = line.strip_prefix("# ").unwrap_or(line);
    let (key, _) = bare.split_once(" = ")?;
    let is_key = key.chars().all(|it| it.is_ascii_lowercase() || "-_".contains(it));
    is_key.then_some((key, bare))
}

#[test]
fn packaged_settings_are_accepted_and_complete() {
    check(SETTINGS).unwrap();
    let (plain, tables) = SETTINGS.split_at(SETTINGS.find("# --- Users.").unwrap());
    let mut named = BTreeSet::new();
    for (key, line) in plain.lines().filter_map(setting) {
        named.insert(key.to_owned());
        // Files of certificates do not exist here; without them it is the name that counts.
        if !line.contains(".pem") && !line.contains(".key") {
            let of_engine = key.starts_with("engine-") || key == "advertise";
            let engine = if of_engine { "engine = \"redis+sentinel://h/jobs\"\n" } else { "" };
            let checked = check(&format!("{engine}{line}\n"));
            checked.unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
    let mut known = known_settings();
    // The file cannot name itself, and a service is no processor.
    for other in ["config", "processor", "tick"] {
        assert!(known.remove(other), "--{other} is no setting");
    }
    assert_eq!(named, known);

    let is_table = |line: &&str| line.starts_with("# [[") || setting(line).is_some();
    let lines = tables.lines().filter(is_table).map(|line| line.trim_start_matches("# "));
    let text = lines.collect::<Vec<_>>().join("\n");
    assert!(text.contains("[[user]]") && text.contains("[[constraint]]"), "{text}");
    check(&text).unwrap();
    assert!(check(&text.replace("allow", "alow")).is_err());
}

#[test]
fn check_refuses_what_the_server_would_refuse() {
    let long = format!("listen = 'unix:/tmp/{}'", "x".repeat(110));
    for (settings, why) in [
        ("listen = 'off'\nhttp = 'off'", "every protocol is off"),
        ("listen = ':11499'\npinpriq = ':11499'", "are both 127.0.0.1:11499"),
        ("listen = 'unix:/tmp/a'\nhttp = 'unix:/tmp/a'", "are both unix:/tmp/a"),
        ("data = ''", "--data is empty"),
        (&long, "at most 107 bytes"),
    ] {
        let error = check(settings).unwrap_err();
        assert!(error.contains(why), "{settings}: {error}");
    }
    check("listen = ':0'\npinpriq = ':0'").unwrap();
}

/// The values of a key of a unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn units_name_flags_files_and_sockets_that_exist() {
    let known = known_settings();
    let start = values(SERVICE, "ExecStart")[0];
    let mut words = start.split(' ');
    assert_eq!(words.next(), Some("/usr/bin/jobcentre"));
    assert_eq!(words.next(), Some("serve"));
    for flag in words.clone().filter_map(|word| word.strip_prefix("--")) {
        assert!(known.contains(flag), "{start}: there is no --{flag}");
    }
    let settings = words.skip_while(|word| *word != "--config").nth(1).unwrap();
    assert_eq!(settings, "/etc/jobcentre/jobcentre.toml");
    assert!(MANIFEST.contains(&format!("conf-files = [\"{settings}\"]")));

    let data = format!("data = \"/var/lib/{}/", values(SERVICE, "StateDirectory")[0]);
    assert!(SETTINGS.contains(&data), "the service may not write to the data directory");
    let socket = format!("fd:{}", values(SOCKET, "FileDescriptorName")[0]);
    assert!(SETTINGS.contains(&socket), "no listener is shown for {socket}");
    assert_eq!(values(SOCKET, "Service"), ["jobcentre.service"]);

    // The test of system calls compares them with this filter.
    let filter = values(SERVICE, "SystemCallFilter").join(" ");
    assert!(SYSTEM_CALLS.contains(&format!("SystemCallFilter={filter}\n")), "{filter}");
}

#[test]
fn package_lists_files_that_exist() {
    let assets = MANIFEST.split("\nassets = [\n").nth(1).unwrap().split("\n]").next().unwrap();
    let sources =
        assets.lines().filter_map(|line| line.trim().strip_prefix("[\"")?.split('"').next());
    let (made, own): (Vec<_>, Vec<_>) = sources
        .partition(|path| path.starts_with("target/") || path.starts_with("packaging/deb/made/"));
    assert!(made.len() >= 5 && own.len() >= 5, "{made:?} {own:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in own {
        assert!(root.join(path).is_file(), "there is no {path}");
    }
    let build = fs::read_to_string(root.join("packaging/deb/build")).unwrap();
    for path in made.iter().filter_map(|path| path.strip_prefix("packaging/deb/made/")) {
        let name = path.split('/').next().unwrap();
        assert!(build.contains(&format!("$made/{name}")), "packaging/deb/build makes no {name}");
    }
}
