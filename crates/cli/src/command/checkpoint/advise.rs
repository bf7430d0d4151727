//! `entrepot checkpoint advise`: interval of checkpoints, from measured or given values.

use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use clap::Args;
use node::control::answers::{Application, Burst, MtbfFrom};
use node::control::{Problem, Request};
use policy::burst::advice::{daly_s, lost, young_s};
use serde::Serialize;
use std::time::Duration;

/// Print the best interval between two checkpoints, after Young and Daly
///
/// It follows from the time to write a checkpoint and the time between failures. With APP both are the volume's
/// measurements of that application, unless an option overrides them; with no argument at all, those of each
/// application are shown. The interval is the time of computing between the end of one checkpoint and the beginning of
/// the next.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint advise wave
  entrepot checkpoint advise wave --mtbf 12h
  entrepot checkpoint advise wave --output json | jq .daly_s
  entrepot checkpoint advise --cost 5min --mtbf 24h
  entrepot checkpoint advise --cost 40s --nodes 512 --node-mtbf 5years --restart 2min")]
pub struct Advise {
    /// An application of this volume.
    app: Option<String>,
    /// Time to write a checkpoint, such as 40s.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    cost: Option<Duration>,
    /// Mean time between failures of the whole application.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    mtbf: Option<Duration>,
    /// Number of nodes, instead of `--mtbf`; a failure of any node ends the application.
    #[arg(long, value_name = "N", requires = "node_mtbf", conflicts_with = "mtbf", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Mean time between failures of a node.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "nodes")]
    node_mtbf: Option<Duration>,
    /// Duration of a restart; 0s if not given.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    restart: Option<Duration>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// The advice in JSON.
#[derive(Serialize)]
struct Advice<'a> {
    app: Option<&'a String>,
    cost_s: f64,
    cost_from: &'a str,
    mtbf_s: f64,
    mtbf_from: &'a str,
    young_s: f64,
    daly_s: f64,
    lost_share: f64,
}

/// Advice for each application in JSON.
#[derive(Serialize)]
struct Applications {
    applications: Vec<Application>,
}

/// A span in seconds, with its origin.
struct SourcedSpan {
    seconds: f64,
    from: String,
}

impl Advise {
    pub fn run(self, context: &Context) -> Result<u8> {
        let app = self.app.as_ref();
        let nothing_said = self.cost.is_none() && self.mtbf.is_none() && self.nodes.is_none() && self.restart.is_none();
        if app.is_none() && nothing_said {
            return all(context, self.output);
        }
        let seen = app.map(|app| context.ask_store(&Request::Advise { app: app.clone() }));
        let seen: Option<Application> = seen.transpose()?;
        let (cost, mtbf) = (self.cost(seen.as_ref())?, self.mtbf(seen.as_ref())?);
        if cost.seconds <= 0.0 || mtbf.seconds <= 0.0 {
            let problem = Problem::wrong("the time of a checkpoint and the time between failures must be above 0");
            return Err(problem.try_this("give other values for --cost, --mtbf or --node-mtbf").into());
        }
        let restart = self.restart.unwrap_or_default().as_secs_f64();
        let daly_s = daly_s(cost.seconds, mtbf.seconds);
        let advice = Advice {
            app,
            cost_s: cost.seconds,
            cost_from: &cost.from,
            mtbf_s: mtbf.seconds,
            mtbf_from: &mtbf.from,
            young_s: young_s(cost.seconds, mtbf.seconds),
            daly_s,
            lost_share: lost(daly_s, cost.seconds, restart, mtbf.seconds),
        };
        shown::value(self.output, &advice, |_| page(&cost, &mtbf, restart))?;
        Ok(0)
    }

    fn cost(&self, seen: Option<&Application>) -> Result<SourcedSpan> {
        let measured = || {
            let seen = seen?;
            let seconds = Some(seen.cost_s).filter(|seconds| *seconds > 0.0)?;
            let of = seen.newest.as_ref().map_or(String::new(), |label| format!("; the newest is version {label}"));
            let size = shown::bytes(seen.bytes);
            Some(SourcedSpan { seconds, from: format!("measured: the last one written, {size}{of}") })
        };
        let given = self.cost.map(|cost| SourcedSpan { seconds: cost.as_secs_f64(), from: "as given".into() });
        let what = seen.map_or("a checkpoint".to_owned(), |seen| format!("a checkpoint of {}", seen.name));
        given.or_else(measured).ok_or_else(|| {
            let next = "give --cost, or the name of an application that wrote one";
            unknown(format!("the time of {what} is unknown"), next)
        })
    }

    fn mtbf(&self, seen: Option<&Application>) -> Result<SourcedSpan> {
        let known = || {
            let seen = seen?;
            let seconds = Some(seen.mtbf_s).filter(|seconds| *seconds > 0)?;
            Some(SourcedSpan { seconds: seconds as f64, from: from(seen) })
        };
        let as_you_say = |seconds| SourcedSpan { seconds, from: "as given".into() };
        let given = match (self.mtbf, self.nodes.zip(self.node_mtbf)) {
            (Some(mtbf), _) => Some(as_you_say(mtbf.as_secs_f64())),
            (None, Some((nodes, of_node))) => Some(as_you_say(of_node.as_secs_f64() / f64::from(nodes))),
            (None, None) => None,
        };
        let next = "give --mtbf, or --nodes with --node-mtbf; `checkpoint begin` takes --mtbf and --nodes too";
        given.or_else(known).ok_or_else(|| unknown("the time between its failures is unknown".into(), next))
    }
}

fn unknown(cause: String, next: &str) -> Failure {
    Problem::wrong(cause).so("no interval follows").try_this(next).into()
}

/// Origin of an application's time between failures.
fn from(seen: &Application) -> String {
    match seen.mtbf_from {
        MtbfFrom::Learned => format!("measured: {}", shown::count(seen.restarts, "restart")),
        MtbfFrom::Nodes => "from the number of its nodes".into(),
        MtbfFrom::Given | MtbfFrom::Default => "as given".into(),
    }
}

fn span(seconds: f64) -> String {
    // Short spans keep decimals, since rounding to seconds would distort them.
    match seconds {
        ..0.9995 => format!("{:.0} ms", seconds * 1000.0),
        ..59.95 => format!("{seconds:.1} s"),
        _ => shown::span_s(seconds.round() as u64),
    }
}

fn page(cost: &SourcedSpan, mtbf: &SourcedSpan, restart: f64) -> String {
    let (young, daly) = (young_s(cost.seconds, mtbf.seconds), daly_s(cost.seconds, mtbf.seconds));
    let [of_daly, of_young, takes, between] = [daly, young, cost.seconds, mtbf.seconds].map(span);
    let mut text = format!("interval               {of_daly} (Daly; Young: {of_young})\n");
    text += &format!("a checkpoint takes     {takes} ({})\n", cost.from);
    text += &format!("time between failures  {between} ({})\n", mtbf.from);
    if cost.seconds >= 2.0 * mtbf.seconds {
        text +=
            "A checkpoint takes longer than twice the time between failures: the application will hardly advance.\n";
    }
    text += "\ninterval     lost to checkpoints, repeated work and restarts\n";
    for factor in [0.25, 0.5, 1.0, 2.0, 4.0] {
        let share = lost(daly * factor, cost.seconds, restart, mtbf.seconds);
        let bar = "#".repeat((share * 50.0) as usize);
        text += &format!("{:<12} {:>5.1} % {bar}\n", span(daly * factor), share * 100.0);
    }
    text
}

/// Prints the advice for each application.
fn all(context: &Context, output: Output) -> Result<u8> {
    let status: Option<Burst> = context.ask_store(&Request::BurstBuffer {})?;
    let applications = status.unwrap_or_default().applications;
    shown::value(output, &Applications { applications }, |answer| table(&answer.applications))?;
    Ok(0)
}

fn table(applications: &[Application]) -> String {
    if applications.is_empty() {
        return "No application has written a checkpoint yet. `--cost` and `--mtbf` advise without one.\n".into();
    }
    let row = |seen: &Application| {
        let cost = Some(seen.cost_s).filter(|seconds| *seconds > 0.0);
        let mtbf = Some(seen.mtbf_s).filter(|seconds| *seconds > 0);
        vec![
            seen.name.clone(),
            seen.advised_interval_s.map_or("not known yet".into(), span),
            cost.map_or("not known yet".into(), span),
            mtbf.map_or("not known yet".into(), |seconds| span(seconds as f64)),
            mtbf.map_or(String::new(), |_| from(seen)),
        ]
    };
    let head = ["application", "interval", "a checkpoint takes", "between failures", "known"];
    shown::table(&head, applications.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_interval_rests_on() {
        let known = |seconds, from: &str| SourcedSpan { seconds, from: from.into() };
        let text = page(&known(300.0, "measured"), &known(86_400.0, "as given"), 0.0);
        assert!(text.starts_with("interval               1 h 56 min (Daly"), "{text}");
        assert!(text.contains("takes     5 min (measured)\n") && text.contains("failures  1 d (as given)\n"), "{text}");
        assert!(page(&known(300.0, ""), &known(100.0, ""), 0.0).contains("hardly advance"));
        assert_eq!([span(0.04), span(12.26), span(61.4)], ["40 ms", "12.3 s", "1 min 1 s"]);
    }

    #[test]
    fn a_time_between_failures_says_where_it_is_from() {
        let seen = |mtbf_from| Application { mtbf_from, restarts: 2, ..Application::default() };
        assert_eq!(from(&seen(MtbfFrom::Learned)), "measured: 2 restarts");
        assert_eq!(from(&seen(MtbfFrom::Nodes)), "from the number of its nodes");
        assert_eq!(from(&seen(MtbfFrom::Given)), "as given");
    }
}
