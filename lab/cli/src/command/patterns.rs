//! `entrepot-lab patterns`: trains and tests the classifier of access patterns.

use crate::failure::Result;
use crate::shown::{self, Output};
use crate::table::{self, column};
use clap::{Args, Subcommand};
use node::control::Problem;
use policy::pattern::features::WINDOW;
use policy::pattern::network::{BUILT_IN, Network};
use policy::pattern::rules::RulesOfThumb;
use policy::pattern::{Classifier, Label, Request};
use serde_json::json;
use sim::patterns::{Accuracy, Training, accuracy, train, windows};
use sim::trace::{Format, Op, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Train and test the classifier of access patterns
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab patterns eval
  entrepot-lab patterns eval job.dxt.txt --format dxt
  entrepot-lab patterns train --seed 1 > weights.txt")]
pub struct Patterns {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Train the network on generated windows and print its weights, with the record of the training
    #[command(
        after_help = "EXAMPLES:\n  entrepot-lab patterns train\n  entrepot-lab patterns train --seed 2 --epochs 100 > mine.txt"
    )]
    Train(TrainArgs),
    /// Count how often network and rules of thumb are right on generated windows, or what they say of traces
    #[command(after_help = "\
EXAMPLES:
  entrepot-lab patterns eval
  entrepot-lab patterns eval --weights mine.txt --noise 0.4
  entrepot-lab patterns eval job.dxt.txt --format dxt --output json")]
    Eval(EvalArgs),
}

#[derive(Debug, Args)]
struct TrainArgs {
    /// Seed of windows, first weights and order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Windows of each of the 18 patterns.
    #[arg(long, default_value_t = 200)]
    each: usize,
    /// Times that all are shown.
    #[arg(long, default_value_t = 60)]
    epochs: usize,
    /// Size of the steps.
    #[arg(long, default_value_t = 0.1)]
    rate: f64,
    /// Share of disturbance in the windows, at most.
    #[arg(long, default_value_t = 0.2)]
    noise: f64,
}

#[derive(Debug, Args)]
struct EvalArgs {
    /// Traces; without any, generated windows.
    traces: Vec<PathBuf>,
    /// Format of the traces; see `entrepot-lab trace stats --help`.
    #[arg(long, default_value = "dxt", value_parser = super::trace::format_named)]
    format: Format,
    /// Weights instead of the built-in ones.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Seed of the windows: another than that of the training.
    #[arg(long, default_value_t = 99)]
    seed: u64,
    /// Windows of each of the 18 patterns.
    #[arg(long, default_value_t = 200)]
    each: usize,
    /// Share of disturbance in the windows, at most.
    #[arg(long, default_value_t = 0.2)]
    noise: f64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Patterns {
    pub fn run(self) -> Result<u8> {
        match self.verb {
            Verb::Train(args) => training(&args),
            Verb::Eval(args) if args.traces.is_empty() => generated(&args),
            Verb::Eval(args) => traces(&args),
        }
    }
}

fn training(args: &TrainArgs) -> Result<u8> {
    if !((0.0..=1.0).contains(&args.noise) && args.rate > 0.0 && args.rate <= 10.0)
        || args.each == 0
        || args.each > 100_000
    {
        return Err(
            Problem::wrong("--noise is from 0 to 1, --rate above 0 and at most 10, --each from 1 to 100000").into()
        );
    }
    let TrainArgs { seed, each, epochs, rate, noise } = *args;
    let network = train(Training { seed, each, epochs, rate, noise });
    let of = |seed| accuracy(&network, windows(seed, 100, noise));
    let (own, other) = (of(seed), of(seed.wrapping_add(98)));
    let record = format!(
        "entrepot-lab patterns train --seed {seed} --each {each} --epochs {epochs} --rate {rate} --noise {noise}\n\
         7 features of up to {WINDOW} requests, 10 hidden units, groups of 3, 3 and 2 outputs; gradient descent on the cross entropy\n\
         right in all three, windows of seed {seed}: {:.4}; of seed {}: {:.4}",
        own.all,
        seed.wrapping_add(98),
        other.all
    );
    shown::text(&sim::patterns::train::to_text(&network, &record))?;
    Ok(0)
}

fn network(path: Option<&Path>) -> Result<Network> {
    let (text, shown) = match path {
        None => (BUILT_IN.to_owned(), "the built-in weights".to_owned()),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| Problem::wrong(format!("{}: {e}", path.display())))?;
            (text, path.display().to_string())
        }
    };
    let wrong =
        |error| Problem::wrong(format!("{shown}: {error}")).try_this("make one with `entrepot-lab patterns train`");
    Ok(Network::parse(&text).map_err(wrong)?)
}

fn generated(args: &EvalArgs) -> Result<u8> {
    let network = network(args.weights.as_deref())?;
    let of =
        |classifier: &dyn Classifier| accuracy(classifier, windows(args.seed, args.each.clamp(1, 100_000), args.noise));
    let rows = [("network", of(&network)), ("rules of thumb", of(&RulesOfThumb))];
    let columns = [
        column("classifier", |(name, _): &(&str, Accuracy)| name.to_string()).shown("right in %", 0),
        column("windows", |(_, of): &(&str, Accuracy)| of.windows).shown("windows", 0),
        column("mix", |(_, of): &(&str, Accuracy)| of.mix).percent("mix", 1),
        column("order", |(_, of): &(&str, Accuracy)| of.order).percent("order", 1),
        column("sizes", |(_, of): &(&str, Accuracy)| of.sizes).percent("sizes", 1),
        column("all", |(_, of): &(&str, Accuracy)| of.all).percent("all", 1),
    ];
    match args.output {
        Output::Json => shown::json(&table::json(&columns, &rows))?,
        Output::Text => shown::text(&table::text(&columns, &rows))?,
    }
    Ok(0)
}

/// Patterns found in traces.
#[derive(Default)]
struct PatternCounts {
    windows: usize,
    agreed: usize,
    labels: BTreeMap<Label, usize>,
}

fn traces(args: &EvalArgs) -> Result<u8> {
    let network = network(args.weights.as_deref())?;
    // Sorted, since Darshan prints a file's writes before its reads.
    let options = Options { format: Some(args.format), sort: true, ..Options::default() };
    let mut found = PatternCounts::default();
    for path in &args.traces {
        let mut streams: BTreeMap<(u32, u32), Vec<Request>> = BTreeMap::new();
        let unreadable = |error: sim::trace::Error| super::trace::problem(&error);
        for record in sim::trace::open(path, &options).map_err(unreadable)? {
            let record = record.map_err(unreadable)?;
            let request = Request { write: record.op == Op::Write, offset: record.offset, len: record.length.into() };
            streams.entry((record.client, record.file)).or_default().push(request);
        }
        streams.values().for_each(|requests| look(&network, requests, &mut found));
    }
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let labels = found.labels.iter().map(|(label, n)| (label.to_string(), share(*n, found.windows)));
    if args.output == Output::Json {
        shown::json(&json!({
            "windows": found.windows,
            "agreed": share(found.agreed, found.windows),
            "labels": labels.collect::<BTreeMap<_, _>>(),
        }))?;
        return Ok(0);
    }
    let mut text = format!(
        "{} windows; network and rules of thumb agree on {:.1} %\n",
        found.windows,
        share(found.agreed, found.windows) * 100.0
    );
    labels.for_each(|(label, share)| text += &format!("  {:>5.1} %  {label}\n", share * 100.0));
    shown::text(&text)?;
    Ok(0)
}

/// Classifies the requests of one client to one file.
fn look(network: &Network, requests: &[Request], found: &mut PatternCounts) {
    for window in requests.chunks(WINDOW) {
        let (Some(said), Some(thumb)) = (network.classify(window), RulesOfThumb.classify(window)) else { continue };
        found.windows += 1;
        found.agreed += usize::from(said == thumb);
        *found.labels.entry(said).or_default() += 1;
    }
}
