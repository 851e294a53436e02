//! The text, and the choice of queues with metrics of their own.

use super::form::{CLASSIC, Form, OPENMETRICS};
use super::text::label;
use super::*;
use crate::base::histogram::Histogram;
use crate::base::time::Wall;
use crate::model::stats::{
    AccessStats, BusWorkerStats, JournalStats, MemoryStats, ProtocolStats, ServerStats,
    SharedStats, TlsStats,
};
use crate::protocol::http::Long;

fn counted(serial: u64, jobs: u32) -> QueueCount {
    QueueCount { serial, name: serial.to_string().into_bytes().into(), jobs }
}

/// Counters with a different value each.
fn figures() -> Box<ServerStats> {
    let mut histogram = Histogram::default();
    histogram.note(3_000, 2);
    histogram.note(50_000_000, 1);
    let mut figures = Box::<ServerStats>::default();
    figures.protocols[1] =
        ProtocolStats { open: 1, accepted: 2, rejected: 3, bytes_in: 4, bytes_out: 5 };
    figures.store.jobs = 6;
    figures.store.queues = 7;
    figures.store.waiters = 8;
    for (deed, count) in figures.store.totals.counters.iter_mut().zip(9..) {
        *deed = count;
    }
    figures.store.totals.ready_ms.note(1_500, 4);
    figures.answered_ns = histogram;
    figures.passes.took_ns = histogram;
    figures.passes.longest_ns = 50_000_000;
    figures.passes.longest_pass_cpu_ns = 40_000_000;
    figures.passes.busy_millionths = 250_000;
    figures.queries.waiting = 21;
    figures.queries.started = 22;
    figures.queries.failed = 23;
    figures.queries.timed_out = 24;
    figures.resident_bytes = Some(25);
    let certificate_expires = Some(Wall(105_000));
    figures.tls = TlsStats { certificate_expires, handshakes: 106, failures: 107 };
    figures.access = AccessStats { users: Some(108), failures: 109, denied: 110 };
    figures.memory =
        MemoryStats { store_bytes: 101, buffer_bytes: 102, limit_bytes: Some(103), refused: 104 };
    figures.bus_workers =
        Some(vec![BusWorkerStats { queue: Box::from(*b"q\xff"), idle: 38, busy: 39 }]);
    figures.shared = Some(SharedStats {
        epoch: 201,
        batches: 202,
        changes: 203,
        bytes: 204,
        records: 205,
        write_ns: histogram,
        pending_bytes: 206,
        reconnects: 207,
        rewritten: 208,
        replicas: 209,
        waits_for: 1,
        is_away: true,
        is_full: true,
    });
    figures.journal = Some(JournalStats {
        live_bytes: 26,
        dead_bytes: 27,
        free_bytes: 28,
        total_bytes: 29,
        pending_bytes: 30,
        segments: 31,
        batches: 32,
        records: 33,
        written_bytes: 34,
        moved_bytes: 35,
        sync_ns: 36_000,
        sync_max_ns: 37_000,
        syncs: vec![(Some(20_000), 1), (Some(50_000), 2), (None, 0)],
        full: true,
    });
    figures
}

/// The whole text, of three queues and others.
fn text(form: Form) -> String {
    let tally = StatusCounts {
        ready: 1,
        blocked: 7,
        group_only: 2,
        delayed: 3,
        reserved: 4,
        dispatched: 1,
        processing: 2,
        buried: 5,
        completed: 6,
        oldest_ms: 70,
    };
    let names: [&[u8]; 3] = [b"plain", b"\"quoted\"\n\\ \xc3\xa9", b"\xff"];
    let queues = names.map(|name| Queue { name: name.into(), tally });
    let others = StatusCounts { ready: 8, oldest_ms: 9_000, ..StatusCounts::default() };
    let found = QueueSample { queues: queues.into(), others, other_queues: 10 };
    let mut stream = Stream::new(figures(), found, form);
    let (mut text, mut piece) = (Vec::new(), Vec::new());
    let mut over = false;
    while !over {
        piece.clear();
        over = stream.fill(&mut piece);
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[test]
fn metrics_text_equals_the_expected_one() {
    let text = text(Form::OpenMetrics);
    let expected = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts/metrics.txt"));
    assert!(text == expected, "this is the text now:\n{text}");
}

/// The name and the type of each metric that a comment declares.
fn types(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    lines.map(|line| line.split_once(' ').unwrap()).collect()
}

#[test]
fn classic_text_has_the_same_samples_and_consistent_comments() {
    let (open, classic) = (text(Form::OpenMetrics), text(Form::Classic));
    let samples = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    assert_eq!(samples(&classic), samples(&open));
    assert!(!classic.contains("# UNIT") && !classic.contains("# EOF"), "{classic}");
    assert!(classic.starts_with(
        "# HELP jobcentre_build_info The program.\n# TYPE jobcentre_build_info gauge\n\
         jobcentre_build_info{version="
    ));
    assert_eq!(types(&classic).len(), types(&open).len());
    for (name, kind) in types(&classic) {
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{name} is a {kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        let help = format!("# HELP {name} ");
        assert_eq!(classic.lines().filter(|line| line.starts_with(&help)).count(), 1, "{name}");
    }
    // A parser that relies on the comments finds a type for everything.
    let scrape = classic.lines().map(|line| Ok(line.to_owned()));
    for sample in prometheus_parse::Scrape::parse(scrape).unwrap().samples {
        let is_untyped = matches!(sample.value, prometheus_parse::Value::Untyped(_));
        let of_histogram = ["_sum", "_count"].iter().any(|end| sample.metric.ends_with(end));
        assert!(!is_untyped || of_histogram, "{sample:?}");
    }
}

#[test]
fn openmetrics_is_written_only_on_request() {
    for (client, accept, form) in [
        ("no version", None, Form::Classic),
        ("curl", Some("*/*"), Form::Classic),
        (
            "Chromium",
            Some(
                "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,\
                 image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
            ),
            Form::Classic,
        ),
        (
            "Firefox",
            Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            Form::Classic,
        ),
        (
            "Prometheus 2.54",
            Some(
                "application/openmetrics-text;version=1.0.0;q=0.5,\
                 application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,\
                 */*;q=0.2",
            ),
            Form::OpenMetrics,
        ),
        (
            "Prometheus 2.26, which knows a draft",
            Some(
                "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,\
                 */*;q=0.1",
            ),
            Form::Classic,
        ),
        (
            "Prometheus 3",
            Some(
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 application/openmetrics-text;version=0.0.1;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            ),
            Form::OpenMetrics,
        ),
        (
            "Prometheus 1",
            Some(
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                 encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            ),
            Form::Classic,
        ),
        ("one that names it", Some("application/openmetrics-text"), Form::OpenMetrics),
        ("one that refuses it", Some("application/openmetrics-text;q=0"), Form::Classic),
        ("both alike", Some("text/plain, application/openmetrics-text"), Form::OpenMetrics),
        ("rather text", Some("text/*, application/openmetrics-text;q=0.9"), Form::Classic),
        ("rather anything", Some("application/openmetrics-text;q=0.9, */*"), Form::Classic),
    ] {
        assert_eq!(Form::of(accept.map(str::as_bytes)), form, "{client}");
    }
    assert_eq!(Form::Classic.media_type(), CLASSIC);
    assert_eq!(Form::OpenMetrics.media_type(), OPENMETRICS);
}

#[test]
fn distinct_queue_names_have_distinct_labels() {
    assert_eq!(label(b"a b"), "a b");
    assert_eq!(label(b"\\xff"), "\\\\xff");
    assert_eq!(label(b"\xff\xc3\xa9\xc3"), "\\xffé\\xc3");
}

#[test]
fn largest_queues_have_own_metrics_and_others_are_summed() {
    let mut gather = StatsCollector::default();
    let all = u64::try_from(METRICS_QUEUES_MAX).unwrap() + 50;
    // Queues with odd serials are the larger ones.
    let jobs = |serial: u64| if serial % 2 == 1 { 1_000 } else { 1 };
    let mut next = Some(0);
    for from in (1..=2 * all).step_by(100) {
        assert_eq!(gather.next_scan(), StatsScan::Queues(next.unwrap()));
        let queues = (from..(from + 100).min(2 * all + 1)).map(|at| counted(at, jobs(at)));
        next = u32::try_from(from + 100).ok().filter(|&next| u64::from(next) <= 2 * all);
        let page = StatsPage { queues: queues.collect(), next, ..StatsPage::default() };
        assert!(gather.add_page(page).is_none());
    }
    assert_eq!(next, None);
    let one = StatusCounts { ready: 1, oldest_ms: 5, ..StatusCounts::default() };
    assert_eq!(gather.next_scan(), StatsScan::Jobs(0));
    let tallies = (1..=2 * all).map(|serial| (serial, one)).collect();
    assert!(
        gather
            .add_page(StatsPage { counts: tallies, next: Some(7), ..StatsPage::default() })
            .is_none()
    );
    assert_eq!(gather.next_scan(), StatsScan::Jobs(7));
    let tallies = vec![(2 * all - 1, one), (5_000_000, StatusCounts { reserved: 3, ..one })];
    let found = gather.add_page(StatsPage { counts: tallies, ..StatsPage::default() }).unwrap();
    assert_eq!((found.queues.len(), found.other_queues), (METRICS_QUEUES_MAX, 2 * all - 1_000));
    let ready: u64 = found.queues.iter().map(|queue| queue.tally.ready).sum();
    assert_eq!((ready + found.others.ready, found.others.reserved), (2 * all + 2, 3));
    for queue in &found.queues {
        let serial: u64 = std::str::from_utf8(&queue.name).unwrap().parse().unwrap();
        let ready = if serial == 2 * all - 1 { 2 } else { 1 };
        assert_eq!((serial % 2, queue.tally.ready, queue.tally.oldest_ms), (1, ready, 5));
    }
}

#[test]
fn long_queue_name_has_no_own_metrics() {
    let mut gather = StatsCollector::default();
    let long = QueueCount { serial: 1, name: [b'x'; METRICS_NAME_MAX_BYTES + 1].into(), jobs: 9 };
    let queues = vec![long, counted(2, 1)];
    assert!(gather.add_page(StatsPage { queues, ..StatsPage::default() }).is_none());
    let one = StatusCounts { ready: 1, ..StatusCounts::default() };
    let tallies = vec![(1, one), (2, one)];
    let found = gather.add_page(StatsPage { counts: tallies, ..StatsPage::default() }).unwrap();
    assert_eq!((found.queues.len(), found.other_queues, found.others.ready), (1, 1, 1));
}
