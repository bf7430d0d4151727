//! `#DW` and `#BB` lines, as in scripts for Cray's DataWarp and for Slurm's plug-in for it: a directive with an
//! equivalent here is translated, any other is refused with a message that names it.
//!
//! ```text
//! #DW jobdw type=scratch access_mode=striped capacity=10GB      a directory of the job in the volume
//! #DW stage_in type=file source=/home/me/a destination=$DW_JOB_STRIPED/a     entrepot stage in file:///home/me/a ...
//! ```
//! Source: Slurm's burst buffer guide, and the words of DataWarp's user guide.

use super::words::{Refusal, Result};
use crate::request::{JobDirectory, PartKind, Persistent};
use engine::source::encoded;

/// The variable of the directory that all nodes of a job share.
pub const STRIPED: &str = "DW_JOB_STRIPED";
/// The variable of the directory that each node has for itself.
pub const PRIVATE: &str = "DW_JOB_PRIVATE";
/// Prefix of the variables of persistent directories.
pub const PERSISTENT: &str = "DW_PERSISTENT_STRIPED_";

/// Content of a DataWarp line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The job requests a directory of its own.
    Own(JobDirectory),
    /// The job uses a persistent directory.
    Persistent(Persistent),
    /// Data are staged in or out. The words name directories by their variables.
    Stage(PartKind, Vec<String>),
}

/// Splits a word that begins with a variable, `$NAME/rest` or `${NAME}/rest`, into name and rest.
pub fn variable(word: &str) -> Option<(&str, &str)> {
    let word = word.strip_prefix('$')?;
    let (name, rest) = match word.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => word.split_at(word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len())),
    };
    let is_ours = name == STRIPED || name == PRIVATE || name.starts_with(PERSISTENT);
    (is_ours && (rest.is_empty() || rest.starts_with('/'))).then_some((name, rest))
}

/// Parses the text after `#DW` or `#BB`.
pub(super) fn read(line: u32, word: &str, text: &str) -> Result<Line> {
    let closed = |text| shlex::split(text).ok_or_else(|| Refusal::new("a quote is not closed", "close it"));
    if let Some(c) = text.trim_end().chars().find(|c| c.is_control() && *c != '\t') {
        let cause = format!("the directive holds the control character {}", c.escape_default());
        return Err(Refusal::new(cause, "remove it"));
    }
    let all = closed(text)?;
    let Some((verb, rest)) = all.split_first() else {
        return Err(Refusal::new(format!("{word} is empty"), "remove the line"));
    };
    let mut words = Fields::read(&format!("{word} {verb}"), rest)?;
    let read = match (word, verb.as_str()) {
        ("#DW", "jobdw") => own(line, &mut words)?,
        ("#DW", "persistentdw") => {
            Line::Persistent(Persistent { line, name: words.name()?, create_bytes: None, path: None })
        }
        ("#DW", "stage_in") => stage_in(&mut words)?,
        ("#DW", "stage_out") => stage_out(&mut words)?,
        ("#BB", "create_persistent") => create(line, &mut words)?,
        ("#BB", "destroy_persistent") => {
            let name = words.name()?;
            return Err(Refusal::new(
                format!("{word} {verb} would remove {name}, which other jobs may use"),
                format!(
                    "remove the line, and the directory yourself when no job needs it: a script finds it as \
                     ${PERSISTENT}{name}"
                ),
            ));
        }
        (_, "swap") => {
            let cause = format!("{word} swap asks for swap space, which a volume does not lend");
            return Err(Refusal::new(cause, "remove the line, and ask the scheduler for more memory"));
        }
        _ => {
            let known = if word == "#DW" { "jobdw, persistentdw, stage_in and stage_out" } else { "create_persistent" };
            return Err(Refusal::new(
                format!("{word} {verb} is not understood: known lines are {known}"),
                "write #STAGEIN or #STAGEOUT lines instead (docs/guide/jobs.md), or remove it",
            ));
        }
    };
    words.no_more()?;
    Ok(read)
}

fn own(line: u32, words: &mut Fields) -> Result<Line> {
    words.is_scratch()?;
    let capacity_bytes = words.capacity()?;
    let access = words.take("access_mode").unwrap_or_else(|| "striped".into());
    let (mut striped, mut private) = (false, false);
    for mode in access.split(',') {
        match mode {
            "striped" => striped = true,
            "private" => private = true,
            _ => {
                let cause = format!("{} has no access_mode={mode}", words.of);
                return Err(Refusal::new(cause, "write access_mode=striped, or private, or both with a comma"));
            }
        }
    }
    words.drop_pool();
    Ok(Line::Own(JobDirectory { line, capacity_bytes, striped, private, leaves: false, path: None }))
}

fn create(line: u32, words: &mut Fields) -> Result<Line> {
    words.is_scratch()?;
    let name = words.name()?;
    let create_bytes = Some(words.capacity()?);
    let access = words.take("access_mode").or_else(|| words.take("access")).unwrap_or_else(|| "striped".into());
    if access != "striped" {
        let cause = format!("{} has no access_mode={access}", words.of);
        return Err(Refusal::new(cause, "write access_mode=striped"));
    }
    words.drop_pool();
    Ok(Line::Persistent(Persistent { line, name, create_bytes, path: None }))
}

fn stage_in(words: &mut Fields) -> Result<Line> {
    let is_directory = words.is_directory()?;
    let (source, destination) = (words.must("source")?, words.must("destination")?);
    let uri = words.uri("source", &source)?;
    let destination = words.in_a_directory("destination", destination)?;
    let mut argv: Vec<String> = ["entrepot", "stage", "in"].map(String::from).into();
    argv.extend(is_directory.then(|| "--directory".into()));
    argv.extend([uri, destination]);
    Ok(Line::Stage(PartKind::StageIn, argv))
}

fn stage_out(words: &mut Fields) -> Result<Line> {
    words.is_directory()?;
    let (source, destination) = (words.must("source")?, words.must("destination")?);
    let source = words.in_a_directory("source", source)?;
    let uri = words.uri("destination", &destination)?;
    Ok(Line::Stage(PartKind::StageOut, ["entrepot".into(), "stage".into(), "out".into(), source, uri].into()))
}

/// `KEY=VALUE` words of a line; each key may be taken once.
struct Fields {
    /// The line's own words, for messages.
    of: String,
    left: Vec<(String, String)>,
}

impl Fields {
    fn read(of: &str, words: &[String]) -> Result<Fields> {
        let mut left: Vec<(String, String)> = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if left.iter().any(|(known, _)| known == key) {
                return Err(Refusal::new(format!("{of} sets {key} twice"), "set it once"));
            }
            left.push((key.into(), value.into()));
        }
        Ok(Fields { of: of.into(), left })
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.left.iter().position(|(known, _)| known == key)?;
        Some(self.left.remove(at).1)
    }

    fn must(&mut self, key: &str) -> Result<String> {
        let value = self.take(key).filter(|value| !value.is_empty());
        value.ok_or_else(|| Refusal::new(format!("{} lacks {key}=", self.of), format!("write {key}=VALUE")))
    }

    fn no_more(&self) -> Result<()> {
        let Some((key, _)) = self.left.first() else { return Ok(()) };
        Err(Refusal::new(format!("{} with {key} is not understood", self.of), format!("remove {key}")))
    }

    /// Ignores the pool: the volume decides where space is allocated.
    fn drop_pool(&mut self) {
        self.take("pool");
    }

    fn is_scratch(&mut self) -> Result<()> {
        match self.take("type").as_deref() {
            None | Some("scratch") => Ok(()),
            Some("cache") => Err(Refusal::new(
                format!("{} type=cache stands for a cache before a parallel file system", self.of),
                "write type=scratch, and bring the data by stage_in",
            )),
            Some(other) => Err(Refusal::new(format!("{} has no type={other}", self.of), "write type=scratch")),
        }
    }

    fn is_directory(&mut self) -> Result<bool> {
        match self.must("type")?.as_str() {
            "file" => Ok(false),
            "directory" => Ok(true),
            "list" => Err(Refusal::new(
                format!("{} type=list reads a list that has another form here", self.of),
                "write lines `URI PATH` into a file: #STAGEIN entrepot stage in --manifest FILE",
            )),
            other => Err(Refusal::new(format!("{} has no type={other}", self.of), "write type=file or type=directory")),
        }
    }

    fn capacity(&mut self) -> Result<u64> {
        let said = self.must("capacity")?;
        let bytes = policy::units::bytes(&said).filter(|bytes| *bytes > 0);
        bytes.ok_or_else(|| Refusal::new(format!("capacity={said} is no size"), "write a size such as capacity=10GiB"))
    }

    fn name(&mut self) -> Result<String> {
        let name = self.must("name")?;
        if name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Ok(name);
        }
        let cause = format!("name={name} cannot be the end of a variable's name");
        Err(Refusal::new(cause, "write at most 64 letters, digits and underscores"))
    }

    /// A place outside the volume as a URI.
    fn uri(&self, key: &str, place: &str) -> Result<String> {
        if place.contains(['$', '`']) {
            let cause = format!("{key}={place} holds a variable, which no shell replaces here");
            return Err(Refusal::new(cause, "write the value out"));
        }
        if place.contains("://") {
            return Ok(place.into());
        }
        if !place.starts_with('/') {
            return Err(Refusal::new(format!("{key}={place} is no absolute path"), "write the whole path"));
        }
        Ok(format!("file://{}", encoded(place)))
    }

    /// A place below one of the directories that have variables.
    fn in_a_directory(&self, key: &str, place: String) -> Result<String> {
        match variable(&place) {
            Some((name, rest)) if !rest.split('/').any(|part| part == "..") => Ok(format!("${name}{rest}")),
            _ => Err(Refusal::new(
                format!("{key}={place} does not begin with a directory of the job"),
                format!("write {key}=$DW_JOB_STRIPED/NAME, or $DW_PERSISTENT_STRIPED_NAME/..."),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(line: &str) -> String {
        match read(1, "#DW", line).expect(line) {
            Line::Stage(kind, argv) => format!("{kind}: {}", argv.join(" ")),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// [S-235]
    #[test]
    fn lines_that_have_a_like_here_are_turned_into_it() {
        let own =
            read(3, "#DW", "jobdw type=scratch capacity=10GiB access_mode=striped,private pool=wlm").expect("good");
        let expected =
            JobDirectory { line: 3, capacity_bytes: 10 << 30, striped: true, private: true, leaves: false, path: None };
        assert_eq!(own, Line::Own(expected));
        let created = read(2, "#BB", "create_persistent name=alpha capacity=1GiB access=striped type=scratch");
        let alpha = Persistent { line: 2, name: "alpha".into(), create_bytes: Some(1 << 30), path: None };
        assert_eq!(created, Ok(Line::Persistent(alpha)));
        assert_eq!(
            staged("stage_in type=file source=/h/a%b destination=${DW_JOB_STRIPED}/a"),
            "stage-in: entrepot stage in file:///h/a%25b $DW_JOB_STRIPED/a"
        );
        assert_eq!(
            staged("stage_in type=directory source=https://h/d destination=$DW_PERSISTENT_STRIPED_alpha/d"),
            "stage-in: entrepot stage in --directory https://h/d $DW_PERSISTENT_STRIPED_alpha/d"
        );
        assert_eq!(
            staged("stage_out type=file destination='/h/my out' source=$DW_JOB_STRIPED/out"),
            "stage-out: entrepot stage out $DW_JOB_STRIPED/out file:///h/my%20out"
        );
    }

    /// [S-235]
    #[test]
    fn all_else_is_refused_by_its_name() {
        for (word, line, cause) in [
            ("#DW", "", "is empty"),
            ("#DW", "swap 10GiB", "swap space"),
            ("#DW", "jobdw type=cache capacity=1GiB pfs=/lus", "type=cache"),
            ("#DW", "jobdw type=scratch", "lacks capacity="),
            ("#DW", "jobdw type=scratch capacity=much", "capacity=much"),
            ("#DW", "jobdw capacity=1GiB access_mode=ldbalance", "access_mode=ldbalance"),
            ("#DW", "jobdw capacity=1GiB modified_threshold=1", "modified_threshold"),
            ("#DW", "stage_in type=list source=/h/l destination=$DW_JOB_STRIPED/", "type=list"),
            ("#DW", "stage_in type=file source=$HOME/a destination=$DW_JOB_STRIPED/a", "holds a variable"),
            ("#DW", "stage_in type=file source=a destination=$DW_JOB_STRIPED/a", "no absolute path"),
            ("#DW", "stage_in type=file source=/a destination=/elsewhere", "destination=/elsewhere"),
            ("#DW", "stage_in type=file source=/a destination=$DW_JOB_STRIPED/../a", "does not begin"),
            ("#DW", "stage_in type=file source=/a destination=$DW_JOB_STRIPEDa", "does not begin"),
            ("#DW", "persistentdw name=a/b", "name=a/b"),
            ("#DW", "stage_perf x=1", "stage_perf is not understood"),
            ("#BB", "destroy_persistent name=alpha hurry", "destroy_persistent would remove alpha"),
            ("#BB", "capacity=1GiB", "not understood"),
        ] {
            let refusal = read(1, word, line).expect_err(line);
            assert!(refusal.cause.contains(cause) && !refusal.mend.is_empty(), "{line}: {refusal:?}");
        }
    }
}
