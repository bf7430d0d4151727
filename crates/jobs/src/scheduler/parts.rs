//! The scripts of the data parts: each command in a loop of its retries, with the pauses of
//! `policy::schedule::staging`; the status of its last try counts.

use crate::exec::{FOREIGN_FOR_GOOD, OURS_FOR_GOOD};
use crate::plan::run_words;
use crate::request::{JobId, Part, PartKind};
use policy::schedule::staging::{PAUSE_MAX, PAUSE_MIN};
use std::path::Path;

/// A data part as a script for `/bin/sh`. `program` replaces the word `entrepot`; `environment` is set first. A
/// stage-in begins when space is promised to its data. At its end it calls the daemon, which records sources and
/// checks the data: only then does it succeed.
pub fn script(part: &Part, job: JobId, program: &str, environment: &[(String, String)]) -> String {
    let mut text = format!("#!/bin/sh\n# The {} part of job {job}, written by Entrepot.\n", part.kind);
    for (name, value) in environment {
        text += &format!("{name}={}\nexport {name}\n", quoted(value));
    }
    let secs = |span: policy::Time| span.0 / 1_000_000_000;
    text += &format!(
        r#"# Words: the statuses with which no further try helps, then the command.
try() {{
    lasting=$1
    shift
    n=0
    pause={}
    while :; do
        "$@" && return 0
        status=$?
        n=$((n + 1))
        [ $n -gt {} ] && exit $status
        case " $lasting " in *" $status "*) exit $status ;; esac
        echo "entrepot: try $n ended with $status, again in $pause s" >&2
        sleep $pause
        pause=$((pause * 2))
        [ $pause -gt {} ] && pause={}
    done
}}
"#,
        secs(PAUSE_MIN),
        part.retries,
        secs(PAUSE_MAX),
        secs(PAUSE_MAX),
    );
    if part.kind == PartKind::StageIn {
        text += &format!("{} job admit {job} || exit\n", quoted(program));
    }
    for command in &part.commands {
        let ours = command.argv.first().is_some_and(|word| word == "entrepot");
        let lasting: &[u8] = if ours { &OURS_FOR_GOOD } else { &FOREIGN_FOR_GOOD };
        let lasting = lasting.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
        let words = run_words(&command.argv, Path::new(program), None);
        let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>();
        text += &format!("try {} {}\n", quoted(&lasting), words.join(" "));
    }
    if part.kind == PartKind::StageIn {
        text += &format!("{} job staged {job} || exit\n", quoted(program));
    }
    text
}

/// Quotes a word for a shell, whatever it contains.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Command, Queue};

    /// [S-063] [S-087]
    #[test]
    fn commands_are_tried_again_and_words_stay_words() {
        let dir = tempfile::tempdir().unwrap();
        let command = |line, argv: &[&str]| Command {
            line,
            argv: argv.iter().map(|word| word.to_string()).collect(),
            sources: Vec::new(),
        };
        let part = |kind, commands| Part {
            kind,
            queue: Queue::Dataxfer,
            after: None,
            cores: 0,
            walltime_s: 60,
            retries: 2,
            commands,
            parameters: Vec::new(),
        };
        // The pauses are only printed.
        let run = |text: &str| {
            let text = text.replace("try() {", "sleep() { echo \"z $1\"; }\ntry() {");
            let done = std::process::Command::new("sh").arg("-c").arg(text).current_dir(dir.path()).output().unwrap();
            (done.status.code(), String::from_utf8(done.stdout).unwrap())
        };
        let odd = "a'b $(touch oops) \"c\" *";
        let fails = command(3, &["sh", "-c", "echo x; exit 7"]);
        let text = script(&part(PartKind::StageOut, vec![command(2, &["echo", odd]), fails]), JobId(4), "/e", &[]);
        assert_eq!(run(&text), (Some(7), format!("{odd}\nx\nz 1\nx\nz 2\nx\n")));
        let gone = command(2, &["sh", "-c", "echo x; exit 127"]);
        let text = script(&part(PartKind::StageOut, vec![gone]), JobId(4), "/e", &[]);
        assert_eq!(run(&text), (Some(127), "x\n".into()), "there is no such program the next time either");
        let ours = command(2, &["entrepot", "-c", "echo x; exit 5"]);
        let text = script(&part(PartKind::StageOut, vec![ours]), JobId(4), "sh", &[]);
        assert_eq!(run(&text), (Some(5), "x\n".into()), "nor is the file");
        assert!(!dir.path().join("oops").exists());
        let environment = [("V".to_string(), "it's".to_string())];
        let commands = vec![command(2, &["entrepot", "stage", "in", "u", "p"]), command(3, &["sh", "-c", "echo $V"])];
        let text = script(&part(PartKind::StageIn, commands), JobId(4), "echo", &environment);
        assert_eq!(run(&text), (Some(0), "job admit 4\nstage in --keep u p\nit's\njob staged 4\n".into()));
    }
}
