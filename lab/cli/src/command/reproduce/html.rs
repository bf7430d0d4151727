//! The report as one HTML file without references to others: for each figure a chart, the verdict, the cause, and the
//! command with seeds, version and hashes of the inputs.

use super::description::Judge;
use super::text::{data, ours, published};
use super::verdict::{Judged, Verdict};
use super::{Report, Row};
use crate::chart::{Along, Chart, Series, Shape, escaped, number};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Style: light, dark, phone and paper.
const STYLE: &str = "\
:root{--ink:#111;--ground:#fff;--line:#bbb;--b:#0072b2;--soft:#f3f3f3}\
@media(prefers-color-scheme:dark){:root{--ink:#eee;--ground:#141414;--line:#555;--b:#56b4e9;--soft:#222}}\
@media print{:root{--ink:#000;--ground:#fff;--line:#999;--b:#555;--soft:#fff}\
figure,tr{break-inside:avoid}h2{break-after:avoid}details::details-content{content-visibility:visible}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:64rem;margin:auto;padding:1rem}\
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.2rem .6rem;border-bottom:1px solid var(--line);\
text-align:left;vertical-align:top}code,pre{background:var(--soft);white-space:pre-wrap;overflow-wrap:anywhere}\
figure{margin:0 0 1rem;overflow-x:auto}svg{height:auto;max-width:100%}a{color:var(--b)}svg text{fill:var(--ink)}svg .ground{fill:var(--ground)}\
svg .axis,svg .series0{stroke:var(--ink)}svg .grid{stroke:var(--line)}svg .series1{stroke:var(--b)}\
h2{margin-top:2.5rem}.verdict{border:1px solid var(--ink);padding:0 .4rem;white-space:nowrap}";

pub(super) fn page(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>Published experiments and verdicts</title>\n<style>{STYLE}</style>\n\
         <h1>Published experiments and verdicts</h1>\n"
    );
    let scale = if report.quick { " Smaller scales (--quick): no verdicts on the papers." } else { "" };
    let _ = writeln!(
        page,
        "<p>Program {}; {} cases, {:.0} s of processor time.{scale}</p>",
        escaped(&report.version),
        report.cases,
        report.cpu_s
    );
    summary(&mut page, report);
    report.rows.iter().for_each(|row| section(&mut page, report, row));
    page + "</html>\n"
}

fn summary(page: &mut String, report: &Report) {
    *page += "<table><tr><th>verdict<th>number<th>experiments</tr>\n";
    for verdict in Verdict::ALL {
        let rows = report.ids(verdict);
        let links: Vec<_> = rows.iter().map(|row| format!("<a href=\"#{0}\">{0}</a>", escaped(row))).collect();
        let _ = writeln!(page, "<tr><td>{}<td>{}<td>{}</tr>", verdict.word(), rows.len(), links.join(" "));
    }
    *page += "</table>\n<p>A figure is reproduced if it is within its tolerance; its direction is the same if the sign \
              holds in every seed, and the order of several numbers. An experiment is as good as its worst figure that \
              decides.</p>\n";
}

fn section(page: &mut String, report: &Report, row: &Row) {
    let _ = writeln!(
        page,
        "<section id=\"{0}\"><h2>{0}: {1}</h2>\n<p><span class=\"verdict\">{2}</span> {3}</p>\n<p>{4}</p>",
        escaped(&row.id),
        escaped(&row.title),
        row.verdict.word(),
        escaped(&row.source),
        escaped(row.impossible.as_ref().unwrap_or(&row.cause))
    );
    let input = Some(format!("input: {}", row.input)).filter(|_| !row.input.is_empty());
    for line in input.into_iter().chain(data(report, row)) {
        let _ = writeln!(page, "<p>{}.</p>", escaped(&line));
    }
    if !row.figures.is_empty() {
        figures(page, row);
        row.figures.iter().filter(|of| of.points.len() > 1).for_each(|of| *page += &drawn_alone(of));
        *page += &drawn_together(&row.figures);
        commands(page, report, row);
    }
    *page += "</section>\n";
}

fn figures(page: &mut String, row: &Row) {
    *page += "<table><tr><th>figure<th>published<th>ours<th>sign<th>order<th>within<th>verdict</tr>\n";
    let mark = |holds: Option<bool>| holds.map_or("", |holds| if holds { "yes" } else { "no" });
    for of in &row.figures {
        let name = if of.decides { escaped(&of.name) } else { format!("({})", escaped(&of.name)) };
        if let Some(why) = &of.missing {
            let _ = writeln!(page, "<tr><td>{name}<td colspan=\"6\">no number: {}</tr>", escaped(why));
            continue;
        }
        let within = match of.within {
            Some(_) => format!("{} (&plusmn;{:.0} %)", mark(of.within), of.tolerance * 100.0),
            None => String::new(),
        };
        let _ = writeln!(
            page,
            "<tr><td>{name}<td>{}<td>{}<td>{}<td>{}<td>{within}<td>{}</tr>",
            escaped(&published(of)),
            escaped(&ours(of)),
            mark(of.sign),
            mark(of.order),
            of.verdict.word()
        );
    }
    *page += "</table>\n";
}

/// Figures side by side: their labels, and the published and our numbers.
fn drawn(title: &str, unit: &str, labels: Vec<String>, numbers: [Vec<Option<f64>>; 2], shape: Shape) -> String {
    let series = ["published", "ours"].into_iter().zip(numbers).filter(|(_, of)| of.iter().any(Option::is_some));
    let series = series.map(|(name, of)| Series {
        label: name.into(),
        points: of.into_iter().enumerate().filter_map(|(at, value)| Some((at as f64, value?))).collect(),
    });
    let chart = Chart { title, x: "", y: unit, along: Along::Labels(labels), shape, series: series.collect() };
    format!("<figure>\n{}</figure>\n", chart.svg())
}

/// A figure with several points. Points on a number line are joined.
fn drawn_alone(of: &Judged) -> String {
    let labels: Vec<String> = of.points.iter().map(|point| point.label.clone()).collect();
    let numeric = labels.iter().all(|label| label.trim_end_matches('%').parse::<f64>().is_ok());
    // A sign or an order has no size that a bar could show.
    let has_size = of.judge == Judge::Within;
    let published = of.points.iter().map(|point| point.published.filter(|_| has_size)).collect();
    let ours = of.points.iter().map(|point| Some(point.ours)).collect();
    let shape = if numeric && labels.len() > 2 { Shape::Lines } else { Shape::Bars };
    drawn(&of.name, &of.unit, labels, [published, ours], shape)
}

/// Single numbers, a chart for each unit.
fn drawn_together(all: &[Judged]) -> String {
    let single = |of: &&Judged| of.points.len() == 1 && of.judge == Judge::Within;
    let units: BTreeSet<&str> = all.iter().filter(single).map(|of| of.unit.as_str()).collect();
    let of_unit = |unit: &str| {
        let figures: Vec<&Judged> = all.iter().filter(single).filter(|of| of.unit == unit).collect();
        let labels = figures.iter().map(|of| of.name.clone()).collect();
        let published = figures.iter().map(|of| of.points[0].published).collect();
        let ours = figures.iter().map(|of| Some(of.points[0].ours)).collect();
        drawn("single numbers", unit, labels, [published, ours], Shape::Bars)
    };
    units.into_iter().map(of_unit).collect()
}

fn commands(page: &mut String, report: &Report, row: &Row) {
    *page += "<details><summary>Commands</summary>\n";
    let runs: BTreeSet<&str> = row.figures.iter().map(|of| of.run.as_str()).collect();
    for (run, of) in runs.into_iter().filter_map(|run| Some((run, report.runs.get(run)?))) {
        let inputs: Vec<_> = of.inputs.iter().map(|(path, hash)| format!("{path} {hash}")).collect();
        let _ = writeln!(
            page,
            "<p>Run <em>{}</em> ({:?} setup): {} of {} cases, {} s of processor time; seeds {}; inputs {}. Its first case:</p>\n<pre>{}</pre>",
            escaped(run),
            of.setup,
            of.finished,
            of.cases,
            number(of.cpu_s),
            if of.seeds.is_empty() { "none".into() } else { of.seeds.join(", ") },
            if inputs.is_empty() { "generated".into() } else { escaped(&inputs.join(", ")) },
            escaped(&of.command)
        );
    }
    *page += "</details>\n";
}
