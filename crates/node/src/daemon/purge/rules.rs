//! The rules of `volume.toml` in the machine's form: names of users and groups become numbers.
//!
//! Names are looked up in `/etc/passwd` and `/etc/group` alone. A directory service that is away must not delay a
//! purge, nor change the files that a rule takes. A rule with an unknown name takes nothing, and is reported.

use engine::volume::{Purge, PurgeRule};
use policy::Time;
use policy::protect::purge::{Config, Rule};
use std::time::Duration;

/// The machine's configuration, and remarks about it for the operator.
pub(super) fn machine(settings: &Purge) -> (Config, Vec<String>) {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let accounts = Accounts { users: text("/etc/passwd"), groups: text("/etc/group") };
    let mut notes = Vec::new();
    let rules = settings.rules.iter().map(|rule| accounts.rule(rule, &mut notes)).collect();
    let config = Config {
        age: (!settings.age.is_zero()).then(|| time(settings.age)),
        high_percent: settings.high_percent,
        low_percent: settings.low_percent,
        keep: settings.keep.clone(),
        rules,
    };
    (config, notes)
}

struct Accounts {
    users: String,
    groups: String,
}

impl Accounts {
    fn rule(&self, rule: &PurgeRule, notes: &mut Vec<String>) -> Rule {
        let mut numbers = |names: &Option<Vec<String>>, text: &str, what: &str| {
            let names = names.as_ref()?;
            let mut number = |name: &String| {
                let found = number_of(text, name);
                if found.is_none() {
                    notes.push(format!("rule {}: there is no {what} {name}; use a number", rule.name));
                }
                found
            };
            Some(names.iter().filter_map(&mut number).collect())
        };
        Rule {
            users: numbers(&rule.user, &self.users, "user in /etc/passwd named"),
            groups: numbers(&rule.group, &self.groups, "group in /etc/group named"),
            path: rule.path.clone().unwrap_or_default(),
            keep: rule.keep.clone(),
            older: rule.older.map(time),
            unwritten: rule.unwritten.map(time),
            larger: rule.larger,
            even_if_only_here: rule.even_if_only_here,
        }
    }
}

/// Number of a name in such a file, or the number itself.
fn number_of(text: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| if fields.next() == Some(name) { fields.nth(1)?.parse().ok() } else { None })
}

fn time(span: Duration) -> Time {
    Time(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_are_looked_up_and_one_that_is_unknown_takes_nothing() {
        let text = "name = \"v\"\nnamespace = \"n\"\nstate = \"s\"\n[[target]]\nname = \"t\"\npath = \"t\"\n\
            [[purge.rule]]\nname = \"a\"\npath = \"**\"\nolder = \"1d\"\nuser = [\"ada\", \"12\", \"bob\"]\ngroup = [\"none\"]\n";
        let config = engine::volume::Config::parse(Path::new("/v/volume.toml"), text).expect("a volume");
        let accounts = Accounts { users: "root:x:0:0::/:\nada:x:1001:7::/:\n".into(), groups: "ada:x:7:\n".into() };
        let mut notes = Vec::new();
        let rule = accounts.rule(&config.purge.rules[0], &mut notes);
        assert_eq!((rule.users, rule.groups), (Some(vec![1001, 12]), Some(vec![])));
        assert_eq!(rule.older, Some(Time::from_secs(86_400)));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("rule a") && notes[0].contains("bob"), "{notes:?}");
    }
}
