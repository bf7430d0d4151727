//! `entrepot accounting`: what users and jobs read, wrote and staged.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, bytes, list, moment_ms, number, word};
use crate::table::{self, Cell, Column, Output, column};
use crate::users;
use clap::builder::ValueParser;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::collections::BTreeMap;
use store::control::{Accounting as Asked, AccountingBy, Request};

/// Show what each user or each job read, wrote and staged
///
/// Days are days in UTC; without `--since` the last 30. By user: what went through the mount of any node, and what was
/// staged. By job: what its commands staged, what was fetched again from the sources of its files, and how long its
/// script ran. Root and the user who runs the daemon see all, others themselves. A daemon that is killed loses the last
/// ten seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot accounting                                          who did how much in the last 30 days
  entrepot accounting --by job --user ada
  entrepot accounting --since 2026-11-01 --until 2026-11-30 --output csv > november.csv")]
pub struct Accounting {
    /// A row for each what.
    #[arg(long, value_enum, default_value = "user")]
    by: By,
    /// The first day, such as `2026-11-01`.
    #[arg(long, value_name = "DAY", value_parser = day())]
    since: Option<u64>,
    /// The last day, such as `2026-11-30`; today if none is given.
    #[arg(long, value_name = "DAY", value_parser = day())]
    until: Option<u64>,
    /// Only this user, by name or number.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// How to write it; `csv` is for spreadsheets, in bytes and seconds.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Their number and name.
    User,
    /// Its number and name.
    Job,
}

fn day() -> ValueParser {
    ValueParser::from(|text: &str| shown::day(text).ok_or("give a day, such as `2026-11-01`"))
}

impl Accounting {
    pub fn run(self, context: &Context) -> Result<u8> {
        let by = match self.by {
            By::User => AccountingBy::User,
            By::Job => AccountingBy::Job,
        };
        let uid = self.user.as_deref().map(users::number_of).transpose()?;
        let asked = Asked { by, since_day: self.since, until_day: self.until, uid };
        let mut answer = context.ask_store(&Request::Accounting(asked))?;
        let mut names = Names::default();
        let (rows, columns) = match by {
            AccountingBy::User => {
                let mut rows = list(&answer, "users").to_vec();
                rows.iter_mut().for_each(|row| row["user"] = names.of(row).into());
                (rows, user_columns())
            }
            AccountingBy::Job => (list(&answer, "jobs").to_vec(), job_columns()),
        };
        if let Some(note) = answer["note"].as_str() {
            eprintln!("{note}");
        }
        if number(&answer, "left_out") > 0 {
            let jobs = shown::count(number(&answer, "left_out"), "job");
            eprintln!("{jobs} more have no row here: ask for fewer days; `--by user` counts them");
        }
        match self.output {
            Output::Csv => shown::text(&table::csv(&columns, &rows))?,
            Output::Json => {
                if by == AccountingBy::User {
                    answer["users"] = rows.into();
                }
                for key in ["since", "until"] {
                    answer[key] = shown::of_day(number(&answer, &format!("{key}_day"))).into();
                }
                shown::json(&answer)?;
            }
            Output::Text if rows.is_empty() => shown::text("nothing was counted on these days\n")?,
            Output::Text => shown::text(&table::text(&columns, &rows))?,
        }
        Ok(0)
    }
}

/// Names of users, each looked up once.
#[derive(Default)]
struct Names(BTreeMap<u32, String>);

impl Names {
    fn of(&mut self, row: &Value) -> String {
        let Some(uid) = row["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok()) else { return "others".into() };
        self.0.entry(uid).or_insert_with(|| users::name_of(uid).unwrap_or_else(|| uid.to_string())).clone()
    }
}

fn name(key: &'static str) -> Column<'static, Value> {
    column(key, move |row: &Value| Cell::Name(word(row, key).to_owned())).shown(key, 0)
}

fn count(key: &'static str, heading: &'static str) -> Column<'static, Value> {
    column(key, move |row: &Value| row[key].as_u64()).shown(heading, 0)
}

/// In bytes for programs, and as people read it under the heading.
fn amount(key: &'static str, heading: &'static str) -> [Column<'static, Value>; 2] {
    let people = column("", move |row: &Value| Cell::Word(bytes(number(row, key)))).shown(heading, 0);
    [column(key, move |row: &Value| row[key].as_u64()), people]
}

fn user_columns() -> Vec<Column<'static, Value>> {
    let mut columns = vec![name("user"), column("uid", |row: &Value| row["uid"].as_u64())];
    columns.extend(amount("read_bytes", "read"));
    columns.extend(amount("written_bytes", "written"));
    columns.push(count("operations", "operations"));
    columns.extend(amount("staged_in_bytes", "staged in"));
    columns.extend(amount("staged_out_bytes", "staged out"));
    columns.push(count("jobs", "jobs"));
    columns
}

fn job_columns() -> Vec<Column<'static, Value>> {
    let moment =
        |name: &'static str| column(name, move |row: &Value| row[format!("{name}_ms")].as_u64().map(moment_ms));
    let mut columns = vec![
        count("job", "job"),
        column("of", |row: &Value| word(row, "of").to_owned()).shown("of", 0),
        name("name"),
        name("user"),
        column("uid", |row: &Value| row["uid"].as_u64()),
        column("state", |row: &Value| word(row, "state").to_owned()).shown("state", 0),
    ];
    columns.extend(["submitted", "started", "ended"].map(moment));
    columns.push(column("run_s", |row: &Value| number(row, "run_ms") as f64 / 1e3).digits(3).shown("run s", 1));
    columns.extend(amount("staged_in_bytes", "staged in"));
    columns.extend(amount("staged_out_bytes", "staged out"));
    columns.extend(amount("recovered_bytes", "recovered"));
    columns
}
