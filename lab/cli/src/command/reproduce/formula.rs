//! Formulas of figures, over the JSON answers of a run's cases.
//!
//! ```text
//! mean(100 * (1 - report.reads.mean_ms[policy=ets] / report.reads.mean_ms[policy=32-32]))
//! ```
//! A path is a table with a value per case; a selector keeps one value of an axis and drops the axis. Operators join
//! two tables on the axes that both have. Aggregates collapse the named axes, or all; never `seed`, over which the
//! verdict is formed.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Values of the axes of a case.
pub(super) type Cell = BTreeMap<String, String>;

/// Axis that no aggregate collapses.
pub(super) const SEED: &str = "seed";

/// A value per combination of axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table(pub Vec<(Cell, f64)>);

/// A parsed formula.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    Number(f64),
    /// Path into the answer, and the selected values of axes.
    Path(Vec<String>, Vec<(String, String)>),
    Binary(char, Box<Formula>, Box<Formula>),
    /// An aggregate over axes; all if none is named.
    Aggregate(Aggregate, Box<Formula>, Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Aggregate {
    Mean,
    Least,
    Most,
    Sum,
    /// Value of the axis with the least number.
    AtLeast,
    /// Value of the axis with the greatest number.
    AtMost,
}

impl Formula {
    pub(super) fn parse(text: &str) -> Result<Formula, String> {
        let mut parser = Parser { text, at: 0 };
        let formula = parser.comparison()?;
        if parser.rest().is_empty() { Ok(formula) } else { Err(parser.wrong("an operator")) }
    }

    /// The paths that the formula reads.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        match self {
            Formula::Number(_) => Vec::new(),
            Formula::Path(path, _) => vec![path.clone()],
            Formula::Binary(_, left, right) => [left.paths(), right.paths()].concat(),
            Formula::Aggregate(_, inner, _) => inner.paths(),
        }
    }

    /// Evaluates the formula over the answers.
    pub(super) fn evaluate(&self, answers: &[(&Cell, &Value)]) -> Result<Table, String> {
        match self {
            Formula::Number(number) => Ok(Table(vec![(Cell::new(), *number)])),
            Formula::Path(path, selected) => {
                let chosen = |cell: &Cell| selected.iter().all(|(axis, value)| cell.get(axis) == Some(value));
                let of = |(cell, answer): &(&Cell, &Value)| {
                    let value = at(answer, path).ok_or_else(|| format!("no answer holds {}", path.join(".")))?;
                    let mut cell = (*cell).clone();
                    selected.iter().for_each(|(axis, _)| _ = cell.remove(axis));
                    Ok((cell, value))
                };
                let cells =
                    answers.iter().filter(|(cell, _)| chosen(cell)).map(of).collect::<Result<Vec<_>, String>>()?;
                if cells.is_empty() { Err(format!("no case has {selected:?}")) } else { Ok(Table(cells)) }
            }
            Formula::Binary(operator, left, right) => {
                join(*operator, &left.evaluate(answers)?, &right.evaluate(answers)?)
            }
            Formula::Aggregate(aggregate, inner, axes) => Ok(aggregate.collapse(&inner.evaluate(answers)?, axes)),
        }
    }
}

/// The number at a path; a boolean counts as 0 or 1.
pub(super) fn at(answer: &Value, path: &[String]) -> Option<f64> {
    let found = answer.pointer(&format!("/{}", path.join("/")))?;
    found.as_f64().or_else(|| found.as_bool().map(f64::from))
}

fn join(operator: char, left: &Table, right: &Table) -> Result<Table, String> {
    let axes = |table: &Table| table.0.first().map(|(cell, _)| cell.keys().cloned().collect::<BTreeSet<_>>());
    let shared: Vec<String> =
        axes(left).unwrap_or_default().intersection(&axes(right).unwrap_or_default()).cloned().collect();
    let key = |cell: &Cell| shared.iter().map(|axis| cell[axis].clone()).collect::<Vec<_>>();
    let mut by_key: BTreeMap<Vec<String>, Vec<&(Cell, f64)>> = BTreeMap::new();
    right.0.iter().for_each(|row| by_key.entry(key(&row.0)).or_default().push(row));
    let mut cells = Vec::new();
    for (cell, a) in &left.0 {
        for (other, b) in by_key.get(&key(cell)).into_iter().flatten() {
            let mut both = cell.clone();
            both.extend(other.clone());
            cells.push((both, apply(operator, *a, *b)));
        }
    }
    if cells.is_empty() { Err("the two sides of an operator share no case".into()) } else { Ok(Table(cells)) }
}

fn apply(operator: char, a: f64, b: f64) -> f64 {
    match operator {
        '+' => a + b,
        '-' => a - b,
        '*' => a * b,
        '/' => a / b,
        '|' => (a - b).abs(),
        '<' => f64::from(a < b),
        _ => f64::from(a > b),
    }
}

impl Aggregate {
    fn named(name: &str) -> Option<Aggregate> {
        Some(match name {
            "mean" => Aggregate::Mean,
            "min" => Aggregate::Least,
            "max" => Aggregate::Most,
            "sum" | "count" => Aggregate::Sum,
            "at_min" => Aggregate::AtLeast,
            "at_max" => Aggregate::AtMost,
            _ => return None,
        })
    }

    fn collapse(self, table: &Table, axes: &[String]) -> Table {
        let gone = |axis: &String| axis != SEED && (axes.is_empty() || axes.contains(axis));
        let mut groups: Vec<(Cell, Vec<(&Cell, f64)>)> = Vec::new();
        let mut places: BTreeMap<Cell, usize> = BTreeMap::new();
        for (cell, value) in &table.0 {
            let kept: Cell = cell.iter().filter(|(axis, _)| !gone(axis)).map(|(a, v)| (a.clone(), v.clone())).collect();
            let at = *places.entry(kept.clone()).or_insert_with(|| {
                groups.push((kept, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push((cell, *value));
        }
        Table(groups.into_iter().map(|(cell, values)| (cell, self.of(&values, axes))).collect())
    }

    fn of(self, values: &[(&Cell, f64)], axes: &[String]) -> f64 {
        let numbers = || values.iter().map(|(_, value)| *value);
        let place = |best: Option<&(&Cell, f64)>| {
            let axis = axes.first().and_then(|axis| best?.0.get(axis)?.parse().ok());
            axis.unwrap_or(f64::NAN)
        };
        match self {
            Aggregate::Mean => numbers().sum::<f64>() / values.len() as f64,
            Aggregate::Sum => numbers().sum(),
            Aggregate::Least => numbers().fold(f64::INFINITY, f64::min),
            Aggregate::Most => numbers().fold(f64::NEG_INFINITY, f64::max),
            Aggregate::AtLeast => place(values.iter().min_by(|a, b| a.1.total_cmp(&b.1))),
            Aggregate::AtMost => place(values.iter().max_by(|a, b| a.1.total_cmp(&b.1))),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&mut self) -> &str {
        let trimmed = self.text[self.at..].trim_start();
        self.at = self.text.len() - trimmed.len();
        trimmed
    }

    fn wrong(&mut self, expected: &str) -> String {
        let rest = self.rest().to_owned();
        format!("`{}`: {expected} is expected at `{rest}`", self.text)
    }

    /// Consumes one of these characters, if it is next.
    fn take(&mut self, of: &str) -> Option<char> {
        let c = self.rest().chars().next().filter(|c| of.contains(*c))?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn expect(&mut self, c: &str) -> Result<(), String> {
        self.take(c).map(|_| ()).ok_or_else(|| self.wrong(c))
    }

    /// Consumes text up to one of these characters.
    fn until(&mut self, ends: &str) -> String {
        let rest = self.rest();
        let length = rest.find(|c| ends.contains(c)).unwrap_or(rest.len());
        let word = rest[..length].trim().to_owned();
        self.at += length;
        word
    }

    fn chain(
        &mut self,
        operators: &str,
        next: impl Fn(&mut Self) -> Result<Formula, String>,
    ) -> Result<Formula, String> {
        let mut left = next(self)?;
        while let Some(operator) = self.take(operators) {
            left = Formula::Binary(operator, Box::new(left), Box::new(next(self)?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Formula, String> {
        self.chain("<>", |parser| parser.chain("+-", |parser| parser.chain("*/", Self::atom)))
    }

    fn atom(&mut self) -> Result<Formula, String> {
        if self.take("(").is_some() {
            let inner = self.comparison()?;
            self.expect(")")?;
            return Ok(inner);
        }
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        let word = rest[..length].to_owned();
        if word.is_empty() {
            return Err(self.wrong("a number, a path or a function"));
        }
        self.at += length;
        if let Ok(number) = word.parse() {
            return Ok(Formula::Number(number));
        }
        if self.take("(").is_some() {
            let aggregate = Aggregate::named(&word);
            let inner = self.comparison()?;
            if word == "abs" {
                self.expect(")")?;
                return Ok(Formula::Binary('|', Box::new(inner), Box::new(Formula::Number(0.0))));
            }
            let aggregate = aggregate.ok_or_else(|| format!("there is no function `{word}`"))?;
            let mut axes = Vec::new();
            while self.take(",").is_some() {
                axes.push(self.until(",)"));
            }
            self.expect(")")?;
            return Ok(Formula::Aggregate(aggregate, Box::new(inner), axes));
        }
        let mut selected = Vec::new();
        if self.take("[").is_some() {
            loop {
                let axis = self.until("=");
                self.expect("=")?;
                selected.push((axis, self.until(";]")));
                if self.take(";").is_none() {
                    break;
                }
            }
            self.expect("]")?;
        }
        Ok(Formula::Path(word.split('.').map(str::to_owned).collect(), selected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(pairs: &[(&str, &str)]) -> Cell {
        pairs.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn formulas_join_on_shared_axes_and_keep_seeds_apart() {
        let values = [("1", "8", "a", 10.0), ("1", "8", "b", 5.0), ("1", "9", "a", 20.0), ("1", "9", "b", 30.0)];
        let rows: Vec<_> = values
            .iter()
            .map(|(seed, n, p, ms)| (cell(&[("seed", seed), ("n", n), ("p", p)]), json!({ "r": [{ "ms": ms }] })))
            .collect();
        let answers: Vec<_> = rows.iter().map(|(cell, answer)| (cell, answer)).collect();
        let of = |text: &str| Formula::parse(text).and_then(|formula| formula.evaluate(&answers));
        let one = |text: &str| {
            let table = of(text).unwrap();
            assert_eq!(table.0[0].0, cell(&[("seed", "1")]), "{text}");
            table.0[0].1
        };
        let cut = "100 * (1 - r.0.ms[p=b] / r.0.ms[p=a])";
        let table = of(cut).unwrap();
        assert_eq!(table.0.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [50.0, -50.0]);
        assert_eq!(one(&format!("mean({cut})")), 0.0);
        assert_eq!(one(&format!("count({cut} > 0)")), 1.0);
        assert_eq!(one("at_min(r.0.ms[p=b], n) + 2 * 3 - 1"), 13.0);
        assert_eq!(one("max(min(r.0.ms, p), n)"), 20.0);
        assert_eq!(one("mean(abs(5 - r.0.ms))"), 11.25);
        assert!(of("r.1.ms").is_err() && of("r.0.ms[p=c]").is_err());
    }

    #[test]
    fn mistakes_in_a_formula_are_named() {
        for (text, part) in [("mean(x", ")"), ("median(x)", "median"), ("a b", "operator"), ("1 +", "a number")] {
            let error = Formula::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
