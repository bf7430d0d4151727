//! `entrepot-lab sim stripe model`: what the queueing model says of each width, of a surface of loads, or of one of the paper's figures.

use super::super::cache::Output;
use super::super::setup_problem;
use super::{BLOCK_BYTES, ModelArgs, Surface, figures, widths};
use crate::failure::Result;
use crate::shown;
use policy::stripe::model::Parameters;
use serde_json::json;
use sim::setup::size_bytes;
use std::fmt::Write as _;
use store::control::Problem;

/// `entrepot-lab sim stripe model`.
pub fn model(args: &ModelArgs) -> Result<u8> {
    let parameters = args.device.parameters()?;
    let bytes = size_bytes("size", &args.size).map_err(|error| setup_problem(&error))?;
    if !(args.rate.is_finite() && args.rate > 0.0) {
        return Err(Problem::wrong("--rate is above 0").into());
    }
    let at = Parameters { rate: args.rate, request_blocks: bytes as f64 / BLOCK_BYTES, ..parameters };
    if let Some(number) = args.figure {
        return figures::figure(number, &at).write(args.output);
    }
    if let Some(surface) = args.surface {
        return surface_of(&at, surface, args.output);
    }
    let mut shown_widths = widths(at.devices);
    shown_widths.extend(at.optimal_width().into_iter().chain(at.largest_stable_width()));
    shown_widths.sort_unstable();
    shown_widths.dedup();
    let rows: Vec<_> = shown_widths.iter().map(|&width| (width, at.predict(width))).collect();
    match args.output {
        Output::Json => {
            let rows: Vec<_> = rows
                .iter()
                .map(|(width, of)| {
                    json!({ "width": width, "service_s": of.service_s, "arrivals_per_s": of.arrivals,
                        "utilisation": of.utilisation, "wait_s": finite(of.wait_s),
                        "response_s": finite(of.response_s), "request_s": finite(of.request_s) })
                })
                .collect();
            shown::json(&json!({ "widths": rows, "optimal_width": at.optimal_width(),
                "largest_stable_width": at.largest_stable_width() }))?;
        }
        Output::Csv => {
            let mut text = String::from("width,service_s,arrivals_per_s,utilisation,wait_s,response_s,request_s\n");
            for (width, of) in rows {
                let _ = writeln!(
                    text,
                    "{width},{:.6},{:.6},{:.6},{:.6},{:.6},{:.6}",
                    of.service_s, of.arrivals, of.utilisation, of.wait_s, of.response_s, of.request_s
                );
            }
            shown::text(&text)?;
        }
        Output::Text => {
            let mut text =
                String::from("width   service s  arrivals/s  utilisation      wait s  response s   request s\n");
            let longest = rows.iter().map(|(_, of)| of.request_s).filter(|s| s.is_finite()).fold(0.0, f64::max);
            for (width, of) in rows {
                let bar = if of.request_s.is_finite() {
                    "#".repeat((of.request_s / longest * 30.0).ceil() as usize)
                } else {
                    "unstable".into()
                };
                let _ = writeln!(
                    text,
                    "{width:>5}  {:>10.6}  {:>10.6}  {:>11.6}  {:>10.6}  {:>10.6}  {:>10.6}  {bar}",
                    of.service_s, of.arrivals, of.utilisation, of.wait_s, of.response_s, of.request_s
                );
            }
            let number = |width: Option<u32>| width.map_or("none".to_owned(), |width| width.to_string());
            let _ = writeln!(
                text,
                "\noptimal width          {}\nlargest stable width   {}",
                number(at.optimal_width()),
                number(at.largest_stable_width())
            );
            shown::text(&text)?;
        }
    }
    Ok(0)
}

/// Infinity has no number in JSON.
pub fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

fn surface_of(at: &Parameters, surface: Surface, output: Output) -> Result<u8> {
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
            shown::json(&json!({ "widths": widths, "rows": rows }))?;
        }
        Output::Csv | Output::Text => {
            let (gap, head) = if output == Output::Csv { (",", "at") } else { ("  ", "request s, by width") };
            let pad = |text: String| if output == Output::Csv { text } else { format!("{text:>9}") };
            let mut text = if output == Output::Csv { head.to_owned() } else { format!("{head:<20}") };
            widths.iter().for_each(|width| text += &format!("{gap}{}", pad(width.to_string())));
            text += &format!("{gap}optimal\n");
            for (name, of) in &steps {
                text += &if output == Output::Csv { name.clone() } else { format!("{name:<20}") };
                for seconds in cells(of) {
                    let cell = if seconds.is_finite() { format!("{seconds:.4}") } else { "inf".into() };
                    text += &format!("{gap}{}", pad(cell));
                }
                let best = of.optimal_width().map_or("none".to_owned(), |width| width.to_string());
                text += &format!("{gap}{best}\n");
            }
            shown::text(&text)?;
        }
    }
    Ok(0)
}
