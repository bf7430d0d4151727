//! A command line tried out by itself: the help, manual pages and completions of all its commands, and how it refuses.

#[path = "reference.rs"]
mod reference;

use std::process::{Command, Output};

/// A binary with all its commands, the binary alone among them.
pub struct Words {
    pub binary: &'static str,
    pub commands: &'static [&'static [&'static str]],
}

/// Stands for a path that another user may not look at.
pub const CLOSED: &str = "CLOSED";

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

impl Words {
    fn name(&self) -> &str {
        self.binary.rsplit_once('/').expect("a path").1
    }

    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(self.binary);
        // Whatever is mounted on this machine is not what these tests are about.
        command.args(args).env_remove("ENTREPOT_VOLUME").env_remove("COLUMNS").env("NO_COLOR", "1").current_dir("/");
        command.output().expect("the binary runs")
    }

    /// An error has its three parts, and the exit code that is documented for it.
    pub fn refused(&self, args: &[&str], code: i32, cause: &str) {
        let output = self.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        for part in ["error: ", "  so:   ", "  next: ", cause] {
            assert!(said.contains(part), "{args:?} lacks {part:?}: {said}");
        }
    }

    /// Checks that another user gets an error of permission for [`CLOSED`], a path in a directory of ours.
    pub fn denied(&self, commands: &[&[&str]]) {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: needs root to be somebody who may not");
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(dir.path(), open(0o755)).expect("chmod");
        let (binary, closed) = (dir.path().join("entrepot"), dir.path().join("closed"));
        let copied = Command::new("cp").arg(self.binary).arg(&binary).status();
        assert!(copied.expect("cp").success());
        std::fs::create_dir(&closed).expect("directory");
        std::fs::set_permissions(&closed, open(0o700)).expect("chmod");
        let inner = closed.join("x");
        for words in commands {
            let words = words.iter().map(|word| if *word == CLOSED { inner.as_os_str() } else { word.as_ref() });
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&binary).args(words);
            let output = command.env_remove("ENTREPOT_VOLUME").current_dir("/").output().expect("setpriv runs");
            assert_eq!(output.status.code(), Some(4), "{command:?}: {}", text(&output.stderr));
        }
    }

    pub fn every_command_has_help_with_an_example(&self) {
        let (example, usage) = (format!("EXAMPLES:\n  {}", self.name()), format!("Usage: {}", self.name()));
        for command in self.commands {
            for flag in ["--help", "-h"] {
                let output = self.run(&[command, &[flag][..]].concat());
                let help = text(&output.stdout);
                assert!(output.status.success(), "{command:?}");
                assert!(help.contains(&example), "{command:?} has no example:\n{help}");
                assert!(help.contains(&usage), "{command:?}:\n{help}");
            }
        }
    }

    pub fn no_command_is_missing(&self) {
        for command in self.commands {
            let help = text(&self.run(&[command, &["--help"][..]].concat()).stdout);
            let Some((_, list)) = help.split_once("\nCommands:\n") else { continue };
            let list = list.lines().take_while(|l| !l.is_empty());
            for line in list.filter(|l| l.starts_with("  ") && !l.starts_with("   ")) {
                let name = line.split_whitespace().next().expect("a name");
                let full = [command, &[name][..]].concat();
                assert!(name == "help" || self.commands.contains(&full.as_slice()), "{full:?} is not tested");
            }
        }
    }

    /// The help of every command stands in docs/reference.
    pub fn the_reference_has_every_command(&self) {
        let name = self.name();
        let mut page = format!(
            "# Commands of `{name}`\n\nWritten by `make reference` from the help of the program; a test compares them.\n"
        );
        for command in self.commands {
            let help = text(&self.run(&[command, &["--help"][..]].concat()).stdout);
            let title = [&[name], *command].concat().join(" ");
            let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
            page.push_str(&format!("\n## {title}\n```text\n{}\n```\n", lines.join("\n")));
        }
        reference::held(&format!("{name}.md"), &page);
    }

    pub fn exit_codes_are_documented(&self) {
        let help = text(&self.run(&["--help"]).stdout);
        let codes =
            ["0 done", "1 failed", "2 wrong input", "3 no daemon", "4 not allowed", "5 not found", "6 in use", "7 "];
        for code in codes {
            assert!(help.contains(code), "{code} is not in the help");
        }
    }

    /// Completions hold these words, and each command has a manual page with examples.
    pub fn completions_and_manual_pages_are_complete(&self, words: &[&str]) {
        for shell in ["bash", "zsh", "fish"] {
            let script = text(&self.run(&["completions", shell]).stdout);
            assert!(words.iter().all(|word| script.contains(word)), "{shell}");
        }
        let dir = tempfile::tempdir().expect("temp dir");
        assert!(self.run(&["man", dir.path().to_str().expect("UTF-8")]).status.success());
        for command in self.commands {
            let page = dir.path().join(format!("{}.1", [&[self.name()], *command].concat().join("-")));
            let page = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
            assert!(page.contains("EXAMPLES"), "{command:?}");
        }
        let pages = std::fs::read_dir(dir.path()).expect("pages").count();
        assert_eq!(pages, self.commands.len(), "what is hidden has no page");
    }
}
