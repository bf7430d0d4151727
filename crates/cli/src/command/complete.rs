//! `entrepot complete-values`: the values that a shell completes, requested by its completions at each press of TAB.
//!
//! Names come from other users. Names with control characters are not offered, and for bash each is escaped, so that
//! no part of a name is ever executed. Without an answer in time nothing is printed.

use super::Cli;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown;
use clap::{ArgAction, CommandFactory};
use jobs::request::{JobSummary, List};
use jobs::slurm::wire::Summary;
use node::control::answers::Targets;
use node::control::{Request, mounts};
use object::workers::within;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Timeout of an answer: a longer wait looks like a hanging shell. The start of the process takes the rest of the
/// promised 200 ms.
const TIMEOUT: Duration = Duration::from_millis(150);

/// Kind of an argument's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Name of a target.
    Target,
    /// Mount point of a volume.
    Volume,
    /// Number of a job of the built-in runner.
    Job,
    /// Number of an unfinished job of the built-in runner.
    OpenJob,
    /// Number of a job of Slurm.
    SlurmJob,
}

/// Command, argument, and kind of the value.
const VALUES: [(&str, &str, Kind); 21] = [
    ("", "volume", Kind::Volume),
    ("down", "at", Kind::Volume),
    ("target remove", "name", Kind::Target),
    ("target fail", "name", Kind::Target),
    ("target restore", "name", Kind::Target),
    ("target drain", "name", Kind::Target),
    ("find", "target", Kind::Target),
    ("events", "target", Kind::Target),
    ("layout replace", "from", Kind::Target),
    ("layout replace", "to", Kind::Target),
    ("job show", "id", Kind::Job),
    ("job watch", "id", Kind::OpenJob),
    ("job cancel", "id", Kind::OpenJob),
    ("job retry", "id", Kind::Job),
    ("job log", "id", Kind::Job),
    ("job wait", "id", Kind::OpenJob),
    ("slurm show", "job", Kind::SlurmJob),
    ("slurm watch", "job", Kind::SlurmJob),
    ("slurm log", "job", Kind::SlurmJob),
    ("slurm forget", "job", Kind::SlurmJob),
    ("slurm retry", "job", Kind::SlurmJob),
];

/// Request of a shell.
pub enum CompletionRequest {
    /// Bash: the line up to the cursor, as it was typed.
    Bash(String),
    /// Other shells: the parsed words up to the cursor; the last one is completed.
    Words(Vec<String>),
}

impl CompletionRequest {
    /// Parses `complete-values bash LINE` or `complete-values words WORD...`. Clap has no such command, since only
    /// completion scripts call it.
    pub fn read(words: &[OsString]) -> Option<CompletionRequest> {
        let mut words = words.iter().map(|word| word.to_string_lossy().into_owned());
        if words.next()? != "complete-values" {
            return None;
        }
        match &*words.next()? {
            "bash" => Some(CompletionRequest::Bash(words.next()?)),
            "words" => Some(CompletionRequest::Words(words.collect())),
            _ => None,
        }
    }

    /// Prints the matching values, one per line.
    pub fn run(self) -> Result<u8> {
        // A hanging thread ends with the process.
        let fitting =
            within(TIMEOUT, "complete", [move || self.fitting()]).pop().flatten().flatten().unwrap_or_default();
        shown::text(&fitting.into_iter().map(|value| value + "\n").collect::<String>())?;
        Ok(0)
    }

    fn fitting(self) -> Option<Vec<String>> {
        match self {
            CompletionRequest::Words(words) => {
                let wanted = wanted(&words)?;
                let values = values(&wanted);
                Some(values.into_iter().filter(|value| value.starts_with(&wanted.typed)).collect())
            }
            CompletionRequest::Bash(line) => {
                let (words, raw) = split(&line)?;
                let wanted = wanted(&words)?;
                let whole = values(&wanted).into_iter().map(|value| wanted.attached.clone() + &value);
                let typed = wanted.attached.clone() + &wanted.typed;
                // Readline begins a new word behind `before` and replaces only that word.
                let before = replaced_from(&raw);
                let rest = whole
                    .filter(|word| word.starts_with(&typed))
                    .filter_map(|word| word.strip_prefix(&before).map(quoted));
                Some(rest.collect())
            }
        }
    }
}

/// A value that is being typed.
#[derive(Debug, PartialEq, Eq)]
struct TypedValue {
    kind: Kind,
    typed: String,
    /// `--option=` in the same word.
    attached: String,
    volume: Option<PathBuf>,
}

/// Determines the kind of the last word. `words` begin after the program's name.
fn wanted(words: &[String]) -> Option<TypedValue> {
    let (last, before) = words.split_last()?;
    let mut all = Cli::command();
    all.build();
    let (mut command, mut path, mut places, mut volume, mut option) =
        (&all, String::new(), 0, None, None::<&clap::Arg>);
    let is_option = |arg: &&clap::Arg, word: &str| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(&*short.to_string())),
    };
    for word in before {
        if let Some(arg) = std::mem::take(&mut option) {
            if arg.get_id() == "volume" {
                volume = Some(PathBuf::from(word));
            }
        } else if word == "--" {
            return None;
        } else if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
            if name == "--volume" {
                volume = Some(PathBuf::from(value));
            }
        } else if word.starts_with('-') {
            let arg = command.get_arguments().find(|arg| is_option(arg, word));
            option = arg.filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append));
        } else if let Some(sub) = command.find_subcommand(word).filter(|_| places == 0) {
            path = format!("{path} {word}").trim_start().to_owned();
            command = sub;
        } else {
            places += 1;
        }
    }
    let (attached, typed) = match last.split_once('=').filter(|_| option.is_none() && last.starts_with("--")) {
        Some((name, value)) => (format!("{name}="), value.to_owned()),
        None => (String::new(), last.clone()),
    };
    let arg = match option {
        Some(arg) => arg.get_id().as_str(),
        None if !attached.is_empty() => {
            let name = attached.trim_end_matches('=');
            command.get_arguments().find(|arg| is_option(arg, name))?.get_id().as_str()
        }
        None if typed.starts_with('-') => return None,
        None => command.get_positionals().nth(places)?.get_id().as_str(),
    };
    let is_it = |(of, name, _): &&(&str, &str, Kind)| *name == arg && (*of == path || of.is_empty());
    let &(_, _, kind) = VALUES.iter().find(is_it)?;
    Some(TypedValue { kind, typed, attached, volume })
}

/// All values of the kind, from the daemon or the list of mounts. Names with control characters are left out.
fn values(wanted: &TypedValue) -> Vec<String> {
    let context = Context { volume: wanted.volume.clone() };
    let jobs = |all: bool| {
        let rows: Vec<JobSummary> = context.ask("job.list", List { all }).unwrap_or_default();
        rows.into_iter().map(|job| job.id.to_string()).collect()
    };
    let all: Vec<String> = match wanted.kind {
        Kind::Target => {
            let answer: Targets = context.ask_store(&Request::Targets {}).unwrap_or_default();
            answer.targets.into_iter().map(|target| target.name).collect()
        }
        Kind::Job => jobs(true),
        Kind::OpenJob => jobs(false),
        Kind::SlurmJob => {
            let rows: Vec<Summary> = context.ask("slurm.list", List { all: true }).unwrap_or_default();
            rows.into_iter().map(|job| job.job.to_string()).collect()
        }
        Kind::Volume => {
            let mounts = mounts().into_iter().filter_map(|found| found.mount_point);
            mounts.filter_map(|at| at.into_os_string().into_string().ok()).collect()
        }
    };
    all.into_iter().filter(|value| !value.is_empty() && !value.chars().any(char::is_control)).collect()
}

/// Splits a line of bash behind `entrepot` into words; returns also the last word as typed. `None` for a line with
/// quotes, variables or operators; then the shell's own completion applies.
fn split(line: &str) -> Option<(Vec<String>, String)> {
    let mut words = Vec::new();
    let (mut word, mut raw, mut inside) = (String::new(), String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => {
                if inside {
                    words.push(std::mem::take(&mut word));
                }
                raw.clear();
                inside = false;
                continue;
            }
            '\\' => {
                let next = chars.next()?;
                word.push(next);
                raw.extend([c, next]);
            }
            '\'' | '"' | '$' | '`' | '\n' | '|' | '&' | ';' | '<' | '>' | '(' | ')' => return None,
            _ => {
                word.push(c);
                raw.push(c);
            }
        }
        inside = true;
    }
    words.push(word);
    let program = words.iter().position(|word| word.rsplit('/').next() == Some("entrepot"))?;
    Some((words.split_off(program + 1), raw))
}

/// The part of a typed word that bash does not replace: up to the last `:` or `=`, where bash begins a new word.
/// Escapes are removed.
fn replaced_from(raw: &str) -> String {
    let (mut read, mut kept, mut escaped) = (String::new(), 0, false);
    for c in raw.chars() {
        match (escaped, c) {
            (false, '\\') => {
                escaped = true;
                continue;
            }
            (false, ':' | '=') => {
                read.push(c);
                kept = read.len();
            }
            _ => read.push(c),
        }
        escaped = false;
    }
    read.truncate(kept);
    read
}

/// Escapes a value for bash.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./,@%+".contains(c);
    value.chars().flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<TypedValue> {
        wanted(&split(line)?.0)
    }

    fn kind(line: &str) -> Option<Kind> {
        of(line).map(|wanted| wanted.kind)
    }

    #[test]
    fn every_argument_of_the_table_is_there() {
        let mut all = Cli::command();
        all.build();
        for (path, arg, _) in VALUES {
            let command = path.split_whitespace().fold(&all, |at, name| at.find_subcommand(name).expect(path));
            assert!(command.get_arguments().any(|known| known.get_id() == arg), "{path}: {arg}");
        }
    }

    #[test]
    fn the_place_of_the_word_says_what_it_takes() {
        for (line, expected) in [
            ("entrepot target drain ", Some(Kind::Target)),
            ("sudo /usr/bin/entrepot target drain --no-wait t", Some(Kind::Target)),
            ("entrepot target drain t0 ", None),
            ("entrepot target list ", None),
            ("entrepot target add ", None),
            ("entrepot target drain -", None),
            ("entrepot find --target ", Some(Kind::Target)),
            ("entrepot find --target=fa", Some(Kind::Target)),
            ("entrepot find --user ada ", None),
            ("entrepot job log --part stage-in ", Some(Kind::Job)),
            ("entrepot job log --part ", None),
            ("entrepot slurm show 4", Some(Kind::SlurmJob)),
            ("entrepot --volume ", Some(Kind::Volume)),
            ("entrepot status --volume=/m", Some(Kind::Volume)),
            ("entrepot down ", Some(Kind::Volume)),
            ("entrepot ", None),
            ("entrepot target drain $(touch x) ", None),
            ("echo target drain ", None),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
        let wanted = of("entrepot --volume /my\\ scratch/v.toml find --target=fa").expect("a target");
        assert_eq!(wanted.volume, Some(PathBuf::from("/my scratch/v.toml")));
        assert_eq!((&*wanted.attached, &*wanted.typed), ("--target=", "fa"));
    }

    #[test]
    fn what_bash_gets_is_one_word_to_it_whatever_the_name() {
        for name in
            ["plain-1.2", "two words", "$(touch pwned)", "`id`", "a;b|c&d>e", "it's \"q\" \\ ~!*?[x]{a,b}#", "ü:=^"]
        {
            let out = std::process::Command::new("bash")
                .args(["--norc", "-c", &format!("printf %s {}", quoted(name))])
                .current_dir("/")
                .output()
                .expect("bash");
            assert_eq!(String::from_utf8_lossy(&out.stdout), name);
        }
        assert_eq!(replaced_from("--target=a\\:b:c"), "--target=a:b:");
        assert_eq!(replaced_from("a\\ b"), "");
    }
}
