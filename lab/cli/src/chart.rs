//! Charts as SVG: lines or bars of several series, with axes, units and a legend.
//!
//! A chart needs no style sheet; one may recolour it by classes, as the report does for light, dark and paper. Series
//! differ in colour, and for print in black and white in dashes and marks (lines) or in hatching (bars).

use std::fmt::Write as _;

/// Edges of the plotted area; the legend is above it.
const LEFT: f64 = 64.0;
const PLOT: f64 = 200.0;
/// Width of the plotted area of a logarithmic axis.
const WIDE: f64 = 560.0;
/// Room for labels below, upright and turned.
const BELOW: (f64, f64) = (46.0, 104.0);
/// Characters of a label that fit into the room for turned ones.
const LABEL: usize = 24;
/// Width of a character, a guess for a sans-serif font of 12.
const CHARACTER: f64 = 6.6;
/// Least number of steps of the vertical axis.
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
    /// Lines with marks.
    Lines,
    /// Bars, side by side at equal x.
    Bars,
}

/// The horizontal axis.
pub enum Along {
    /// Powers of ten; points at 0 and below are left out.
    Logarithmic,
    /// A place for each label; x is its number.
    Labels(Vec<String>),
}

/// A chart; `x` and `y` name the axes, with their units.
pub struct Chart<'a> {
    pub title: &'a str,
    pub x: &'a str,
    pub y: &'a str,
    pub along: Along,
    pub shape: Shape,
    pub series: Vec<Series>,
}

/// Positions of values from one end of an axis to the other.
struct Scale {
    ticks: Vec<f64>,
    shown: Vec<String>,
    is_logarithmic: bool,
    ends: (f64, f64),
}

impl Scale {
    /// Round numbers around the values and zero.
    fn linear(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        let (least, most) = values.fold((0.0f64, 0.0f64), |(a, b), value| (a.min(value), b.max(value)));
        let step = round_step(if most > least { most - least } else { 1.0 } / STEPS);
        let (from, to) = ((least / step).floor(), (most / step).ceil());
        let ticks: Vec<f64> = (0..=(to.max(from + 1.0) - from) as usize).map(|n| (from + n as f64) * step).collect();
        let shown = ticks.iter().map(|tick| tick_text(*tick, step)).collect();
        Scale { ticks, shown, is_logarithmic: false, ends }
    }

    fn logarithmic(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        let (least, most) = values.fold((f64::INFINITY, 1.0f64), |(a, b), value| (a.min(value), b.max(value)));
        let from = least.min(most).log10().floor() as i32;
        let ticks: Vec<f64> = (from..=(most.log10().ceil() as i32).max(from + 1)).map(|n| 10f64.powi(n)).collect();
        let shown = ticks.iter().map(f64::to_string).collect();
        Scale { ticks, shown, is_logarithmic: true, ends }
    }

    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_logarithmic { value.log10() } else { value };
        let (from, to) = (of(self.ticks[0]), of(self.ticks[self.ticks.len() - 1]));
        self.ends.0 + (of(value) - from) / (to - from) * (self.ends.1 - self.ends.0)
    }
}

impl Chart<'_> {
    /// Draws the chart as a file.
    pub fn document(&self) -> String {
        self.svg().replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1)
    }

    /// Draws the chart as an element of a page. Values that are not finite are left out.
    pub fn svg(&self) -> String {
        let labels: &[String] = if let Along::Labels(labels) = &self.along { labels } else { &[] };
        let bars = self.series.len() as f64 * 14.0;
        let wide = if labels.is_empty() { WIDE } else { (labels.len() as f64 * bars.max(46.0)).clamp(320.0, 1240.0) };
        let (legend, top) = self.legend(wide);
        let (bottom, right) = (top + PLOT, LEFT + wide);
        let place = wide / labels.len().max(1) as f64;
        let longest = labels.iter().map(|of| of.chars().count().min(LABEL)).max().unwrap_or(0) as f64 * CHARACTER;
        let is_turned = longest > place;
        let height = bottom + if is_turned { BELOW.1 } else { BELOW.0 };
        // The first turned label goes beyond the left edge.
        let beside = if is_turned { (longest * 0.8 - LEFT).max(0.0) } else { 0.0 };
        let width = right + 16.0 + beside;
        let mut out = format!(
            "<svg viewBox=\"-{beside:.0} 0 {width:.0} {height:.0}\" width=\"{width:.0}\" role=\"img\" aria-label=\"{}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<rect class=\"ground\" x=\"-{beside:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" fill=\"white\"/>\n",
            escaped(self.title)
        );
        text(&mut out, (LEFT + wide / 2.0, 16.0), "middle", self.title);
        text(&mut out, (4.0, top - 10.0), "start", self.y);
        text(&mut out, (LEFT + wide / 2.0, height - 8.0), "middle", self.x);
        out += &legend;
        let visible = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (!labels.is_empty() || *x > 0.0);
        let points = || self.series.iter().flat_map(|of| of.points.iter().copied()).filter(visible);
        let vertical = Scale::linear(points().map(|(_, y)| y), (bottom, top));
        for (tick, shown) in vertical.ticks.iter().zip(&vertical.shown) {
            let (y, class) = (vertical.place(*tick), if *tick == 0.0 { "axis" } else { "grid" });
            let colour = if *tick == 0.0 { "black" } else { "#cccccc" };
            let _ = writeln!(out, "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{right}\" stroke=\"{colour}\"/>");
            text(&mut out, (LEFT - 6.0, y + 4.0), "end", shown);
        }
        let _ =
            writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>");
        for (at, label) in labels.iter().enumerate() {
            let (x, y) = (LEFT + place * (at as f64 + 0.5), bottom + 18.0);
            let shown: String = match label.chars().count() {
                0..=LABEL => label.clone(),
                _ => label.chars().take(LABEL - 1).chain(['…']).collect(),
            };
            if is_turned {
                let _ = write!(out, "<g transform=\"rotate(-40 {x:.1} {y})\">");
                text(&mut out, (x, y), "end", &shown);
                out += "</g>\n";
            } else {
                text(&mut out, (x, y), "middle", &shown);
            }
        }
        let logarithmic = labels.is_empty().then(|| Scale::logarithmic(points().map(|(x, _)| x), (LEFT, right)));
        for (tick, shown) in logarithmic.iter().flat_map(|scale| scale.ticks.iter().zip(&scale.shown)) {
            let x = logarithmic.as_ref().map_or(LEFT, |scale| scale.place(*tick));
            let _ = writeln!(out, "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\" stroke=\"black\"/>");
            text(&mut out, (x, bottom + 18.0), "middle", shown);
        }
        let across = |x: f64| logarithmic.as_ref().map_or(LEFT + place * (x + 0.5), |scale| scale.place(x));
        let thick = 0.8 * place / self.series.len().max(1) as f64;
        for (nth, of) in self.series.iter().enumerate() {
            let placed: Vec<_> = of.points.iter().filter(|p| visible(p)).map(|(x, y)| (across(*x), *y)).collect();
            if self.shape == Shape::Lines {
                let placed: Vec<_> = placed.iter().map(|(x, y)| (*x, vertical.place(*y))).collect();
                line(&mut out, nth, &placed);
                continue;
            }
            for (x, y) in placed {
                let (head, foot) = (vertical.place(y.max(0.0)), vertical.place(y.min(0.0)));
                let left = x + (nth as f64 - self.series.len() as f64 / 2.0) * thick;
                let name = format!("{}: {}", of.label, number(y));
                bar(&mut out, nth, (left, head), (thick * 0.94, (foot - head).max(0.5)), &name);
            }
        }
        out + "</svg>\n"
    }

    /// The legend in rows of this width, and the upper edge of what is below it.
    fn legend(&self, wide: f64) -> (String, f64) {
        let (mut out, mut x, mut y) = (String::new(), LEFT, 28.0);
        for (nth, of) in self.series.iter().enumerate() {
            let needed = 46.0 + of.label.chars().count() as f64 * CHARACTER;
            if x > LEFT && x + needed > LEFT + wide {
                (x, y) = (LEFT, y + 18.0);
            }
            if self.shape == Shape::Bars {
                hatching(&mut out, nth);
                bar(&mut out, nth, (x, y), (26.0, 12.0), &of.label);
            } else {
                line(&mut out, nth, &[(x, y + 6.0), (x + 30.0, y + 6.0)]);
            }
            text(&mut out, (x + 36.0, y + 10.0), "start", &of.label);
            x += needed + 8.0;
        }
        (out, y + 40.0)
    }
}

/// Smallest round step, 1, 2 or 5 times a power of ten, that is at least `raw`.
fn round_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= raw).unwrap_or(raw)
}

/// Text of a tick, with as many digits as its step needs.
fn tick_text(tick: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    format!("{:.digits$}", if tick.abs() < step * 1e-6 { 0.0 } else { tick })
}

/// A number with three significant digits, or all before the point.
pub fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 || x.fract() == 0.0 => format!("{x:.0}"),
        size if size >= 10.0 => format!("{x:.1}"),
        size if size >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
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
    let style = format!("class=\"series{nth}\" stroke=\"{colour}\" stroke-dasharray=\"{dash}\" stroke-width=\"1.5\"");
    let _ = writeln!(out, "<polyline {style} fill=\"none\" points=\"{}\"/>", path.join(" "));
    // Five marks beside four dashes and seven colours: 140 different lines.
    let mark =
        ["m-3-3h6v6h-6z", "m0-4l4 4l-4 4l-4-4z", "m-3-3l6 6m0-6l-6 6", "m-4 3h8l-4-7z", "m-4 0h8m-4-4v8"][nth % 5];
    for (x, y) in points {
        let class = format!("class=\"ground series{nth}\"");
        let _ = writeln!(out, "<path {class} d=\"M{x:.1} {y:.1}{mark}\" fill=\"white\" stroke=\"{colour}\"/>");
    }
}

/// Defines the hatching of a series: its direction and distance.
fn hatching(out: &mut String, nth: usize) {
    let (turn, size, colour) = (nth % 4 * 45, 3 + nth / 4 * 2, COLOURS[nth % COLOURS.len()]);
    let _ = writeln!(
        out,
        "<defs><pattern id=\"h{nth}\" width=\"{size}\" height=\"{size}\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate({turn})\"><path class=\"series{nth}\" d=\"M0 0V{size}\" stroke=\"{colour}\" \
         stroke-width=\"3\"/></pattern></defs>"
    );
}

fn bar(out: &mut String, nth: usize, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
    let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
    let (colour, title) = (COLOURS[nth % COLOURS.len()], escaped(title));
    let class = format!("class=\"bar series{nth}\"");
    let _ =
        writeln!(out, "<rect {class} {place} fill=\"url(#h{nth})\" stroke=\"{colour}\"><title>{title}</title></rect>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(shape: Shape, along: Along, points: &[(f64, f64)]) -> String {
        let series = ["a<b", "c"].map(|label| Series { label: label.into(), points: points.to_vec() });
        Chart { title: "t", x: "blocks", y: "miss ratio", along, shape, series: series.into() }.svg()
    }

    fn labels() -> Along {
        Along::Labels(["one", "two", "a label that is too long for its place"].map(str::to_owned).into())
    }

    #[test]
    fn charts_have_all_values_labels_and_no_markup_of_labels() {
        let bars = chart(Shape::Bars, labels(), &[(0.0, 0.8), (2.0, -0.25), (1.0, f64::NAN)]);
        // Four bars and two boxes of the legend.
        assert_eq!(bars.matches("class=\"bar").count(), 6);
        assert!(bars.contains(">two<") && bars.contains("rotate(-40") && !bars.contains("its place<"));
        let lines = chart(Shape::Lines, Along::Logarithmic, &[(10.0, 0.8), (1000.0, 0.25), (0.0, 7.0)]);
        // A line and a sample of it in the legend for each series.
        assert_eq!(lines.matches("<polyline").count(), 4);
        assert!(lines.contains(">1000<") && !lines.contains(">8<"));
        for chart in [&bars, &lines] {
            assert!(chart.contains("a&lt;b") && !chart.contains("a<b") && !chart.contains("NaN"));
            assert!(chart.contains(">blocks<") && chart.contains(">miss ratio<"));
        }
    }

    #[test]
    fn scales_have_round_ticks_around_zero_and_all_values() {
        for (values, shown) in [
            (&[0.0, 0.87][..], &["0.0", "0.5", "1.0"][..]),
            (&[6.48, 2.95], &["0", "2", "4", "6", "8"]),
            (&[-19.0, -46.0], &["-60", "-40", "-20", "0"]),
            (&[0.0], &["0.0", "0.5"]),
        ] {
            let scale = Scale::linear(values.iter().copied(), (0.0, 1.0));
            assert_eq!(scale.shown, shown);
            assert_eq!(scale.place(scale.ticks[0]), 0.0);
        }
        let log = Scale::logarithmic([9.0, 4000.0].into_iter(), (0.0, 100.0));
        assert_eq!(log.ticks, [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((log.place(100.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_chart_without_points_is_still_a_chart() {
        for (shape, along) in [(Shape::Lines, Along::Logarithmic), (Shape::Bars, labels())] {
            let empty = chart(shape, along, &[]);
            assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown: Vec<_> = [0.0, 0.1234, 1.234, -12.34, 1234.4, 96.0].into_iter().map(number).collect();
        assert_eq!(shown, ["0", "0.123", "1.23", "-12.3", "1234", "96"]);
    }
}
