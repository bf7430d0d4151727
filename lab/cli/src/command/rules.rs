//! `entrepot-lab rules`: the rule files of adaptive striping.

use crate::failure::{Failure, Result};
use crate::shown;
use crate::table::{self, Answer, Output, column};
use clap::{Args, Subcommand};
use node::control::Problem;
use policy::stripe::fuzzy::{Inference, Rules as RuleBase};
use policy::stripe::rules;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Inputs that rules may use, with descriptions.
const INPUTS: [(&str, &str); 9] = [
    ("RequestRate", "share of the devices' time that the requests would take one device wide"),
    ("TransferShare", "share of a request's service time, one device wide, that is transfer"),
    ("RequestSize", "mean size, as a share of 4 MiB"),
    ("NetworkPerformance", "what devices behind a network do, against what they are said to do; 0.5 is as said"),
    ("DiskPerformance", "the same of devices of this machine"),
    ("FileParallelism", "users of the file, as a share of the devices"),
    ("Sequentiality", "1 sequential, 0.5 strided, 0 random"),
    ("WriteShare", "1 write-only, 0.5 mixed, 0 read-only"),
    ("SizeVariability", "1 sizes differ, 0 all alike"),
];

/// Outputs that rules may decide.
const OUTPUTS: [(&str, &str); 3] = [
    ("RequestWidth", "share of the devices that a request spans"),
    ("StripeWidth", "share of the devices that a file spans"),
    ("FileReplicationTime", "from 0.5 on a second copy is kept in step while writing"),
];

/// Check and plot the rule files of adaptive striping
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab rules show > my.rules
  entrepot-lab rules check my.rules
  entrepot-lab rules plot my.rules RequestWidth RequestRate Sequentiality")]
pub struct Rules {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the built-in rules, to begin with
    #[command(after_help = "EXAMPLES:\n  entrepot-lab rules show > my.rules\n  entrepot-lab rules show --base paper")]
    Show {
        /// The rules that volumes use, or those of the paper.
        #[arg(long, value_enum, default_value = "adaptive")]
        base: Base,
    },
    /// Check a rule file: variables, terms, rules, what no rule asks for, and what a volume does not know
    #[command(after_help = inputs())]
    Check {
        /// The rule file.
        file: PathBuf,
    },
    /// Plot an output over two inputs
    #[command(after_help = "\
EXAMPLES:
  entrepot-lab rules plot my.rules
  entrepot-lab rules plot my.rules StripeWidth FileParallelism RequestRate --output csv")]
    Plot {
        /// The rule file; `paper` and `adaptive` are the built-in ones.
        file: PathBuf,
        /// The output to plot.
        #[arg(default_value = "RequestWidth")]
        output: String,
        /// The input from left to right.
        #[arg(default_value = "RequestRate")]
        across: String,
        /// The input from bottom to top; without it, TransferShare or RequestSize, whichever the rules have.
        up: Option<String>,
        /// How to write it; JSON has a row of values for each place from bottom to top.
        #[arg(long = "output", value_enum, default_value = "text")]
        format: Output,
    },
}

/// Examples, and the inputs and outputs of rules.
fn inputs() -> String {
    let list =
        |all: &[(&str, &str)]| all.iter().map(|(name, what)| format!("  {name:<20} {what}\n")).collect::<String>();
    format!(
        "EXAMPLES:\n  entrepot-lab rules check my.rules\n\nINPUTS (from 0 to 1):\n{}\nOUTPUTS:\n{}",
        list(&INPUTS),
        list(&OUTPUTS)
    )
}

/// The built-in rule files.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Base {
    /// The rules that volumes use.
    Adaptive,
    /// The rules of the paper.
    Paper,
}

impl Rules {
    pub fn run(self) -> Result<u8> {
        match &self.verb {
            Verb::Show { base } => shown::text(match base {
                Base::Adaptive => rules::ADAPTIVE,
                Base::Paper => rules::PAPER,
            })?,
            Verb::Check { file } => shown::text(&check(&read(file)?))?,
            Verb::Plot { .. } => return self.answer()?.write(),
        }
        Ok(0)
    }

    /// Answer of `rules plot`; other verbs have none for programs.
    pub fn answer(&self) -> Result<Answer> {
        let Verb::Plot { file, output, across, up, format } = &self.verb else { return Err(super::no_answer()) };
        plot(&read(file)?, output, across, up.as_deref(), *format)
    }
}

/// Reads a rule file; `paper` and `adaptive` are the built-in ones.
pub(super) fn read(path: &Path) -> Result<RuleBase> {
    let built_in =
        |text| Ok(rules::parse(text).map_err(|error| Problem::failed(format!("the built-in rules: {error}")))?);
    match path.to_str() {
        Some("paper") => return built_in(rules::PAPER),
        Some("adaptive") => return built_in(rules::ADAPTIVE),
        _ => {}
    }
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => Problem::wrong(format!("{} is no text", path.display()))
            .so("the rules cannot be used")
            .try_this("name a file of rules, such as `entrepot-lab rules show` prints"),
        _ => Failure::of_io(&path.display().to_string(), &error),
    })?;
    let rules = rules::parse(&text).map_err(|error| {
        Problem::wrong(format!("{}, {error}", path.display()))
            .so("the rules cannot be used")
            .try_this("compare with a built-in one: `entrepot-lab rules show`")
    })?;
    Ok(rules)
}

fn check(rules: &RuleBase) -> String {
    let inference = match rules.inference {
        Inference::Product => "product",
        Inference::Min => "min",
    };
    let mut text = format!("{} rules, inference {inference}\n", rules.rules.len());
    for (kind, variables) in [("input", &rules.inputs), ("output", &rules.outputs)] {
        for variable in variables {
            let terms: Vec<_> = variable.terms.iter().map(|(name, _)| name.as_str()).collect();
            let _ = writeln!(text, "{kind:<7} {:<20} {}", variable.name, terms.join(", "));
        }
    }
    for (at, output) in rules.outputs.iter().enumerate() {
        let unused: Vec<_> = (0..output.terms.len())
            .filter(|&term| rules.rules.iter().all(|rule| rule.then.variable != at || rule.then.term != term))
            .map(|term| output.terms[term].0.as_str())
            .collect();
        if !unused.is_empty() {
            let _ = writeln!(text, "note    {} is never {}", output.name, unused.join(", "));
        }
    }
    for (at, input) in rules.inputs.iter().enumerate() {
        if rules.rules.iter().all(|rule| rule.when.iter().all(|is| is.variable != at)) {
            let _ = writeln!(text, "note    no rule asks for {}", input.name);
        }
    }
    for (kind, variables, known) in [("input", &rules.inputs, &INPUTS[..]), ("output", &rules.outputs, &OUTPUTS[..])] {
        for variable in variables.iter().filter(|variable| known.iter().all(|(name, _)| *name != variable.name)) {
            let what = if kind == "input" { "rules that ask for it never fire" } else { "it does not take effect" };
            let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            let _ = writeln!(
                text,
                "note    a volume has no {kind} {}: {what}; there are {}",
                variable.name,
                names.join(", ")
            );
        }
    }
    text += "the rules can be used\n";
    text
}

/// Steps per axis.
const STEPS: usize = 20;

fn plot(rules: &RuleBase, output: &str, across: &str, up: Option<&str>, format: Output) -> Result<Answer> {
    let names = |all: &[policy::stripe::fuzzy::Variable]| {
        all.iter().map(|variable| variable.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let unknown = |kind: &str, name: &str, known: String| {
        Problem::wrong(format!("the rules have no {kind} {name}")).try_this(format!("choose one of {known}"))
    };
    let usual = if rules.input("TransferShare").is_some() { "TransferShare" } else { "RequestSize" };
    let up = up.unwrap_or(usual);
    let out = rules.output(output).ok_or_else(|| unknown("output", output, names(&rules.outputs)))?;
    let x = rules.input(across).ok_or_else(|| unknown("input", across, names(&rules.inputs)))?;
    let y = rules.input(up).ok_or_else(|| unknown("input", up, names(&rules.inputs)))?;
    let at = |column: usize, row: usize| {
        let mut inputs = vec![None; rules.inputs.len()];
        inputs[x] = Some(column as f64 / STEPS as f64);
        inputs[y] = Some(row as f64 / STEPS as f64);
        rules.decide(&inputs, out)
    };
    if format == Output::Json {
        let row = |row| (0..=STEPS).map(|column| at(column, row)).collect::<Vec<_>>();
        let values: Vec<_> = (0..=STEPS).map(row).collect();
        return Ok(Answer::Json(json!({ "output": output, "across": across, "up": up, "values": values })));
    }
    if format == Output::Csv {
        let place = |step: usize| step as f64 / STEPS as f64;
        let columns = [
            column(across, |(column, _): &(usize, usize)| place(*column)).digits(2),
            column(up, |(_, row): &(usize, usize)| place(*row)).digits(2),
            column(output, |(column, row): &(usize, usize)| at(*column, *row)).digits(4),
        ];
        let points: Vec<_> = (0..=STEPS).flat_map(|row| (0..=STEPS).map(move |column| (column, row))).collect();
        return Ok(Answer::Text(table::csv(&columns, &points)));
    }
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{output} in tenths, over {across} (left to right) and {up} (bottom to top); . where no rule fires\n"
    );
    for row in (0..=STEPS).rev() {
        let label = if row % 5 == 0 { format!("{:.2}", row as f64 / STEPS as f64) } else { String::new() };
        let _ = write!(text, "{label:>5} |");
        for column in 0..=STEPS {
            let digit = at(column, row).map_or('.', |value| char::from(b'0' + (value * 10.0).min(9.0) as u8));
            let _ = write!(text, " {digit}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "      +{}\n       0.00      0.25      0.50      0.75      1.00", "--".repeat(STEPS + 1));
    Ok(Answer::Text(text))
}
