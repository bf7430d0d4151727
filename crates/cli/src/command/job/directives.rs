//! Checks of a script's directives that the planner cannot make: whether our own commands in them parse.

use crate::command::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use jobs::directives::datawarp::variable;
use jobs::plan::{Limits, paths};
use jobs::request::{Complaint, Overrides, PartKind, Plan};
use std::path::Path;

/// Plans a script, or returns all its errors in the order of its lines. With the volume's mount point and the
/// directory of the submission, destinations outside the volume are errors, too.
pub fn plan(
    script: &[u8],
    file_name: &str,
    overrides: &Overrides,
    limits: Limits,
    place: Option<(&Path, &Path)>,
) -> Result<Plan, Vec<Complaint>> {
    let (plan, mut complaints) = jobs::plan::draft(script, file_name, overrides, limits, &super::recognise);
    complaints.extend(check(&plan));
    complaints.extend(place.into_iter().flat_map(|(mount, cwd)| outside(&plan, mount, cwd)));
    complaints.sort_by_key(|complaint| complaint.line);
    if complaints.is_empty() { Ok(plan) } else { Err(complaints) }
}

/// Destinations of our stage-in commands outside the volume, symbolic links followed as far as they exist.
fn outside(plan: &Plan, mount: &Path, cwd: &Path) -> Vec<Complaint> {
    let brought = plan.parts.iter().filter(|part| part.kind == PartKind::StageIn).flat_map(|part| &part.commands);
    let outside = brought.filter_map(|command| {
        let path = paths::stage_in_words(&command.argv)?.path;
        // The daemon makes these, in the volume.
        if variable(&path).is_some() {
            return None;
        }
        let there = cwd.join(&path);
        let real = || there.ancestors().find_map(|at| at.canonicalize().ok()).unwrap_or_default();
        let inside = paths::in_volume(&path, cwd, mount).is_some() || real().starts_with(mount);
        (!inside).then(|| Complaint {
            line: command.line,
            cause: format!("{} is not in the volume mounted at {}", there.display(), mount.display()),
            mend: "name a path below the mount point: data are staged into the volume only".into(),
        })
    });
    outside.collect()
}

/// Errors in our own commands of a plan: options, words and URIs. Checks only the words.
fn check(plan: &Plan) -> Vec<Complaint> {
    let staging = plan.parts.iter().filter(|part| part.kind != PartKind::Compute);
    let ours = staging.flat_map(|part| &part.commands).filter(|c| c.argv.first().is_some_and(|a| a == "entrepot"));
    ours.flat_map(|command| check_words(&command.argv, command.line)).collect()
}

fn check_words(argv: &[String], line: u32) -> Vec<Complaint> {
    if let Err(error) = Cli::try_parse_from(argv) {
        let cause = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => "the command stages nothing".to_string(),
            _ => first_line(&error.to_string()),
        };
        let mend = "write: entrepot stage in URI PATH, or: entrepot stage out PATH URI".to_string();
        return vec![Complaint { line, cause, mend }];
    }
    let uris = match (paths::stage_in_words(argv), argv) {
        (Some(words), _) => words.uris,
        (None, [_, stage, out, .., uri])
            if stage == "stage" && out == "out" && !argv.iter().any(|w| w == "--manifest") =>
        {
            vec![uri.clone()]
        }
        _ => Vec::new(),
    };
    let manifest = paths::manifest(argv).filter(|manifest| manifest.contains("://")).map(String::from);
    let wrong = uris.into_iter().chain(manifest).filter_map(|uri| {
        Some(Complaint {
            line,
            cause: format!("{uri}: {}", source::Address::parse(&uri).err()?),
            mend: "write SCHEME://HOST/PATH; for a local file file:///PATH".into(),
        })
    });
    wrong.collect()
}

/// Clap's message without its usage and hints, on one line.
fn first_line(text: &str) -> String {
    let message = text.split("\n\nUsage").next().unwrap_or_default();
    let words: Vec<&str> = message.split_ascii_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(line: &str) -> Vec<Complaint> {
        check_words(&line.split(' ').map(String::from).collect::<Vec<_>>(), 4)
    }

    /// [S-067]
    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let script =
            b"#!/bin/sh\n#STAGEIN cp $HOME/a b\n#STAGEIN entrepot stage on a b\n#ENTREPOT --gpus 4\n#DW jobdw\n\
                       #STAGEOUT entrepot stage out /m/a\n#BB_LUA entrepot stage in\n\
                       #STAGEIN entrepot stage in http://h/a /elsewhere/a\ntrue\n";
        let limits = Limits { cores: 4, walltime_default_s: 60, arrays: false };
        let overrides = Overrides { cores: Some(9), ..Overrides::default() };
        let place = Some((Path::new("/m"), Path::new("/m/u")));
        let complaints = plan(script, "job", &overrides, limits, place).expect_err("wrong");
        assert_eq!(complaints.iter().map(|c| c.line).collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6, 7, 8], "{complaints:?}");
        assert!(complaints[7].cause.contains("/elsewhere/a is not in the volume"), "{}", complaints[7]);
        let good =
            b"#!/bin/sh\n#STAGEIN entrepot stage in http://h/a a\n#STAGEIN entrepot stage in http://h/b /m/b\ntrue\n";
        let overrides = Overrides::default();
        assert!(plan(good, "job", &overrides, limits, place).is_ok());
        assert!(plan(good, "job", &overrides, limits, Some((Path::new("/m"), Path::new("/home")))).is_err());
    }

    /// [S-067]
    #[test]
    fn links_into_the_volume_lead_there() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        let (mount, home) = (at.join("m"), at.join("home"));
        [&mount, &home].into_iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        std::os::unix::fs::symlink(&mount, home.join("scratch")).unwrap();
        let limits = Limits { cores: 4, walltime_default_s: 60, arrays: false };
        let plan = |path: &str| {
            let script = format!("#!/bin/sh\n#STAGEIN entrepot stage in http://h/a {path}\ntrue\n");
            plan(script.as_bytes(), "job", &Overrides::default(), limits, Some((&mount, &home)))
        };
        assert!(plan("scratch/new/a").is_ok() && plan("new/a").is_err());
    }

    #[test]
    fn our_own_commands_are_checked_before_they_are_queued() {
        for good in [
            "entrepot stage in http://h/a /m/a",
            "entrepot stage out --retry 3 /m/a sftp://h/a",
            "entrepot status",
            "entrepot stage in zenodo:77 /m/a",
        ] {
            assert_eq!(complaints(good), [], "{good}");
        }
        for (bad, why) in [
            ("entrepot stage in http://h/a", "<PATH>"),
            ("entrepot stage in --quickly http://h/a /m/a", "--quickly"),
            ("entrepot stage in gopher://h/a /m/a", "gopher"),
            ("entrepot stage in --manifest gopher://h/s http://h/d /m/d", "gopher"),
            ("entrepot stage in --sha256 abc http://h/a /m/a", "64 hexadecimal digits"),
            ("entrepot stage out /m/a h/a", "h/a"),
            ("entrepot stag in http://h/a /m/a", "stag"),
            ("entrepot --help", "stages nothing"),
        ] {
            let found = complaints(bad);
            assert!(found.len() == 1 && found[0].line == 4 && found[0].cause.contains(why), "{bad}: {found:?}");
        }
    }
}
