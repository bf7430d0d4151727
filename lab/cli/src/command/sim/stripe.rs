//! `entrepot-lab sim stripe`: how wide to stripe, by the queueing model and by simulation.

mod clients;
mod device;
mod figures;
mod model;

use super::disk::mechanical;
use super::words::{size, size_or_none, span};
use crate::command::rules;
use crate::failure::Result;
use crate::table::{self, Answer, Output, column};
use clap::{Args, Subcommand};
use device::{DeviceArgs, ScalingArgs};
use node::control::Problem;
use policy::stripe::advice::Mode;
use policy::stripe::device::BLOCK_BYTES;
use policy::stripe::fuzzy::Rules;
use policy::stripe::model::{Parameters, Prediction};
use policy::time::Time;
use serde_json::json;
use sim::grid::side_by_side;
use sim::setup::size_bytes;
use sim::stripe::{Drive, Figures, Phase, Setup, parse_phases};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Stripe widths: the queueing model, the fuzzy rules, and fork-join simulation
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim stripe model
  entrepot-lab sim stripe model --rate 100 --size 512KiB --devices 24
  entrepot-lab sim stripe model --figure 6
  entrepot-lab sim stripe validate --devices 24
  entrepot-lab sim stripe clients --devices 24 --clients 2,4,8
  entrepot-lab sim stripe run --devices 24 --phases 2x2MiB@300s,150x32KiB@300s,2x2MiB@300s")]
pub struct Stripe {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Response times of each width by the model
    #[command(
        after_help = "EXAMPLES:\n  entrepot-lab sim stripe model --rate 30 --size 4MiB\n  entrepot-lab sim stripe model --figure 9 --devices 24"
    )]
    Model(ModelArgs),
    /// Hold the model against simulated queues, over a grid of rates, sizes and widths
    #[command(
        after_help = "EXAMPLES:\n  entrepot-lab sim stripe validate\n  entrepot-lab sim stripe validate --devices 24 --requests 20000"
    )]
    Validate(ValidateArgs),
    /// Clients that each wait for their answer: the time of all requests by width (the paper's figure 17)
    #[command(
        after_help = "EXAMPLES:\n  entrepot-lab sim stripe clients --devices 24\n  entrepot-lab sim stripe clients --devices 24 --clients 8 --size 4MiB --total 1GiB --scaling normal"
    )]
    Clients(clients::ClientsArgs),
    /// A load that changes, under fixed widths and under the adaptive modes
    #[command(after_help = "\
EXAMPLES:
  entrepot-lab sim stripe run --devices 24
  entrepot-lab sim stripe run --devices 24 --disk cheetah9lp --phases 5x1MiB@200s,400x8KiB@200s
  entrepot-lab sim stripe run --modes fixed:1,fixed:8,model,fuzzy,model+fuzzy --rules my.rules --output json
  entrepot-lab sim stripe run --devices 24 --phases 120x64KiB+6x1MiB@600s --modes units:64KiB,units:256KiB,units:64KiB+256KiB")]
    Run(RunArgs),
}

#[derive(Debug, Args)]
struct ModelArgs {
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    scaling: ScalingArgs,
    /// Requests per second, over all devices.
    #[arg(long, default_value_t = 30.0)]
    rate: f64,
    /// Size of a request.
    #[arg(long, default_value = "4MiB", value_name = "SIZE", value_parser = size)]
    size: u64,
    /// Instead: one of the paper's figures 4 to 10 for these devices, as numbers and as a plot.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(4..=10))]
    figure: Option<u8>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
struct ValidateArgs {
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    scaling: ScalingArgs,
    /// Requests simulated per cell.
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// A mechanical disk instead of the queueing model's uniform times: a model (`entrepot-lab sim disk models`) or a
    /// file NAME.toml.
    #[arg(long)]
    disk: Option<String>,
    /// Factor by which the devices are slower than the model's: they were faster when measured.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    slower: f64,
    /// The devices are behind a network: what is slower counts as the network's performance instead of the disks'.
    #[arg(long)]
    network: bool,
    /// The load: rate x size @ length, one after another; 120x64KiB+6x1MiB@300s is both at once.
    #[arg(long, default_value = "2x2MiB@600s,150x32KiB@600s,2x2MiB@600s,150x32KiB@600s")]
    phases: String,
    /// Modes: fixed:N (every request spans N devices), units:SIZE (a file with that striping unit), units:SIZE+SIZE
    /// (two forks), model, fuzzy, model+fuzzy; without it, the adaptive ones, widths of every power of two, and units
    /// from 16 KiB to 1 MiB.
    #[arg(long, value_delimiter = ',')]
    modes: Vec<String>,
    /// A rule file; `adaptive` and `paper` are the built-in ones.
    #[arg(long, value_name = "FILE", default_value = "adaptive")]
    rules: PathBuf,
    /// Copies of the file, forks included, that the adaptive modes may make.
    #[arg(long, default_value_t = 1, value_name = "N")]
    forks: usize,
    /// Interval between two looks at the load.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = span)]
    interval: Time,
    /// Start of each phase that is not counted.
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = span)]
    warm_up: Time,
    /// Bytes of the file, which are copied in the background when its striping changes.
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = size_or_none)]
    copy: u64,
    /// Seed of the simulation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Stripe {
    pub fn answer(&self) -> Result<Answer> {
        match &self.verb {
            Verb::Model(args) => model::model(args),
            Verb::Validate(args) => validate(args),
            Verb::Clients(args) => clients::clients(args),
            Verb::Run(args) => run(args),
        }
    }
}

/// Widths worth showing: powers of two and all devices.
fn widths(devices: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..32).map(|log| 1u32 << log).take_while(|width| *width < devices).collect();
    all.push(devices);
    all
}

/// A load that one width sustains, by the model and by the queues.
struct Held {
    rate: f64,
    blocks: f64,
    width: u32,
    said: Prediction,
    got: Figures,
}

impl Held {
    /// Error of the model, relative to the simulated response time.
    fn error(&self) -> f64 {
        self.said.request_s * 1e3 / self.got.mean_ms - 1.0
    }
}

fn validate(args: &ValidateArgs) -> Result<Answer> {
    let parameters = args.scaling.of(args.device.parameters()?);
    if !(100..=10_000_000).contains(&args.requests) {
        return Err(Problem::wrong("--requests is from 100 to 10000000").into());
    }
    let mut cells = Vec::new();
    for rate in [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 80.0] {
        for blocks in [16.0, 64.0, 128.0, 256.0, 512.0, 1024.0] {
            let at = Parameters { rate, request_blocks: blocks, ..parameters };
            let all = widths(parameters.devices).into_iter().map(|width| (rate, blocks, width, at.predict(width)));
            cells.extend(all.filter(|(.., said)| said.utilisation < 0.9));
        }
    }
    let run = |(rate, blocks, width, _): &(f64, f64, u32, Prediction)| {
        let phase = Phase::of(*rate, (blocks * BLOCK_BYTES) as u64, args.requests as f64 / rate);
        let setup = Setup {
            parameters,
            mechanical: None,
            slowness: 1.0,
            far: false,
            phases: vec![phase],
            interval: Time::from_secs(3600),
            warm_up: Time::ZERO,
            copy_bytes: 0,
            seed: args.seed,
        };
        sim::stripe::run(&setup, &Drive::Width(*width)).pop().unwrap_or_default()
    };
    let got = side_by_side(&cells, None, run);
    let held = |((rate, blocks, width, said), got)| Held { rate, blocks, width, said, got };
    let rows: Vec<Held> = cells.into_iter().zip(got).map(held).collect();
    let mean = |keep: &dyn Fn(f64, u32) -> bool| {
        let kept = rows.iter().filter(|r| keep(r.said.utilisation, r.width));
        let kept: Vec<f64> = kept.map(|r| r.error().abs()).collect();
        (kept.len(), kept.iter().sum::<f64>() / kept.len().max(1) as f64 * 100.0)
    };
    // Filter by utilisation and width.
    type Chosen<'a> = &'a dyn Fn(f64, u32) -> bool;
    let parts: [(&str, Chosen<'_>); 5] = [
        ("all stable cells (utilisation below 0.9)", &|_, _| true),
        ("utilisation below 0.5", &|rho, _| rho < 0.5),
        ("utilisation from 0.5 to 0.9", &|rho, _| rho >= 0.5),
        ("one device wide", &|_, width| width == 1),
        ("wider than half of the devices", &|_, width| width > parameters.devices / 2),
    ];
    let columns = [
        column("rate", |r: &Held| r.rate),
        column("blocks", |r: &Held| r.blocks),
        column("width", |r: &Held| r.width),
        column("utilisation", |r: &Held| r.said.utilisation).digits(4),
        column("model_ms", |r: &Held| r.said.request_s * 1e3).digits(4),
        column("simulated_ms", |r: &Held| r.got.mean_ms).digits(4),
        column("error", Held::error).digits(4),
    ];
    let text = || {
        let mut text = String::from("mean error of the model's response time against the simulated one\n");
        for (what, keep) in parts {
            let (cells, percent) = mean(keep);
            let _ = writeln!(text, "{what:<45} {cells:>4} cells  {percent:>6.1} %");
        }
        text + "the paper reports 11 to 13 % against its testbed\n"
    };
    let json = || json!({ "cells": table::json(&columns, &rows), "mean_error_percent": mean(&|_, _| true).1 });
    Ok(table::answer(args.output, &columns, &rows, text, json))
}

fn parse_mode(text: &str, devices: u32, rules: &Rules, forks: usize) -> Result<Drive> {
    let wrong = || {
        Problem::wrong(format!("there is no mode `{text}`")).try_this(format!(
            "choose fixed:N with N from 1 to {devices}, units:SIZE, units:SIZE+SIZE, model, fuzzy, or model+fuzzy"
        ))
    };
    let adaptive = |mode| Drive::Adaptive(mode, rules.clone(), forks);
    Ok(match text {
        "model" => adaptive(Mode::Model),
        "fuzzy" => adaptive(Mode::Fuzzy),
        "model+fuzzy" => adaptive(Mode::ModelFuzzy),
        _ => match (text.strip_prefix("fixed:"), text.strip_prefix("units:")) {
            (Some(width), _) => {
                let width = width.parse::<u32>().ok();
                Drive::Width(width.filter(|n| (1..=devices).contains(n)).ok_or_else(wrong)?)
            }
            (_, Some(units)) => {
                let unit = |text: &str| size_bytes("unit", text).ok().filter(|unit| *unit > 0).ok_or_else(wrong);
                Drive::Units(units.split('+').map(unit).collect::<std::result::Result<_, _>>()?)
            }
            _ => return Err(wrong().into()),
        },
    })
}

fn is_adaptive(drive: &Drive) -> bool {
    matches!(drive, Drive::Adaptive(..))
}

fn run(args: &RunArgs) -> Result<Answer> {
    let parameters = args.device.parameters()?;
    let phases = parse_phases(&args.phases).map_err(Problem::wrong)?;
    let rules = rules::read(&args.rules)?;
    let mechanical = args.disk.as_deref().map(mechanical).transpose()?;
    if !(args.slower >= 0.01 && args.slower <= 100.0) {
        return Err(Problem::wrong("--slower is from 0.01 to 100").into());
    }
    let setup = Setup {
        parameters,
        mechanical,
        slowness: args.slower,
        far: args.network,
        interval: args.interval,
        warm_up: args.warm_up,
        copy_bytes: args.copy,
        seed: args.seed,
        phases,
    };
    let mut names: Vec<String> = args.modes.clone();
    if names.is_empty() {
        names = widths(parameters.devices).iter().map(|width| format!("fixed:{width}")).collect();
        names.extend((4..=10).map(|log| format!("units:{}KiB", 1 << log)));
        names.extend(["model", "fuzzy", "model+fuzzy"].map(str::to_owned));
    }
    let modes = names
        .iter()
        .map(|name| parse_mode(name, parameters.devices, &rules, args.forks))
        .collect::<Result<Vec<_>>>()?;
    let done: Vec<Vec<Figures>> = side_by_side(&modes, None, |mode| sim::stripe::run(&setup, mode));
    type Row<'a> = (&'a str, usize, &'a Figures);
    let columns = [
        column("mode", |(name, ..): &Row<'_>| name.to_string()),
        column("phase", |(_, phase, _): &Row<'_>| *phase),
        column("requests", |(.., of): &Row<'_>| of.requests),
        column("mean_ms", |(.., of): &Row<'_>| of.mean_ms).digits(4),
        column("p95_ms", |(.., of): &Row<'_>| of.p95_ms).digits(4),
        column("utilisation", |(.., of): &Row<'_>| of.utilisation).digits(4),
        column("width", |(.., of): &Row<'_>| of.width).digits(2),
        column("changes", |(.., of): &Row<'_>| of.changes),
        column("copies", |(.., of): &Row<'_>| of.copies),
    ];
    let phases = || names.iter().zip(&done);
    let rows: Vec<Row<'_>> =
        phases().flat_map(|(name, phases)| phases.iter().enumerate().map(|(n, of)| (name.as_str(), n, of))).collect();
    let of = |(name, phases)| json!({ "mode": name, "phases": phases });
    let json = || json!({ "modes": phases().map(of).collect::<Vec<_>>() });
    Ok(table::answer(args.output, &columns, &rows, || text(&setup, &names, &modes, &done), json))
}

/// Mean response times per phase; adaptive modes against the best and the worst of the others in the phase.
fn text(setup: &Setup, names: &[String], modes: &[Drive], done: &[Vec<Figures>]) -> String {
    let mut text = String::from("mean response time in ms, and width\nmode        ");
    for phase in &setup.phases {
        let kinds: Vec<_> = phase.asked.iter().map(|of| format!("{}/s of {} KiB", of.rate, of.bytes >> 10)).collect();
        let _ = write!(text, "  {:>19}", kinds.join(" + "));
    }
    text.push('\n');
    for (name, phases) in names.iter().zip(done) {
        let _ = write!(text, "{name:<12}");
        for of in phases {
            let _ = write!(text, "  {:>12.3} {:>6.1}", of.mean_ms, of.width);
        }
        text.push('\n');
    }
    if done.iter().flatten().any(|of| of.copies > 1) {
        let most = |phases: &[Figures]| phases.iter().map(|of| of.copies).max().unwrap_or(1);
        let copies: Vec<_> = names.iter().zip(done).map(|(name, of)| format!("{name} {}", most(of))).collect();
        let _ = writeln!(text, "\ncopies of the file: {}", copies.join(", "));
    }
    let fixed = |phase: usize| {
        let all = modes.iter().zip(done).filter(|(mode, _)| !is_adaptive(mode));
        all.map(move |(_, phases)| phases[phase].mean_ms).collect::<Vec<_>>()
    };
    if !modes.iter().any(is_adaptive) || fixed(0).is_empty() {
        return text;
    }
    text += "\nspeed against the best and the worst of the phase that does not adapt\n";
    for ((name, mode), phases) in names.iter().zip(modes).zip(done) {
        if !is_adaptive(mode) {
            continue;
        }
        let _ = write!(text, "{name:<12}");
        for (n, of) in phases.iter().enumerate() {
            let best = fixed(n).into_iter().fold(f64::INFINITY, f64::min);
            let worst = fixed(n).into_iter().fold(0.0, f64::max);
            let _ = write!(text, "  {:>19}", format!("{:.2} {:.2}x", best / of.mean_ms, worst / of.mean_ms));
        }
        text.push('\n');
    }
    text
}
