//! Plots the distribution of latencies: one line for each kind of request; the x axis is the
//! quantile, on a logarithmic scale of 1 / (1 - quantile).

use super::clock::float;
use super::latency::{Latencies, LatencyKind};
use hdrhistogram::Histogram;
use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 540);
/// The end of the x axis: one request in this many is slower.
const RAREST: f64 = 100_000.0;
/// Steps in which rarity grows by ten.
const STEPS: u32 = 24;

/// Returns the plot as SVG.
pub(super) fn draw(title: &str, latencies: &Latencies) -> Result<String, String> {
    let mut svg = String::new();
    draw_curves(&mut svg, title, latencies).map_err(|error| format!("cannot draw: {error}"))?;
    Ok(svg)
}

fn draw_curves(
    svg: &mut String,
    title: &str,
    latencies: &Latencies,
) -> Result<(), Box<dyn std::error::Error>> {
    let lines: Vec<(LatencyKind, Vec<(f64, f64)>)> = LatencyKind::ALL
        .into_iter()
        .map(|kind| (kind, points(latencies.of(kind))))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
    let lowest = values().fold(f64::INFINITY, f64::min).min(1e9) / 1.5;
    let highest = values().fold(1.0, f64::max) * 1.5;
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(16)
        .margin_right(40)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d((1.0..RAREST).log_scale(), (lowest..highest).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("share of requests that are at least so fast")
        .y_desc("microseconds")
        .x_label_formatter(&|rarity| share(*rarity))
        .y_label_formatter(&|micros| format!("{micros}"))
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    for (kind, points) in lines {
        let color = color(kind);
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(kind.name())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    area.present()?;
    Ok(())
}

fn color(kind: LatencyKind) -> RGBColor {
    match kind {
        LatencyKind::Put => RGBColor(0, 114, 178),
        LatencyKind::Get => RGBColor(213, 94, 0),
        LatencyKind::Delete => RGBColor(0, 158, 115),
        LatencyKind::Delivery => RGBColor(204, 121, 167),
    }
}

/// One in `rarity` is slower: 100 is 99 %.
fn share(rarity: f64) -> String {
    format!("{} %", ((1.0 - 1.0 / rarity) * 1e5).round() / 1e3)
}

/// Rarity and microseconds, as far as there are enough requests to speak of such rarity.
fn points(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let count = float(histogram.len());
    let rarities = (0..=5 * STEPS).map(|step| 10_f64.powf(f64::from(step) / f64::from(STEPS)));
    rarities
        .take_while(|&rarity| rarity <= count && rarity <= RAREST)
        .map(|rarity| {
            let nanos = histogram.value_at_quantile(1.0 - 1.0 / rarity);
            (rarity, float(nanos) / 1e3)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_what_was_measured_and_names_it() {
        let mut latencies = Latencies::default();
        for micros in 1..=2000 {
            latencies.record(LatencyKind::Put, micros * 1000);
            latencies.record(LatencyKind::Delivery, micros * 500);
        }
        let svg = draw("a <title>", &latencies).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for word in ["put", "delivery", "99.9 %", "microseconds", "a &lt;title&gt;"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(!svg.contains("delete"), "an empty histogram has no line");
        draw("nothing at all", &Latencies::default()).unwrap();
    }

    #[test]
    fn rarity_is_labelled_as_a_percentage() {
        let shares = [1.0, 10.0, 100.0, 1000.0, 100_000.0].map(share);
        assert_eq!(shares, ["0 %", "90 %", "99 %", "99.9 %", "99.999 %"]);
    }
}
