//! `entrepot accounting`: what users and jobs read, wrote and staged.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, bytes, moment_ms};
use crate::table::{self, Cell, Column, Output, column};
use crate::users;
use crate::values;
use clap::Args;
use clap::builder::ValueParser;
use node::control::answers::{self, JobAccount, JobNumber, UserAccount};
use node::control::{Accounting as Asked, AccountingBy, Request};
use serde::Serialize;
use std::collections::BTreeMap;

/// Show what each user or each job read, wrote and staged
///
/// Days are in UTC; without `--since` the last 30 are shown. A user's row has the bytes that passed the mounts of all
/// nodes, and staged bytes. A job's row has the bytes that its commands staged, the bytes that were fetched again from
/// the sources of its files, and the run time of its script. Root and the user who runs the daemon see all rows, other
/// users their own. A killed daemon loses the last ten seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot accounting                                          all users in the last 30 days
  entrepot accounting --by job --user ada
  entrepot accounting --since 2026-11-01 --until 2026-11-30 --output csv > november.csv")]
pub struct Accounting {
    /// Key of the rows.
    #[arg(long, value_parser = values::explained::<AccountingBy>(KEYS), default_value = "user")]
    by: AccountingBy,
    /// The first day, such as `2026-11-01`.
    #[arg(long, value_name = "DAY", value_parser = day())]
    since: Option<u64>,
    /// The last day, such as `2026-11-30`; today if none is given.
    #[arg(long, value_name = "DAY", value_parser = day())]
    until: Option<u64>,
    /// Only this user, by name or number.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Format of the output; `csv` is for spreadsheets, in bytes and seconds.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Keys of the rows.
const KEYS: &[(&str, &str)] = &[("user", "Users, by number and name"), ("job", "Jobs, by number and name")];

fn day() -> ValueParser {
    ValueParser::from(|text: &str| shown::day(text).ok_or("give a day, such as `2026-11-01`"))
}

impl Accounting {
    pub fn run(self, context: &Context) -> Result<u8> {
        let uid = self.user.as_deref().map(users::number_of).transpose()?;
        let asked = Asked { by: self.by, since_day: self.since, until_day: self.until, uid };
        let mut answer: answers::Accounting = context.ask_store(&Request::Accounting(asked))?;
        // Each name is looked up once.
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        for row in answer.users.iter_mut().flatten() {
            let name = |uid| names.entry(uid).or_insert_with(|| users::name_or_number(uid)).clone();
            row.user = Some(row.uid.map_or_else(|| "others".into(), name));
        }
        if let Some(note) = &answer.note {
            eprintln!("{note}");
        }
        if let Some(left_out) = answer.left_out.filter(|left_out| *left_out > 0) {
            let jobs = shown::count(left_out, "job");
            eprintln!("{jobs} more have no row here: ask for fewer days; `--by user` counts them");
        }
        match (self.output, &answer.users, &answer.jobs) {
            (Output::Json, ..) => {
                let [since, until] = [answer.since_day, answer.until_day].map(shown::of_day);
                shown::json(&Days { since, until, answer })?;
            }
            (output, Some(users), _) => show(output, &user_columns(), users)?,
            (output, None, jobs) => show(output, &job_columns(), jobs.as_deref().unwrap_or_default())?,
        }
        Ok(0)
    }
}

/// The answer in JSON, with its first and last day as dates.
#[derive(Serialize)]
struct Days {
    since: String,
    until: String,
    #[serde(flatten)]
    answer: answers::Accounting,
}

fn show<R>(output: Output, columns: &[Column<'_, R>], rows: &[R]) -> Result<()> {
    shown::text(&match output {
        Output::Csv => table::csv(columns, rows),
        _ if rows.is_empty() => "nothing was counted on these days\n".into(),
        _ => table::text(columns, rows),
    })?;
    Ok(())
}

fn name<R: 'static>(key: &'static str, of: fn(&R) -> &str) -> Column<'static, R> {
    column(key, move |row: &R| Cell::Name(of(row).to_owned())).shown(key, 0)
}

fn count<R: 'static>(key: &'static str, heading: &'static str, of: fn(&R) -> Option<u64>) -> Column<'static, R> {
    column(key, of).shown(heading, 0)
}

/// Columns of an amount: in bytes for programs, with a unit and the heading for users.
fn amount<R: 'static>(key: &'static str, heading: &'static str, of: fn(&R) -> u64) -> [Column<'static, R>; 2] {
    let people = column("", move |row: &R| Cell::Word(bytes(of(row)))).shown(heading, 0);
    [column(key, of), people]
}

fn user_columns() -> Vec<Column<'static, UserAccount>> {
    let mut columns = vec![
        name("user", |row: &UserAccount| row.user.as_deref().unwrap_or_default()),
        column("uid", |row: &UserAccount| row.uid.map(u64::from)),
    ];
    columns.extend(amount("read_bytes", "read", |row: &UserAccount| row.used.read_bytes));
    columns.extend(amount("written_bytes", "written", |row: &UserAccount| row.used.written_bytes));
    columns.push(count("operations", "operations", |row: &UserAccount| Some(row.used.operations)));
    columns.extend(amount("staged_in_bytes", "staged in", |row: &UserAccount| row.used.staged_in_bytes));
    columns.extend(amount("staged_out_bytes", "staged out", |row: &UserAccount| row.used.staged_out_bytes));
    columns.push(count("jobs", "jobs", |row: &UserAccount| Some(row.used.jobs)));
    columns
}

fn job_columns() -> Vec<Column<'static, JobAccount>> {
    let number = |row: &JobAccount| if let JobNumber::Number(number) = row.job { Some(number) } else { None };
    let mut columns = vec![
        count("job", "job", number),
        column("of", |row: &JobAccount| row.of.clone()).shown("of", 0),
        name("name", |row: &JobAccount| &row.facts.name),
        name("user", |row: &JobAccount| &row.facts.user),
        column("uid", |row: &JobAccount| u64::from(row.uid)),
        column("state", |row: &JobAccount| row.facts.state.clone()).shown("state", 0),
        column("submitted", |row: &JobAccount| row.facts.submitted_ms.map(moment_ms)),
        column("started", |row: &JobAccount| row.facts.started_ms.map(moment_ms)),
        column("ended", |row: &JobAccount| row.facts.ended_ms.map(moment_ms)),
        column("run_s", |row: &JobAccount| row.facts.run_ms as f64 / 1e3).digits(3).shown("run s", 1),
    ];
    columns.extend(amount("staged_in_bytes", "staged in", |row: &JobAccount| row.staged_in_bytes));
    columns.extend(amount("staged_out_bytes", "staged out", |row: &JobAccount| row.staged_out_bytes));
    columns.extend(amount("recovered_bytes", "recovered", |row: &JobAccount| row.facts.recovered_bytes));
    columns
}
