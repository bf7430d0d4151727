//! The rule file, which operators may read and edit.
//!
//! ```text
//!   inference product | min
//!   input NAME  /  output NAME
//!     TERM triangle A B C  /  TERM trapezoid A B C D       numbers from 0 to 1, or fractions like 1/3
//!   if NAME is TERM [and NAME is TERM ...] then NAME is TERM
//!   # a comment
//! ```
//! Every error names its line.

use super::fuzzy::{Inference, Is, Membership, Rule, Rules, Variable};

/// Rules of the paper.
pub const PAPER: &str = include_str!("paper.rules");

/// Our rules, the default of adaptive volumes.
pub const ADAPTIVE: &str = include_str!("adaptive.rules");

/// Block of terms that a line belongs to.
#[derive(Clone, Copy)]
enum Block {
    None,
    Input,
    Output,
}

/// Parses a rule file.
pub fn parse(text: &str) -> Result<Rules, String> {
    let mut rules = Rules::default();
    let mut block = Block::None;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = |what: String| format!("line {}: {what}", number + 1);
        match words.as_slice() {
            [] => {}
            ["inference", "product"] => rules.inference = Inference::Product,
            ["inference", "min"] => rules.inference = Inference::Min,
            [kind @ ("input" | "output"), name] => {
                if rules.input(name).is_some() || rules.output(name).is_some() {
                    return Err(wrong(format!("{name} is declared twice")));
                }
                let variable = Variable { name: (*name).to_owned(), terms: Vec::new() };
                if *kind == "input" {
                    rules.inputs.push(variable);
                    block = Block::Input;
                } else {
                    rules.outputs.push(variable);
                    block = Block::Output;
                }
            }
            ["if", rest @ ..] => {
                let rule = rule(&rules, rest).map_err(wrong)?;
                rules.rules.push(rule);
            }
            [term, shape @ ("triangle" | "trapezoid"), corners @ ..] => {
                let variable = match block {
                    Block::Input => rules.inputs.last_mut(),
                    Block::Output => rules.outputs.last_mut(),
                    Block::None => None,
                };
                let Some(variable) = variable else {
                    return Err(wrong(format!("the term {term} stands before any `input NAME` or `output NAME`")));
                };
                if variable.terms.iter().any(|(name, _)| name == term) {
                    return Err(wrong(format!("{} has the term {term} twice", variable.name)));
                }
                variable.terms.push(((*term).to_owned(), membership(shape, corners).map_err(wrong)?));
            }
            _ => {
                let what = "neither `input NAME`, `output NAME`, `TERM triangle A B C`, `TERM trapezoid A B C D`, \
                            `inference product|min` nor `if ... then ...`";
                return Err(wrong(what.into()));
            }
        }
    }
    complete(rules, text.lines().count())
}

fn rule(rules: &Rules, words: &[&str]) -> Result<Rule, String> {
    let then = words.iter().position(|word| *word == "then").ok_or("the rule has no `then`")?;
    let (when, consequence) = (&words[..then], &words[then + 1..]);
    let is = |variables: &[Variable], kind: &str, words: &[&str]| {
        let [name, "is", term] = words else {
            return Err(format!("`{}` is not of the form `NAME is TERM`", words.join(" ")));
        };
        let at = variables.iter().position(|variable| variable.name == *name);
        let variable = at.ok_or_else(|| format!("there is no {kind} {name} above this rule"))?;
        let terms = &variables[variable].terms;
        let term = terms.iter().position(|(known, _)| known == term).ok_or_else(|| {
            let known: Vec<_> = terms.iter().map(|(name, _)| name.as_str()).collect();
            format!("{name} has no term {term}; it has {}", known.join(", "))
        })?;
        Ok(Is { variable, term })
    };
    let conditions = when.split(|word| *word == "and");
    let when = conditions.map(|words| is(&rules.inputs, "input", words)).collect::<Result<Vec<_>, _>>()?;
    Ok(Rule { when, then: is(&rules.outputs, "output", consequence)? })
}

fn membership(shape: &str, corners: &[&str]) -> Result<Membership, String> {
    let numbers: Vec<f64> = corners.iter().map(|text| number(text)).collect::<Result<_, _>>()?;
    if numbers.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err("the corners must ascend".into());
    }
    match (shape, numbers.as_slice()) {
        ("triangle", &[a, b, c]) if a < c => Ok(Membership::Triangle([a, b, c])),
        ("trapezoid", &[a, b, c, d]) if a < d => Ok(Membership::Trapezoid([a, b, c, d])),
        ("triangle", [_, _, _]) | ("trapezoid", [_, _, _, _]) => {
            Err("the first and the last corner are the same".into())
        }
        ("triangle", _) => Err("a triangle has three corners".into()),
        _ => Err("a trapezoid has four corners".into()),
    }
}

fn number(text: &str) -> Result<f64, String> {
    let parse = |text: &str| text.parse::<f64>().ok().filter(|x| x.is_finite());
    let value = match text.split_once('/') {
        Some((over, under)) => parse(over).zip(parse(under)).map(|(over, under)| over / under),
        None => parse(text),
    };
    value.filter(|x| (0.0..=1.0).contains(x)).ok_or_else(|| format!("{text} is no number from 0 to 1"))
}

/// Checks for mistakes that no single line shows.
fn complete(rules: Rules, lines: usize) -> Result<Rules, String> {
    let wrong = |what: String| format!("line {}: {what}", lines.max(1));
    if rules.rules.is_empty() {
        return Err(wrong("the file has no rule; add one: if NAME is TERM then NAME is TERM".into()));
    }
    for variable in rules.inputs.iter().chain(&rules.outputs) {
        if variable.terms.is_empty() {
            return Err(wrong(format!("{} has no term", variable.name)));
        }
    }
    for (at, output) in rules.outputs.iter().enumerate() {
        if rules.rules.iter().all(|rule| rule.then.variable != at) {
            return Err(wrong(format!("no rule decides {}", output.name)));
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(inference: Inference, inputs: [Option<f64>; 5]) -> f64 {
        let rules = Rules { inference, ..parse(PAPER).unwrap() };
        rules.decide(&inputs, rules.output("RequestWidth").unwrap()).unwrap()
    }

    fn at(rate: f64, size: f64) -> [Option<f64>; 5] {
        [Some(rate), Some(size), None, None, None]
    }

    #[test]
    fn the_widths_of_the_reference() {
        for ((rate, size), product, min) in [
            ((0.0, 0.0), 0.2500, 0.2500),
            ((0.0, 1.0), 0.9167, 0.9167),
            ((1.0 / 3.0, 1.0), 0.7500, 0.7500),
            ((2.0 / 3.0, 1.0), 0.2500, 0.2500),
            ((1.0, 1.0), 0.0833, 0.0833),
            ((1.0, 0.0), 0.0833, 0.0833),
            ((0.5, 0.5), 0.4491, 0.4647),
            ((0.2, 0.8), 0.6230, 0.6136),
            ((0.8, 0.2), 0.1507, 0.1758),
        ] {
            let (a, b) = (width(Inference::Product, at(rate, size)), width(Inference::Min, at(rate, size)));
            assert!((a - product).abs() < 6e-5 && (b - min).abs() < 6e-5, "({rate}, {size}): {a} {b}");
        }
        let all = [Some(0.0), Some(1.0), Some(1.0), Some(1.0), None];
        assert!((width(Inference::Product, all) - 0.5509).abs() < 6e-5);
    }

    #[test]
    fn widths_fall_with_the_rate_and_grow_with_the_size() {
        for n in 0..50 {
            let (x, y) = (f64::from(n) / 50.0, f64::from(n + 1) / 50.0);
            assert!(width(Inference::Product, at(y, 1.0)) <= width(Inference::Product, at(x, 1.0)) + 1e-9);
            assert!(width(Inference::Product, at(0.0, y)) + 1e-9 >= width(Inference::Product, at(0.0, x)));
            for size in [0.2, 0.5, 0.8] {
                let (narrow, wide) = (width(Inference::Product, at(y, size)), width(Inference::Product, at(x, size)));
                assert!(narrow <= wide + 0.02, "the centroid's own artefact is below 0.02");
            }
        }
    }

    #[test]
    fn replication_is_online_when_requests_are_rare() {
        let rules = parse(PAPER).unwrap();
        let online = |rate| rules.decide(&at(rate, 0.5), rules.output("FileReplicationTime").unwrap());
        assert!(online(0.0).unwrap() > 0.5 && online(2.0 / 3.0).unwrap() < 0.5 && online(1.0).unwrap() < 0.5);
        assert_eq!(online(1.0 / 3.0), None, "no rule fires: the old value stays");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let good = "input A\n X triangle 0 0 1\noutput B\n Y triangle 0 1 1\n";
        for (text, line, word) in [
            ("LOW triangle 0 0 1", 1, "before any"),
            ("input A\n X triangle 0 1", 2, "three corners"),
            ("input A\n X triangle 0 2 2", 2, "from 0 to 1"),
            ("input A\n X trapezoid 0 1 0.5 1", 2, "ascend"),
            ("input A\n X triangle 1 1 1", 2, "the same"),
            ("input A\n\ninput A", 3, "twice"),
            ("what", 1, "neither"),
            (&format!("{good}if A is X and B is Y then B is Y"), 5, "no input B"),
            (&format!("{good}if A is Z then B is Y"), 5, "no term Z; it has X"),
            (&format!("{good}if A is X"), 5, "no `then`"),
            (&format!("{good}if A then B is Y"), 5, "NAME is TERM"),
            (good, 4, "no rule"),
            (&format!("{good}output C\n Z triangle 0 0 1\nif A is X then B is Y"), 7, "decides C"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(word), "{text}: {error}");
        }
    }
}
