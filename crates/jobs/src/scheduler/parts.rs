//! The scripts of the data parts: each command in a loop of its retries, the status of its last try counts.

use crate::plan::Part;
use crate::request::{JobId, PartKind};

/// A data part as a script for `/bin/sh`. `program` stands for the word `entrepot`; `environment` is set first. A stage-in
/// begins when space is promised to what it brings. Its end tells the daemon, which records sources and looks at the data: only
/// then does it succeed.
pub fn script(part: &Part, job: JobId, program: &str, environment: &[(String, String)]) -> String {
    let mut text = format!("#!/bin/sh\n# The {} part of job {job}, written by Entrepot.\n", part.kind);
    for (name, value) in environment {
        text += &format!("{name}={}\nexport {name}\n", quoted(value));
    }
    text += &format!(
        "try() {{\n    n=0\n    while :; do\n        \"$@\" && return 0\n        status=$?\n        n=$((n + 1))\n        \
         [ $n -gt {} ] && exit $status\n        echo \"entrepot: try $n ended with $status, again\" >&2\n    done\n}}\n",
        part.retries
    );
    if part.kind == PartKind::StageIn {
        text += &format!("{} job admit {job} || exit\n", quoted(program));
    }
    for command in &part.commands {
        let words = command.argv.iter().enumerate().map(|(at, word)| {
            let word = if at == 0 && word == "entrepot" { program } else { word };
            quoted(word)
        });
        text += &format!("try {}\n", words.collect::<Vec<_>>().join(" "));
    }
    if part.kind == PartKind::StageIn {
        text += &format!("{} job staged {job} || exit\n", quoted(program));
    }
    text
}

/// One word for a shell, whatever it holds.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Command, Queue};

    /// [S-087]
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
        let run = |text: &str| {
            let done = std::process::Command::new("sh").arg("-c").arg(text).current_dir(dir.path()).output().unwrap();
            (done.status.code(), String::from_utf8(done.stdout).unwrap())
        };
        let odd = "a'b $(touch oops) \"c\" *";
        let fails = command(3, &["sh", "-c", "echo x; exit 7"]);
        let text = script(&part(PartKind::StageOut, vec![command(2, &["echo", odd]), fails]), JobId(4), "/e", &[]);
        assert_eq!(run(&text), (Some(7), format!("{odd}\nx\nx\nx\n")));
        assert!(!dir.path().join("oops").exists());
        let environment = [("V".to_string(), "it's".to_string())];
        let commands = vec![command(2, &["entrepot", "stage"]), command(3, &["sh", "-c", "echo $V"])];
        let text = script(&part(PartKind::StageIn, commands), JobId(4), "echo", &environment);
        assert_eq!(run(&text), (Some(0), "job admit 4\nstage\nit's\njob staged 4\n".into()));
    }
}
