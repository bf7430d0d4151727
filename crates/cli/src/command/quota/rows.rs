//! Quotas as a table, and in a sentence what is wrong with one.

use crate::failure::Result;
use crate::shown::{self, bytes, list, moment_ms, plain, word};
use crate::table::{self, Cell, Column, Output, column};
use crate::users;
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes them; `none` where there is none.
pub fn show(mut answer: Value, output: Output, none: &str) -> Result<()> {
    let mut names = Names::default();
    let mut rows = list(&answer, "rows").to_vec();
    rows.iter_mut().for_each(|row| row["name"] = names.of(row).into());
    match output {
        Output::Csv => shown::text(&table::csv(&columns(), &rows))?,
        Output::Json => {
            answer["rows"] = rows.into();
            shown::json(&answer)?;
        }
        Output::Text if rows.is_empty() => shown::text(none)?,
        Output::Text => {
            let notes: String = rows.iter().flat_map(notes).map(|note| note + "\n").collect();
            shown::text(&format!("{}{notes}", table::text(&columns(), &rows)))?;
        }
    }
    Ok(())
}

/// Names of users and groups, each looked up once.
#[derive(Default)]
struct Names(BTreeMap<(bool, u32), String>);

impl Names {
    fn of(&mut self, row: &Value) -> String {
        let number = |key| row[key].as_u64().and_then(|id| u32::try_from(id).ok());
        let named = |name: Option<String>, id: u32| name.unwrap_or_else(|| id.to_string());
        if let Some(uid) = number("user") {
            return self.0.entry((true, uid)).or_insert_with(|| named(users::name_of(uid), uid)).clone();
        }
        if let Some(gid) = number("group") {
            return self.0.entry((false, gid)).or_insert_with(|| named(users::group_name_of(gid), gid)).clone();
        }
        match word(row, "directory") {
            "" => ".".into(),
            path => plain(path),
        }
    }
}

fn columns() -> Vec<Column<'static, Value>> {
    let mut columns = vec![
        column("of", |row: &Value| word(row, "of").to_owned()).shown("of", 0),
        column("name", |row: &Value| Cell::Name(word(row, "name").to_owned())).shown("name", 0),
    ];
    let of = |resource: &'static str, key: &'static str| move |row: &Value| row[resource][key].as_u64();
    for (key, heading) in [("used", "bytes"), ("soft", "soft"), ("hard", "hard")] {
        columns.push(column(format!("bytes_{key}"), of("bytes", key)));
        let people =
            move |row: &Value| row["bytes"][key].as_u64().map(|n| Cell::Word(bytes(n))).unwrap_or(Cell::Nothing);
        columns.push(column("", people).shown(heading, 0));
    }
    columns.push(column("bytes_state", |row: &Value| word(&row["bytes"], "state").to_owned()));
    for (key, heading) in [("used", "files"), ("soft", "soft"), ("hard", "hard")] {
        columns.push(column(format!("files_{key}"), of("files", key)).shown(heading, 0));
    }
    columns.push(column("files_state", |row: &Value| word(&row["files"], "state").to_owned()));
    columns.push(column("grace_s", |row: &Value| row["grace_s"].as_u64()));
    columns
}

/// Notes about a quota for its user.
fn notes(row: &Value) -> Vec<String> {
    let name = format!("{} {}", word(row, "of"), word(row, "name"));
    let of = |resource: &str| {
        let one = &row[resource];
        let until = one["may_grow_until_ms"].as_u64().map(moment_ms);
        let soft = format!("{name} is over the soft limit of {resource}");
        match (word(one, "state"), until) {
            ("over", Some(until)) => Some(format!("{soft}, and may grow until {until}")),
            ("full", Some(until)) => {
                Some(format!("{name} has reached the hard limit of {resource}; over the soft one until {until}"))
            }
            ("full", None) => Some(format!("{name} has reached the hard limit of {resource}")),
            ("expired", _) => Some(format!("{soft} for longer than the grace: remove some to be able to write again")),
            _ => None,
        }
    };
    let counted = word(&row["bytes"], "state") == "unknown";
    let counted = counted.then(|| format!("what {name} has is being counted; nothing is refused before that is known"));
    [of("bytes"), of("files"), counted].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_asks_is_told_what_to_do() {
        let row =
            |bytes: Value, files: &str| json!({"of": "user", "name": "ada", "bytes": bytes, "files": {"state": files}});
        assert_eq!(notes(&row(json!({"state": "within"}), "within")), Vec::<String>::new());
        let over = notes(&row(json!({"state": "over", "may_grow_until_ms": 0}), "full"));
        assert_eq!(over.len(), 2);
        assert!(
            over[0].starts_with("user ada is over the soft limit of bytes, and may grow until 1970-01-01"),
            "{over:?}"
        );
        assert_eq!(over[1], "user ada has reached the hard limit of files");
        let expired = notes(&row(json!({"state": "expired"}), "within"));
        assert!(expired[0].ends_with("remove some to be able to write again"), "{expired:?}");
        assert!(notes(&row(json!({"state": "unknown"}), "unknown"))[0].contains("being counted"));
    }
}
