//! A small fuzzy engine: linguistic variables and rules that yield one crisp number.
//!
//! ```text
//!   inputs --> truth of each condition --> AND = min --> truth of the rule
//!   rules with the same consequence: max;  consequence scaled by its truth (product) or cut at it (min)
//!   union of all consequences: max  -->  centroid
//! ```
//! A rule with an unknown input is not evaluated. If no rule fires, the result is `None`, and the old value stays.
//!
//! Source: Simitci & Reed, section 5; the reference, section 10.1 (min for AND, product inference, trapezoid rule over
//! 2001 points).

/// Number of points for the centroid.
const POINTS: usize = 2001;

/// Degree to which a number belongs to a term. Corners ascend; equal ones make a shoulder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Membership {
    /// Rises from the first corner to the second, falls to the third.
    Triangle([f64; 3]),
    /// Rises from the first to the second, stays to the third, falls to the fourth.
    Trapezoid([f64; 4]),
}

impl Membership {
    /// Returns the degree of membership, from 0 to 1.
    pub fn of(&self, x: f64) -> f64 {
        let [a, b, c, d] = match *self {
            Membership::Triangle([a, b, c]) => [a, b, b, c],
            Membership::Trapezoid(corners) => corners,
        };
        if x < a || x > d {
            0.0
        } else if x < b {
            (x - a) / (b - a)
        } else if x <= c {
            1.0
        } else {
            (d - x) / (d - c)
        }
    }
}

/// A linguistic variable: terms for numbers from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Name in rules.
    pub name: String,
    /// Its terms and their membership functions.
    pub terms: Vec<(String, Membership)>,
}

/// The condition `variable is term`, both by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Is {
    /// Number of the variable.
    pub variable: usize,
    /// Number of the term.
    pub term: usize,
}

/// A rule: if all conditions hold, then the consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Conditions on inputs, joined by AND.
    pub when: Vec<Is>,
    /// Consequence for an output.
    pub then: Is,
}

/// Effect of a rule's truth on its consequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inference {
    /// Scales the consequence by the truth.
    #[default]
    Product,
    /// Cuts the consequence at the truth.
    Min,
}

/// Variables and rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Measured input variables.
    pub inputs: Vec<Variable>,
    /// Decided output variables.
    pub outputs: Vec<Variable>,
    /// Rules over these variables.
    pub rules: Vec<Rule>,
    /// Effect of a rule's truth.
    pub inference: Inference,
}

impl Rules {
    /// Returns the value of output number `output` for these inputs (in their order; `None` is unknown); `None` if no
    /// rule fires.
    pub fn decide(&self, inputs: &[Option<f64>], output: usize) -> Option<f64> {
        let variable = self.outputs.get(output)?;
        let mut truths = vec![0.0f64; variable.terms.len()];
        for rule in self.rules.iter().filter(|rule| rule.then.variable == output) {
            if let Some(truth) = self.truth(rule, inputs) {
                truths[rule.then.term] = truths[rule.then.term].max(truth);
            }
        }
        centroid(variable, &truths, self.inference)
    }

    /// Returns the truth of a rule; `None` if one of its inputs is unknown.
    pub fn truth(&self, rule: &Rule, inputs: &[Option<f64>]) -> Option<f64> {
        rule.when.iter().try_fold(1.0f64, |truth, is| {
            let x = (*inputs.get(is.variable)?)?;
            Some(truth.min(self.inputs[is.variable].terms[is.term].1.of(x.clamp(0.0, 1.0))))
        })
    }

    /// Returns the number of an input.
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|variable| variable.name == name)
    }

    /// Returns the number of an output.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|variable| variable.name == name)
    }
}

fn centroid(variable: &Variable, truths: &[f64], inference: Inference) -> Option<f64> {
    if truths.iter().all(|&truth| truth <= 0.0) {
        return None;
    }
    let height = |x: f64| {
        let terms = variable.terms.iter().zip(truths).filter(|(_, truth)| **truth > 0.0);
        let heights = terms.map(|((_, membership), truth)| match inference {
            Inference::Product => membership.of(x) * truth,
            Inference::Min => membership.of(x).min(*truth),
        });
        heights.fold(0.0, f64::max)
    };
    let step = 1.0 / (POINTS - 1) as f64;
    let (mut area, mut moment) = (0.0, 0.0);
    for n in 0..POINTS {
        let x = n as f64 * step;
        let weight = if n == 0 || n == POINTS - 1 { 0.5 } else { 1.0 };
        let y = height(x) * weight;
        area += y;
        moment += y * x;
    }
    (area > 0.0).then(|| moment / area)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_rise_stay_and_fall() {
        let triangle = Membership::Triangle([0.0, 0.25, 0.5]);
        assert_eq!([0.0, 0.125, 0.25, 0.5, 0.6].map(|x| triangle.of(x)), [0.0, 0.5, 1.0, 0.0, 0.0]);
        let shoulder = Membership::Triangle([0.0, 0.0, 0.5]);
        assert_eq!([0.0, 0.25, 0.5].map(|x| shoulder.of(x)), [1.0, 0.5, 0.0]);
        let flat = Membership::Trapezoid([0.0, 0.2, 0.4, 0.8]);
        assert_eq!([0.1, 0.3, 0.6].map(|x| (flat.of(x) * 100.0).round()), [50.0, 100.0, 50.0]);
    }

    #[test]
    fn without_a_rule_that_fires_there_is_no_answer() {
        let variable = |name: &str| Variable {
            name: name.into(),
            terms: vec![("LOW".into(), Membership::Triangle([0.0, 0.0, 0.5]))],
        };
        let is = Is { variable: 0, term: 0 };
        let rules = Rules {
            inputs: vec![variable("in")],
            outputs: vec![variable("out")],
            rules: vec![Rule { when: vec![is], then: is }],
            inference: Inference::Product,
        };
        assert!(rules.decide(&[Some(0.2)], 0).is_some_and(|x| (x - 1.0 / 6.0).abs() < 1e-6));
        assert_eq!(rules.decide(&[Some(0.9)], 0), None);
        assert_eq!(rules.decide(&[None], 0), None);
        assert_eq!((rules.input("in"), rules.output("none")), (Some(0), None));
    }
}
