//! Tests of planning: parts, order, dependence, sources, and what options change.

use super::*;

const LIMITS: Limits = Limits { cores: 8, walltime_default_s: 3600, arrays: false };

fn scp_source(argv: &[String]) -> Vec<NamedSource> {
    match argv {
        [program, from, to] if program == "scp" => {
            vec![NamedSource { uri: format!("sftp://{}", from.replace(':', "")), path: to.clone() }]
        }
        _ => Vec::new(),
    }
}

fn planned(script: &str, overrides: Overrides) -> Plan {
    plan(script.as_bytes(), "run.sh", &overrides, LIMITS, &scp_source).unwrap()
}

const SCRIPT: &str = "#!/bin/bash\n#SBATCH -n 4 -t 10 --mem=4G\n#STAGEIN -retry 2\n#STAGEIN -t 5 -q long\n\
    #STAGEIN scp h:/a b\n#STAGEIN entrepot stage in 'http://h/x y' /s/x\n#STAGEOUT cp /s/y /home/y\necho hi\n";

#[test]
fn three_parts_with_their_queues_and_dependence() {
    let plan = planned(SCRIPT, Overrides::default());
    let shape: Vec<_> =
        plan.parts.iter().map(|p| (p.kind, p.queue, p.after, p.cores, p.walltime_s, p.retries)).collect();
    assert_eq!(
        shape,
        [
            (PartKind::StageIn, Queue::Dataxfer, None, 0, 300, 2),
            (PartKind::Compute, Queue::Batch, Some(PartKind::StageIn), 4, 600, 0),
            (PartKind::StageOut, Queue::Dataxfer, Some(PartKind::Compute), 0, 3600, 0),
        ]
    );
    assert_eq!(plan.name, "run.sh");
    assert_eq!(plan.parts[0].commands[0].sources, [NamedSource { uri: "sftp://h/a".into(), path: "b".into() }]);
    assert_eq!(plan.parts[0].commands[1].argv[3], "http://h/x y");
    assert_eq!(plan.parts[0].commands[1].line, 6);
    assert_eq!(plan.warnings.iter().map(|w| w.line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(plan.compute_script.as_bytes(), b"#!/bin/bash\n#SBATCH -n 4 -t 10 --mem=4G\n#\n#\n#\n#\n#\necho hi\n");
}

#[test]
fn a_part_without_commands_is_left_out() {
    let plan = planned("#!/bin/sh\ntrue\n", Overrides::default());
    assert_eq!(plan.parts.len(), 1);
    assert_eq!((plan.parts[0].after, plan.parts[0].cores, plan.parts[0].walltime_s), (None, 1, 3600));
    for (line, shape) in [
        ("#STAGEIN scp h:/a b", [(PartKind::StageIn, None), (PartKind::Compute, Some(PartKind::StageIn))]),
        ("#STAGEOUT cp b c", [(PartKind::Compute, None), (PartKind::StageOut, Some(PartKind::Compute))]),
    ] {
        let plan = planned(&format!("#!/bin/sh\n{line}\ntrue\n"), Overrides::default());
        assert_eq!(plan.parts.iter().map(|part| (part.kind, part.after)).collect::<Vec<_>>(), shape);
    }
}

#[test]
fn options_go_over_the_script() {
    let overrides = Overrides { name: Some("x\ny".into()), cores: Some(2), walltime_s: Some(60), retries: Some(0) };
    let plan = planned(SCRIPT, overrides);
    assert_eq!((plan.name.as_str(), plan.parts[1].cores, plan.parts[1].walltime_s), ("xy", 2, 60));
    assert_eq!(plan.parts[0].retries, 0);
}

#[test]
fn what_the_machine_has_not_is_refused() {
    for overrides in [
        Overrides { cores: Some(9), ..Overrides::default() },
        Overrides { cores: Some(0), ..Overrides::default() },
        Overrides { walltime_s: Some(0), ..Overrides::default() },
        Overrides { retries: Some(RETRIES_MAX + 1), ..Overrides::default() },
    ] {
        let refused = plan(SCRIPT.as_bytes(), "run.sh", &overrides, LIMITS, &scp_source).unwrap_err();
        assert_eq!(refused[0].line, 0);
    }
}

#[test]
fn the_text_says_what_would_run() {
    let text = render(&planned(SCRIPT, Overrides::default()));
    for line in [
        "1. stage-in: queue dataxfer, no cores, at most 00:05:00, 3 attempts for each command",
        "   scp h:/a b   (line 5)",
        "      source of b: sftp://h/a",
        "   entrepot stage in 'http://h/x y' /s/x   (line 6)",
        "2. compute: queue batch, 4 cores, at most 00:10:00, after stage-in succeeded",
        "note: line 2: --mem=4G has no effect here; see docs/guide/jobs.md for options with an effect",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn a_limit_is_shown_and_one_that_is_none_is_refused_with_its_line() {
    let script = |limit: &str| format!("#!/bin/sh\n#STAGEIN entrepot stage in --limit {limit} http://h/x /s/x\ntrue\n");
    let text = render(&planned(&script("10MiB/s"), Overrides::default()));
    assert!(text.contains("      no faster than 10.0 MiB/s\n"), "{text}");
    let limits = plan(script("quick").as_bytes(), "a", &Overrides::default(), LIMITS, &scp_source);
    let found = limits.expect_err("refused");
    assert!(found.len() == 1 && found[0].line == 2 && found[0].mend.contains("100MiB/s"), "{found:?}");
    let dry = plan(script("1MiB/s --dry-run").as_bytes(), "a", &Overrides::default(), LIMITS, &scp_source);
    assert!(dry.expect_err("refused")[0].cause.contains("--dry-run"));
}

#[test]
fn mail_is_shown_and_slurms_own_lines_are_told_apart() {
    let planned = |lines: &str| planned(&format!("#!/bin/sh\n{lines}true\n"), Overrides::default());
    let plan = planned("#SBATCH --mail-type=END,BEGIN\n#ENTREPOT --mail-type=FAIL\n#ENTREPOT --mail-user=ann@h\n");
    assert!(render(&plan).contains("\nmail to ann@h: FAIL\n"), "{}", render(&plan));
    assert!(plan.mail.is_some_and(|mail| !mail.theirs) && plan.warnings.iter().any(|w| w.cause.contains("BEGIN")));
    let theirs = planned("#SBATCH --mail-type=END\n").mail.expect("asked for");
    assert!(theirs.theirs && theirs.is_for(crate::request::JobState::Cancelled, false) && theirs.to.is_none());
    assert_eq!(planned("#SBATCH --mail-type=NONE\n").mail, None);
}

#[test]
fn an_array_of_jobs_is_refused_where_it_would_be_one_job() {
    let script = b"#!/bin/sh\n#SBATCH --array=1-3\ntrue\n";
    let planned = |arrays| plan(script, "a", &Overrides::default(), Limits { arrays, ..LIMITS }, &scp_source);
    let found = planned(false).expect_err("refused");
    assert!(found.len() == 1 && found[0].line == 2 && found[0].cause.contains("--array"), "{found:?}");
    assert!(planned(true).is_ok());
}
