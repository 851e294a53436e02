//! Pages that are generated: `docs/configuration.md` from what the program prints for `--help`,
//! `docs/limits.md` from `src/base/pass_limits.rs`, `src/base/limits.rs` and
//! `src/journal/limits.rs`, `docs/metrics.md` from `tests/texts/metrics.txt` (with which the tests
//! of the metrics compare what the server writes).
//!
//! A page has text of its own, and parts that begin with `<!-- generated: NAME -->` and end with
//! `<!-- end -->`. The tests compare these parts. To write them anew:
//!
//! ```sh
//! UPDATE_DOCS=1 cargo test --test it documents
//! ```

use super::files::root;
use crate::support::Program;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// The variable that makes the tests write what they otherwise compare.
const UPDATE: &str = "UPDATE_DOCS";

/// Compares a part of a page with what it has to be, or writes it.
fn check_part(page: &str, name: &str, generated: &str) {
    let path = root().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (start, end) = (format!("<!-- generated: {name} -->\n"), "<!-- end -->\n");
    let found = text.split_once(&start).and_then(|(before, rest)| {
        let (part, after) = rest.split_once(end)?;
        Some((before, part, after))
    });
    let Some((before, part, after)) = found else {
        panic!("{page}: there is no part '{}' that ends with '{}'", start.trim(), end.trim());
    };
    let generated = format!("\n{}\n\n", generated.trim());
    if part == generated {
        return;
    }
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, [before, &start, &generated, end, after].concat()).unwrap();
        return;
    }
    let lines = part.lines().zip(generated.lines()).find(|(old, new)| old != new);
    let (old, new) = lines.unwrap_or(("(the end)", "(the end)"));
    panic!(
        "{page}, part {name}, is out of date: it says\n{old}\nwhere the program has\n{new}\nTo \
         write it anew: {UPDATE}=1 cargo test --test it documents"
    );
}

/// One flag or argument, as `--help` prints it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Argument {
    /// With its value: `--listen <ADDR>`.
    usage: String,
    variable: Option<String>,
    default: Option<String>,
    /// What it sets, with the possible values.
    text: String,
}

impl Argument {
    /// The name of the flag, without its dashes.
    fn name(&self) -> &str {
        let start = self.usage.find("--").map_or(0, |at| at + 2);
        self.usage[start..].split([' ', '[', '=']).next().unwrap_or_default()
    }

    /// Takes a paragraph of its text.
    fn add(&mut self, paragraph: &[&str]) {
        if paragraph.first() == Some(&"Possible values:") {
            let mut values: Vec<String> = Vec::new();
            for line in &paragraph[1..] {
                match line.strip_prefix("- ").and_then(|line| line.split_once(':')) {
                    Some((value, text)) => values.push(format!("`{value}`: {}", text.trim())),
                    None => values.last_mut().unwrap().extend([" ", line.trim()]),
                }
            }
            self.text.extend([". Values: ", &values.join("; ")]);
            return;
        }
        let of = |line: &str, what: &str| {
            Some(line.strip_prefix(what)?.strip_suffix(']')?.trim_end_matches('=').to_owned())
        };
        let mut text = Vec::new();
        for line in paragraph {
            if let Some(variable) = of(line, "[env: ") {
                self.variable = Some(variable);
            } else if let (Some(default), true) = (of(line, "[default: "), text.is_empty()) {
                self.default = Some(default);
            } else if of(line, "[possible values: ").is_none() {
                text.push(*line);
            }
        }
        if !self.text.is_empty() && !text.is_empty() {
            self.text.push_str(". ");
        }
        self.text.push_str(&text.join(" "));
    }

    /// Takes the default out of the text, where it stands at its end.
    fn find_default(&mut self) {
        if self.text.matches("[default: ").count() == 1
            && let Some((text, default)) = self.text.clone().split_once(" [default: ")
            && let Some((default, rest)) = default.split_once(']')
        {
            self.text = format!("{text}{rest}");
            self.default = Some(default.to_owned());
        }
    }
}

/// The arguments that a help text lists, without `--help` itself.
fn arguments(help: &str) -> Vec<Argument> {
    let mut found: Vec<Argument> = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let is_listed = |line: &&str| line.starts_with("  ") || line.is_empty();
    let start = ["\nArguments:\n", "\nOptions:\n"].iter().filter_map(|it| help.find(it)).min();
    let lines = start.map_or("", |start| &help[start..]).lines();
    for line in lines.filter(is_listed).chain([""]) {
        let bare = line.trim();
        if line.len() - line.trim_start().len() < 8 && bare.starts_with(['-', '<', '[']) {
            found.push(Argument { usage: bare.to_owned(), ..Argument::default() });
        } else if !bare.is_empty() {
            paragraph.push(bare);
        } else if let Some(argument) = found.last_mut()
            && !paragraph.is_empty()
        {
            argument.add(&paragraph);
            paragraph.clear();
        }
    }
    found.iter_mut().for_each(Argument::find_default);
    found.retain(|argument| argument.name() != "help");
    found
}

fn help(command: &[&str]) -> Vec<Argument> {
    // Without a value of it: a value would be printed.
    let output = Program::output(&[command, &["--help"]].concat(), &[("JOBCENTRE_HTTP", "")]);
    let text = String::from_utf8(output.stdout).unwrap();
    let found = arguments(&text);
    assert!(!found.is_empty(), "{command:?} --help lists nothing");
    found
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| format!("`{}`", cell(text)))
}

/// The table of the settings, which come from three sources.
fn settings_table() -> String {
    let mut table = String::from(
        "| flag | variable | key in the file | default | what it sets |\n|---|---|---|---|---|\n",
    );
    for it in help(&["serve"]) {
        // The file cannot name itself.
        let key = Some(it.name()).filter(|name| *name != "config");
        let default = it.default.as_deref().map_or_else(|| "-".to_owned(), cell);
        let (flag, variable) = (code(Some(&it.usage)), code(it.variable.as_deref()));
        let (key, text) = (code(key), cell(&it.text));
        writeln!(table, "| {flag} | {variable} | {key} | {default} | {text} |").unwrap();
    }
    table
}

/// The table of a command whose arguments come from the command line only.
fn arguments_table(command: &[&str]) -> String {
    let mut table = String::from("| argument | default | meaning |\n|---|---|---|\n");
    for it in help(command) {
        assert_eq!(it.variable, None, "the table has no column for variables");
        let default = it.default.as_deref().map_or_else(|| "-".to_owned(), cell);
        writeln!(table, "| {} | {default} | {} |", code(Some(&it.usage)), cell(&it.text)).unwrap();
    }
    table
}

#[test]
fn configuration_page_matches_help() {
    let page = "docs/configuration.md";
    check_part(page, "serve", &settings_table());
    for command in
        ["work", "bench", "import-binlog", "journal check", "journal dump", "journal salvage"]
    {
        let words: Vec<_> = command.split(' ').collect();
        check_part(page, command, &arguments_table(&words));
    }
}

/// The value of an expression of whole numbers.
fn value(text: &str, known: &BTreeMap<String, u64>) -> u64 {
    let both = |(left, right): (&str, &str)| (value(left, known), value(right, known));
    if let Some((left, right)) = text.split_once("<<").map(both) {
        return left << right;
    }
    if let Some((left, right)) = text.rsplit_once('*').map(both) {
        return left * right;
    }
    if let Some((left, right)) = text.rsplit_once('/').map(both) {
        return left / right;
    }
    let text = text.trim();
    let digits = text.replace('_', "");
    let number = digits.parse().ok().or_else(|| known.get(text).copied());
    number.unwrap_or_else(|| panic!("limits.rs: what is the value of '{text}'?"))
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(place, digit): (usize, char)| {
        let has_comma = place > 0 && (digits.len() - place).is_multiple_of(3);
        if has_comma { format!(",{digit}") } else { digit.to_string() }
    };
    digits.chars().enumerate().map(comma).collect()
}

/// A duration in the largest unit in which it is a whole number.
fn time(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let units = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    let (unit, length) =
        units.into_iter().find(|(_, length)| nanos.is_multiple_of(*length)).unwrap();
    format!("{} {unit}", nanos / length)
}

/// The value of a constant with its unit.
fn shown(text: &str, is_bytes: bool, known: &mut BTreeMap<String, u64>, name: &str) -> String {
    if let Some((unit, amount)) =
        text.strip_prefix("Duration::from_").and_then(|it| it.split_once('('))
    {
        let amount = value(amount.trim_end_matches(')'), known);
        let duration = match unit {
            "hours" => Duration::from_hours(amount),
            "mins" => Duration::from_mins(amount),
            "secs" => Duration::from_secs(amount),
            "millis" => Duration::from_millis(amount),
            "micros" => Duration::from_micros(amount),
            _ => panic!("limits.rs: a duration in {unit}?"),
        };
        known.insert(format!("{name}.as_secs()"), duration.as_secs());
        return time(duration);
    }
    let number = value(text, known);
    known.insert(name.to_owned(), number);
    let sizes = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match sizes.into_iter().find(|(_, size)| number.is_multiple_of(*size)) {
        Some((unit, size)) if is_bytes => format!("{} {unit}", grouped(number / size)),
        _ if is_bytes => format!("{} B", grouped(number)),
        _ => grouped(number),
    }
}

/// The table of the constants.
fn limits_table(source: &str) -> String {
    let mut table = String::from("| name | value | meaning |\n|---|--:|---|\n");
    let (mut known, mut doc, mut open) = (BTreeMap::new(), String::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            doc.push_str(text);
        } else if line.starts_with("pub const ") || !open.is_empty() {
            open.push_str(line);
            if !line.ends_with(';') {
                continue;
            }
            let (name, rest) = open["pub const ".len()..].split_once(':').unwrap();
            let text = rest.split_once('=').unwrap().1.trim_end_matches(';').trim();
            let is_bytes = name.contains("BYTES") || doc.to_lowercase().contains("bytes ");
            let value = shown(text, is_bytes, &mut known, name);
            let doc = doc.trim().replace("[`", "`").replace("`]", "`");
            writeln!(table, "| `{name}` | {value} | {} |", cell(&doc)).unwrap();
            open.clear();
        } else {
            doc.clear();
        }
        if line.ends_with(';') {
            doc.clear();
        }
    }
    table
}

#[test]
fn limits_page_matches_the_source() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let files = [
        "src/base/pass_limits.rs",
        "src/base/limits.rs",
        "src/base/api_limits.rs",
        "src/journal/limits.rs",
    ];
    let sources = files.map(read).concat();
    check_part("docs/limits.md", "limits", &limits_table(&sources));
}

/// The labels of the samples of a metric, with the values that are the same for all users.
fn labels(sample: &str) -> Vec<(String, String)> {
    let inner = sample.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    let pairs = inner.map_or("", |(inner, _)| inner).split("\",");
    let pairs = pairs.filter_map(|pair| pair.split_once("=\""));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned())).collect()
}

/// Labels whose values are named in the table.
const NAMED_VALUES: [&str; 4] = ["event", "status", "protocol", "kind"];

/// The table of the metrics, from an answer in the text format of Prometheus.
fn metrics_table(answer: &str) -> String {
    let mut table = String::from("| name | type | labels | meaning |\n|---|---|---|---|\n");
    for part in answer.split("# HELP ").skip(1) {
        let (name, rest) = part.split_once(' ').unwrap();
        let help = rest.lines().next().unwrap();
        let kind = rest.lines().find_map(|line| line.strip_prefix("# TYPE ")).unwrap();
        let kind = kind.rsplit(' ').next().unwrap();
        let end = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for (label, value) in rest.lines().filter(|line| !line.starts_with('#')).flat_map(labels) {
            if !found.iter().any(|(known, _)| *known == label) {
                found.push((label.clone(), Vec::new()));
            }
            let values = &mut found.iter_mut().find(|(known, _)| *known == label).unwrap().1;
            if NAMED_VALUES.contains(&&*label) && !values.contains(&value) {
                values.push(value);
            }
        }
        found.retain(|(label, _)| label != "le");
        let labels = found.iter().map(|(label, values)| {
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            let colon = if values.is_empty() { "" } else { ": " };
            format!("`{label}`{colon}{}", values.join(", "))
        });
        let labels = labels.collect::<Vec<_>>().join("; ");
        let labels = if labels.is_empty() { "-" } else { &labels };
        writeln!(table, "| `{name}{end}` | {kind} | {labels} | {} |", cell(help)).unwrap();
    }
    table
}

#[test]
fn metrics_page_lists_every_series() {
    let answer = fs::read_to_string(root().join("tests/texts/metrics.txt")).unwrap();
    check_part("docs/metrics.md", "metrics", &metrics_table(&answer));
}

#[test]
fn limits_are_shown_with_their_units() {
    let source = "//! Text.\n\n/// Bytes of\n/// a thing.\npub const A_BYTES: usize = 64 * 1024;\n\
        /// Things, see [`A_BYTES`].\npub const B: u64 = 1 << 30;\n\n\
        /// Half.\npub const C: u64 =\n    B / 2;\n\n/// How long.\n\
        pub const D: Duration = Duration::from_hours(24 * 365);\nconst _: () = assert!(B > C);\n";
    let expected = "| name | value | meaning |\n|---|--:|---|\n\
        | `A_BYTES` | 64 KiB | Bytes of a thing. |\n\
        | `B` | 1,073,741,824 | Things, see `A_BYTES`. |\n\
        | `C` | 536,870,912 | Half. |\n| `D` | 365 d | How long. |\n";
    assert_eq!(limits_table(source), expected);
}

#[test]
fn arguments_are_parsed_from_help() {
    let help = "Does.\n\nUsage: x [OPTIONS]\n\nOptions:\n      --listen <ADDR>\n          \
        Where, or off [default:\n          :1, or off]\n          \n          \
        [env: X_LISTEN=]\n\n  \
        -n, --kind <KIND>\n          Which\n\n          Possible values:\n          \
        - one: The\n            first\n          - two: The second\n          \n          \
        [default: one]\n\n  -h, --help\n          Print help\n";
    let expected = [
        Argument {
            usage: "--listen <ADDR>".into(),
            variable: Some("X_LISTEN".into()),
            default: Some(":1, or off".into()),
            text: "Where, or off".into(),
        },
        Argument {
            usage: "-n, --kind <KIND>".into(),
            variable: None,
            default: Some("one".into()),
            text: "Which. Values: `one`: The first; `two`: The second".into(),
        },
    ];
    assert_eq!(arguments(help), expected);
}
