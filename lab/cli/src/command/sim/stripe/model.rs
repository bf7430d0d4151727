//! `entrepot-lab sim stripe model`: predictions of the queueing model for each width, or one of the paper's
//! figures.

use super::{BLOCK_BYTES, ModelArgs, figures, widths};
use crate::failure::Result;
use crate::table::{self, Answer, Column, column};
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
