//! The paper's figures 4 to 10, computed for given devices.
//!
//! Each row is a curve, or a line of the surface: its numbers, then the same as a row of bars on a scale that all rows
//! share.
//!
//! Source: Simitci & Reed, section 4; the reference, section 9. Where the paper's curves are lost, the axes are ours.

use crate::table::{self, Answer, Output, column};
use policy::stripe::model::{Parameters, Prediction, Scaling};
use serde_json::json;
use sim::widths::Widths as _;
use std::fmt::Write as _;

/// Rates of the axes, in requests per second.
const RATES: [f64; 9] = [1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 80.0, 100.0];
/// Sizes of the axes, in blocks.
const BLOCKS: [f64; 8] = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];
/// Standard deviation of a response time that is uniform on `[0, 2R]`, as a share of `R`: what the normal scaling of
/// figure 4 takes.
const SIGMA: f64 = 0.577_350_269_189_625_8;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Names and values of rows.
type Rows = Vec<(String, Vec<f64>)>;

/// A figure as a table. Infinite values are unstable loads.
pub struct Figure {
    title: &'static str,
    /// Heading and values from left to right.
    across: (&'static str, Vec<f64>),
    /// Heading of the rows.
    down: &'static str,
    rows: Rows,
    /// Whether the scale of the bars is logarithmic.
    logarithmic: bool,
}

/// Widths up to all devices.
fn widths(devices: u32) -> Vec<f64> {
    let all = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512];
    all.into_iter().filter(|width| *width < devices).chain([devices]).map(f64::from).collect()
}

/// Figure `number` for these devices; rate and size of the parameters count where the figure has no axis for them.
pub fn figure(number: u8, at: &Parameters) -> Figure {
    let over_widths = |title, down, rows: &dyn Fn(&[f64]) -> Rows| {
        let across = widths(at.devices);
        Figure { title, down, rows: rows(&across), across: ("width", across), logarithmic: true }
    };
    let by_rate = |title, of: &dyn Fn(Prediction) -> f64| {
        let row = |across: &[f64], rate| {
            let cells = across.iter().map(|&width| of(Parameters { rate, ..*at }.predict(width as u32)));
            (format!("{rate}/s"), cells.collect())
        };
        over_widths(title, "rate", &|across| RATES.iter().map(|&rate| row(across, rate)).collect())
    };
    let by_size = |title, of: &dyn Fn(Prediction) -> f64| {
        let row = |across: &[f64], request_blocks| {
            let cells = across.iter().map(|&width| of(Parameters { request_blocks, ..*at }.predict(width as u32)));
            (size(request_blocks), cells.collect())
        };
        over_widths(title, "request", &|across| BLOCKS.iter().map(|&blocks| row(across, blocks)).collect())
    };
    let over_rates = |title, logarithmic, of: &dyn Fn(&Parameters) -> f64| {
        let row = |request_blocks: f64| {
            let at = |rate| of(&Parameters { request_blocks, rate, ..*at });
            (size(request_blocks), RATES.iter().map(|&rate| at(rate)).collect())
        };
        let rows = BLOCKS.iter().map(|&blocks| row(blocks)).collect();
        Figure { title, across: ("requests/s", RATES.to_vec()), down: "request", rows, logarithmic }
    };
    let count = |width: Option<u32>| width.map_or(f64::INFINITY, f64::from);
    match number {
        4 => {
            let title = "figure 4: how the last of D response times compares with their mean";
            Figure { logarithmic: false, ..over_widths(title, "distribution", &scalings) }
        }
        5 => by_size("figure 5: service time of a stripe, s", &|at| at.service_s),
        6 => by_rate("figure 6: response time of a request, s", &|at| at.request_s),
        7 => by_rate("figure 7: utilisation of the devices; unstable from 1 on", &|at| at.utilisation),
        8 => by_size("figure 8: response time of a request, s", &|at| at.request_s),
        9 => over_rates("figure 9: optimal width", false, &|at| count(at.optimal_width())),
        _ => over_rates("figure 10: largest width at utilisation 1, equation 11 as mended", true, &|at| {
            at.width_at(1.0).map_or(f64::INFINITY, |width| width.min(f64::from(at.devices)))
        }),
    }
}

fn size(blocks: f64) -> String {
    format!("{} KiB", blocks * 4.0)
}

/// `gamma(D)` of the three distributions.
fn scalings(across: &[f64]) -> Rows {
    let harmonic = |d: f64| (1..=d as u32).map(|k| 1.0 / f64::from(k)).sum::<f64>();
    let of = |scaling: Scaling, d: f64| match scaling {
        Scaling::Exponential => harmonic(d),
        Scaling::Normal => 1.0 + SIGMA * (2.0 * d.ln()).sqrt(),
        Scaling::Uniform | Scaling::Positioning => 2.0 * d / (d + 1.0),
    };
    let all = [("uniform", Scaling::Uniform), ("exponential", Scaling::Exponential), ("normal", Scaling::Normal)];
    all.map(|(name, scaling)| (name.to_owned(), across.iter().map(|&d| of(scaling, d)).collect())).to_vec()
}

impl Figure {
    /// The figure in the chosen format.
    pub fn answer(&self, output: Output) -> Answer {
        match output {
            Output::Json => {
                let rows: Vec<_> =
                    self.rows.iter().map(|(name, cells)| json!({ "at": name, "values": cells })).collect();
                let (name, places) = &self.across;
                Answer::Json(json!({ "title": self.title, "across": { "name": name, "values": places }, "rows": rows }))
            }
            Output::Csv => {
                type Point<'a> = (&'a str, f64, f64);
                let columns = [
                    column(self.down, |(name, ..): &Point<'_>| name.to_string()),
                    column(self.across.0, |(_, place, _): &Point<'_>| *place),
                    column("value", |(.., value): &Point<'_>| *value).digits(6),
                ];
                let mut points: Vec<Point<'_>> = Vec::new();
                for (name, cells) in &self.rows {
                    points.extend(self.across.1.iter().zip(cells).map(|(place, cell)| (name.as_str(), *place, *cell)));
                }
                Answer::Text(table::csv(&columns, &points))
            }
            Output::Text => Answer::Text(self.text()),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n{:<12}", self.title, self.across.0);
        self.across.1.iter().for_each(|place| text += &format!(" {place:>7}"));
        text.push('\n');
        for (name, cells) in &self.rows {
            let _ = write!(text, "{name:<12}");
            cells.iter().for_each(|cell| text += &format!(" {:>7}", number(*cell)));
            let bars: String = cells.iter().map(|cell| self.bar(*cell)).collect();
            let _ = writeln!(text, "  {bars}");
        }
        if self.rows.iter().flat_map(|(_, cells)| cells).any(|cell| cell.is_infinite()) {
            text += "-: the devices cannot bear it\n";
        }
        text
    }

    /// A bar of the common scale.
    fn bar(&self, cell: f64) -> char {
        let all = || self.rows.iter().flat_map(|(_, cells)| cells).copied().filter(|cell| cell.is_finite());
        let scale = |x: f64| if self.logarithmic { x.max(1e-9).ln() } else { x };
        let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        if !cell.is_finite() {
            return '-';
        }
        let share = (scale(cell) - scale(least)) / (scale(most) - scale(least)).max(1e-12);
        BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    }
}

/// Four digits at most, so that columns stay narrow.
fn number(cell: f64) -> String {
    match cell {
        cell if cell.is_infinite() => "-".to_owned(),
        cell if cell.fract() == 0.0 || cell >= 100.0 => format!("{cell:.0}"),
        cell if cell >= 10.0 => format!("{cell:.1}"),
        cell if cell >= 1.0 => format!("{cell:.2}"),
        cell => format!("{cell:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_have_the_values_of_the_reference() {
        let at = Parameters::default();
        let cell = |number: u8, row: &str, place: f64| {
            let figure = figure(number, &at);
            let column = figure.across.1.iter().position(|x| *x == place).expect("a place of the axis");
            figure.rows.iter().find(|(name, _)| name == row).expect("a row").1[column]
        };
        assert!((cell(4, "uniform", 8.0) - 16.0 / 9.0).abs() < 1e-12 && cell(4, "exponential", 1.0) == 1.0);
        assert!((cell(5, "4096 KiB", 16.0) - 0.100_636).abs() < 1e-6);
        assert!((cell(6, "30/s", 8.0) - 0.316_674).abs() < 1e-6);
        assert!(cell(6, "100/s", 128.0).is_infinite());
        assert!((cell(7, "30/s", 32.0) - 0.663_136).abs() < 1e-6);
        assert!((cell(8, "4096 KiB", 4.0) - 0.478_638).abs() < 1e-6);
        assert_eq!([cell(9, "4096 KiB", 60.0), cell(9, "512 KiB", 100.0), cell(9, "64 KiB", 1.0)], [11.0, 5.0, 1.0]);
        assert!((cell(10, "4096 KiB", 30.0) - 45.59).abs() < 0.005);
    }

    #[test]
    fn a_figure_is_read_as_numbers_and_as_bars() {
        let text = figure(6, &Parameters { devices: 8, ..Parameters::default() }).text();
        assert!(text.starts_with("figure 6") && text.contains('█') && text.contains("cannot bear"), "{text}");
        assert_eq!(text.lines().count(), 2 + RATES.len() + 1, "{text}");
    }
}
