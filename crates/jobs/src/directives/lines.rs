//! A script's lines, sorted into directives, resource lines, comments and the user's program.

use super::checkpoint;
use super::datawarp;
use super::words::{self, Refusal, Result};
use super::{COMMANDS_MAX, Directive, Head, RETRIES_MAX, Resources, SCRIPT_BYTES_MAX, Says};
use crate::request::{Complaint, PartKind};

/// Reads a script.
pub fn parse(script: &[u8]) -> Result<Head, Vec<Complaint>> {
    match read(script) {
        (head, complaints) if complaints.is_empty() => Ok(head),
        (_, complaints) => Err(complaints),
    }
}

/// Reads a script: returns the understood directives, and all errors.
pub fn read(script: &[u8]) -> (Head, Vec<Complaint>) {
    if script.len() > SCRIPT_BYTES_MAX {
        let complaint = Complaint {
            line: 0,
            cause: format!("the script is {} bytes long, more than {SCRIPT_BYTES_MAX}", script.len()),
            mend: "keep data in files of their own and stage them in".into(),
        };
        return (Head::default(), vec![complaint]);
    }
    let mut reader = Reader::default();
    let mut lines = script.split_inclusive(|b| *b == b'\n').zip(1..);
    while let Some((line, number)) = lines.next() {
        reader.line(line, number, &mut lines);
    }
    if script.is_empty() {
        reader.complain(0, Refusal::new("the script is empty", "name the file that holds your job script"));
    }
    reader.finish()
}

/// Directive word of files that are checkpoints.
const CHECKPOINT: &str = "#CHECKPOINT";

/// Directive word of Slurm's plug-in. A line that continues with `entrepot` is ours; other lines are for other
/// programs.
const BB_LUA: &str = "#BB_LUA";

type Lines<'a, 'b> = &'a mut dyn Iterator<Item = (&'b [u8], u32)>;

#[derive(Default)]
struct Reader {
    head: Head,
    ours: Resources,
    theirs: Resources,
    past_head: bool,
    /// DataWarp directives that stage data.
    datawarp_lines: Vec<u32>,
    complaints: Vec<Complaint>,
}

/// Kind of a line, by its first characters.
enum Sort {
    Staging(PartKind),
    Checkpoint,
    Resource(&'static str),
    /// The line resembles a directive but is none.
    NearMiss(&'static str),
    /// `#BB_LUA entrepot`, followed by something that is no directive.
    NoStaging,
    /// A DataWarp directive.
    DataWarp(&'static str),
    Comment,
    Program,
}

fn sort(line: &[u8]) -> Sort {
    let line = line.trim_ascii_end();
    let is = |word: &&str| after_word(line, word).is_some();
    let staging = [("#STAGEIN", PartKind::StageIn), ("#STAGEOUT", PartKind::StageOut)];
    if let Some((_, kind)) = staging.into_iter().find(|(word, _)| is(word)) {
        return Sort::Staging(kind);
    }
    if let Some(ours) = after_word(line, BB_LUA).and_then(|rest| after_word(rest.trim_ascii_start(), "entrepot")) {
        let mut words = ours.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return match (words.next(), words.next()) {
            (Some(b"stage"), Some(b"in")) => Sort::Staging(PartKind::StageIn),
            (Some(b"stage"), Some(b"out")) => Sort::Staging(PartKind::StageOut),
            (Some(b"checkpoint"), _) => Sort::Checkpoint,
            _ => Sort::NoStaging,
        };
    }
    if after_word(line, CHECKPOINT).is_some() {
        return Sort::Checkpoint;
    }
    if let Some(word) = ["#ENTREPOT", "#SBATCH", "#PBS"].into_iter().find(is) {
        return Sort::Resource(word);
    }
    if let Some(word) = ["#DW", "#BB"].into_iter().find(is) {
        return Sort::DataWarp(word);
    }
    let Some(comment) = line.trim_ascii_start().strip_prefix(b"#") else {
        return if line.trim_ascii().is_empty() { Sort::Comment } else { Sort::Program };
    };
    let first = comment.trim_ascii_start().split(|b| b.is_ascii_whitespace() || *b == b':').next().unwrap_or_default();
    let bare: Vec<u8> = first.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_uppercase).collect();
    // "# stagein brings the data" is prose; "# STAGEIN cp" and "#stagein cp" are slips.
    let shouted = !first.iter().any(u8::is_ascii_lowercase);
    let slip = shouted || !comment.starts_with(b" ");
    match bare.as_slice() {
        b"STAGEIN" if slip => Sort::NearMiss("#STAGEIN"),
        b"STAGEOUT" if slip => Sort::NearMiss("#STAGEOUT"),
        wrong if shouted && nearly(wrong, b"STAGEIN") => Sort::NearMiss("#STAGEIN"),
        wrong if shouted && nearly(wrong, b"STAGEOUT") => Sort::NearMiss("#STAGEOUT"),
        // The word alone is usual in prose.
        b"CHECKPOINT" | b"CHECKPOINTS" if comment.windows(6).any(|w| w == b" path=") => Sort::NearMiss(CHECKPOINT),
        _ => Sort::Comment,
    }
}

/// Whether two words differ in one letter (wrong, missing or extra), or in two adjacent ones that are swapped.
fn nearly(word: &[u8], wanted: &[u8]) -> bool {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let head = word.iter().zip(wanted).take_while(same).count();
    let (word, wanted) = (&word[head..], &wanted[head..]);
    let tail = word.iter().rev().zip(wanted.iter().rev()).take_while(same).count();
    matches!((word.len() - tail, wanted.len() - tail), (0 | 1, 0 | 1) | (2, 2))
}

/// Rest of the line, if it starts with exactly that word.
fn after_word<'a>(line: &'a [u8], word: &str) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(word.as_bytes())?;
    (rest.is_empty() || rest[0].is_ascii_whitespace()).then_some(rest)
}

impl Reader {
    fn complain(&mut self, line: u32, refusal: Refusal) {
        self.complaints.push(Complaint { line, cause: refusal.cause, mend: refusal.mend });
    }

    fn warn(&mut self, line: u32, cause: String, mend: &str) {
        self.head.warnings.push(Complaint { line, cause, mend: mend.into() });
    }

    fn line(&mut self, line: &[u8], number: u32, more: Lines<'_, '_>) {
        let read = match sort(line) {
            _ if number == 1 => self.interpreter(line),
            Sort::Staging(_) | Sort::Checkpoint | Sort::DataWarp(_) if self.past_head => Err(too_late(line)),
            Sort::Staging(kind) => return self.staging(kind, line, number, more),
            Sort::Checkpoint => return self.checkpoint(line, number),
            Sort::DataWarp(word) => return self.datawarp(word, line, number),
            Sort::Resource(word) => self.resource(word, line, number),
            Sort::NearMiss(word) if !self.past_head => Err(Refusal::new(
                format!("this looks like {word} but is an ordinary comment"),
                format!("write {word} at the start of the line, in capitals, and a space"),
            )),
            Sort::NoStaging => Err(Refusal::new(
                "#BB_LUA entrepot is followed by none of `stage in`, `stage out` and `checkpoint`",
                "write #BB_LUA entrepot stage in URI PATH, stage out PATH URI, or checkpoint path=PATTERN",
            )),
            Sort::NearMiss(_) | Sort::Comment => Ok(()),
            Sort::Program => {
                self.past_head = true;
                Ok(())
            }
        };
        self.keep(line);
        read.unwrap_or_else(|refusal| self.complain(number, refusal));
    }

    fn keep(&mut self, line: &[u8]) {
        self.head.compute_script.extend_from_slice(line);
    }

    fn blank(&mut self, line: &[u8]) {
        self.keep(if line.ends_with(b"\n") { b"#\n" } else { b"#" });
    }

    /// The kernel's rule: everything after the first blank is one argument.
    fn interpreter(&mut self, line: &[u8]) -> Result<()> {
        Err(match (line.strip_prefix(b"#!"), std::str::from_utf8(line)) {
            (None, _) => Refusal::new("the script does not start with #!", "write its interpreter first: #!/bin/bash"),
            (_, Err(_)) => Refusal::new("the name of the interpreter is not UTF-8", "write #!/bin/bash"),
            (_, Ok(text)) if text.contains('\r') => {
                Refusal::new("the lines end in CR LF", "save the script with Unix line ends (dos2unix)")
            }
            (_, Ok(text)) if text.contains('\0') => Refusal::new("the #! line holds a NUL", "write #!/bin/bash"),
            (Some(_), Ok(text)) => {
                let text = text[2..].trim();
                let (program, argument) = text.split_once([' ', '\t']).unwrap_or((text, ""));
                if program.starts_with('/') && text.len() < 256 {
                    self.head.interpreter = vec![program.to_string()];
                    if !argument.trim().is_empty() {
                        self.head.interpreter.push(argument.trim().to_string());
                    }
                    return Ok(());
                }
                Refusal::new(format!("{program:?} is no absolute path of an interpreter"), "write #!/bin/bash")
            }
        })
    }

    fn staging(&mut self, kind: PartKind, line: &[u8], number: u32, more: Lines<'_, '_>) {
        self.blank(line);
        let mut bytes = after_kind(line).to_vec();
        while let Some(open) = continued(&bytes) {
            bytes.truncate(open);
            let Some((next, at)) = more.next() else {
                let refusal = Refusal::new("the script ends in a continued directive", "remove the \\ at the end");
                return self.complain(number, refusal);
            };
            match sort(next) {
                Sort::Staging(other) if other != kind => {
                    self.keep(next);
                    let cause = format!("the directive of line {number} is continued by one of another kind");
                    return self.complain(at, Refusal::new(cause, "remove the \\ or use the same word"));
                }
                Sort::Program => self.warn(
                    at,
                    format!("this line belongs to the directive of line {number}, which ends in \\"),
                    "if it is a command of the job, remove that \\",
                ),
                _ => {}
            }
            self.blank(next);
            bytes.push(b' ');
            bytes.extend_from_slice(after_kind(next));
            if bytes.len() > words::DIRECTIVE_BYTES_MAX * 2 {
                break; // the splitter says why
            }
        }
        match read_staging(&bytes) {
            Ok((says, pattern)) => {
                if let Some(c) = pattern.filter(|_| matches!(says, Says::Command(_))) {
                    let cause = format!("the unquoted {c} goes to the command as it is: no shell replaces it by names");
                    self.warn(number, cause, "quote it if that is meant, else name the files");
                }
                self.head.directives.push(Directive { line: number, kind, says });
            }
            Err(refusal) => self.complain(number, refusal),
        }
    }

    fn checkpoint(&mut self, line: &[u8], number: u32) {
        self.blank(line);
        let line = line.trim_ascii_end();
        let ours = after_word(line, CHECKPOINT).or_else(|| {
            let ours = after_word(after_word(line, BB_LUA)?.trim_ascii_start(), "entrepot")?;
            after_word(ours.trim_ascii_start(), "checkpoint")
        });
        match text(ours.unwrap_or_default()).and_then(|text| checkpoint::read(number, text)) {
            Ok(checkpoint) => self.head.checkpoints.push(checkpoint),
            Err(refusal) => self.complain(number, refusal),
        }
    }

    fn datawarp(&mut self, word: &'static str, line: &[u8], number: u32) {
        self.blank(line);
        let rest = after_word(line.trim_ascii_end(), word).unwrap_or_default();
        match text(rest).and_then(|text| datawarp::read(number, word, text)) {
            Ok(datawarp::Line::Own(own)) => {
                if let Some(first) = self.head.datawarp.own.replace(own) {
                    let cause = format!("line {} requests the directory of the job already", first.line);
                    self.complain(number, Refusal::new(cause, "write one #DW jobdw line"));
                }
            }
            Ok(datawarp::Line::Persistent(one)) => self.head.datawarp.persistent.push(one),
            Ok(datawarp::Line::Stage(kind, argv)) => {
                self.datawarp_lines.push(number);
                self.head.directives.push(Directive { line: number, kind, says: Says::Command(argv) });
            }
            Err(refusal) => self.complain(number, refusal),
        }
    }

    /// Reports staging to or from a directory that no line requests.
    fn without_directory(&mut self) {
        let datawarp = &self.head.datawarp;
        let is_there = |name: &str| match name {
            datawarp::STRIPED => datawarp.own.as_ref().is_some_and(|own| own.striped),
            // A directory per node is ambiguous here.
            datawarp::PRIVATE => false,
            _ => datawarp.persistent.iter().any(|one| name.strip_prefix(datawarp::PERSISTENT) == Some(&one.name)),
        };
        let lines = self.head.directives.iter().filter(|directive| self.datawarp_lines.contains(&directive.line));
        let named = lines.filter_map(|directive| match &directive.says {
            Says::Command(argv) => {
                Some((directive.line, argv.iter().find_map(|word| datawarp::variable(word))?.0.to_string()))
            }
            _ => None,
        });
        let missing: Vec<_> = named.filter(|(_, name)| !is_there(name)).collect();
        for (line, name) in missing {
            let mend = match name.strip_prefix(datawarp::PERSISTENT) {
                Some(name) => format!("write #DW persistentdw name={name} above it"),
                None => "write #DW jobdw type=scratch access_mode=striped capacity=SIZE above it, and $DW_JOB_STRIPED"
                    .into(),
            };
            let cause = match name.as_str() {
                datawarp::PRIVATE => {
                    "data are staged to the directory that all nodes share, not to $DW_JOB_PRIVATE".into()
                }
                _ => format!("no line asks for the directory ${name}"),
            };
            self.complain(line, Refusal::new(cause, mend));
        }
    }

    fn resource(&mut self, word: &'static str, line: &[u8], number: u32) -> Result<()> {
        if self.past_head {
            if word == "#ENTREPOT" {
                return Err(too_late(line));
            }
            let cause = format!("{word} stands after the first command and is ignored, as the batch system does");
            self.warn(number, cause, "move it up, above the first command");
            return Ok(());
        }
        let text = text(after_word(line, word).unwrap_or_default())?;
        // A comment after the options is usual here, and harmless: it is not run.
        let words = shlex::split(text.trim()).ok_or_else(|| Refusal::new("a quote is not closed", "close it"))?;
        let foreign = match word {
            "#PBS" => self.theirs.read_pbs(&words),
            "#SBATCH" => self.theirs.read_slurm(&words),
            _ => self.ours.read_slurm(&words),
        }?;
        for option in foreign {
            if word == "#ENTREPOT" {
                let mend = "use -n CORES, -c CORES, -t TIME, -J NAME, --mail-type=END,FAIL,STAGE_OUT or \
                            --mail-user=ADDRESS";
                self.complain(number, Refusal::new(format!("{option:?} is no option of #ENTREPOT"), mend));
            } else if asks_for_array(word, &option) {
                self.head.arrays.push((number, format!("{word} {option}")));
            } else {
                let cause = format!("{option} has no effect here");
                self.warn(number, cause, "see docs/guide/jobs.md for options with an effect");
            }
        }
        Ok(())
    }

    fn finish(mut self) -> (Head, Vec<Complaint>) {
        let n_commands = self.head.directives.iter().filter(|d| matches!(d.says, Says::Command(_))).count();
        if n_commands > COMMANDS_MAX {
            let cause = format!("the script has {n_commands} staging commands, more than {COMMANDS_MAX}");
            self.complain(0, Refusal::new(cause, "use a manifest: entrepot stage in --manifest FILE"));
        }
        self.without_directory();
        self.head.own_resources = self.ours.clone();
        self.head.resources = self.ours.or(self.theirs);
        (self.head, self.complaints)
    }
}

fn too_late(line: &[u8]) -> Refusal {
    let word = String::from_utf8_lossy(line.split(u8::is_ascii_whitespace).next().unwrap_or_default());
    let cause = format!("{word} stands after the first command, where it would be ignored");
    Refusal::new(cause, "move it up, above the first command; if it is no directive, indent it")
}

/// Whether an option requests an array of jobs: Slurm's `--array`, `-J` of OpenPBS, `-t` of Torque.
fn asks_for_array(word: &str, option: &str) -> bool {
    let is = |name: &str| option.starts_with(name) && !option.starts_with("--");
    match word {
        "#SBATCH" => is("-a") || option == "--array" || option.starts_with("--array="),
        _ => is("-J") || is("-t"),
    }
}

/// The line without its end and its directive word. A continued line also loses the `#` of a comment.
fn after_kind(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    after_word(line, "#STAGEIN")
        .or_else(|| after_word(line, "#STAGEOUT"))
        .or_else(|| after_word(line, BB_LUA))
        .or_else(|| line.strip_prefix(b"# "))
        .unwrap_or(line)
}

/// Position of the `\` that continues the line, if it is not itself escaped.
fn continued(bytes: &[u8]) -> Option<usize> {
    let n_backslashes = bytes.iter().rev().take_while(|b| **b == b'\\').count();
    (n_backslashes % 2 == 1).then(|| bytes.len() - 1)
}

fn text(bytes: &[u8]) -> Result<&str> {
    if bytes.contains(&0) {
        return Err(Refusal::new("the line holds a NUL", "remove it"));
    }
    std::str::from_utf8(bytes).map_err(|_| Refusal::new("the line is not UTF-8", "rename the file, or use a manifest"))
}

fn read_staging(bytes: &[u8]) -> Result<(Says, Option<char>)> {
    let words::Fields { words, pattern } = words::split(text(bytes)?)?;
    let Some(first) = words.first() else {
        return Err(Refusal::new("the directive is empty", "write a command after it, or remove the line"));
    };
    let says = if matches!(first.as_str(), "-retry" | "--retry") {
        let retries = match words.as_slice() {
            [_, n] => n.parse().ok().filter(|n| *n <= RETRIES_MAX),
            _ => None,
        };
        Says::Retry(retries.ok_or_else(|| {
            Refusal::new(
                format!("{first} takes one number up to {RETRIES_MAX} and nothing else"),
                "write -retry N on a line of its own; it holds for all commands of the same kind",
            )
        })?)
    } else if first.starts_with('-') {
        Says::Parameters(words)
    } else if first.is_empty() {
        return Err(Refusal::new("the command is an empty word", "write the program's name first"));
    } else if first.contains('=') {
        let mend = format!("write: env {first} COMMAND ...");
        return Err(Refusal::new(format!("{first:?} sets a variable, which only a shell does"), mend));
    } else {
        Says::Command(words)
    };
    Ok((says, pattern))
}

#[cfg(test)]
mod tests;
