//! The table: a row per workload, a column per subject, medians, and ratios to the raw directory and to mergerfs.

use super::subject::{BESIDE, VOLUMES};
use std::collections::BTreeMap;

/// All results of a run.
pub struct Report {
    subjects: Vec<&'static str>,
    rows: Vec<Row>,
    facts: Vec<(String, f64, &'static str)>,
}

struct Row {
    name: &'static str,
    unit: &'static str,
    values: BTreeMap<&'static str, Vec<f64>>,
}

impl Report {
    /// An empty table with these columns.
    pub fn new(subjects: impl Iterator<Item = &'static str>) -> Report {
        Report { subjects: subjects.collect(), rows: Vec::new(), facts: Vec::new() }
    }

    /// Adds one round's value.
    pub fn add(&mut self, name: &'static str, unit: &'static str, subject: &'static str, value: f64) {
        let at = match self.rows.iter().position(|r| r.name == name) {
            Some(at) => at,
            None => {
                self.rows.push(Row { name, unit, values: BTreeMap::new() });
                self.rows.len() - 1
            }
        };
        self.rows[at].values.entry(subject).or_default().push(value);
    }

    /// Adds a single number that is no row of the table.
    pub fn fact(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.facts.push((name.into(), value, unit));
    }

    /// Prints one row as soon as it is complete.
    pub fn print_row(&self, name: &str) {
        let Some(row) = self.rows.iter().find(|r| r.name == name) else { return };
        let cells: Vec<_> = self.subjects.iter().map(|s| format!("{s} {:.0}", row.median(s))).collect();
        println!("  {name}: {} {}", cells.join(", "), row.unit);
    }

    /// Prints the whole table.
    pub fn print(&self) {
        println!("\n{:<32}{:>7}", "median", "");
        print!("{:<32}{:>7}", "", "unit");
        self.subjects.iter().for_each(|s| print!("{s:>12}"));
        let ratios = self.ratios();
        ratios.iter().for_each(|(of, to)| print!("{:>22}", format!("{of}/{to}")));
        println!();
        for row in &self.rows {
            print!("{:<32}{:>7}", row.name, row.unit);
            self.subjects.iter().for_each(|s| print!("{:>12.0}", row.median(s)));
            ratios.iter().for_each(|(of, to)| print!("{:>22.2}", row.ratio(of, to)));
            println!();
        }
        println!();
        self.facts.iter().for_each(|(name, value, unit)| println!("{name}: {value:.3} {unit}"));
    }

    /// Pairs to compare: this build's volumes with the other build's, or with the raw directory and mergerfs.
    fn ratios(&self) -> Vec<(&'static str, &'static str)> {
        let has = |name: &str| self.subjects.contains(&name);
        if has(BESIDE[0]) {
            return VOLUMES.into_iter().zip(BESIDE).collect();
        }
        let bases = ["raw", "mergerfs"].into_iter().filter(|base| has(base));
        bases.flat_map(|base| VOLUMES.map(|of| (of, base))).collect()
    }

    /// The whole as JSON: medians and every round's value.
    pub fn json(&self) -> String {
        let mut root = serde_json::Map::new();
        for row in &self.rows {
            let values: serde_json::Map<_, _> = row
                .values
                .iter()
                .map(|(s, v)| (s.to_string(), serde_json::json!({ "median": row.median(s), "rounds": v })))
                .collect();
            root.insert(row.name.into(), serde_json::json!({ "unit": row.unit, "values": values }));
        }
        for (name, value, unit) in &self.facts {
            root.insert(name.clone(), serde_json::json!({ "unit": unit, "value": value }));
        }
        serde_json::to_string_pretty(&root).expect("numbers and strings serialise")
    }
}

impl Row {
    fn median(&self, subject: &str) -> f64 {
        median(self.values.get(subject).cloned().unwrap_or_default())
    }

    /// The median of the ratios, round by round.
    fn ratio(&self, of: &str, to: &str) -> f64 {
        let values = |subject| self.values.get(subject).map_or(&[][..], Vec::as_slice);
        median(values(of).iter().zip(values(to)).map(|(of, to)| of / to).collect())
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}
