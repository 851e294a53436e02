//! The report as Markdown.

use crate::chapters::Chapter;
use crate::machine::Header;
use crate::metric::Metric;
use crate::run::{DISTURBED, Line, Outcome};
use crate::scenarios::Task;
use crate::stats::paired;
use crate::syscalls;
use crate::thresholds::{Finding, Verdict};

/// The whole report. `plots` are names of files beside it, with their titles.
pub(crate) fn write(
    header: &Header,
    verdicts: &[Verdict],
    outcomes: &[Outcome],
    plots: &[(Chapter, String, String)],
) -> String {
    let mut text = String::from("# Measured speed\n\n");
    head(&mut text, header);
    summary(&mut text, verdicts);
    for group in Chapter::ALL {
        let of_group = |outcome: &&Outcome| outcome.group == group;
        let outcomes: Vec<&Outcome> = outcomes.iter().filter(of_group).collect();
        if outcomes.is_empty() {
            continue;
        }
        push(&mut text, &format!("\n## {}\n", group.title()));
        let verdicts: Vec<&Verdict> = verdicts.iter().filter(|v| v.group == group).collect();
        write_verdicts(&mut text, &verdicts);
        for (_, file, title) in plots.iter().filter(|(of, ..)| *of == group) {
            push(&mut text, &format!("\n![{title}]({file})"));
        }
        for outcome in outcomes {
            scenario(&mut text, outcome);
        }
    }
    text
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// A scenario of a table must not end it.
fn row(scenarios: &[String]) -> String {
    let scenarios: Vec<String> =
        scenarios.iter().map(|scenario| scenario.replace('|', "\\|").replace('\n', " ")).collect();
    format!("| {} |", scenarios.join(" | "))
}

fn head(text: &mut String, header: &Header) {
    if header.quick {
        push(text, "**A short run: a trial of the instrument. Its figures are no measurement.**\n");
    }
    let spread = "each figure is the median of all rounds, with the smallest and the largest in \
                  parentheses; ratios are taken between runs of the same round, and then their \
                  median";
    push(text, &format!("How to read this: `benches/README.md`. In short: {spread}.\n"));
    push(text, "| | |\n|---|---|");
    let mut line = |name: &str, value: String| push(text, &row(&[name.to_owned(), value]));
    line("command", format!("`{}`", header.command));
    line("date", header.date.clone());
    line("rounds", format!("{}, interleaved; {} s a run of load", header.rounds, header.seconds));
    line("machine", format!("{}, {} cores, {} of memory", header.cpu, header.cpus, header.memory));
    line("kernel", header.kernel.clone());
    line(
        "cores",
        header.cores.as_ref().map_or_else(
            || "nothing is pinned".to_owned(),
            |cores| {
                let siblings = if cores.siblings {
                    "; they are two threads of one core and slow each other down"
                } else {
                    ""
                };
                format!("server on {}, generator on {}{siblings}", cores.server, cores.generator)
            },
        ),
    );
    line("load before", header.load.clone());
    for (name, version) in &header.versions {
        line(name, version.clone());
    }
    for (target, why) in &header.absent {
        line(target.name(), format!("absent and skipped: {why}"));
    }
    for note in &header.notes {
        line("note", note.clone());
    }
}

/// What must hold, in short.
fn summary(text: &mut String, verdicts: &[Verdict]) {
    let counted = |aim: bool| {
        let of: Vec<_> = verdicts.iter().filter(|verdict| verdict.aim == aim).collect();
        let count = |findings: &[Finding]| {
            of.iter().filter(|verdict| findings.contains(&verdict.finding)).count()
        };
        format!(
            "Of {} {}: {} hold, {} do not, {} were not measured.",
            of.len(),
            if aim { "aims, which need not" } else { "rules, which must" },
            count(&[Finding::Holds, Finding::HoldsBarely]),
            count(&[Finding::Fails, Finding::FailsBarely]),
            count(&[Finding::NotMeasured]),
        )
    };
    push(text, &format!("\n## What must hold\n\n{} {}\n", counted(false), counted(true)));
    write_verdicts(text, &verdicts.iter().collect::<Vec<_>>());
    push(
        text,
        "\nInstructions a request are counted apart (`benches/instruction_counts.py`); what stands \
         here is the record in the repository.",
    );
}

fn write_verdicts(text: &mut String, verdicts: &[&Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    push(text, "| what | measured | must | verdict |\n|---|--:|--:|---|");
    for verdict in verdicts {
        let finding = match &verdict.why {
            Some(why) => format!("{}: {why}", verdict.text()),
            None => verdict.text().to_owned(),
        };
        let scenarios = [verdict.what.clone(), verdict.shown(), verdict.must.clone(), finding];
        push(text, &row(&scenarios));
    }
}

fn scenario(text: &mut String, outcome: &Outcome) {
    push(text, &format!("\n### {}: {}\n", outcome.id, outcome.title));
    let first = outcome.lines.first();
    let first = first.filter(|_| outcome.lines.len() > 1);
    let compared: Vec<_> =
        first.iter().flat_map(|first| outcome.compared.iter().map(move |m| (*m, *first))).collect();
    let mut heads = vec![String::new()];
    heads.extend(outcome.columns.iter().map(|metric| metric.title().to_owned()));
    for &(metric, first) in &compared {
        heads.push(format!("{} / that of {}", short(metric), first.label));
    }
    push(text, &row(&heads));
    push(text, &format!("|---|{}", "--:|".repeat(heads.len() - 1)));
    for line in &outcome.lines {
        let mut scenarios = vec![line.label.clone()];
        scenarios.extend(outcome.columns.iter().map(|&metric| figure(line, metric)));
        for &(metric, first) in &compared {
            let ratio = paired(&line.values(metric), &first.values(metric), |a, b| a / b);
            scenarios.push(ratio.map_or_else(
                || "-".to_owned(),
                |r| format!("{:.2} ({:.2} - {:.2})", r.median, r.min, r.max),
            ));
        }
        push(text, &row(&scenarios));
    }
    let notes = notes(outcome);
    if !notes.is_empty() {
        push(text, &format!("\n{}", notes.join("\n")));
    }
}

fn short(metric: Metric) -> &'static str {
    metric.title().split(',').next().unwrap_or_default()
}

fn figure(line: &Line, metric: Metric) -> String {
    line.spread(metric).map_or_else(|| "-".to_owned(), |spread| metric.show_spread(&spread))
}

/// What lessens the figures of a scenario, and how to repeat it.
fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes: Vec<String> = outcome.notes.iter().map(|note| format!("- {note}")).collect();
    for line in &outcome.lines {
        let failures = line.runs.iter().filter(|run| run.is_err()).count();
        if let Some(why) = line.failure() {
            let of = line.runs.len();
            notes.push(format!("- {}: {failures} of {of} runs failed: {why}", line.label));
        }
    }
    if let Some((most, disturbed, runs)) = outcome.disturbance().filter(|found| found.1 > 0) {
        notes.push(format!(
            "- disturbed: in {disturbed} of {runs} runs other programs used more than {:.0} % of a \
             CPU, at most {:.0} %",
            100.0 * DISTURBED,
            100.0 * most
        ));
    }
    for line in &outcome.lines {
        let Some(Ok(sample)) = line.runs.first() else { continue };
        if let Task::Calls { .. } = line.task {
            let tool = sample.raw["tool"].as_str().unwrap_or_default();
            let which: Vec<String> = syscalls::by_name(&sample.raw)
                .iter()
                .take(6)
                .map(|(name, calls)| format!("{name} {calls:.4}"))
                .collect();
            notes.push(format!(
                "- counted by {tool}; by strace a request has: {}",
                which.join(", ")
            ));
        }
    }
    let command = outcome.lines.iter().find_map(|line| match &line.task {
        Task::Load(words)
        | Task::HalfRate(words)
        | Task::Durable { load: words, .. }
        | Task::Queries { load: words, .. } => Some(words.join(" ")),
        _ => None,
    });
    if let Some(command) = command {
        notes.push(format!("- `jobcentre bench {command}`"));
    }
    notes
}
