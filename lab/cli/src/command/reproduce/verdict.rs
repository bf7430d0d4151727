//! Verdicts: a figure of ours against the published one.
//!
//! A sign holds only if every seed has it; that of a ratio is its side of 1. An order holds if no two numbers lie the other way round; published numbers
//! that differ by less than 5 % have no order. An experiment is as good as its worst figure that decides.

use super::description::{Descriptions, Experiment, Figure, Judge};
use super::formula::{Cell, Formula, SEED};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Published numbers closer than this share have no order: Table 3.1 is "flat" over 2.5 %.
const TIE: f64 = 0.05;

/// Our numbers closer than this share have no order either.
const SAME: f64 = 0.001;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Verdict {
    #[serde(rename = "reproduced")]
    Reproduced,
    #[serde(rename = "same direction")]
    SameDirection,
    #[serde(rename = "not reproduced")]
    NotReproduced,
    #[serde(rename = "not possible here")]
    NotPossible,
}

impl Verdict {
    pub(super) const ALL: [Verdict; 4] =
        [Verdict::Reproduced, Verdict::SameDirection, Verdict::NotReproduced, Verdict::NotPossible];

    pub(super) fn word(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::SameDirection => "same direction",
            Verdict::NotReproduced => "not reproduced",
            Verdict::NotPossible => "not possible here",
        }
    }
}

/// A number of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Values of the axes that the formula leaves, in their order.
    pub label: String,
    pub published: Option<f64>,
    /// Mean over the seeds.
    pub ours: f64,
    pub least: f64,
    pub most: f64,
}

/// A figure with its results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Judged {
    pub name: String,
    pub unit: String,
    pub run: String,
    pub words: String,
    pub judge: Judge,
    pub tolerance: f64,
    pub decides: bool,
    pub points: Vec<Point>,
    pub sign: Option<bool>,
    pub order: Option<bool>,
    pub within: Option<bool>,
    pub verdict: Verdict,
    /// Why there is no number.
    pub missing: Option<String>,
}

/// Answers of cases, by their words.
pub(super) type Answers = BTreeMap<Vec<String>, Result<Value, String>>;

/// Circumstances of a judgement.
pub(super) struct Circumstances<'a> {
    pub descriptions: &'a Descriptions,
    pub answers: &'a Answers,
    pub data: &'a std::path::Path,
    pub quick: bool,
}

impl Circumstances<'_> {
    /// Judges every figure of an experiment.
    pub(super) fn judge(&self, experiment: &Experiment) -> (Verdict, Vec<Judged>) {
        let judged: Vec<Judged> = experiment.figures.iter().map(|figure| self.figure(figure)).collect();
        let counted = judged.iter().filter(|of| of.decides && (of.verdict != Verdict::NotPossible || !self.quick));
        let worst = counted.map(|of| of.verdict).max().unwrap_or(Verdict::NotPossible);
        // A live figure may decide what no simulation can.
        let impossible = experiment.impossible.is_some() && !judged.iter().any(|of| of.decides);
        (if impossible { Verdict::NotPossible } else { worst }, judged)
    }

    fn figure(&self, figure: &Figure) -> Judged {
        let mut judged = Judged {
            name: figure.name.clone(),
            unit: figure.unit.clone(),
            run: figure.run.clone(),
            words: figure.words.clone(),
            judge: figure.judge,
            tolerance: figure.within,
            decides: figure.decides,
            points: Vec::new(),
            sign: None,
            order: None,
            within: None,
            verdict: Verdict::NotPossible,
            missing: None,
        };
        match self.points(figure) {
            Ok(points) => {
                judged.points = points;
                judged.decide();
            }
            Err(why) => judged.missing = Some(why),
        }
        judged
    }

    fn points(&self, figure: &Figure) -> Result<Vec<Point>, String> {
        if self.quick && figure.full_only {
            return Err("left out by --quick".into());
        }
        let run = &self.descriptions.runs[&figure.run];
        let cases = run.cases(&figure.run, self.data, self.quick)?;
        let mut rows: Vec<(&Cell, &Value)> = Vec::new();
        for case in cases.iter().filter(|case| figure.covers(&case.cell)) {
            match self.answers.get(&case.words) {
                Some(Ok(answer)) => rows.push((&case.cell, answer)),
                Some(Err(why)) => return Err(why.clone()),
                None => return Err("it has not run".into()),
            }
        }
        let trimmed: Vec<(Cell, &Value)> = rows
            .into_iter()
            .map(|(cell, answer)| {
                let mut cell = cell.clone();
                cell.retain(|axis, _| !figure.only.contains_key(axis));
                (cell, answer)
            })
            .collect();
        let rows: Vec<(&Cell, &Value)> = trimmed.iter().map(|(cell, answer)| (cell, *answer)).collect();
        let table = Formula::parse(&figure.value)?.evaluate(&rows)?;
        let mut points: Vec<(Cell, Vec<f64>)> = Vec::new();
        for (mut cell, value) in table.0 {
            cell.remove(SEED);
            match points.iter_mut().find(|(known, _)| *known == cell) {
                Some((_, values)) => values.push(value),
                None => points.push((cell, vec![value])),
            }
        }
        let published = figure.published();
        if published.len() > points.len() && !self.quick {
            return Err(format!("{} numbers are published, and the formula gives {}", published.len(), points.len()));
        }
        // With --quick an axis may be shorter: its numbers are then not those of the paper's points.
        let fits = published.len() == points.len();
        let point = |(at, (cell, values)): (usize, (Cell, Vec<f64>))| Point {
            label: cell.values().cloned().collect::<Vec<_>>().join(" "),
            published: published.get(at).copied().filter(|_| fits),
            ours: values.iter().sum::<f64>() / values.len() as f64,
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        let points: Vec<Point> = points.into_iter().enumerate().map(point).collect();
        let finite = points.iter().all(|point| point.ours.is_finite());
        if finite { Ok(points) } else { Err("a number is not finite".into()) }
    }
}

impl Judged {
    /// Decides which criteria hold, and sets the verdict.
    fn decide(&mut self) {
        let known: Vec<(f64, &Point)> = self.points.iter().filter_map(|p| Some((p.published?, p))).collect();
        // There is nothing to compare with: a lost figure, or other points with `--quick`.
        if known.is_empty() {
            return;
        }
        // A ratio that is 1 changes nothing.
        let neutral = if matches!(self.unit.as_str(), "times" | "ratio") { 1.0 } else { 0.0 };
        let same = |published: f64, ours: f64| published == neutral || (published - neutral) * (ours - neutral) > 0.0;
        self.sign = Some(known.iter().all(|(published, p)| same(*published, p.least) && same(*published, p.most)));
        let pairs = || known.iter().enumerate().flat_map(|(at, a)| known[at + 1..].iter().map(move |b| (a, b)));
        let differ = |a: f64, b: f64, by: f64| (a - b).abs() > by * a.abs().max(b.abs());
        let ordered = || pairs().filter(|(a, b)| differ(a.0, b.0, TIE));
        if ordered().next().is_some() {
            let apart = |a: f64, b: f64| differ(a, b, SAME);
            let holds = |a: &(f64, &Point), b: &(f64, &Point)| {
                (a.0 - b.0) * (a.1.ours - b.1.ours) > 0.0 && apart(a.1.ours, b.1.ours)
            };
            self.order = Some(ordered().all(|(a, b)| holds(a, b)));
        }
        if self.judge == Judge::Below {
            self.sign = None;
        }
        let near = |(published, p): &(f64, &Point)| (p.ours - published).abs() <= self.tolerance * published.abs();
        // A published change of zero has no direction: it is within the tolerance, or not reproduced.
        let changes = known.iter().any(|(published, _)| *published != neutral);
        let direction = changes && self.sign == Some(true) && self.order != Some(false);
        let (within, holds) = match self.judge {
            Judge::Within => (Some(known.iter().all(near)), direction),
            Judge::Sign => (None, self.sign == Some(true)),
            Judge::Order => (None, self.order == Some(true)),
            Judge::Above => (Some(known.iter().all(|(bound, p)| p.ours >= *bound)), self.sign == Some(true)),
            Judge::Below => (Some(known.iter().all(|(bound, p)| p.ours <= *bound)), false),
        };
        self.within = within;
        self.verdict = match (within, holds) {
            (Some(true), _) | (None, true) => Verdict::Reproduced,
            (Some(false), true) => Verdict::SameDirection,
            _ => Verdict::NotReproduced,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(judge: Judge, points: &[(f64, &[f64])]) -> (Verdict, Option<bool>, Option<bool>, Option<bool>) {
        judged_as("", judge, points)
    }

    fn judged_as(
        unit: &str,
        judge: Judge,
        points: &[(f64, &[f64])],
    ) -> (Verdict, Option<bool>, Option<bool>, Option<bool>) {
        let points = points.iter().map(|(published, seeds)| Point {
            label: String::new(),
            published: Some(*published),
            ours: seeds.iter().sum::<f64>() / seeds.len() as f64,
            least: seeds.iter().copied().fold(f64::INFINITY, f64::min),
            most: seeds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        });
        let mut of = Judged {
            name: String::new(),
            unit: unit.into(),
            run: String::new(),
            words: String::new(),
            judge,
            tolerance: 0.25,
            decides: true,
            points: points.collect(),
            sign: None,
            order: None,
            within: None,
            verdict: Verdict::NotPossible,
            missing: None,
        };
        of.decide();
        (of.verdict, of.sign, of.order, of.within)
    }

    #[test]
    fn a_number_is_reproduced_within_its_tolerance_and_has_the_direction_beyond_it() {
        let of = |seeds: &[f64]| judged(Judge::Within, &[(-20.0, seeds)]).0;
        assert_eq!(of(&[-16.0]), Verdict::Reproduced);
        assert_eq!(of(&[-60.0]), Verdict::SameDirection);
        assert_eq!(of(&[3.0]), Verdict::NotReproduced);
        // One seed with the other sign: no direction.
        assert_eq!(of(&[-60.0, -50.0, 1.0]), Verdict::NotReproduced);
    }

    #[test]
    fn several_numbers_need_their_order_and_near_ties_have_none() {
        let published = [6.48, 6.60, 6.64, 4.65, 2.95];
        let of = |ours: [f64; 5]| {
            let points: Vec<[f64; 1]> = ours.iter().map(|value| [*value]).collect();
            let rows: Vec<(f64, &[f64])> = published.iter().zip(&points).map(|(p, o)| (*p, &o[..])).collect();
            judged(Judge::Within, &rows)
        };
        assert_eq!(of([6.9, 6.8, 6.9, 4.4, 3.0]), (Verdict::Reproduced, Some(true), Some(true), Some(true)));
        assert_eq!(of([16.9, 17.3, 17.8, 15.6, 13.5]).0, Verdict::SameDirection);
        assert_eq!(of([6.9, 6.8, 6.9, 4.4, 4.5]).0, Verdict::NotReproduced);
    }

    #[test]
    fn signs_orders_and_bounds_are_all_there_is_where_the_paper_has_no_number() {
        assert_eq!(judged(Judge::Sign, &[(1.0, &[0.2]), (-1.0, &[-9.0])]).0, Verdict::Reproduced);
        assert_eq!(judged(Judge::Sign, &[(1.0, &[0.2, -0.1])]).0, Verdict::NotReproduced);
        assert_eq!(judged(Judge::Order, &[(1.0, &[5.0]), (2.0, &[7.0])]).0, Verdict::Reproduced);
        assert_eq!(judged(Judge::Order, &[(1.0, &[5.0]), (2.0, &[5.0])]).0, Verdict::NotReproduced);
        assert_eq!(judged(Judge::Below, &[(1.8, &[1.2])]).0, Verdict::Reproduced);
        assert_eq!(judged(Judge::Below, &[(1.8, &[2.2])]).0, Verdict::NotReproduced);
        assert_eq!(judged_as("times", Judge::Above, &[(10.0, &[2.7])]).0, Verdict::SameDirection);
        assert_eq!(judged_as("times", Judge::Above, &[(10.0, &[0.9])]).0, Verdict::NotReproduced);
        assert_eq!(judged_as("ratio", Judge::Within, &[(1.0, &[1.3])]).0, Verdict::NotReproduced);
    }
}
