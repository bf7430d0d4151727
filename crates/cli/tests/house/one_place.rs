//! What happens in one place of the product only.

use super::{complain, product, rust_files};
use std::collections::BTreeSet;
use std::path::Path;

/// Calls that start a process or change what a thread may do.
const OF_RIGHTS: [&str; 10] = [
    "Command::new(",
    "pre_exec(",
    "set_thread_",
    ".uid(",
    ".gid(",
    "unistd::set",
    "libc::set",
    "set_capabilities(",
    "secure_bits(",
    "set_no_new_privs(",
];

/// Product files besides `engine::rights` that contain such calls, with the reason.
const WITH_RIGHTS: [(&str, &str); 16] = [
    ("crates/cli/src/command/doctor/looks.rs", "the program itself, with the caller's rights"),
    ("crates/cli/src/command/down.rs", "fusermount3, with the caller's rights"),
    ("crates/cli/src/command/job/elsewhere.rs", "commands of a scheduler, with the caller's rights"),
    ("crates/cli/src/users.rs", "id and getent, with the caller's rights"),
    ("crates/connect/src/private.rs", "the cleaner of the daemon's own mounts"),
    ("crates/connect/src/recipe.rs", "the daemon's own mounts"),
    ("crates/jobs/src/exec/attempt.rs", "the program itself, which takes the user's rights before the user's command"),
    ("crates/jobs/src/exec/become_user.rs", "the user's command, after `Rights::take_for_good`"),
    ("crates/jobs/src/exec/outside.rs", "the supervisor: the program itself, with the daemon's rights"),
    ("crates/jobs/src/queue.rs", "questions to a scheduler, with words that no user chooses"),
    ("crates/jobs/src/scheduler/slurm.rs", "sbatch --test-only, with the caller's rights"),
    ("crates/node/src/adapt/burst/tend.rs", "fstrim of the daemon's own targets"),
    ("crates/node/src/mount/mountpoint.rs", "fusermount3 for the daemon's own mount"),
    ("crates/meta/src/namespace/credentials.rs", "the identity of new inodes; nothing is started in between"),
    ("crates/terminal/src/served.rs", "the program itself, with the caller's rights"),
    ("lab/cli/src/command/reproduce/live.rs", "benchmarks of the source tree, with the caller's rights"),
];

fn is_product(path: &Path) -> bool {
    let words: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    words[2] == "src" && !words.iter().any(|word| ["tests", "tests.rs", "conformance.rs"].contains(word))
}

#[test]
fn threads_of_the_product_are_started_in_one_place() {
    let starts =
        |text: &str| ["thread::Builder", "thread::spawn", "thread::scope"].iter().any(|call| text.contains(call));
    let own = Path::new("crates/object/src/workers.rs");
    let files =
        rust_files().into_iter().filter(|(path, _)| path.starts_with("crates") && is_product(path) && path != own);
    let found = files.filter(|(_, text)| starts(&product(text))).map(|(path, _)| path.display().to_string());
    complain("threads are started outside `object::workers`", &found.collect::<Vec<_>>());
}

/// Places that start threads, at most. A row of `policy::maintenance` or `Periodic` work needs none.
const STARTS_MAX: usize = 35;

/// Number of calls of `object::workers` that start threads.
fn starts(text: &str) -> usize {
    let imports: Vec<&str> =
        text.split("use ").filter_map(|rest| rest.split(';').next()).filter(|path| path.contains("workers")).collect();
    let imported = |name: &str| {
        imports.iter().any(|path| path.split(|c: char| c != '_' && !c.is_alphanumeric()).any(|word| word == name))
    };
    let is_call = |at: usize, name: &str| {
        let before = &text[..at];
        let is_other =
            before.ends_with("fn ") || before.ends_with(|c: char| c == '.' || c == '_' || c.is_alphanumeric());
        !is_other && (before.ends_with("workers::") || imported(name))
    };
    let functions = [
        ("apart", "apart("),
        ("within", "within("),
        ("side_by_side", "side_by_side("),
        ("Pool", "Pool::new("),
        ("Pool", "Pool::with("),
    ];
    let calls = functions.map(|(name, call)| text.match_indices(call).filter(|(at, _)| is_call(*at, name)).count());
    let loops = ["workers.start(", "workers::start(", "watch.start(\"", "session.start(\""]
        .map(|call| text.matches(call).count());
    calls.into_iter().chain(loops).sum()
}

#[test]
fn few_places_start_threads() {
    let of =
        |path: &Path| path.starts_with("crates") && is_product(path) && !path.starts_with("crates/object/src/workers");
    let files =
        rust_files().into_iter().filter(|(path, _)| of(path) && path != Path::new("crates/object/src/workers.rs"));
    let found: Vec<_> =
        files.map(|(path, text)| (path, starts(&product(&text)))).filter(|(_, count)| *count > 0).collect();
    let count: usize = found.iter().map(|(_, count)| count).sum();
    assert!(count <= STARTS_MAX, "{count} places start threads: {found:#?}");
    assert_eq!(starts("use object::workers::{Pool, apart};\nfn f() { Pool::new(1); self.apart(2); apart(3) }"), 2);
}

#[test]
fn threads_and_processes_for_users_are_started_in_one_place() {
    let found: BTreeSet<String> = rust_files()
        .into_iter()
        .filter(|(path, _)| is_product(path) && !path.starts_with("crates/engine/src/rights"))
        .filter(|(_, text)| {
            // A question for ids has no argument.
            let text = product(text).replace(".uid()", "").replace(".gid()", "");
            OF_RIGHTS.iter().any(|call| text.contains(call))
        })
        .map(|(path, _)| path.display().to_string())
        .collect();
    let listed: BTreeSet<String> = WITH_RIGHTS.iter().map(|(path, _)| path.to_string()).collect();
    let list = |set: &BTreeSet<String>, other: &BTreeSet<String>| set.difference(other).cloned().collect::<Vec<_>>();
    complain(
        "rights are taken outside `engine::rights`; use it, or list the file with a reason",
        &list(&found, &listed),
    );
    complain("files without calls that need a reason", &list(&listed, &found));
}

/// The system's `fstat` may return what the kernel remembers of a file that other nodes change.
#[test]
fn attributes_of_open_files_are_read_in_one_place() {
    let words = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "fstat");
    let calls = |text: &str| {
        text.contains("fs::fstat(")
            || text.split("use rustix::fs::").skip(1).any(|rest| words(rest.split(';').next().unwrap_or_default()))
    };
    let of_files = ["crates/meta", "crates/object", "crates/engine", "crates/node"];
    let found =
        rust_files().into_iter().filter(|(path, _)| is_product(path) && of_files.iter().any(|of| path.starts_with(of)));
    let found = found.filter(|(_, text)| calls(&product(text))).map(|(path, _)| path.display().to_string());
    complain("`fstat` of the system is called, not that of `object::host`", &found.collect::<Vec<_>>());
    assert!(calls("use rustix::fs::{Stat, fstat};") && !calls("use rustix::fs::fstatfs;"));
}
