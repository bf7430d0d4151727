//! Charts as SVG files: lines or grouped bars of several series, with axes, units and a legend.
//!
//! A chart needs no style sheet. Series differ in colour, and for print in black and white in dashes and marks (lines)
//! or in hatching (bars).

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Edges of the plotted area; the legend is to the right of it.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 610.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 380.0;
/// Least number of steps of a linear axis.
const STEPS: f64 = 4.0;
/// Colours of Okabe and Ito, distinct for colour-blind readers.
const COLOURS: [&str; 7] = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "9 3 2 3"];

/// Points of one kind, in the order of x.
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Lines with marks over a logarithmic horizontal axis, without points at 0 and below.
    Lines,
    /// Bars in groups of equal x.
    Bars,
}

/// Labels of a chart, each axis with its unit.
pub struct Labels<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
}

/// Draws a chart as an SVG document. Values that are not finite are left out.
pub fn svg(labels: &Labels<'_>, series: &[Series], shape: Shape) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let (middle, centre) = ((TOP + BOTTOM) / 2.0, (LEFT + RIGHT) / 2.0);
    text(&mut out, (centre, 22.0), "middle", labels.title);
    text(&mut out, (centre, HEIGHT - 20.0), "middle", labels.x);
    let _ = write!(out, "<g transform=\"rotate(-90 16 {middle})\">");
    text(&mut out, (16.0, middle), "middle", labels.y);
    out.push_str("</g>\n");
    let visible = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (shape != Shape::Lines || *x > 0.0);
    let series: Vec<(&str, Vec<(f64, f64)>)> =
        series.iter().map(|of| (of.label.as_str(), of.points.iter().copied().filter(visible).collect())).collect();
    let points = || series.iter().flat_map(|(_, points)| points.iter().copied());
    let vertical = Scale::linear(points().map(|(_, y)| y).chain([0.0]), (BOTTOM, TOP));
    for tick in vertical.ticks() {
        let y = vertical.place(tick);
        let _ = writeln!(out, "<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#cccccc\"/>");
        text(&mut out, (LEFT - 6.0, y + 4.0), "end", &vertical.shown(tick));
    }
    let horizontal = match shape {
        Shape::Lines => Scale::logarithmic(points().map(|(x, _)| x), (LEFT, RIGHT)),
        Shape::Bars => groups(points().map(|(x, _)| x).collect()),
    };
    for tick in horizontal.ticks() {
        let x = horizontal.place(tick);
        let _ = writeln!(out, "<path d=\"M{x:.1} {BOTTOM}v5\" stroke=\"black\"/>");
        text(&mut out, (x, BOTTOM + 19.0), "middle", &horizontal.shown(tick));
    }
    let _ = writeln!(out, "<path d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\" fill=\"none\" stroke=\"black\"/>");
    for (nth, (label, points)) in series.iter().enumerate() {
        let key = TOP + 10.0 + nth as f64 * 20.0;
        text(&mut out, (RIGHT + 54.0, key + 4.0), "start", label);
        if let (Shape::Bars, Scale::Groups(xs)) = (shape, &horizontal) {
            let width = 0.8 * (RIGHT - LEFT) / (xs.len() * series.len()) as f64;
            let shift = (nth as f64 - series.len() as f64 / 2.0) * width;
            hatching(&mut out, nth);
            bar(&mut out, nth, (RIGHT + 20.0, key - 6.0), (26.0, 12.0));
            for (x, y) in points {
                let (top, bottom) = (vertical.place(y.max(0.0)), vertical.place(y.min(0.0)));
                bar(&mut out, nth, (horizontal.place(*x) + shift, top), (width, bottom - top));
            }
        } else {
            let placed: Vec<_> = points.iter().map(|(x, y)| (horizontal.place(*x), vertical.place(*y))).collect();
            line(&mut out, nth, &placed);
            line(&mut out, nth, &[(RIGHT + 14.0, key), (RIGHT + 48.0, key)]);
        }
    }
    out + "</svg>\n"
}

/// Positions of values along an axis.
enum Scale {
    Linear {
        from: f64,
        to: f64,
        step: f64,
        ends: (f64, f64),
    },
    /// Powers of ten.
    Logarithmic {
        from: i32,
        to: i32,
        ends: (f64, f64),
    },
    /// One position per value.
    Groups(Vec<f64>),
}

fn groups(mut xs: Vec<f64>) -> Scale {
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    Scale::Groups(xs)
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    if least <= most { (least, most) } else { (1.0, 1.0) }
}

impl Scale {
    /// Round numbers around the values.
    fn linear(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        let (least, most) = range(values);
        let raw = if most > least { (most - least) / STEPS } else { 1.0 };
        let step = round_step(raw);
        let from = (least / step).floor();
        Scale::Linear { from: from * step, to: (most / step).ceil().max(from + 1.0) * step, step, ends }
    }

    fn logarithmic(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        let (least, most) = range(values);
        let from = least.log10().floor() as i32;
        Scale::Logarithmic { from, to: (most.log10().ceil() as i32).max(from + 1), ends }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Scale::Linear { from, to, step, .. } => {
                (0..=((to - from) / step).round() as usize).map(|n| from + n as f64 * step).collect()
            }
            Scale::Logarithmic { from, to, .. } => (*from..=*to).map(|power| 10f64.powi(power)).collect(),
            Scale::Groups(xs) => xs.clone(),
        }
    }

    fn place(&self, value: f64) -> f64 {
        let between = |(start, end): (f64, f64), share: f64| start + share * (end - start);
        match self {
            Scale::Linear { from, to, ends, .. } => between(*ends, (value - from) / (to - from)),
            Scale::Logarithmic { from, to, ends } => {
                between(*ends, (value.log10() - f64::from(*from)) / f64::from(to - from))
            }
            Scale::Groups(xs) => {
                let at = xs.iter().position(|x| *x == value).unwrap_or(0);
                between((LEFT, RIGHT), (at as f64 + 0.5) / xs.len() as f64)
            }
        }
    }

    fn shown(&self, tick: f64) -> String {
        match self {
            Scale::Linear { step, .. } => tick_text(tick, *step),
            _ => format!("{tick}"),
        }
    }
}

/// Smallest round step, 1, 2 or 5 times a power of ten, that is at least `raw`.
pub fn round_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= raw).unwrap_or(raw)
}

/// Text of a tick, with as many digits as its step needs.
pub fn tick_text(tick: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    format!("{:.digits$}", if tick.abs() < step * 1e-6 { 0.0 } else { tick })
}

/// Escapes a text for HTML and SVG.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

/// A line with a mark at each point.
fn line(out: &mut String, nth: usize, points: &[(f64, f64)]) {
    let (colour, dash) = (COLOURS[nth % COLOURS.len()], DASHES[nth % DASHES.len()]);
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let style = format!("fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\"");
    let _ = writeln!(out, "<polyline {style} stroke-width=\"1.5\" points=\"{}\"/>", path.join(" "));
    // Five marks beside four dashes and seven colours: 140 different lines.
    let mark =
        ["m-3-3h6v6h-6z", "m0-4l4 4l-4 4l-4-4z", "m-3-3l6 6m0-6l-6 6", "m-4 3h8l-4-7z", "m-4 0h8m-4-4v8"][nth % 5];
    for (x, y) in points {
        let _ = writeln!(out, "<path d=\"M{x:.1} {y:.1}{mark}\" fill=\"white\" stroke=\"{colour}\"/>");
    }
}

/// Defines the hatching of a series: its direction and distance.
fn hatching(out: &mut String, nth: usize) {
    let (turn, size, colour) = (nth % 4 * 45, 3 + nth / 4 * 2, COLOURS[nth % COLOURS.len()]);
    let _ = writeln!(
        out,
        "<defs><pattern id=\"h{nth}\" width=\"{size}\" height=\"{size}\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate({turn})\"><path d=\"M0 0V{size}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
         </pattern></defs>"
    );
}

fn bar(out: &mut String, nth: usize, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
    let _ = writeln!(
        out,
        "<rect class=\"bar\" {place} fill=\"url(#h{nth})\" stroke=\"{}\"/>",
        COLOURS[nth % COLOURS.len()]
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(shape: Shape, points: &[(f64, f64)]) -> String {
        let series = ["a<b", "c"].map(|label| Series { label: label.into(), points: points.to_vec() });
        svg(&Labels { title: "t", x: "blocks", y: "miss ratio" }, &series, shape)
    }

    #[test]
    fn charts_have_all_values_labels_and_no_markup_of_labels() {
        let points = [(10.0, 0.8), (1000.0, 0.25), (0.0, f64::NAN)];
        let bars = chart(Shape::Bars, &points);
        // Four bars and two boxes of the legend.
        assert_eq!(bars.matches("class=\"bar\"").count(), 6);
        let lines = chart(Shape::Lines, &points);
        // A line and a sample of it in the legend for each series.
        assert_eq!(lines.matches("<polyline").count(), 4);
        for chart in [&bars, &lines] {
            assert!(chart.contains("a&lt;b") && !chart.contains("a<b") && !chart.contains("NaN"));
            assert!(chart.contains(">blocks<") && chart.contains(">miss ratio<") && chart.contains(">1000<"));
        }
    }

    #[test]
    fn scales_have_round_ticks_around_all_values() {
        let linear = Scale::linear([0.0, 0.87].into_iter(), (BOTTOM, TOP));
        let shown: Vec<_> = linear.ticks().into_iter().map(|tick| linear.shown(tick)).collect();
        assert_eq!(shown, ["0.0", "0.5", "1.0"]);
        assert!((linear.place(1.0) - TOP).abs() < 1e-9);
        let log = Scale::logarithmic([9.0, 4000.0].into_iter(), (LEFT, RIGHT));
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((log.place(100.0) - (LEFT + RIGHT) / 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_chart_without_points_is_still_a_chart() {
        for shape in [Shape::Lines, Shape::Bars] {
            let empty = chart(shape, &[]);
            assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }
}
