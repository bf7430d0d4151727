//! `entrepot-lab sim stripe model`: predictions of the queueing model for each width, a surface of loads, or one of
//! the paper's figures.

use super::{BLOCK_BYTES, ModelArgs, Surface, figures, widths};
use crate::failure::Result;
use crate::table::{self, Answer, Column, Output, column};
use node::control::Problem;
use policy::stripe::model::{Parameters, Prediction};
use serde_json::json;
use sim::widths::Widths as _;

pub fn model(args: &ModelArgs) -> Result<Answer> {
    let parameters = args.scaling.of(args.device.parameters()?);
    if !(args.rate.is_finite() && args.rate > 0.0) {
        return Err(Problem::wrong("--rate is above 0").into());
    }
    let at = Parameters { rate: args.rate, request_blocks: args.size as f64 / BLOCK_BYTES, ..parameters };
    if let Some(number) = args.figure {
        return Ok(figures::figure(number, &at).answer(args.output));
    }
    if let Some(surface) = args.surface {
        return Ok(surface_of(&at, surface, args.output));
    }
    let mut shown_widths = widths(at.devices);
    shown_widths.extend(at.optimal_width().into_iter().chain(at.largest_stable_width()));
    shown_widths.sort_unstable();
    shown_widths.dedup();
    let rows: Vec<_> = shown_widths.iter().map(|&width| (width, at.predict(width))).collect();
    let columns = columns(&rows);
    let number = |width: Option<u32>| width.map_or("none".to_owned(), |width| width.to_string());
    let text = || {
        format!(
            "{}\noptimal width          {}\nlargest stable width   {}\n",
            table::text(&columns, &rows),
            number(at.optimal_width()),
            number(at.largest_stable_width())
        )
    };
    let json = || {
        json!({ "widths": table::json(&columns, &rows), "optimal_width": at.optimal_width(),
            "largest_stable_width": at.largest_stable_width() })
    };
    Ok(table::answer(args.output, &columns, &rows, text, json))
}

/// A width with its prediction.
type Row = (u32, Prediction);

fn columns(rows: &[Row]) -> Vec<Column<'static, Row>> {
    let longest = rows.iter().map(|(_, of)| of.request_s).filter(|s| s.is_finite()).fold(0.0, f64::max);
    let bar = move |(_, of): &Row| {
        if !of.request_s.is_finite() {
            return "unstable".to_owned();
        }
        "#".repeat((of.request_s / longest * 30.0).ceil() as usize)
    };
    vec![
        column("width", |(width, _): &Row| *width).shown("width", 0),
        column("service_s", |(_, of): &Row| of.service_s).digits(6).shown("service s", 6),
        column("arrivals_per_s", |(_, of): &Row| of.arrivals).digits(6).shown("arrivals/s", 6),
        column("utilisation", |(_, of): &Row| of.utilisation).digits(6).shown("utilisation", 6),
        column("wait_s", |(_, of): &Row| of.wait_s).digits(6).shown("wait s", 6),
        column("response_s", |(_, of): &Row| of.response_s).digits(6).shown("response s", 6),
        column("request_s", |(_, of): &Row| of.request_s).digits(6).shown("request s", 6),
        column("", bar).shown("", 0),
    ]
}

/// JSON has no infinity: `None`.
pub fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

fn surface_of(at: &Parameters, surface: Surface, output: Output) -> Answer {
    let steps: Vec<(String, Parameters)> = match surface {
        Surface::Rate => [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 80.0, 100.0]
            .map(|rate| (format!("{rate}/s"), Parameters { rate, ..*at }))
            .to_vec(),
        Surface::Size => (0..10)
            .map(|log| {
                let blocks = f64::from(16u32 << log);
                (format!("{}KiB", 64u32 << log), Parameters { request_blocks: blocks, ..*at })
            })
            .collect(),
    };
    let widths = widths(at.devices);
    let cells = |of: &Parameters| widths.iter().map(|&width| of.predict(width).request_s).collect::<Vec<_>>();
    match output {
        Output::Json => {
            let rows: Vec<_> = steps
                .iter()
                .map(|(name, of)| {
                    let seconds: Vec<_> = cells(of).into_iter().map(finite).collect();
                    json!({ "at": name, "request_s": seconds, "optimal_width": of.optimal_width() })
                })
                .collect();
            Answer::Json(json!({ "widths": widths, "rows": rows }))
        }
        Output::Csv | Output::Text => {
            let rows: Vec<_> = steps.iter().map(|(name, of)| (name.as_str(), cells(of), of.optimal_width())).collect();
            type Row<'a> = (&'a str, Vec<f64>, Option<u32>);
            let best = |(.., best): &Row<'_>| best.map_or("none".to_owned(), |width| width.to_string());
            let mut columns =
                vec![column("at", |(name, ..): &Row<'_>| name.to_string()).shown("request s, by width", 0)];
            columns.extend(widths.iter().enumerate().map(|(at, width)| {
                column(width.to_string(), move |(_, cells, _): &Row<'_>| cells[at])
                    .digits(4)
                    .shown(width.to_string(), 4)
            }));
            columns.push(column("optimal", best).shown("optimal", 0));
            let csv = output == Output::Csv;
            Answer::Text(if csv { table::csv(&columns, &rows) } else { table::text(&columns, &rows) })
        }
    }
}
