//! Checkpoints of scripts and programs: by the command line, the Python module and the C interface, on a real volume.

use super::burst::{complete, newest, with_burst, write};
use super::real::{self, Volume, code, err, out};
use rustix::process::{Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn here(name: &str) -> PathBuf {
    sources().join("crates/cli/tests/end_to_end/programs").join(name)
}

/// [S-275]
#[test]
fn a_script_restarts_from_the_newest_complete_version_where_its_files_are_now() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let restart = |more: &[&str]| volume.run(&[&["checkpoint", "restart"], more].concat());
    let none = restart(&["wave"]);
    assert_eq!((code(&none), &*out(&none)), (5, ""), "{}", err(&none));
    assert!(err(&none).contains("wave has no complete version"), "{}", err(&none));

    write(&volume, "wave", "1", &real::noise(1 << 20)).expect("written");
    real::until("it is complete", || complete(&volume, "wave", "1"));
    let at = volume.at.to_str().expect("UTF-8");
    assert_eq!(out(&restart(&["wave"])), format!("{at}/ckpt/wave/1\n"));

    // A version that was begun does not count until it is committed.
    std::fs::create_dir_all(volume.at.join("run/state")).expect("mkdir");
    volume.ok(&["checkpoint", "begin", "wave", "--version", "two", "--path", &format!("{at}/run/state")]);
    std::fs::create_dir(volume.at.join("run/state/rank-0")).expect("mkdir");
    std::fs::write(volume.at.join("run/state/rank-0/data"), real::noise(1 << 20)).expect("written");
    assert_eq!(out(&restart(&["wave"])), format!("{at}/ckpt/wave/1\n"));
    volume.ok(&["checkpoint", "commit", "wave"]);
    let told = volume.json(&["checkpoint", "restart", "wave"]);
    assert_eq!((&told["label"], &told["files"], &told["bytes"]), (&"two".into(), &1.into(), &(1 << 20).into()));
    assert_eq!(told["directory"], format!("{at}/run/state"), "as it was announced");
    volume.ok(&["down"]);
    volume.up_again();
    assert_eq!(out(&restart(&["wave"])), format!("{at}/run/state\n"), "a later daemon knows");

    // A version is where its files are.
    std::fs::rename(volume.at.join("run/state"), volume.at.join("run/aside")).expect("rename");
    write(&volume, "other", "1", &real::noise(1 << 20)).expect("written");
    std::fs::rename(volume.at.join("ckpt/other"), volume.at.join("run/state")).expect("rename");
    assert_eq!(out(&restart(&["wave"])), format!("{at}/run/aside/rank-0\n"));
    std::fs::rename(volume.at.join("run/aside"), volume.at.join("run/moved")).expect("rename");
    assert_eq!(out(&restart(&["wave"])), format!("{at}/run/moved/rank-0\n"));
    std::fs::rename(volume.at.join("run/moved/rank-0"), volume.at.join("run/state/rank-0")).expect("rename");
    assert_eq!(out(&restart(&["wave"])), format!("{at}/run/state\n"));
    assert_eq!(newest(&volume, "wave").expect("one")["label"], "two");
    let script = format!("cp -r \"$('{}' checkpoint restart wave)\"/. .", volume.binary.display());
    let to = tempfile::tempdir().expect("a directory");
    let mut copy = Command::new("sh");
    copy.args(["-ec", &script]).current_dir(to.path()).env("ENTREPOT_VOLUME", &volume.toml);
    assert!(copy.status().expect("runs").success());
    assert!(to.path().join("rank-0/data").metadata().is_ok_and(|file| file.len() == 1 << 20));
    // A version that its owner removes does not count.
    write(&volume, "wave", "3", &real::noise(1 << 20)).expect("written");
    real::until("it is complete", || complete(&volume, "wave", "3"));
    assert_eq!(out(&restart(&["wave"])), format!("{at}/ckpt/wave/3\n"));
    std::fs::remove_file(volume.at.join("ckpt/wave/3/state")).expect("remove");
    assert_eq!(out(&restart(&["wave"])), format!("{at}/run/state\n"));
    // To another user it is as one that is not there.
    if rustix::process::geteuid().is_root() {
        let other = volume.run_as_nobody(&["checkpoint", "restart", "wave"]);
        assert_eq!((code(&other), &*out(&other)), (5, ""), "{}", err(&other));
        assert_eq!(code(&volume.run_as_nobody(&["checkpoint", "advise", "wave"])), 5);
    }
}

/// [S-275] A small file has its bytes in its stub and no number to be found by.
#[test]
fn a_version_counts_only_with_all_its_small_files() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let restart = || out(&volume.run(&["checkpoint", "restart", "wave"]));
    let at = volume.at.to_str().expect("UTF-8");
    for version in ["1", "2"] {
        let dir = volume.at.join("run").join(version);
        std::fs::create_dir_all(&dir).expect("mkdir");
        volume.ok(&["checkpoint", "begin", "wave", "--version", version, "--path", dir.to_str().expect("UTF-8")]);
        std::fs::write(dir.join("rank-0"), real::noise(1 << 20)).expect("written");
        std::fs::write(dir.join("meta"), b"few bytes").expect("written");
        volume.ok(&["checkpoint", "commit", "wave"]);
    }
    assert_eq!(restart(), format!("{at}/run/2\n"));
    std::fs::rename(volume.at.join("run/2"), volume.at.join("run/kept")).expect("rename");
    assert_eq!(restart(), format!("{at}/run/kept\n"), "all of it went along");
    std::fs::remove_file(volume.at.join("run/kept/meta")).expect("remove");
    assert_eq!(restart(), format!("{at}/run/1\n"), "what lacks a file is no version");
    std::fs::remove_file(volume.at.join("run/1/meta")).expect("remove");
    assert_eq!(restart(), "");
}

/// [S-276]
#[test]
fn the_advised_interval_says_what_it_rests_on() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let advise = |more: &[&str]| volume.run(&[&["checkpoint", "advise"], more].concat());
    assert!(out(&advise(&[])).contains("No application has written"), "{}", out(&advise(&[])));
    assert_eq!(code(&advise(&["wave"])), 5);
    write(&volume, "wave", "1", &real::noise(1 << 20)).expect("written");
    real::until("it is complete", || complete(&volume, "wave", "1"));
    let refused = advise(&["wave"]);
    assert!(code(&refused) == 2 && err(&refused).contains("between its failures is unknown"), "{}", err(&refused));
    assert!(out(&advise(&[])).contains("not known yet"), "{}", out(&advise(&[])));

    let of_volume = volume.json(&["checkpoint", "status"])["applications"][0].clone();
    let told = volume.json(&["checkpoint", "advise", "wave", "--mtbf", "6h"]);
    assert_eq!((&told["cost_s"], &told["mtbf_s"]), (&of_volume["cost_s"], &21_600.0.into()));
    let (cost, daly) = (told["cost_s"].as_f64().expect("a number"), told["daly_s"].as_f64().expect("a number"));
    assert!(cost > 0.0 && (daly - policy::burst::advice::daly_s(cost, 21_600.0)).abs() < 1e-6, "{told}");
    let said = out(&advise(&["wave", "--mtbf", "6h"]));
    assert!(said.contains("(measured: the last one written, 1.0 MiB; the newest is version 1)"), "{said}");
    assert!(said.contains("6 h (as given)"), "{said}");

    // Advice uses the number of nodes given at the start of a version, and observed restarts where there are any.
    std::fs::create_dir(volume.at.join("state")).expect("mkdir");
    volume.ok(&["checkpoint", "begin", "many", "--path", "state", "--nodes", "512"]);
    std::fs::write(volume.at.join("state/data"), real::noise(1 << 20)).expect("written");
    volume.ok(&["checkpoint", "commit", "many"]);
    assert!(out(&advise(&["many"])).contains("(from the number of its nodes)"), "{}", out(&advise(&["many"])));
    std::fs::read(volume.at.join("ckpt/wave/1/state")).expect("read");
    real::until("the restart was seen", || out(&advise(&["wave"])).contains("(measured: 1 restart)"));
    let all = out(&advise(&[]));
    assert!(all.contains("wave") && all.contains("many") && all.contains("measured: 1 restart"), "{all}");
}

/// Debian's, which has Debian's modules.
pub fn python() -> Option<&'static str> {
    let found =
        ["/usr/bin/python3", "python3"].into_iter().find(|python| Command::new(python).arg("-V").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: python3 is not installed (scripts/setup.sh test installs it)");
    }
    found
}

fn unittests(python: &str, volume: &Volume, words: &[&str]) -> Output {
    let mut command = Command::new(python);
    command.args(["-B", "-W", "error", "-m", "unittest", "-v"]).args(words).current_dir(here(""));
    command.env("PYTHONPATH", sources().join("python").canonicalize().expect("the module"));
    command.env("WAVE_AT", &volume.at).env_remove("ENTREPOT_VOLUME").output().expect("python3")
}

/// [S-277]
#[test]
fn a_program_in_python_writes_versions_and_restarts() {
    let Some(python) = python() else { return };
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let of = |class: &str| unittests(python, &volume, &[&format!("test_checkpoint.{class}")]);
    for (class, tests) in [("Checkpoints", 8), ("Finding", 2), ("Hdf5", 1)] {
        let done = of(class);
        assert!(code(&done) == 0 && err(&done).contains(&format!("Ran {tests} test")), "{}{}", out(&done), err(&done));
        err(&done).lines().filter(|line| line.contains("skipped")).for_each(|line| eprintln!("{line}"));
    }
    let listed = volume.json(&["checkpoint", "list"]);
    assert!(listed.to_string().contains("\"three\""), "{listed}");

    // A daemon that stands still, and one that is gone.
    let hanging = || of("Hanging");
    let pid = volume.pid().expect("a daemon");
    kill_process(pid, Signal::STOP).expect("stop");
    let stopped = hanging();
    kill_process(pid, Signal::CONT).expect("continue");
    assert_eq!(code(&stopped), 0, "{}", err(&stopped));
    assert!(out(&stopped).contains("did not answer within 0.5 s"), "{}", out(&stopped));
    volume.kill();
    let gone = hanging();
    assert!(code(&gone) == 0 && out(&gone).contains("no daemon answers on"), "{}{}", out(&gone), err(&gone));
}

/// Builds a program with the C interface; `None` where there is no such compiler.
pub fn built(compiler: &str, program: &str, to: &Path) -> Option<PathBuf> {
    let binary = to.join(program);
    let mut command = Command::new(compiler);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-I"]).arg(sources().join("c"));
    command.arg("-o").arg(&binary).arg(here(&format!("{program}.c"))).arg(sources().join("c/entrepot_checkpoint.c"));
    let done = match command.output() {
        Ok(done) => done,
        Err(error) => {
            eprintln!("skipped: {compiler}: {error} (scripts/setup.sh test installs it)");
            return None;
        }
    };
    assert_eq!(code(&done), 0, "{}", err(&done));
    Some(binary)
}

/// [S-278]
#[test]
fn a_program_in_c_writes_versions_and_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(calls) = built("cc", "calls", dir.path()) else { return };
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    // A locale in which numbers have a comma changes nothing; it is only there if it was made.
    let call_from = |from: &Path, words: &[&str]| {
        let done = Command::new(&calls).args(words).current_dir(from).env("LC_ALL", "de_DE.UTF-8").output();
        let done = done.expect("runs");
        (code(&done), out(&done).trim_end_matches('\n').to_owned())
    };
    let call = |words: &[&str]| call_from(&volume.at, words);
    let at = volume.at.to_str().expect("UTF-8");
    let (rc, said) = call(&["newest", "wave", ".", "4096"]);
    assert!(rc == 5 && said.contains("; there is nothing to restart from. "), "{rc} {said}");
    assert_eq!(call(&["interval", "wave", "."]).0, 5);

    // Names that have to be escaped on their way, there and back.
    let dir = "a \"b\"\\ü\tc";
    assert_eq!(call(&["begin", "wave", dir, "v\"1\\"]), (0, "0".into()));
    let (rc, said) = call(&["begin", "wave", dir, "2"]);
    assert!(rc == 6 && said.contains("\"v\"1\\\" of wave was begun already"), "{rc} {said}");
    std::fs::write(volume.at.join(dir).join("state"), real::noise(1 << 20)).expect("written");
    assert_eq!(call(&["newest", "wave", ".", "4096"]).0, 5, "not before it is committed");
    assert_eq!(call(&["commit", "wave", "."]), (0, "0".into()));
    assert_eq!(call(&["commit", "wave", "."]).0, 5, "none is begun");
    let full = format!("{at}/{dir}");
    assert_eq!(call(&["newest", "wave", ".", "4096"]), (0, format!("{full}0")));
    assert_eq!(newest(&volume, "wave").expect("one")["label"], "v\"1\\");
    let seconds: f64 = call(&["interval", "wave", at]).1.parse().expect("a number");
    let advised = volume.json(&["checkpoint", "advise", "wave"])["daly_s"].as_f64().expect("a number");
    assert!((seconds - advised).abs() < advised / 1e4, "{seconds} {advised}");

    // Room for the directory to the byte.
    let room = |bytes: usize| call(&["newest", "wave", ".", &bytes.to_string()]);
    assert_eq!(room(full.len() + 1).0, 0);
    assert!(room(full.len()).1.contains(&format!("takes {} bytes", full.len() + 1)), "{:?}", room(full.len()));

    assert_eq!(call(&["begin", "wave", "next", "2"]).0, 0);
    std::fs::write(volume.at.join("next/state"), "x").expect("written");
    assert_eq!(call(&["abandon", "wave", "next"]).0, 0);
    assert_eq!(call(&["newest", "wave", ".", "4096"]).1, format!("{full}0"), "one that was given up never counts");
    for (words, wrong) in [
        (["begin", "wave", "/proc/self/fd", "1"], "lies in no volume"),
        (["begin", "wave", "no/such/directory", "1"], "No such file"),
        (["begin", "a/b", "next", "1"], "cannot be the name"),
        (["begin", &"a".repeat(40_000), "next", "1"], "too long"),
    ] {
        let (rc, said) = call(&words);
        assert!(rc == 2 && said.contains(wrong), "{rc} {said}");
    }

    let pid = volume.pid().expect("a daemon");
    let hanging = || {
        let mut command = Command::new(&calls);
        command.args(["newest", "wave", at, "4096"]).env("PATIENCE_S", "1").current_dir("/").output().expect("runs")
    };
    kill_process(pid, Signal::STOP).expect("stop");
    let stopped = hanging();
    kill_process(pid, Signal::CONT).expect("continue");
    assert!(code(&stopped) == 3 && out(&stopped).contains("did not answer in time"), "{}", out(&stopped));
    volume.kill();
    let gone = hanging();
    assert!(code(&gone) == 3 && out(&gone).contains("no daemon answers on"), "{}", out(&gone));
}

/// [S-278]
#[test]
fn rank_0_of_an_mpi_program_begins_and_commits_for_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(ranks) = built("mpicc.openmpi", "ranks", dir.path()) else { return };
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let at = volume.at.join("run");
    let mut run = Command::new("mpirun.openmpi");
    run.args(["--allow-run-as-root", "--oversubscribe", "--timeout", "100", "--bind-to", "none", "-n", "3"]);
    run.args(["--mca", "btl", "vader,self", "--mca", "mpi_yield_when_idle", "1"]).args(["--mca", "orte_tmpdir_base"]);
    let done = run.arg(dir.path()).arg(&ranks).arg("wave").arg(&at).output().expect("mpirun");
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    let version = newest(&volume, "wave").expect("a version");
    assert_eq!((version["files"].as_array().map(Vec::len), &version["bytes"]), (Some(3), &(3 << 20).into()));
}
