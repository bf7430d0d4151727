//! The command blocks of README.md and of the pages in docs/ run as they are printed, one after the other, on a machine
//! without a network.
//!
//! A fenced block of the language `sh` holds commands. Before it, a line `<!-- not run: why -->` leaves it out, and a
//! line `<!-- given: commands -->` makes what it takes for granted. A block of the language `bash` is a job script:
//! `entrepot job plan` reads it. Everything else that is set as code is `toml` or `text`.

#[path = "house/folders.rs"]
mod folders;
#[path = "house/laboratory.rs"]
mod laboratory;

use folders::{folder_of, root};
use laboratory::laboratory;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const LANGUAGES: &[&str] = &["sh", "bash", "toml", "text"];

/// All text files below one path of the workspace, by their names from its root.
fn texts(below: &str, found: &mut Vec<(String, String)>) {
    let path = root().join(below);
    let Ok(entries) = std::fs::read_dir(&path) else {
        found.extend(std::fs::read_to_string(&path).ok().map(|text| (below.to_owned(), text)));
        return;
    };
    for entry in entries.flatten() {
        texts(&format!("{below}/{}", entry.file_name().to_string_lossy()), found);
    }
}

/// README.md, CONTRIBUTING.md and all pages in docs/, with their names.
fn pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    ["README.md", "CONTRIBUTING.md", "docs"].iter().for_each(|below| texts(below, &mut found));
    found.retain(|(name, _)| name.ends_with(".md"));
    found.sort();
    found
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The line of its opening fence, from 1.
    line: usize,
    language: String,
    text: String,
    not_run: Option<String>,
    given: Option<String>,
}

/// The blocks of a page, and what is wrong with how they are marked.
fn blocks(page: &str) -> (Vec<Block>, Vec<String>) {
    let (mut blocks, mut wrong): (Vec<Block>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut inside, mut before, mut not_run, mut given) = (false, "", None, None);
    for (n, line) in page.lines().enumerate().map(|(n, line)| (n + 1, line)) {
        let comment = |kind: &str| {
            let said = line.strip_prefix(&format!("<!-- {kind}: "))?.strip_suffix(" -->")?;
            Some(said.trim().to_owned())
        };
        if let Some(language) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                if !LANGUAGES.contains(&language) {
                    wrong.push(format!("{n}: a block of the language `{language}`, which is none of {LANGUAGES:?}"));
                }
                let (not_run, given) = (not_run.take(), given.take());
                blocks.push(Block { line: n, language: language.into(), text: String::new(), not_run, given });
            }
        } else if inside {
            let block = blocks.last_mut().expect("it was opened");
            block.text.extend([line, "\n"]);
        } else if let Some(why) = comment("not run") {
            not_run = Some(why);
        } else if let Some(commands) = comment("given") {
            given = Some(commands);
        } else {
            if not_run.take().is_some() || given.take().is_some() {
                wrong.push(format!("{n}: a mark that no block follows"));
            }
            if line.starts_with("    ") && before.is_empty() {
                wrong.push(format!("{n}: indented code: fence it"));
            }
        }
        before = line;
    }
    if inside {
        wrong.push("the last block has no end".into());
    }
    for block in &blocks {
        let command = |line: &&str| {
            ["entrepot ", "entrepot-lab ", "make ", "cargo ", "$ "].iter().any(|first| line.starts_with(first))
        };
        if block.language == "text" && block.text.lines().any(|line| command(&line)) {
            wrong.push(format!("{}: commands in a block of `text`", block.line));
        }
        if block.language == "toml"
            && let Err(error) = block.text.parse::<toml::Table>()
        {
            wrong.push(format!("{}: {error}", block.line));
        }
        if block.not_run.as_ref().is_some_and(|why| why.len() < 12) {
            wrong.push(format!("{}: say why it is not run", block.line));
        }
    }
    (blocks, wrong)
}

#[test]
fn marks_are_read_as_they_are_meant() {
    let (found, wrong) =
        blocks("<!-- given: mkdir a -->\n```sh\nls a\n```\n<!-- not run: takes an hour -->\n```sh\nmake test\n```\n");
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!((found[0].given.as_deref(), &*found[0].text, found[0].line), (Some("mkdir a"), "ls a\n", 2));
    assert_eq!((found[0].not_run.as_deref(), found[1].not_run.as_deref()), (None, Some("takes an hour")));
    let bad = [
        "```\nx\n```\n",
        "text\n\n    entrepot up\n",
        "<!-- not run: for a reason -->\nno block\n",
        "```text\nentrepot up\n```\n",
        "```sh\n",
    ];
    for page in bad {
        assert_eq!(blocks(page).1.len(), 1, "{page}");
    }
}

#[test]
fn every_block_says_what_it_is() {
    let mut wrong = Vec::new();
    for (name, page) in pages() {
        wrong.extend(blocks(&page).1.into_iter().map(|what| format!("{name}:{what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Code, help and errors name pages of docs/ by their path from the root; a page may link to those beside it.
#[test]
fn every_page_that_is_named_is_there() {
    let mut sources = pages();
    ["crates", "lab", "demo", "grids", "benches", "scripts"].iter().for_each(|below| texts(below, &mut sources));
    let mut wrong = Vec::new();
    for (name, text) in sources {
        for (at, _) in text.match_indices("docs/") {
            let path: String =
                text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || "/._-".contains(*c)).collect();
            let Some(end) = path.find(".md") else { continue };
            if !root().join(&path[..end + 3]).exists() {
                wrong.push(format!("{name}: {path}"));
            }
        }
    }
    for (name, text) in pages() {
        for (at, _) in text.match_indices("](") {
            let link = text[at + 2..].split(')').next().unwrap_or_default();
            let beside = root().join(&name).with_file_name(link.split('#').next().unwrap_or_default());
            if link.contains(".md") && !link.contains("://") && !beside.exists() {
                wrong.push(format!("{name}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "pages that are not there:\n{}", wrong.join("\n"));
}

/// A page of results has one table of the newest run and its conclusions; older runs are in the history of the repository.
#[test]
fn a_page_of_results_is_short() {
    let overviews = ["STATUS.md", "appendix.md"];
    let mut wrong = Vec::new();
    for (name, text) in pages() {
        let Some(page) = name.strip_prefix("docs/results/").filter(|page| !page.contains('/')) else { continue };
        let tables = text.lines().filter(|line| line.starts_with("|---")).count();
        if !overviews.contains(&page) && (text.lines().count() > 60 || tables != 1) {
            wrong.push(format!("{name}: {} lines, {tables} tables", text.lines().count()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs all blocks of a page in a scratch directory, on a machine that has no network, no other mounts, and `/mnt` and
/// `/srv` of its own.
fn run(name: &str) {
    let can = rustix::process::geteuid().is_root()
        && Path::new("/dev/fuse").exists()
        && Path::new("/usr/bin/unshare").exists();
    if !can {
        return eprintln!("skipped: needs root, /dev/fuse and unshare");
    }
    let page = std::fs::read_to_string(root().join(name)).expect("a page");
    let dir = tempfile::Builder::new().prefix("entrepot-guide").tempdir().expect("temp dir");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
    for below in ["bin", "here", "home", "mnt", "srv"] {
        std::fs::create_dir(dir.path().join(below)).expect("directory");
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_entrepot"));
    // By another process: a child that another test forks just now would keep ours open for writing, and busy.
    let copied = Command::new("cp").args([binary, &laboratory(binary), &dir.path().join("bin")]).status();
    assert!(copied.expect("cp").success());
    let mut script = String::from(
        "set -eu\n\
         ip link set lo up\n\
         awk '$3 == \"fuse.entrepot\" {print $2}' /proc/self/mounts | xargs -r -n 1 umount -l || true\n\
         mount --bind \"$1/mnt\" /mnt\n\
         mount --bind \"$1/srv\" /srv\n\
         cd \"$1/here\"\n\
         set +u\n",
    );
    let mut ran = 0;
    for block in blocks(&page).0.into_iter().filter(|block| block.not_run.is_none()) {
        let said = format!("echo '=== {name}:{}' >&2\n", block.line);
        let given = block.given.map_or(String::new(), |given| format!("{given}\n"));
        match &*block.language {
            "sh" => script.extend([&*said, &given, &block.text]),
            "bash" => {
                let file = format!("script-{}.sh", block.line);
                std::fs::write(dir.path().join("here").join(&file), &block.text).expect("script");
                script.extend([&*said, &given, &format!("entrepot job plan {file}\n")]);
            }
            _ => continue,
        }
        ran += 1;
    }
    assert!(ran > 0, "{name} has commands");
    script.push_str("echo '=== the end' >&2\nentrepot down --force >/dev/null 2>&1 || true\n");
    std::fs::write(dir.path().join("script"), script).expect("script");
    let mut alone = Command::new("unshare");
    alone.args([
        "--mount",
        "--propagation",
        "private",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--",
    ]);
    alone.arg("bash").arg("-x").arg(dir.path().join("script")).arg(dir.path()).env_remove("ENTREPOT_VOLUME");
    alone.env("HOME", dir.path().join("home")).stdin(std::process::Stdio::null());
    // For what a page takes for granted: that is installed from there.
    alone.env("SOURCES", root());
    let path = std::env::var("PATH").unwrap_or_default();
    alone.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", dir.path().join("bin").display()));
    let done = alone.output().expect("unshare");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && err.contains("=== the end"), "{name}: {}\n{out}\n{err}", done.status);
}

/// One test a page, so that they run side by side: a page makes what it needs.
macro_rules! run_as_printed {
    ($($test:ident: $page:literal,)*) => {
        $(#[test]
        fn $test() {
            run($page);
        })*
    };
}

run_as_printed! {
    the_lines_of_the_readme_run_as_printed: "README.md",
    the_lines_of_set_up_run_as_printed: "docs/guide/operate/set-up.md",
    the_lines_of_every_day_run_as_printed: "docs/guide/operate/every-day.md",
    the_lines_of_accounting_run_as_printed: "docs/guide/operate/accounting.md",
    the_lines_of_purge_run_as_printed: "docs/guide/operate/purge.md",
    the_lines_of_quotas_run_as_printed: "docs/guide/operate/quotas.md",
    the_lines_of_scrub_run_as_printed: "docs/guide/operate/scrub.md",
    the_lines_of_watch_run_as_printed: "docs/guide/operate/watch.md",
    the_lines_of_device_fails_run_as_printed: "docs/guide/operate/device-fails.md",
    the_lines_of_adapt_run_as_printed: "docs/guide/operate/adapt.md",
    the_lines_of_stage_run_as_printed: "docs/guide/stage.md",
    the_lines_of_jobs_run_as_printed: "docs/guide/jobs.md",
    the_lines_of_checkpointing_run_as_printed: "docs/guide/checkpointing.md",
    the_lines_of_tune_run_as_printed: "docs/guide/operate/tune.md",
    the_lines_of_connections_run_as_printed: "docs/guide/connections.md",
    the_lines_of_simulator_run_as_printed: "docs/guide/simulator.md",
    the_lines_of_traces_run_as_printed: "docs/reference/traces.md",
}

/// Each page with commands has its test above, so that they run side by side.
#[test]
fn no_page_with_commands_is_forgotten() {
    let this = include_str!("guides.rs");
    let runs = |block: &Block| block.not_run.is_none() && matches!(&*block.language, "sh" | "bash");
    let with_commands = pages().into_iter().filter(|(_, page)| blocks(page).0.iter().any(runs));
    let forgotten: Vec<_> = with_commands
        .map(|(name, _)| name)
        .filter(|name| !this.contains(&format!("_run_as_printed: \"{name}\",")))
        .collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

/// The demo first prints its duration, shows both checksums, names the next commands to try, and leaves their files in
/// place.
#[test]
fn the_demo_leaves_what_it_names() {
    let here = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !here || !Path::new("/usr/sbin/nginx").exists() {
        return eprintln!("skipped: needs root, /dev/fuse and nginx");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let mut demo = Command::new(root().join("demo/run.sh"));
    let done = demo.arg(env!("CARGO_BIN_EXE_entrepot")).env("TMPDIR", dir.path()).output().expect("the demo");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    assert!(out.starts_with("The demo takes about "), "{out}");
    let checksum = |what: &str| out.lines().find_map(|line| line.trim().strip_prefix(what)).map(str::trim);
    let (source, job) = (checksum("checksum of the source"), checksum("checksum that the job computed"));
    assert!(source.is_some() && source == job, "{out}");
    let named = out.lines().map(str::trim).filter(|line| line.starts_with(dir.path().to_str().expect("UTF-8")));
    let left: Vec<&str> = named.filter(|line| line.ends_with("job.sh") || line.ends_with("result.txt")).collect();
    assert!(left.len() == 2 && left.iter().all(|path| Path::new(path).is_file()), "{left:?}: {out}");
    assert!(std::fs::read_to_string(left[1]).expect("a result").starts_with(source.expect("there is one")));
    assert!(out.contains("\nNext: "), "{out}");
}

/// `a/{b,c}.rs` as its two paths.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((among, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    among.split(',').flat_map(|one| expanded(&format!("{before}{}{after}", one.trim()))).collect()
}

/// The file or folder of a module that is named as in code, or of a type in it.
fn of_module(name: &str) -> String {
    let name =
        name.rsplit_once("::").filter(|(_, last)| last.starts_with(char::is_uppercase)).map_or(name, |(of, _)| of);
    let (of, rest) = name.split_once("::").unwrap_or((name, ""));
    let path = format!("{}/src/{}", folder_of(of), rest.replace("::", "/"));
    let file = format!("{path}.rs");
    if root().join(&file).is_file() { file } else { path }
}

/// Resolves a path in the table of mechanisms: from the root, or beside or above the folder of the path before it. A
/// `*` at its end is any ending.
fn found(path: &str, before: Option<&Path>) -> Option<PathBuf> {
    let root = root();
    let there = |path: PathBuf| -> Option<PathBuf> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let Some(start) = name.strip_suffix('*') else { return path.exists().then_some(path) };
        let mut entries = std::fs::read_dir(path.parent()?).ok()?.flatten();
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with(start)).map(|entry| entry.path())
    };
    let above = before.into_iter().flat_map(Path::ancestors).take_while(|dir| **dir != *root);
    std::iter::once(root.as_path()).chain(above).find_map(|dir| there(dir.join(path)))
}

/// Whether a file, or the folder of its name, has tests.
fn has_tests(path: &Path) -> bool {
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut ahead = vec![path.to_path_buf(), path.with_extension("")];
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if text(&path).contains("#[test]") {
            return true;
        }
    }
    false
}

#[test]
fn the_table_of_mechanisms_names_files_and_tests_that_are_there() {
    let page = std::fs::read_to_string(root().join("docs/internals/papers.md")).expect("docs/internals/papers.md");
    let (mut wrong, mut rows) = (Vec::new(), 0);
    for line in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| mechanism ")) {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let &[mechanism, _, files, tests, ..] = &cells[..] else { continue };
        // Behind the semicolon stands a command.
        let tests = tests.split(';').next().unwrap_or_default();
        rows += 1;
        let mut named: Vec<PathBuf> = Vec::new();
        for path in [files, tests].into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            let is_module = path.contains("::");
            if path.contains(' ') && !is_module || path.starts_with('[') {
                continue;
            }
            for path in expanded(path) {
                let path = if is_module { of_module(&path) } else { path };
                match found(&path, named.last().map(PathBuf::as_path)) {
                    Some(there) => named.push(there),
                    None => wrong.push(format!("{mechanism}: {path} is not there")),
                }
            }
        }
        // The tests of a module, or of the one that it is part of.
        let has =
            |path: &PathBuf| has_tests(path) || path.parent().is_some_and(|of| has_tests(&of.with_extension("rs")));
        let are_named = tests.contains("`crates/") || tests.contains("`lab/") || !files.contains("::");
        if !are_named && !named.iter().any(has) {
            wrong.push(format!("{mechanism}: no test in {named:?}"));
        }
    }
    assert!(rows > 50, "the table was not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
