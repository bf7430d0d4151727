//! `entrepot-lab sim burst`: a burst buffer shared by all applications.

use super::words::{pair, size, span};
use crate::failure::{Failure, Result};
use crate::table::{self, Answer, Column, Output, column};
use clap::{Args, ValueEnum};
use node::control::Problem;
use policy::Time;
use policy::burst::control::Device;
use policy::burst::tables::{Baselines, Order};
use serde_json::json;
use sim::burst::list::{self, Machine};
use sim::burst::{Figures, Listed, Load, Scheme, Setup, VersionClass, run, utilisation};
use sim::grid::side_by_side;
use std::path::PathBuf;

/// Checkpoints into a shared, over-subscribed burst buffer
///
/// The buffer and the load have by default the values of the paper's testbed: 3.2 TB, 3.56 to 3.0 GB/s writing beside
/// demotion at 0.08 to 1.6 GB/s, checkpoints of 80 GB, a period of 3800 s. The first period is not counted.
#[derive(Debug, Args)]
#[command(after_help = "\
SCHEMES (--schemes):
  datawarp    room for each application's life, no turns, no demotion; at most the buffer's size per period
  maxeff      Harmonia MaxEff: always demote at full speed
  maxbw       Harmonia MaxBW: never demote beside writing
  static:0.9  demote beside writing from this share of the buffer on
  bbos        the paper's throttler
  predicted   the same with the next checkpoints predicted from each application's period: ours

ORDERS (--order): versions (old versions first, then the highest MTBF), throughout (the same when clean copies are deleted: ours),
  mtbf (blind to versions), fifo, lru

BASELINES (--baselines): by default demoted data leave the buffer under fifo and lru, which both go by the time of writing, as in
  the published comparison; static:SHARE then counts only what is left. With keep they stay as clean copies until room is short.

EXAMPLES:
  entrepot-lab sim burst
  entrepot-lab sim burst --dwpp 1.9 --congestion medium --schemes maxbw,bbos,predicted
  entrepot-lab sim burst --utilisation
  entrepot-lab sim burst --schemes bbos --compare-orders --mtbf 1min-20min --dwpp 1.7,1.9,2.1 --seeds 30
  entrepot-lab sim burst --schemes bbos --compare-orders --period 3600s --versions 5:2:1 --dwpp 1.9 --seeds 30
  entrepot-lab sim burst --schemes bbos --direct --period 3600s --mtbf 1min-100min
  entrepot-lab sim burst --jobs apex_classes.csv --capacity 400TB --write 400-320 --demote 160-8 --demote-idle 200 --period 2h --step 5s")]
pub struct Burst {
    /// Data written per period, as multiples of the buffer's size.
    #[arg(long, value_delimiter = ',', default_value = "1.3,1.6,1.9")]
    dwpp: Vec<f64>,
    /// How close together checkpoints come: low, medium, high, or a share of the even interval.
    #[arg(long, value_delimiter = ',', default_value = "low,medium,high")]
    congestion: Vec<String>,
    /// Schemes to compare.
    #[arg(long, value_delimiter = ',', default_value = "datawarp,maxeff,maxbw,static:0.9,bbos,predicted")]
    schemes: Vec<String>,
    /// Order in which versions leave the buffer; without it, versions for bbos, throughout for predicted, fifo for the
    /// others.
    #[arg(long)]
    order: Option<String>,
    /// Every order beside each other.
    #[arg(long, conflicts_with = "order")]
    compare_orders: bool,
    /// Demoted data under the orders fifo and lru: move, as published, or keep.
    #[arg(long, value_enum, default_value = "move")]
    baselines: BaselinesArg,
    /// Cold checkpoints go straight to the capacity tier.
    #[arg(long)]
    direct: bool,
    /// Applications from a CSV file instead of the generator: columns name, bytes, interval_s, mtbf_s, count; or cores
    /// and checkpoint_frac_of_memory, from which follow bytes, time between failures, and Daly's interval.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dwpp", "checkpoint", "mtbf", "versions", "utilisation"])]
    jobs: Option<PathBuf>,
    /// Cores per node of the machine to which a list's `cores` refer.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cores_per_node: u32,
    /// Memory of one of its nodes.
    #[arg(long, default_value = "32GB", value_name = "SIZE", value_parser = size)]
    memory_per_node: u64,
    /// Time between two failures of one of its nodes.
    #[arg(long, default_value = "5years", value_name = "TIME", value_parser = humantime::parse_duration)]
    node_mtbf: std::time::Duration,
    /// Length of a period.
    #[arg(long, default_value = "3800s", value_name = "TIME", value_parser = span)]
    period: Time,
    /// Size of a checkpoint.
    #[arg(long, default_value = "80GB", value_name = "SIZE", value_parser = size)]
    checkpoint: u64,
    /// Mean time between failures of an application: from-to, drawn evenly.
    #[arg(long, default_value = "1min-20min", value_name = "FROM-TO", value_parser = mtbf)]
    mtbf: (f64, f64),
    /// Share of the period by which each checkpoint comes earlier or later at most: forecasts can be wrong.
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", value_parser = jitter)]
    jitter: f64,
    /// Applications that write once, twice, thrice ... per period, by weight.
    #[arg(long, default_value = "1", value_name = "WEIGHTS")]
    versions: String,
    /// Size of the buffer.
    #[arg(long, default_value = "3.2TB", value_name = "SIZE", value_parser = size)]
    capacity: u64,
    /// Writing in GB/s, beside the least and the most demotion.
    #[arg(long, default_value = "3.56-3.0", value_name = "MAX-MIN", value_parser = most_least)]
    write: (f64, f64),
    /// Demotion beside writing in GB/s, the most and the least.
    #[arg(long, default_value = "1.6-0.08", value_name = "MAX-MIN", value_parser = most_least)]
    demote: (f64, f64),
    /// Demotion in pauses, in GB/s.
    #[arg(long, default_value_t = 2.11)]
    demote_idle: f64,
    /// Periods that are counted.
    #[arg(long, default_value_t = 3)]
    periods: u32,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of seeds; figures are means, and the spread of the hit ratio is shown.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Time step: an application writes as many bytes at once as flow in this time.
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = span)]
    step: Time,
    /// Instead: the most data per period that each scheme takes without a backlog.
    #[arg(long)]
    utilisation: bool,
    /// Check the accounts at every event; slow.
    #[arg(long)]
    check: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BaselinesArg {
    /// Demoted data leave the buffer: the published setup.
    Move,
    /// Demoted data stay as clean copies, as with bbos.
    Keep,
}

/// An order by its name.
type Named = (&'static str, Order);

/// Orders that `--compare-orders` compares.
const ORDERS: [Named; 5] = [
    ("versions", Order::VersionsThenMtbf),
    ("throughout", Order::Throughout),
    ("mtbf", Order::Mtbf),
    ("fifo", Order::Fifo),
    ("lru", Order::Lru),
];

/// Settings of one row.
struct Case {
    dwpp: f64,
    congestion: String,
    label: String,
    setup: Setup,
}

/// Means over the seeds.
struct Row<'a> {
    case: &'a Case,
    figures: Figures,
    /// Standard deviation of the hit ratio over the seeds.
    hit_spread: f64,
}

impl Burst {
    pub fn answer(&self) -> Result<Answer> {
        let cases = self.cases()?;
        if self.utilisation {
            return Ok(self.utilisations(&cases));
        }
        let seeds: Vec<u64> = (0..self.seeds.max(1)).map(|n| self.seed + n).collect();
        let jobs: Vec<(usize, u64)> =
            (0..cases.len()).flat_map(|at| seeds.iter().map(move |&seed| (at, seed))).collect();
        let done = side_by_side(&jobs, None, |(at, seed)| {
            let setup = &cases[*at].setup;
            run(&Setup { load: Load { seed: *seed, ..setup.load.clone() }, ..setup.clone() })
        });
        let rows: Vec<Row<'_>> =
            cases.iter().zip(done.chunks(seeds.len())).map(|(case, runs)| mean(case, runs)).collect();
        let of = |Row { case, figures, hit_spread }: &Row<'_>| {
            json!({ "dwpp": case.dwpp, "congestion": case.congestion, "scheme": case.label,
                "figures": figures, "hit_ratio_sd": hit_spread })
        };
        let json = || json!({ "cases": rows.iter().map(of).collect::<Vec<_>>() });
        let columns = self.columns();
        Ok(table::answer(self.output, &columns, &rows, || table::text(&columns, &rows), json))
    }

    fn cases(&self) -> Result<Vec<Case>> {
        let base = self.base()?;
        let orders = match &self.order {
            None if self.compare_orders => ORDERS.map(Some).to_vec(),
            None => vec![None],
            Some(name) => vec![Some(order(name)?)],
        };
        let mut cases = Vec::new();
        for dwpp in self.dwpps(&base) {
            for congestion in &self.congestion {
                for scheme in &self.schemes {
                    for order in &orders {
                        cases.extend(self.case(dwpp, congestion, scheme, *order, &base)?);
                    }
                }
            }
        }
        Ok(cases)
    }

    /// Settings common to all cases.
    fn base(&self) -> Result<Setup> {
        let wrong = |what: String| Problem::wrong(what);
        let (device, job_bytes) = (self.device(), self.checkpoint as f64);
        let (period_s, step_s) = (self.period.as_secs_f64(), self.step.as_secs_f64());
        if self.demote_idle.is_nan() || self.demote_idle <= 0.0 || self.periods == 0 || job_bytes > device.capacity {
            return Err(
                wrong("--demote-idle and --periods are above 0, and a checkpoint fits into the buffer".into()).into()
            );
        }
        if step_s <= 0.0 || period_s < 10.0 * step_s || period_s / step_s > 1e7 {
            return Err(wrong("--step is between a ten-millionth and a tenth of --period".into()).into());
        }
        let (mtbf_s, classes, listed) = (self.mtbf, self.classes()?, self.listed(&device)?);
        if let Some(large) = listed.iter().find(|of| of.bytes > device.capacity) {
            let cause = format!(
                "a checkpoint of {} has {:.1} TB, and the buffer {:.1}",
                large.name,
                large.bytes / 1e12,
                device.capacity / 1e12
            );
            return Err(wrong(cause).try_this("give a larger --capacity").into());
        }
        Ok(Setup {
            device,
            load: Load {
                period_s,
                job_bytes,
                jobs: 1,
                congestion: 1.0,
                classes,
                mtbf_s,
                jitter: self.jitter,
                listed,
                seed: self.seed,
            },
            scheme: Scheme::Bbos,
            order: Order::Fifo,
            baselines: match self.baselines {
                BaselinesArg::Move => Baselines::Move,
                BaselinesArg::Keep => Baselines::Keep,
            },
            direct: false,
            periods: self.periods,
            step_s,
            check: self.check,
        })
    }

    fn device(&self) -> Device {
        Device {
            write_max: self.write.0 * 1e9,
            write_min: self.write.1 * 1e9,
            demote_max: self.demote.0 * 1e9,
            demote_min: self.demote.1 * 1e9,
            demote_idle: self.demote_idle * 1e9,
            capacity: self.capacity as f64,
        }
    }

    /// Loads from the options, or that of the list.
    fn dwpps(&self, base: &Setup) -> Vec<f64> {
        let Load { listed, period_s, .. } = &base.load;
        if listed.is_empty() {
            return self.dwpp.clone();
        }
        let bytes: f64 = listed.iter().map(|of| of.bytes * (period_s / of.interval_s).round().max(1.0)).sum();
        vec![(bytes / base.device.capacity * 1000.0).round() / 1000.0]
    }

    /// Settings of a case from its words; nothing if the buffer is too small for the scheme.
    fn case(
        &self,
        dwpp: f64,
        congestion: &str,
        word: &str,
        order: Option<Named>,
        base: &Setup,
    ) -> Result<Option<Case>> {
        let Load { listed, .. } = &base.load;
        if listed.is_empty() && !(dwpp > 0.0 && dwpp <= 10.0) {
            return Err(Problem::wrong(format!("--dwpp {dwpp} is not between 0 and 10")).into());
        }
        let scheme = scheme(word)?;
        // Dedicated space must fit all applications at once.
        let at_once: f64 = listed.iter().map(|of| of.bytes).sum();
        if scheme == Scheme::DataWarp && at_once > base.device.capacity {
            return Ok(None);
        }
        let ours = matches!(scheme, Scheme::Bbos | Scheme::Predicted);
        let label = match order {
            Some((name, _)) if self.compare_orders => format!("{word} {name}"),
            _ => word.to_owned(),
        };
        let order = match order {
            Some((_, order)) => order,
            None if scheme == Scheme::Predicted => Order::Throughout,
            None if ours => Order::VersionsThenMtbf,
            None => Order::Fifo,
        };
        // DataWarp writes no more than the capacity of the buffer.
        let taken = if scheme == Scheme::DataWarp { dwpp.min(1.0) } else { dwpp };
        let jobs = (taken * base.device.capacity / base.load.job_bytes + 1e-9).floor().max(1.0) as usize;
        let load = Load { jobs, congestion: share(congestion)?, ..base.load.clone() };
        let setup = Setup { load, scheme, order, direct: self.direct && ours, ..base.clone() };
        Ok(Some(Case { dwpp, congestion: congestion.to_owned(), label, setup }))
    }

    /// The applications of the list, if there is one.
    fn listed(&self, device: &Device) -> Result<Vec<Listed>> {
        let Some(file) = &self.jobs else { return Ok(Vec::new()) };
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| Failure::of_io(&shown.to_string(), &error))?;
        let machine = Machine {
            cores_per_node: f64::from(self.cores_per_node),
            memory_per_node: self.memory_per_node as f64,
            node_mtbf_s: self.node_mtbf.as_secs_f64(),
            write: device.write_max,
        };
        Ok(list::read(&text, &machine).map_err(|why| Problem::wrong(format!("{shown}: {why}")))?)
    }

    fn classes(&self) -> Result<Vec<VersionClass>> {
        let weights = self.versions.split(':').map(|text| text.trim().parse::<f64>().ok().filter(|w| *w >= 0.0));
        let weights: Option<Vec<f64>> = weights.collect();
        let weights = weights.filter(|weights| weights.iter().sum::<f64>() > 0.0).ok_or_else(|| {
            Problem::wrong(format!("--versions {} are no weights", self.versions)).try_this("give weights: 5:2:1")
        })?;
        let class = |(n, weight): (usize, f64)| VersionClass { weight, per_period: n as u32 + 1 };
        Ok(weights.into_iter().enumerate().map(class).filter(|class| class.weight > 0.0).collect())
    }

    fn utilisations(&self, cases: &[Case]) -> Answer {
        let mut asked: Vec<&Case> = Vec::new();
        for case in cases {
            if asked.iter().all(|other| other.label != case.label || other.congestion != case.congestion) {
                asked.push(case);
            }
        }
        let found = side_by_side(&asked, None, |case| match case.setup.scheme {
            // By definition of the scheme.
            Scheme::DataWarp => 1.0,
            _ => utilisation(&case.setup),
        });
        let rows: Vec<(&Case, f64)> = asked.into_iter().zip(found).collect();
        let columns = [
            column("scheme", |(case, _): &(&Case, f64)| case.label.clone()).shown("scheme", 0),
            column("congestion", |(case, _): &(&Case, f64)| case.congestion.clone()).shown("congestion", 0),
            column("utilisation", |(_, most): &(&Case, f64)| *most)
                .percent("most data per period, % of the buffer's size", 1),
        ];
        let json = || json!({ "cases": table::json(&columns, &rows) });
        table::answer(self.output, &columns, &rows, || table::text(&columns, &rows), json)
    }

    fn columns<'a>(&self) -> Vec<Column<'a, Row<'a>>> {
        let hits = column("hit_ratio_sd", |row: &Row<'_>| row.hit_spread).digits(5);
        vec![
            column("dwpp", |row: &Row<'_>| row.case.dwpp).shown("dwpp", 2),
            column("congestion", |row: &Row<'_>| row.case.congestion.clone()).shown("congestion", 0),
            column("scheme", |row: &Row<'_>| row.case.label.clone()).shown("scheme", 0),
            column("checkpoints", |row: &Row<'_>| row.figures.jobs).shown("checkpoints", 0),
            column("latency_s", |row: &Row<'_>| row.figures.latency_s).digits(3).shown("latency s", 2),
            column("latency_p95_s", |row: &Row<'_>| row.figures.latency_p95_s).digits(3),
            column("latency_max_s", |row: &Row<'_>| row.figures.latency_max_s).digits(3).shown("max s", 2),
            column("wait_s", |row: &Row<'_>| row.figures.wait_s).digits(3).shown("wait s", 2),
            column("stop_s", |row: &Row<'_>| row.figures.stop_s).digits(3).shown("stop s", 2),
            column("run_s", |row: &Row<'_>| row.figures.run_s).digits(3).shown("run s", 2),
            column("throughput_gb_s", |row: &Row<'_>| row.figures.throughput_gb_s).digits(4).shown("GB/s", 2),
            column("demoted_gb", |row: &Row<'_>| row.figures.demoted_gb).digits(2).shown("demoted GB", 1),
            column("direct_gb", |row: &Row<'_>| row.figures.direct_gb).digits(2).shown("direct GB", 1),
            column("restarts", |row: &Row<'_>| row.figures.restarts),
            column("hit_ratio", |row: &Row<'_>| row.figures.hit_ratio).digits(5).percent("hits %", 1),
            if self.seeds > 1 { hits.percent("±", 1) } else { hits },
        ]
    }
}

/// `3.56-3.0`
fn most_least(text: &str) -> std::result::Result<(f64, f64), String> {
    let speeds = pair(text, '-').filter(|(most, least)| most > least);
    speeds.ok_or_else(|| "give GB/s, most-least: 3.56-3.0".to_owned())
}

/// `1min-20min`
fn mtbf(text: &str) -> std::result::Result<(f64, f64), String> {
    let one = |text: &str| humantime::parse_duration(text.trim()).ok().map(|span| span.as_secs_f64());
    let range = text.split_once('-').and_then(|(from, to)| one(from).zip(one(to)));
    let range = range.filter(|(from, to)| *from > 0.0 && from <= to);
    range.ok_or_else(|| "give from-to in min, h or s: 1min-20min".to_owned())
}

/// A share of the period.
fn jitter(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=0.5).contains(share));
    share.ok_or_else(|| "give a share of the period from 0 to 0.5: 0.1".to_owned())
}

fn scheme(name: &str) -> Result<Scheme> {
    let wrong = || {
        Problem::wrong(format!("there is no scheme `{name}`"))
            .try_this("choose from datawarp, maxeff, maxbw, static:SHARE, bbos, predicted")
    };
    Ok(match name {
        "datawarp" => Scheme::DataWarp,
        "maxeff" => Scheme::MaxEff,
        "maxbw" => Scheme::MaxBw,
        "bbos" => Scheme::Bbos,
        "predicted" => Scheme::Predicted,
        _ => {
            let share = name.strip_prefix("static:").and_then(|text| text.parse::<f64>().ok());
            Scheme::Static(share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(wrong)?)
        }
    })
}

fn order(name: &str) -> Result<Named> {
    Ok(ORDERS.into_iter().find(|(of, _)| *of == name).ok_or_else(|| {
        let problem = Problem::wrong(format!("there is no order `{name}`"));
        problem.try_this(format!("choose from {}", ORDERS.map(|(name, _)| name).join(", ")))
    })?)
}

/// Parses one of the three published congestions, or a number.
fn share(text: &str) -> Result<f64> {
    let number = match text {
        "low" => Some(1.0),
        "medium" => Some(0.5),
        "high" => Some(0.1),
        _ => text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0),
    };
    Ok(number.ok_or_else(|| {
        Problem::wrong(format!("there is no congestion `{text}`"))
            .try_this("choose low, medium, high, or a share of the even interval from 0 to 1")
    })?)
}

/// Means over runs with different seeds; the curves are those of the first.
fn mean<'a>(case: &'a Case, runs: &[Figures]) -> Row<'a> {
    let n = runs.len().max(1) as f64;
    let of = |value: fn(&Figures) -> f64| runs.iter().map(value).sum::<f64>() / n;
    let hit_ratio = of(|run| run.hit_ratio);
    let spread = runs.iter().map(|run| (run.hit_ratio - hit_ratio).powi(2)).sum::<f64>() / n;
    let figures = Figures {
        latency_s: of(|run| run.latency_s),
        latency_max_s: runs.iter().map(|run| run.latency_max_s).fold(0.0, f64::max),
        latency_p95_s: of(|run| run.latency_p95_s),
        wait_s: of(|run| run.wait_s),
        stop_s: of(|run| run.stop_s),
        run_s: of(|run| run.run_s),
        throughput_gb_s: of(|run| run.throughput_gb_s),
        demoted_gb: of(|run| run.demoted_gb),
        direct_gb: of(|run| run.direct_gb),
        restarts: runs.iter().map(|run| run.restarts).sum(),
        hit_ratio,
        utilisation: of(|run| run.utilisation),
        ..runs.first().cloned().unwrap_or_default()
    };
    Row { case, figures, hit_spread: spread.sqrt() }
}
