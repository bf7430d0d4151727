//! `#CHECKPOINT path=PATTERN ...`: the files of a job that are checkpoints, with properties that the owner gives.
//!
//! ```text
//! #CHECKPOINT path=state/step-{version}/** app=wave nodes=512 interval=1h
//! ```
//! `path` is a pattern as in `volume.toml`, without `{app}`, relative to the directory of the job's submission. All
//! other words are optional.

use super::words::{self, Refusal, Result};
use crate::request::Checkpoint;
use policy::burst::pattern::Pattern;

const FORM: &str = "write #CHECKPOINT path=PATTERN [app=NAME] [nodes=N] [mtbf=SPAN] [interval=SPAN]";

/// Parses the text after `#CHECKPOINT`.
pub(super) fn read(line: u32, text: &str) -> Result<Checkpoint> {
    let words::Fields { words, .. } = words::split(text)?;
    let mut read = Checkpoint { line, path: String::new(), app: None, nodes: None, mtbf_s: None, interval_s: None };
    let mut seen = Vec::new();
    for word in &words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Refusal::new(format!("{word:?} is no KEY=VALUE"), FORM));
        };
        if seen.contains(&key) {
            return Err(Refusal::new(format!("{key} is set twice"), "set it once; write a line for each pattern"));
        }
        seen.push(key);
        match key {
            "path" => read.path = value.into(),
            "app" => read.app = Some(application(value)?),
            "nodes" => read.nodes = Some(nodes(value)?),
            "mtbf" => read.mtbf_s = Some(span(key, value)?),
            "interval" => read.interval_s = Some(span(key, value)?),
            _ => return Err(Refusal::new(format!("#CHECKPOINT has no key {key:?}"), FORM)),
        }
    }
    if read.nodes.is_some() && read.mtbf_s.is_some() {
        return Err(Refusal::new("nodes and mtbf both set the failure rate of the application", "set one of them"));
    }
    // The application's name replaces its placeholder in the pattern, and does not affect which files match.
    match Pattern::of_app(&read.path, "x") {
        Ok(_) => Ok(read),
        Err(_) if read.path.is_empty() => Err(Refusal::new("the directive names no files", FORM)),
        Err(mend) => Err(Refusal::new(format!("the pattern {:?} is not understood", read.path), mend)),
    }
}

fn application(value: &str) -> Result<String> {
    if value.is_empty() || value.len() > 200 || value.contains('/') {
        let cause = format!("{value:?} cannot be the name of an application");
        return Err(Refusal::new(cause, "give a name of at most 200 bytes without a slash"));
    }
    Ok(value.into())
}

fn nodes(value: &str) -> Result<u64> {
    let n = value.parse().ok().filter(|n| (1..=10_000_000).contains(n));
    n.ok_or_else(|| Refusal::new(format!("nodes is {value:?}"), "write a whole number from 1"))
}

/// `90s`, `10m` or `10min`, `2h`, `1d`; seconds alone.
fn span(key: &str, value: &str) -> Result<u64> {
    let seconds = policy::units::span_ns(value).map(|ns| ns / 1_000_000_000);
    seconds.filter(|s| (1..=100 * 365 * 86_400).contains(s)).ok_or_else(|| {
        Refusal::new(format!("{key} is {value:?}"), "write a span such as 90s, 30min, 2h or 5d, of at most 100 years")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_said() {
        let all = read(3, "path=\"my state/step-{version}/**\" app=wave nodes=512 interval=30min").unwrap();
        assert_eq!((all.line, all.path.as_str(), all.app.as_deref()), (3, "my state/step-{version}/**", Some("wave")));
        assert_eq!((all.nodes, all.mtbf_s, all.interval_s), (Some(512), None, Some(1800)));
        let little = read(1, "path=wave.chk mtbf=5d").unwrap();
        assert_eq!((little.app, little.mtbf_s), (None, Some(432_000)));
        for (text, seconds) in [("90", 90), ("90s", 90), ("2m", 120), ("2min", 120), ("3h", 10_800), ("1d", 86_400)] {
            assert_eq!(read(1, &format!("path=a mtbf={text}")).unwrap().mtbf_s, Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_refused_and_why() {
        for (text, cause) in [
            ("", "names no files"),
            ("app=wave", "names no files"),
            ("state/**", "no KEY=VALUE"),
            ("path=a path=b", "set twice"),
            ("path=a rank=3", "has no key \"rank\""),
            ("path=a nodes=0", "nodes is"),
            ("path=a nodes=many", "nodes is"),
            ("path=a mtbf=soon", "mtbf is"),
            ("path=a interval=0", "interval is"),
            ("path=a interval=101y", "interval is"),
            ("path=a mtbf=36501d", "mtbf is"),
            ("path=a mtbf=99999999999999999999d", "mtbf is"),
            ("path=a nodes=2 mtbf=1d", "both set"),
            ("path=a app=b/c", "name of an application"),
            ("path=a app=", "name of an application"),
            ("path={app}/x", "not understood"),
            ("path={version}/{version}", "not understood"),
            ("path={rank}", "not understood"),
            ("path=$HOME/x", "$"),
            ("path='a", "not closed"),
        ] {
            let refused = read(1, text).expect_err(text);
            assert!(refused.cause.contains(cause) && !refused.mend.is_empty(), "{text}: {refused:?}");
        }
    }
}
