//! `[purge]` and its rules.

use super::super::keys::{DAY, count, flag, globs, optional, parsed, percent, section, size, span, text, texts};
use super::super::section::Section;
use policy::glob::Glob;
use std::time::Duration;
use toml::de::DeValue;

/// Rules of one volume. A guess at what a site can still oversee; each file is held against all of them.
const RULES_MAX: usize = 256;
const MS: Duration = Duration::from_millis(1);

section! {
    /// `[purge]`
    Purge {
        /// Age of removable files: not used for this time, needed by no job, with bytes that are safe elsewhere. 0: none by age.
        age: Duration = span(Duration::ZERO..=36_500 * DAY), "0s";
        /// Percentage of used space at which the oldest of them are removed. 100: none for space.
        high_percent: u32 = count(1..=100), 100;
        /// Percentage of used space at which this ends.
        low_percent: u32 = percent, 80;
        /// Names that are never purged, with all below them, such as ["projects", "**/README"]: `*` and `?` stand for no slash, `**` for anything.
        keep: Vec<Glob> = globs, [];
        /// Interval of these checks. 0: only on `entrepot purge`.
        every: Duration = span(Duration::ZERO..=365 * DAY), "0s";
        + /// In the order of the file.
        rules: Vec<PurgeRule>;
    }
}

section! {
    /// A `[[purge.rule]]` block. It selects files that meet all of its conditions.
    PurgeRule {
        /// Its name, for people and reports.
        name: String = text, "old-scratch" or missing;
        /// Pattern of files, below the mount point; "**" is all.
        path: Option<Glob> = optional(parsed(str::parse)), "tmp/**" else None;
        /// Names among these that stay, with all below them.
        keep: Vec<Glob> = globs, ["tmp/shared"] else Vec::new();
        /// Files neither read nor written for this time, as `entrepot find --older` counts it.
        older: Option<Duration> = optional(span(MS..=36_500 * DAY)), "30d" else None;
        /// Files not written for this time, however often they are read.
        unwritten: Option<Duration> = optional(span(MS..=36_500 * DAY)), "90d" else None;
        /// Files larger than this.
        larger: Option<u64> = optional(size(0..=u64::MAX, "a size, such as \"1GB\"")), "1GB" else None;
        /// Files of these users: names that are in /etc/passwd, or numbers in quotes.
        user: Option<Vec<String>> = optional(texts), ["ada", "1001"] else None;
        /// Files of these groups: names that are in /etc/group, or numbers in quotes.
        group: Option<Vec<String>> = optional(texts), ["guests"] else None;
        /// Also files whose bytes are nowhere else. They are lost then.
        even_if_only_here: bool = flag, false;
    }
}

impl Purge {
    pub(in crate::volume) fn checked(section: &Section<'_, '_, '_>) -> Purge {
        let mut purge = Purge::read(section);
        if purge.low_percent > purge.high_percent {
            let cause = format!("`low_percent` is {} and `high_percent` {}", purge.low_percent, purge.high_percent);
            let mend = "Give a lower `low_percent`: purging begins at the high one and ends at the low one";
            section.problem(
                if section.get("low_percent").is_some() { "low_percent" } else { "high_percent" },
                cause,
                mend,
            );
        }
        purge.rules = rules(section);
        purge
    }
}

fn rules(section: &Section<'_, '_, '_>) -> Vec<PurgeRule> {
    let Some(value) = section.get("rule") else { return Vec::new() };
    let mut rules: Vec<PurgeRule> = Vec::new();
    let blocks = value.get_ref().as_array();
    if blocks.is_none_or(|blocks| blocks.iter().any(|block| !matches!(block.get_ref(), DeValue::Table(_)))) {
        section.problem("rule", "a rule is no table", "Write `[[purge.rule]]` on a line of its own");
        return rules;
    }
    for block in blocks.into_iter().flatten() {
        let keys = Section::new(section.reading, "purge.rule", block.span(), block.get_ref().as_table());
        let rule = PurgeRule::read(&keys);
        if rule.path.is_none() {
            keys.missing::<String>("path", "\"tmp/**\"");
        }
        if rule.older.is_none() && rule.unwritten.is_none() {
            let cause = format!("rule \"{}\" has no age: it would remove files that were written just now", rule.name);
            keys.problem("name", cause, "Add `older = \"30d\"` or `unwritten = \"90d\"`");
        }
        if rules.iter().any(|other| other.name == rule.name && !rule.name.is_empty()) {
            let cause = format!("two rules are named \"{}\"", rule.name);
            keys.problem("name", cause, "Give one of them another name");
        }
        keys.finish();
        rules.push(rule);
    }
    if rules.len() > RULES_MAX {
        let cause = format!("there are {} rules, and {RULES_MAX} is the most", rules.len());
        section.problem(
            "rule",
            cause,
            "Put some together: a rule may name several users, and its `path` several directories",
        );
    }
    rules
}

#[cfg(test)]
mod tests {
    use crate::volume::Config;
    use std::path::Path;
    use std::time::Duration;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!(
            "name = \"v\"\nnamespace = \"n\"\nstate = \"s\"\n[[target]]\nname = \"t\"\npath = \"t\"\n[purge]\n{lines}\n"
        );
        Config::parse(Path::new("/v/volume.toml"), &text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn rules_are_what_the_file_says() {
        let purge = parse(
            "keep = [\"projects\"]\n[[purge.rule]]\nname = \"a\"\npath = \"tmp/**\"\nolder = \"30d\"\nuser = [\"ada\", \"7\"]\n\
             [[purge.rule]]\nname = \"b\"\npath = \"**\"\nunwritten = \"90d\"\nlarger = \"1GB\"\neven_if_only_here = true",
        );
        let purge = purge.unwrap().purge;
        assert_eq!((purge.keep.len(), purge.rules.len()), (1, 2));
        let (a, b) = (&purge.rules[0], &purge.rules[1]);
        assert_eq!((a.older, a.unwritten), (Some(Duration::from_secs(30 * 86_400)), None));
        assert_eq!(a.user.as_deref(), Some(&["ada".to_owned(), "7".to_owned()][..]));
        assert!(!a.even_if_only_here && b.even_if_only_here, "it has to be said");
        assert_eq!((b.larger, b.path.as_ref().unwrap().to_string().as_str()), (Some(1_000_000_000), "**"));
    }

    #[test]
    fn what_would_take_too_much_is_refused() {
        let rule = |lines: &str| parse(&format!("[[purge.rule]]\nname = \"a\"\n{lines}")).unwrap_err();
        assert!(rule("path = \"tmp/**\"").contains("has no age"));
        assert!(rule("older = \"1d\"").contains("`path` is missing in `[[purge.rule]]`"));
        assert!(rule("path = \"/tmp\"\nolder = \"1d\"").contains("without a slash at either end"));
        assert!(rule("path = \"a\"\nolder = \"0s\"").contains("`older` is \"0s\""));
        assert!(rule("path = \"a\"\nolder = \"1d\"\nusers = [\"x\"]").contains("Did you mean `user`?"));
        assert!(rule("path = \"a\"\nolder = \"1d\"\nuser = \"x\"").contains("a list of texts"));
        let twice = "path = \"a\"\nolder = \"1d\"\n[[purge.rule]]\nname = \"a\"\npath = \"b\"\nolder = \"1d\"";
        assert!(rule(twice).contains("two rules are named \"a\""));
        assert!(parse("rule = 3").unwrap_err().contains("a rule is no table"));
        assert!(parse("keep = [\"a/\"]").unwrap_err().contains("without a slash"));
    }
}
