//! Formats quotas as a table, with notes about exceeded ones.

use crate::answer;
use crate::failure::Result;
use crate::shown::{self, bytes, moment_ms, plain};
use crate::table::{self, Cell, Column, Output, column};
use crate::users;
use node::control::QuotaOf;
use node::control::answers::{Quota, Quotas, Usage, UsageState, read};
use serde_json::Value;
use std::collections::BTreeMap;

/// Prints the quotas; `none` is the text without any.
pub fn show(answer: Value, output: Output, none: &str) -> Result<()> {
    let mut answer: Quotas = read(answer)?;
    let mut names = Names::default();
    answer.rows.iter_mut().for_each(|row| row.name = Some(names.of(&row.subject)));
    let rows = &answer.rows;
    match output {
        Output::Csv => shown::text(&table::csv(&columns(), rows))?,
        Output::Json => shown::json(&answer)?,
        Output::Text if rows.is_empty() => shown::text(none)?,
        Output::Text => {
            let notes: String = rows.iter().flat_map(notes).map(|note| note + "\n").collect();
            shown::text(&format!("{}{notes}", table::text(&columns(), rows)))?;
        }
    }
    Ok(())
}

/// Names of users and groups, each looked up once.
#[derive(Default)]
struct Names(BTreeMap<QuotaOf, String>);

impl Names {
    fn of(&mut self, subject: &QuotaOf) -> String {
        let named = || match subject {
            QuotaOf::User(uid) => users::name_or_number(*uid),
            QuotaOf::Group(gid) => users::group_name_of(*gid).unwrap_or_else(|| gid.to_string()),
            QuotaOf::Directory(path) if path.is_empty() => ".".into(),
            QuotaOf::Directory(path) => plain(path),
        };
        self.0.entry(subject.clone()).or_insert_with(named).clone()
    }
}

fn columns() -> Vec<Column<'static, Quota>> {
    type Figure = (&'static str, &'static str, fn(&Usage) -> Option<u64>);
    let figures = |used| -> [Figure; 3] {
        [("used", used, |of| of.used), ("soft", "soft", |of| of.soft), ("hard", "hard", |of| of.hard)]
    };
    let mut columns = vec![
        column("of", |row: &Quota| row.of.clone()).shown("of", 0),
        column("name", |row: &Quota| Cell::Name(row.name.clone().unwrap_or_default())).shown("name", 0),
    ];
    for (key, heading, of) in figures("bytes") {
        columns.push(column(format!("bytes_{key}"), move |row: &Quota| of(&row.bytes)));
        let people = move |row: &Quota| of(&row.bytes).map(|n| Cell::Word(bytes(n))).unwrap_or(Cell::Nothing);
        columns.push(column("", people).shown(heading, 0));
    }
    columns.push(column("bytes_state", |row: &Quota| answer::words(row.bytes.state)));
    for (key, heading, of) in figures("files") {
        columns.push(column(format!("files_{key}"), move |row: &Quota| of(&row.files)).shown(heading, 0));
    }
    columns.push(column("files_state", |row: &Quota| answer::words(row.files.state)));
    columns.push(column("grace_s", |row: &Quota| row.grace_s));
    columns
}

/// Notes about a quota for its user.
fn notes(row: &Quota) -> Vec<String> {
    let name = format!("{} {}", row.of, row.name.as_deref().unwrap_or_default());
    let of = |resource: &str, usage: &Usage| {
        let until = usage.may_grow_until_ms.map(moment_ms);
        let soft = format!("{name} is over the soft limit of {resource}");
        match (usage.state, until) {
            (UsageState::Over, Some(until)) => Some(format!("{soft}, and may grow until {until}")),
            (UsageState::Full, Some(until)) => {
                Some(format!("{name} has reached the hard limit of {resource}; over the soft one until {until}"))
            }
            (UsageState::Full, None) => Some(format!("{name} has reached the hard limit of {resource}")),
            (UsageState::Expired, _) => {
                Some(format!("{soft} for longer than the grace: remove some to be able to write again"))
            }
            _ => None,
        }
    };
    let counted = row.bytes.state == UsageState::Unknown;
    let counted =
        counted.then(|| format!("the usage of {name} is being counted; no write is refused before the count is done"));
    [of("bytes", &row.bytes), of("files", &row.files), counted].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_quota_names_the_next_step() {
        let usage = |state, may_grow_until_ms| Usage { state, may_grow_until_ms, ..Usage::default() };
        let row = |bytes, files| Quota {
            of: "user".into(),
            subject: QuotaOf::User(7),
            name: Some("ada".into()),
            grace_s: 0,
            bytes,
            files: usage(files, None),
        };
        assert_eq!(notes(&row(usage(UsageState::Within, None), UsageState::Within)), Vec::<String>::new());
        let over = notes(&row(usage(UsageState::Over, Some(0)), UsageState::Full));
        assert_eq!(over.len(), 2);
        assert!(
            over[0].starts_with("user ada is over the soft limit of bytes, and may grow until 1970-01-01"),
            "{over:?}"
        );
        assert_eq!(over[1], "user ada has reached the hard limit of files");
        let expired = notes(&row(usage(UsageState::Expired, None), UsageState::Within));
        assert!(expired[0].ends_with("remove some to be able to write again"), "{expired:?}");
        assert!(notes(&row(usage(UsageState::Unknown, None), UsageState::Unknown))[0].contains("being counted"));
    }
}
