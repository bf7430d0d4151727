//! `entrepot df`: space by target and tier, or by user, age or directory.

use crate::answer;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use crate::users;
use clap::{Args, ValueEnum};
use node::control::answers::{File, Search, Targets, read};
use node::control::{Client, Find, Request, Sum, exit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Show the size and use of targets, or the space that files take
///
/// Without `--by` the command shows size, used and free space of each target, of each tier and of the volume. Space
/// that several targets share on one file system is counted once. With `--by` it sums files, and scans every name, as
/// `entrepot find` does. `size` is the sum of file lengths; `on targets` counts each mirror, and no small files in
/// stubs. Root and the user who runs the daemon see all files, other users their own. The exit code is 7 if a part
/// could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot df                              space of each target
  entrepot df --by user                    space by owner
  entrepot df --by age /mnt/scratch/run    space by time since the last use
  entrepot df --by dir --output json")]
pub struct Df {
    /// Key to sum files by.
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Directory whose files are summed; default: the whole volume.
    #[arg(requires = "by")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Owner of the files.
    User,
    /// Time since the last use.
    Age,
    /// Directories directly below DIR.
    Dir,
}

/// The ages that files are summed by: days without use, and the row's name.
const AGES: [(u64, &str); 5] = [
    (365, "365 days or longer"),
    (90, "90 to 365 days"),
    (30, "30 to 90 days"),
    (7, "7 to 30 days"),
    (0, "below 7 days"),
];

impl Df {
    pub fn run(self, context: &Context) -> Result<u8> {
        let Some(by) = self.by else {
            answer::show(self.output, context.ask_store(&Request::Targets {})?, devices)?;
            return Ok(0);
        };
        let (volume, path) = match &self.dir {
            None => (context.find()?, String::new()),
            Some(dir) => {
                let inside = context.inside(dir)?;
                (inside.volume, inside.path)
            }
        };
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        let asked = Find { path: path.clone(), with_mirrors: true, ..Find::default() };
        let done = Client::connect(&volume.socket())?.ask(&Request::Find(asked), &mut |file| {
            if let Ok(file) = read::<File>(file) {
                sums.entry(Key::of(by, &path, &file, now_s)).or_default().add(Sum::of(&file));
            }
        })?;
        let Search { unread, .. } = read(done)?;
        let rows = rows(sums);
        shown::value(self.output, &Sums { by: by_word(by), rows: &rows, unread }, |sums| files(by, sums.rows))?;
        if unread > 0 {
            eprintln!("{} could not be read, or have names that are no UTF-8", shown::count(unread, "name"));
        }
        Ok(if unread == 0 { 0 } else { exit::INCOMPLETE })
    }
}

/// Key of a sum: a user, an index of [`AGES`], or the name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    User(u32),
    Age(usize),
    Dir(String),
}

impl Key {
    fn of(by: By, below: &str, file: &File, now_s: u64) -> Key {
        match by {
            By::User => Key::User(file.uid),
            By::Age => {
                let days = now_s.saturating_sub(file.used_s) / 86_400;
                Key::Age(AGES.iter().position(|(from, _)| days >= *from).unwrap_or(AGES.len() - 1))
            }
            By::Dir => {
                let path = file.path.strip_prefix(below).unwrap_or_default().trim_start_matches('/');
                Key::Dir(path.split_once('/').map_or(".", |(dir, _)| dir).to_owned())
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Key::User(uid) => users::name_of(*uid).unwrap_or_else(|| uid.to_string()),
            Key::Age(at) => AGES[*at].1.to_owned(),
            Key::Dir(name) => name.clone(),
        }
    }
}

fn by_word(by: By) -> String {
    by.to_possible_value().map_or_else(String::new, |word| word.get_name().to_owned())
}

/// Sums of the files by key.
#[derive(Serialize)]
struct Sums<'a> {
    by: String,
    rows: &'a [Row],
    unread: u64,
}

/// Sum of the files with one key.
#[derive(Serialize)]
struct Row {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(flatten)]
    sum: Sum,
}

/// The rows, largest first; ages are in order, the longest first.
fn rows(sums: BTreeMap<Key, Sum>) -> Vec<Row> {
    let mut rows: Vec<_> = sums.into_iter().collect();
    if !matches!(rows.first(), Some((Key::Age(_), _))) {
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    }
    let row = |(key, sum): (Key, Sum)| {
        let uid = if let Key::User(uid) = key { Some(uid) } else { None };
        Row { name: key.name(), uid, sum }
    };
    rows.into_iter().map(row).collect()
}

fn files(by: By, rows: &[Row]) -> String {
    let mut all = Sum::default();
    rows.iter().for_each(|row| all.add(row.sum));
    let line = |name: &str, sum: Sum| {
        vec![name.to_owned(), sum.files.to_string(), shown::bytes(sum.bytes), shown::bytes(sum.on_targets)]
    };
    let mut lines: Vec<_> = rows.iter().map(|row| line(&row.name, row.sum)).collect();
    lines.push(line("all", all));
    shown::table(&[&by_word(by), "files", "size", "on targets"], lines)
}

/// Targets, tiers and the volume.
fn devices(answer: &Targets) -> String {
    let line = |(total, free): (u64, u64), kind: &str, name: &str, state: &str| {
        let used = total.saturating_sub(free);
        let percent = if total == 0 { String::new() } else { format!("{:.1} %", used as f64 / total as f64 * 100.0) };
        let space = [total, used, free].map(shown::bytes);
        let mut cells = vec![name.to_owned(), kind.to_owned()];
        cells.extend(space);
        cells.extend([percent, state.to_owned()]);
        cells
    };
    let targets = answer
        .targets
        .iter()
        .map(|t| line((t.total_bytes, t.free_bytes), t.tier.as_deref().unwrap_or_default(), &t.name, &t.state));
    let tiers = answer.tiers.iter().map(|t| line((t.total_bytes, t.free_bytes), &t.name, "all of the tier", ""));
    let volume = std::iter::once(line((answer.total_bytes, answer.free_bytes), "", "the volume", ""));
    shown::table(
        &["target", "tier", "size", "used", "free", "use", "state"],
        targets.chain(tiers).chain(volume).collect(),
    )
}
