//! `entrepot-lab sim stripe clients`: a closed loop, by number of clients and width.

use super::{DeviceArgs, ScalingArgs};
use crate::command::sim::words::{size, span};
use crate::failure::Result;
use crate::table::{self, Answer, Output, column};
use clap::Args;
use node::control::Problem;
use policy::stripe::device::BLOCK_BYTES;
use policy::stripe::model::Parameters;
use policy::time::Time;
use serde_json::json;
use sim::grid::side_by_side;
use sim::stripe::{Closed, Loop, Setup, closed};

/// Most requests of a cell, which take some seconds.
const REQUESTS_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct ClientsArgs {
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    scaling: ScalingArgs,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16", value_name = "N")]
    clients: Vec<u32>,
    /// Widths of a request; those above the number of devices are left out.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,6,8,12,16,24", value_name = "N")]
    widths: Vec<u32>,
    /// Size of a request.
    #[arg(long, default_value = "512KiB", value_name = "SIZE", value_parser = size)]
    size: u64,
    /// Pause of a client after each answer.
    #[arg(long, default_value = "0", value_name = "TIME", value_parser = span)]
    pause: Time,
    /// Bytes that all clients read together.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = size)]
    total: u64,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// A cell, and the model's response time at the rate that the clients reach.
struct Row {
    clients: u32,
    width: u32,
    got: Closed,
    model_ms: f64,
}

impl Row {
    fn error(&self) -> f64 {
        self.model_ms / self.got.mean_ms - 1.0
    }
}

pub(super) fn clients(args: &ClientsArgs) -> Result<Answer> {
    let parameters = args.scaling.of(args.device.parameters()?);
    let requests = args.total / args.size.max(1);
    let numbers = args.clients.iter().chain(&args.widths);
    if args.size == 0 || !(1..=REQUESTS_MAX).contains(&requests) || numbers.clone().any(|n| !(1..=4096).contains(n)) {
        let cause = format!("--clients and --widths are from 1 to 4096, and --total has 1 to {REQUESTS_MAX} requests");
        return Err(Problem::wrong(cause).into());
    }
    let widths = args.widths.iter().copied().filter(|width| *width <= parameters.devices);
    let cells: Vec<(u32, u32)> =
        args.clients.iter().flat_map(|&clients| widths.clone().map(move |width| (clients, width))).collect();
    let setup = Setup::of(parameters, args.seed);
    let of = |clients, width| Loop { clients, pause: args.pause, requests, bytes: args.size, width };
    let done = side_by_side(&cells, None, |&(clients, width)| closed(&setup, of(clients, width)));
    let row = |(&(clients, width), got): (&(u32, u32), Closed)| {
        let (rate, request_blocks) = (requests as f64 / got.total_s, args.size as f64 / BLOCK_BYTES);
        let model_ms = Parameters { rate, request_blocks, ..parameters }.predict(width).request_s * 1e3;
        Row { clients, width, got, model_ms }
    };
    let rows: Vec<Row> = cells.iter().zip(done).map(row).collect();
    let columns = [
        column("clients", |r: &Row| r.clients).shown("clients", 0),
        column("width", |r: &Row| r.width).shown("width", 0),
        column("total_s", |r: &Row| r.got.total_s).digits(3).shown("total s", 1),
        column("mean_ms", |r: &Row| r.got.mean_ms).digits(3).shown("mean ms", 1),
        column("model_ms", |r: &Row| r.model_ms).digits(3).shown("model ms", 1),
        column("error", Row::error).digits(4).percent("error %", 1),
    ];
    let text = || {
        let mut text = table::text(&columns, &rows);
        for clients in &args.clients {
            let of = rows.iter().filter(|row| row.clients == *clients);
            if let Some(best) = of.min_by(|a, b| a.got.total_s.total_cmp(&b.got.total_s)) {
                text += &format!("{clients} clients: shortest with a width of {}\n", best.width);
            }
        }
        let errors: Vec<f64> = rows.iter().map(Row::error).filter(|error| error.is_finite()).map(f64::abs).collect();
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64 * 100.0;
        text + &format!("mean error of the model at the rate reached: {mean:.1} % of {} stable cells\n", errors.len())
    };
    let json = || json!({ "cells": table::json(&columns, &rows) });
    Ok(table::answer(args.output, &columns, &rows, text, json))
}
