//! The report as text: the list, the table on a terminal, and the page in Markdown.

use super::description::{Descriptions, Experiment, Setup};
use super::verdict::{Judged, Verdict};
use super::{Report, Row};
use crate::chart::number;
use crate::shown;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Columns of a line on a terminal.
const WIDTH: usize = 100;
/// Columns of the name of a figure.
const NAME: usize = 44;

/// Experiments with their figures and commands.
pub(super) fn list(all: &Descriptions, chosen: &[&Experiment]) -> String {
    let mut text = String::new();
    for of in chosen {
        let _ = writeln!(text, "{}  {} ({})", of.id, of.title, of.source);
        if let Some(why) = &of.impossible {
            text += &wrapped(&format!("not possible here: {why}"), 5);
        }
        let mut runs: Vec<&str> = of.figures.iter().map(|figure| figure.run.as_str()).collect();
        runs.dedup();
        for run in runs {
            text += &wrapped(&all.runs[run].shown(&all.runs[run].command), 5);
        }
        for figure in &of.figures {
            let seeds = all.seeds(figure, false);
            let seeds = if seeds.is_empty() { String::new() } else { format!("; seeds {}", seeds.join(", ")) };
            text += &wrapped(&format!("- {}: {}{seeds}", figure.name, figure.value), 5);
        }
    }
    text
}

/// The table on a terminal, and the number of each verdict.
pub(super) fn table(report: &Report) -> String {
    let mut text = String::new();
    for row in &report.rows {
        let _ = writeln!(text, "{}  {}: {}", row.id, row.title, row.verdict.word());
        for figure in &row.figures {
            text += &figure_lines(figure);
        }
        text += &wrapped(row.impossible.as_ref().unwrap_or(&row.cause), 5);
        for line in data(report, row) {
            text += &wrapped(&line, 5);
        }
    }
    text += "\npublished and ours: several numbers as a / b / c; s sign, o order, w within the tolerance;\n\
             + holds, - does not; (in brackets): does not count for the verdict\n\n";
    for verdict in Verdict::ALL {
        let rows = report.ids(verdict);
        text += &wrapped(&format!("{:<18} {:>3}  {}", verdict.word(), rows.len(), rows.join(" ")), 0);
    }
    let quick = if report.quick { "; --quick: smaller scales, no verdicts on the papers" } else { "" };
    let _ = writeln!(text, "{} cases, {:.0} s of processor time{quick}", report.cases, report.cpu_s);
    text
}

/// Lines about the data that tuned our parameters, and about those that judge.
pub(super) fn data(report: &Report, row: &Row) -> Vec<String> {
    let tuned_on = if row.tuned_on.is_empty() { None } else { Some(format!("tuned on: {}", row.tuned_on)) };
    let runs: BTreeSet<&str> = row.figures.iter().map(|of| of.run.as_str()).collect();
    let split = |run: &str| {
        let sides = report.runs.get(run)?.split.as_ref()?;
        Some(format!("{run}: tuned on {}; judged by {}", sides.tuning.join(", "), sides.judging.join(", ")))
    };
    tuned_on.into_iter().chain(runs.into_iter().filter_map(split)).collect()
}

fn figure_lines(figure: &Judged) -> String {
    let name = if figure.decides { figure.name.clone() } else { format!("({})", figure.name) };
    if let Some(why) = &figure.missing {
        return wrapped(&format!("{name}: no number: {why}"), 5);
    }
    let mark = |holds: Option<bool>| holds.map_or(' ', |holds| if holds { '+' } else { '-' });
    let marks = format!("{}{}{}", mark(figure.sign), mark(figure.order), mark(figure.within));
    let line = format!(
        "     {:<NAME$} {:>14} {:>18}  {marks} {}\n",
        cut(&name, NAME),
        published(figure),
        ours(figure),
        short(figure.verdict)
    );
    if line.trim_end().chars().count() <= WIDTH {
        return line;
    }
    let mut text = format!("     {:<NAME$} {:>33}  {marks} {}\n", cut(&name, NAME), "", short(figure.verdict));
    text += &wrapped(&format!("published {}", published(figure)), 7);
    text += &wrapped(&format!("ours      {}", ours(figure)), 7);
    text
}

fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::SameDirection => "same dir.",
        Verdict::NotReproduced => "not repr.",
        Verdict::NotPossible => "-",
    }
}

/// The published numbers, or words.
pub(super) fn published(figure: &Judged) -> String {
    if !figure.words.is_empty() {
        return figure.words.clone();
    }
    let numbers: Vec<_> = figure.points.iter().filter_map(|point| point.published).map(number).collect();
    with_unit(&numbers, &figure.unit)
}

/// Our numbers; of one number also the range over the seeds.
pub(super) fn ours(figure: &Judged) -> String {
    if let [one] = &figure.points[..]
        && number(one.least) != number(one.most)
    {
        let range = format!("{} ({}..{})", number(one.ours), number(one.least), number(one.most));
        return with_unit(&[range], &figure.unit);
    }
    let numbers: Vec<_> = figure.points.iter().map(|point| number(point.ours)).collect();
    with_unit(&numbers, &figure.unit)
}

fn with_unit(numbers: &[String], unit: &str) -> String {
    let space = if unit.is_empty() { "" } else { " " };
    format!("{}{space}{unit}", numbers.join(" / "))
}

fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

/// Breaks a text into indented lines.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![" ".repeat(indent)];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("never empty");
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > indent {
            lines.push(" ".repeat(indent + 2) + word);
            continue;
        }
        if line.len() > indent {
            line.push(' ');
        }
        *line += word;
    }
    lines.join("\n") + "\n"
}

/// A page of results.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = String::from(
        "# The papers' experiments and their verdicts\n\n**Aim.** Every published figure has a verdict that one command \
         prints.\n\n<!-- not run: takes minutes; traces and logs are to be fetched -->\n```sh\nentrepot-lab reproduce \
         --data DIRECTORY --html report.html\n```\n\n",
    );
    let today = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_millis();
    let _ = writeln!(
        text,
        "**Run.** {}, {} cases, {:.0} s of processor time, program {}. Seeds are in the descriptions \
         (`lab/cli/experiments`).\n",
        &shown::moment_ms(today as u64)[..10],
        report.cases,
        report.cpu_s,
        report.version
    );
    for verdict in Verdict::ALL {
        let rows = report.ids(verdict);
        // A sentence for each letter.
        let papers: Vec<_> = rows.chunk_by(|a, b| a[..1] == b[..1]).map(|of| of.join(", ") + ".").collect();
        text += &wrapped(&format!("- *{}*, {}. {}", verdict.word(), rows.len(), papers.join(" ")), 0);
    }
    text += "\nThe worst deciding figure of each experiment that is not reproduced:\n\n\
             <!-- not compared: a test of its own reads this page -->\n| | verdict | figure | published | ours |\n|---|---|---|---|---|\n";
    let short = |row: &&Row| matches!(row.verdict, Verdict::SameDirection | Verdict::NotReproduced);
    for row in report.rows.iter().filter(short) {
        let deciding = row.figures.iter().filter(|of| of.decides && of.verdict != Verdict::NotPossible);
        if let Some(of) = deciding.max_by_key(|of| of.verdict) {
            let cells =
                [&*row.id, row.verdict.word(), &of.name, &published(of), &ours(of)].map(|s| s.replace('|', "/"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    text += "\nWith devices, parameters or algorithms of our own, which do not judge a paper:\n\n\
             <!-- not compared: as above -->\n| | figure | published, or aim | ours |\n|---|---|---|---|\n";
    for row in &report.rows {
        let is_modern = |of: &&Judged| report.runs.get(&of.run).is_some_and(|run| run.setup == Setup::Modern);
        for of in row.figures.iter().filter(is_modern).filter(|of| of.missing.is_none()) {
            let cells = [&*row.id, &of.name, &published(of), &ours(of)].map(|s| s.replace('|', "/"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    text += "\n**Limits.** Setups are the published ones as far as they are known; stand-ins replace traces that are not\n\
             public. `report.html` has every figure, with its cause.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_width() {
        let text = wrapped(&"word ".repeat(60), 5);
        assert!(text.lines().all(|line| line.len() <= WIDTH) && text.lines().count() == 4, "{text}");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
