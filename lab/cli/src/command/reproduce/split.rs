//! The split of a run's cases: values of an axis by which parameters of ours were chosen, and values that judge.

use super::description::Run;
use super::formula::Cell;
use serde::{Deserialize, Serialize};

/// Axis that a split adds to a case, with the value `tuning` or `judging`.
pub(super) const DATA: &str = "data";

/// Values of an axis that tuned. The other values judge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Split {
    axis: String,
    tuning: Vec<String>,
}

/// Values of the axis of a split, by their use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Sides {
    pub tuning: Vec<String>,
    pub judging: Vec<String>,
}

impl Split {
    pub(super) fn sides(&self, run: &Run, quick: bool) -> Sides {
        let values = run.values(&self.axis, quick).into_iter();
        let (tuning, judging) = values.partition(|value| self.tuning.contains(value));
        Sides { tuning, judging }
    }

    /// Adds the axis to a case.
    pub(super) fn extend(&self, cell: &mut Cell) {
        let tunes = cell.get(&self.axis).is_some_and(|value| self.tuning.contains(value));
        cell.insert(DATA.into(), if tunes { "tuning" } else { "judging" }.into());
    }

    /// Every value that tunes is one of the axis.
    pub(super) fn check(&self, run: &Run) -> Result<(), String> {
        let known = run.values(&self.axis, false);
        match self.tuning.iter().find(|value| !known.contains(value)) {
            Some(value) => Err(format!("the split names {value}, which is no value of {}", self.axis)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_names_values_of_its_axis_and_the_others_judge() {
        let run = |tuning: &str| -> Run {
            let split = format!("split = {{ axis = \"a\", tuning = [\"{tuning}\"] }}");
            toml::from_str(&format!("command = \"sim {{a}}\"\naxes = {{ a = [1, 2, 3] }}\n{split}")).unwrap()
        };
        let (known, unknown) = (run("2"), run("4"));
        let cases = known.cases("x", std::path::Path::new("/d"), false).unwrap();
        let sides: Vec<_> = cases.iter().map(|case| case.cell[DATA].as_str()).collect();
        assert_eq!(sides, ["judging", "tuning", "judging"]);
        let split = |run: &Run| run.split.clone().unwrap();
        assert_eq!(split(&known).sides(&known, false).judging, ["1", "3"]);
        assert!(split(&known).check(&known).is_ok());
        assert!(split(&unknown).check(&unknown).unwrap_err().contains("names 4, which is no value of a"));
    }
}
