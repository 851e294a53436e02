//! The plots of the report, as SVG.

use crate::chapters::Chapter;
use crate::metric::{Metric, figure};
use crate::run::{Line, Outcome};
use crate::scenarios::{Sizes, at_backlog, short};
use crate::stats::float;
use crate::targets::Target;
use plotters::coord::Shift;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A finished plot.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) group: Chapter,
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// A line of a plot: its name, its colour, its points.
struct Curve {
    name: String,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

/// Bars that share an axis.
struct Panel {
    title: String,
    bars: Vec<(String, RGBColor, f64, (f64, f64))>,
}

/// All plots for which there is something to show.
pub(crate) fn all(outcomes: &[Outcome], sizes: &Sizes) -> Vec<Result<Plot, String>> {
    let mut plots = vec![throughput(outcomes), cpu(outcomes)];
    for id in ["cycle-64-1", "cycle-64-16", "rate-1000", "wait-1"] {
        plots.push(latency(outcomes, id));
    }
    plots.extend([growth(outcomes, sizes), memory(outcomes), connections(outcomes)]);
    plots.push(packets(outcomes));
    plots.into_iter().flatten().collect()
}

fn color(target: Target) -> RGBColor {
    match target {
        Target::JobCentre => RGBColor(0, 90, 181),
        Target::Echo => RGBColor(120, 120, 120),
        Target::TokioCurrent => RGBColor(0, 158, 115),
        Target::TokioMutex => RGBColor(86, 180, 233),
        Target::TokioActor => RGBColor(204, 121, 167),
        Target::Uring => RGBColor(150, 110, 0),
        Target::Beanstalkd => RGBColor(230, 159, 0),
        Target::Redis => RGBColor(213, 60, 0),
        Target::Pinpriq => RGBColor(110, 50, 160),
        // No picture shows them beside others.
        Target::Tubes | Target::Tls | Target::Health | Target::Jobq => RGBColor(90, 90, 90),
    }
}

fn find<'a>(outcomes: &'a [Outcome], id: &str) -> Option<&'a Outcome> {
    outcomes.iter().find(|outcome| outcome.id == id)
}

/// Paints a picture of a size, if it can be painted.
fn picture(
    group: Chapter,
    file: &str,
    title: &str,
    size: (u32, u32),
    paint: impl Fn(&Area<'_>) -> Drawn,
) -> Result<Plot, String> {
    let mut svg = String::new();
    let painted = {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let filled = area.fill(&WHITE).map_err(Into::into);
        filled.and_then(|()| paint(&area)).and_then(|()| area.present().map_err(Into::into))
    };
    painted.map_err(|error| format!("{file} cannot be drawn: {error}"))?;
    let (file, title) = (file.to_owned(), title.to_owned());
    Ok(Plot { group, file, title, svg })
}

const WIDE: (u32, u32) = (960, 540);

/// Curves over an axis that grows by factors. The upright axis begins at 0, or grows so too.
fn curves(
    area: &Area<'_>,
    title: &str,
    axes: (&str, &str),
    label: &dyn Fn(&f64) -> String,
    curves: &[Curve],
    by_factors: bool,
) -> Drawn {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let low = |values: &dyn Fn(&(f64, f64)) -> f64| points().map(values).fold(1e12, f64::min);
    let high = |values: &dyn Fn(&(f64, f64)) -> f64| points().map(values).fold(1e-9, f64::max);
    let xs = (low(&|point| point.0)..high(&|point| point.0) * 1.1).log_scale();
    let legend =
        if by_factors { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::UpperLeft };
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(title, ("sans-serif", 18))
        .margin(16)
        .margin_right(40)
        .x_label_area_size(44)
        .y_label_area_size(80);
    macro_rules! chart {
        ($ys:expr) => {{
            let mut chart = builder.build_cartesian_2d(xs, $ys)?;
            chart
                .configure_mesh()
                .x_desc(axes.0)
                .y_desc(axes.1)
                .x_label_formatter(&label)
                .y_label_formatter(&|value| figure_of_axis(*value))
                .light_line_style(BLACK.mix(0.04))
                .draw()?;
            for curve in curves {
                let color = curve.color;
                let points = curve.points.iter().copied();
                chart.draw_series(points.clone().map(|at| Circle::new(at, 3, color.filled())))?;
                chart
                    .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                    .label(curve.name.clone())
                    .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color));
            }
            chart
                .configure_series_labels()
                .position(legend)
                .background_style(WHITE.mix(0.8))
                .draw()?;
        }};
    }
    let top = high(&|point| point.1) * 1.15;
    if by_factors {
        chart!((low(&|point| point.1) / 1.5..top * 1.5).log_scale());
    } else {
        chart!(0.0..top);
    }
    Ok(())
}

/// A figure without digits that say nothing.
fn figure_of_axis(value: f64) -> String {
    let text = figure(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn throughput(outcomes: &[Outcome]) -> Option<Result<Plot, String>> {
    let mut found: Vec<Curve> = Vec::new();
    for target in Target::SERVERS {
        let mut points = Vec::new();
        for outcome in outcomes {
            let Some(depth) = outcome.id.strip_prefix("cycle-64-") else { continue };
            let line = outcome.line(target.name());
            let spread = line.and_then(|line| line.spread(Metric::Throughput));
            if let (Ok(depth), Some(spread)) = (depth.parse::<f64>(), spread) {
                points.push((depth, spread.median));
            }
        }
        if points.len() > 1 {
            let name = target.name().to_owned();
            found.push(Curve { name, color: color(target), points });
        }
    }
    if found.is_empty() {
        return None;
    }
    let title = "Throughput by depth: 64 connections, jobs of 100 B, server on one core";
    Some(picture(Chapter::Cycle, "throughput.svg", title, WIDE, |area| {
        let axes = ("requests in flight on each connection", "requests a second");
        curves(area, title, axes, &|depth| format!("{depth:.0}"), &found, false)
    }))
}

/// How rare: 100 is 99 %.
fn share(rarity: f64) -> String {
    format!("{} %", ((1.0 - 1.0 / rarity) * 1e4).round() / 1e2)
}

const PERCENTILES: [(Metric, f64); 6] = [
    (Metric::Min, 1.0),
    (Metric::P50, 2.0),
    (Metric::P90, 10.0),
    (Metric::P99, 100.0),
    (Metric::P999, 1_000.0),
    (Metric::P9999, 10_000.0),
];

fn latency(outcomes: &[Outcome], id: &str) -> Option<Result<Plot, String>> {
    let outcome = find(outcomes, id)?;
    let curve = |line: &Line| {
        let point = |(metric, rarity): (Metric, f64)| {
            line.spread(metric).map(|spread| (rarity, spread.median))
        };
        let points = PERCENTILES.into_iter().filter_map(point).collect();
        Curve { name: line.label.clone(), color: color(line.target), points }
    };
    let found: Vec<Curve> =
        outcome.lines.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    if found.is_empty() {
        return None;
    }
    let title = format!("Latency: {}", outcome.title);
    let file = format!("latency-{id}.svg");
    Some(picture(outcome.group, &file, &title, WIDE, |area| {
        let axes = ("share of requests that are at least so fast", "microseconds");
        curves(area, &title, axes, &|rarity| share(*rarity), &found, true)
    }))
}

fn growth(outcomes: &[Outcome], sizes: &Sizes) -> Option<Result<Plot, String>> {
    let mut found: Vec<Curve> = Vec::new();
    for (id, depth) in [("backlog-1", 1), ("backlog-16", 16)] {
        let Some(outcome) = find(outcomes, id) else { continue };
        for target in Target::SERVERS {
            let point = |&jobs: &u64| {
                let line = outcome.line(&at_backlog(target, jobs))?;
                Some((float(jobs), line.spread(Metric::Cpu)?.median))
            };
            let points: Vec<(f64, f64)> = sizes.backlogs.iter().filter_map(point).collect();
            if !points.is_empty() {
                let base = color(target);
                let RGBColor(red, green, blue) = base;
                // The same colour, lighter.
                let light = RGBColor(red / 2 + 110, green / 2 + 110, blue / 2 + 110);
                let color = if depth == 1 { light } else { base };
                let name = format!("{}, depth {depth}", target.name());
                found.push(Curve { name, color, points });
            }
        }
    }
    if found.is_empty() {
        return None;
    }
    let title = "CPU for a request while jobs wait: 64 connections, jobs of 100 B";
    Some(picture(Chapter::Backlog, "backlog.svg", title, WIDE, |area| {
        let axes = ("waiting jobs", "microseconds");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let label = |jobs: &f64| short(jobs.round() as u64);
        curves(area, title, axes, &label, &found, false)
    }))
}

fn panel(outcome: &Outcome, title: &str, metric: Metric) -> Option<Panel> {
    let bar = |line: &Line| {
        let spread = line.spread(metric)?;
        let limits = (spread.min, spread.max);
        Some((line.label.clone(), color(line.target), spread.median, limits))
    };
    let bars: Vec<_> = outcome.lines.iter().filter_map(bar).collect();
    (!bars.is_empty()).then(|| Panel { title: title.to_owned(), bars })
}

fn cpu(outcomes: &[Outcome]) -> Option<Result<Plot, String>> {
    let is_shown = |outcome: &&Outcome| matches!(outcome.group, Chapter::Cycle | Chapter::Payload);
    let of = |outcome: &Outcome| panel(outcome, &outcome.title, Metric::Cpu);
    let panels: Vec<Panel> = outcomes.iter().filter(is_shown).filter_map(of).collect();
    bars(
        Chapter::Cycle,
        "cpu.svg",
        "CPU time of the server for a request, in microseconds",
        &panels,
    )
}

fn memory(outcomes: &[Outcome]) -> Option<Result<Plot, String>> {
    let is_shown = |outcome: &&Outcome| outcome.group == Chapter::Memory;
    let of = |outcome: &Outcome| panel(outcome, &outcome.title, Metric::JobBytes);
    let panels: Vec<Panel> = outcomes.iter().filter(is_shown).filter_map(of).collect();
    bars(Chapter::Memory, "memory.svg", "Memory of the server for a waiting job, in bytes", &panels)
}

fn packets(outcomes: &[Outcome]) -> Option<Result<Plot, String>> {
    let mut panels = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.group == Chapter::Packets) {
        for (metric, noun) in [(Metric::Cpu, "request"), (Metric::JobCpu, "job")] {
            panels.extend(panel(outcome, &format!("{}, a {noun}", outcome.id), metric));
        }
    }
    let title = "CPU time of the server by its two protocols, in microseconds";
    bars(Chapter::Packets, "packets.svg", title, &panels)
}

fn connections(outcomes: &[Outcome]) -> Option<Result<Plot, String>> {
    let outcome = find(outcomes, "connections")?;
    let panels: Vec<Panel> = [("idle", Metric::IdleBytes), ("waiting", Metric::WaitingBytes)]
        .into_iter()
        .filter_map(|(title, metric)| panel(outcome, title, metric))
        .collect();
    let title = "Memory of the server for a connection, in bytes";
    bars(Chapter::Connections, "connections.svg", title, &panels)
}

/// Panels side by side, each with its own axis from 0.
fn bars(group: Chapter, file: &str, title: &str, panels: &[Panel]) -> Option<Result<Plot, String>> {
    if panels.is_empty() {
        return None;
    }
    let columns = panels.len().min(2);
    let rows = panels.len().div_ceil(columns);
    let most = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(1);
    let height = 50 + 26 * u32::try_from(most).unwrap_or(1);
    let size = (960, 40 + height * u32::try_from(rows).unwrap_or(1));
    Some(picture(group, file, title, size, |area| {
        let below = area.titled(title, ("sans-serif", 18))?;
        let areas = below.split_evenly((rows, columns));
        panels.iter().zip(&areas).try_for_each(|(panel, area)| draw_panel(area, panel, most))
    }))
}

/// Lying bars, names to the left of them, with the spread as a thin line.
fn draw_panel(area: &Area<'_>, panel: &Panel, rows: usize) -> Drawn {
    let (width, _) = area.dim_in_pixel();
    let text = ("sans-serif", 13).into_font().color(&BLACK);
    area.draw(&Text::new(panel.title.clone(), (12, 8), ("sans-serif", 14)))?;
    let left = 170;
    let room = f64::from(width) - f64::from(left) - 170.0;
    let top = panel.bars.iter().map(|bar| bar.3.1).fold(1e-9, f64::max);
    #[expect(clippy::cast_possible_truncation, reason = "pixels")]
    let at = |value: f64| left + (room * value.max(0.0) / top).round() as i32;
    for (row, (name, color, median, (min, max))) in panel.bars.iter().enumerate().take(rows) {
        let y = 32 + 26 * i32::try_from(row)?;
        area.draw(&Text::new(name.clone(), (12, y + 3), text.clone()))?;
        area.draw(&Rectangle::new([(left, y), (at(*median), y + 18)], color.filled()))?;
        let spread = vec![(at(*min), y + 9), (at(*max), y + 9)];
        area.draw(&PathElement::new(spread, BLACK.stroke_width(2)))?;
        let value = format!("{} ({} - {})", figure(*median), figure(*min), figure(*max));
        area.draw(&Text::new(value, (at(median.max(*max)) + 6, y + 3), text.clone()))?;
    }
    Ok(())
}
