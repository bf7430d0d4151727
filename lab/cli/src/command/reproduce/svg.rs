//! Charts as inline SVG: bars or lines of several series, with axes and a legend.
//!
//! Colours come from the style sheet of the page, by classes, so that a chart follows light, dark and paper. Series
//! also differ in hatching (bars) or dashes and marks (lines), for print in black and white.

use super::text::number;
use crate::chart::{escaped, round_step, tick_text};
use std::fmt::Write as _;

/// Vertical extent of the values.
const PLOT: f64 = 166.0;
const LEFT: f64 = 62.0;
const TOP: f64 = 34.0;
/// Room for labels below, upright and turned.
const BOTTOM: (f64, f64) = (28.0, 86.0);
/// Characters of a label that fit into the room for turned ones.
const LABEL: usize = 24;
/// Least number of steps of the vertical axis.
const STEPS: f64 = 4.0;
/// Width of a character of a label, a guess for the page's font.
const CHARACTER: f64 = 6.6;

/// Values of one kind; `None` leaves a gap.
pub(super) struct Series {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Bars,
    Lines,
}

/// Scale of the vertical axis.
struct Scale {
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    /// Round numbers around the values and zero.
    fn of(values: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = values.fold((0.0f64, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
        let span = if most > least { most - least } else { 1.0 };
        let raw = span / STEPS;
        let step = round_step(raw);
        Scale {
            from: (least / step).floor() * step,
            to: (most / step).ceil().max((least / step).floor() + 1.0) * step,
            step,
        }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (self.to - value) / (self.to - self.from) * PLOT
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (from, step) = (self.from, self.step);
        let count = ((self.to - from) / step).round() as usize;
        (0..=count).map(move |n| from + n as f64 * step)
    }
}

/// Draws a chart. Each label has a value of each series above it.
pub(super) fn chart(title: &str, unit: &str, labels: &[String], series: &[Series], shape: Shape) -> String {
    let longest = labels.iter().map(|label| label.chars().count().min(LABEL)).max().unwrap_or(0) as f64 * CHARACTER;
    let width = (LEFT + 20.0 + labels.len() as f64 * 46.0).clamp(340.0, 1300.0);
    let place = (width - LEFT - 10.0) / labels.len().max(1) as f64;
    let turned = longest > place;
    let height = TOP + PLOT + if turned { BOTTOM.1 } else { BOTTOM.0 };
    // The first turned label goes beyond the left edge.
    let beside = if turned { (longest * 0.8 - LEFT).max(0.0) } else { 0.0 };
    let extent = width + beside;
    let all = series.iter().flat_map(|of| of.values.iter().flatten().copied());
    let scale = Scale::of(all);
    let mut svg = format!(
        "<svg viewBox=\"-{beside:.0} 0 {extent:.0} {height:.0}\" width=\"{extent:.0}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(title)
    );
    axes(&mut svg, &scale, width, unit);
    let middle = |at: usize| LEFT + place * (at as f64 + 0.5);
    category_labels(&mut svg, labels, turned, &middle);
    for (nth, of) in series.iter().enumerate() {
        match shape {
            Shape::Bars => bars(&mut svg, &scale, of, nth, (place * 0.8 / series.len() as f64, series.len()), &middle),
            Shape::Lines => line(&mut svg, &scale, of, nth, &middle),
        }
    }
    legend(&mut svg, series, shape);
    svg + "</svg>\n"
}

fn axes(svg: &mut String, scale: &Scale, width: f64, unit: &str) {
    for tick in scale.ticks() {
        let (y, right) = (scale.y(tick), width - 10.0);
        let class = if tick.abs() < scale.step * 1e-6 { "axis" } else { "grid" };
        let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right:.0}\" y2=\"{y:.1}\"/>");
        let (x, below) = (LEFT - 6.0, y + 4.0);
        let _ = writeln!(svg, "<text class=\"end\" x=\"{x}\" y=\"{below:.1}\">{}</text>", tick_text(tick, scale.step));
    }
    let (bottom, x) = (TOP + PLOT, LEFT);
    let _ = writeln!(svg, "<line class=\"axis\" x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{bottom}\"/>");
    let _ = writeln!(svg, "<text x=\"4\" y=\"14\">{}</text>", escaped(unit));
}

fn category_labels(svg: &mut String, labels: &[String], turned: bool, middle: &impl Fn(usize) -> f64) {
    let y = TOP + PLOT + 16.0;
    for (at, label) in labels.iter().enumerate() {
        let x = middle(at);
        let shown: String = label.chars().take(LABEL).collect();
        let _ = if !turned {
            writeln!(svg, "<text class=\"middle\" x=\"{x:.1}\" y=\"{y}\">{}</text>", escaped(&shown))
        } else {
            let turned = format!("transform=\"rotate(-40 {x:.1} {y})\"");
            writeln!(svg, "<text class=\"end\" x=\"{x:.1}\" y=\"{y}\" {turned}>{}</text>", escaped(&shown))
        };
    }
}

/// Bars of a series, `width` wide, beside those of the others.
fn bars(
    svg: &mut String,
    scale: &Scale,
    of: &Series,
    nth: usize,
    (width, count): (f64, usize),
    middle: &impl Fn(usize) -> f64,
) {
    for (at, value) in of.values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?))) {
        let x = middle(at) + (nth as f64 - count as f64 / 2.0) * width;
        let (top, bottom) = (scale.y(value.max(0.0)), scale.y(value.min(0.0)));
        let (height, title) = ((bottom - top).max(0.5), format!("{}: {}", escaped(&of.name), number(value)));
        let _ = writeln!(
            svg,
            "<rect class=\"s{nth}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{title}</title></rect>",
            width * 0.94
        );
    }
}

fn line(svg: &mut String, scale: &Scale, of: &Series, nth: usize, middle: &impl Fn(usize) -> f64) {
    let points: Vec<(f64, f64, f64)> = of
        .values
        .iter()
        .enumerate()
        .filter_map(|(at, value)| Some((middle(at), scale.y((*value)?), (*value)?)))
        .collect();
    let path: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "<polyline class=\"l{nth}\" points=\"{}\"/>", path.join(" "));
    for (x, y, value) in points {
        let title = format!("<title>{}: {}</title>", escaped(&of.name), number(value));
        let _ = match nth {
            0 => writeln!(svg, "<circle class=\"m0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">{title}</circle>"),
            _ => {
                let (left, top) = (x - 3.5, y - 3.5);
                writeln!(
                    svg,
                    "<rect class=\"m{nth}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"7\" height=\"7\">{title}</rect>"
                )
            }
        };
    }
}

fn legend(svg: &mut String, series: &[Series], shape: Shape) {
    let mut x = LEFT + 40.0;
    for (nth, of) in series.iter().enumerate() {
        let class = if shape == Shape::Bars { format!("s{nth}") } else { format!("m{nth}") };
        let y = 5.0;
        let _ = writeln!(svg, "<rect class=\"{class}\" x=\"{x:.0}\" y=\"{y}\" width=\"12\" height=\"10\"/>");
        let _ = writeln!(svg, "<text x=\"{:.0}\" y=\"{}\">{}</text>", x + 17.0, y + 9.0, escaped(&of.name));
        x += 34.0 + of.name.chars().count() as f64 * CHARACTER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_round_steps_around_zero_and_all_values() {
        for (values, from, to) in
            [(vec![6.48, 2.95], 0.0, 8.0), (vec![-19.0, -46.0], -60.0, 0.0), (vec![0.0], 0.0, 0.5)]
        {
            let scale = Scale::of(values.iter().copied());
            assert!((scale.from - from).abs() < 1e-9 && (scale.to - to).abs() < 1e-9, "{} {}", scale.from, scale.to);
            assert!(scale.y(scale.from) > scale.y(scale.to));
        }
        assert_eq!([tick_text(0.25, 0.05), tick_text(20.0, 20.0), tick_text(-0.0, 0.5)], ["0.25", "20", "0.0"]);
    }

    #[test]
    fn charts_hold_all_values_and_no_markup_of_labels() {
        let series = |name: &str, values: &[f64]| Series {
            name: name.into(),
            values: values.iter().map(|value| Some(*value)).collect(),
        };
        let two = [series("published", &[1.0, -2.0]), series("ours", &[1.5, -1.0])];
        let labels = ["a<b".to_owned(), "c".to_owned()];
        let chart = |shape| chart("t", "%", &labels, &two, shape);
        let bars = chart(Shape::Bars);
        // Four bars and two boxes of the legend.
        assert_eq!(bars.matches("<rect").count(), 6);
        assert!(bars.contains("a&lt;b") && !bars.contains("a<b"));
        assert_eq!(chart(Shape::Lines).matches("<polyline").count(), 2);
    }
}
