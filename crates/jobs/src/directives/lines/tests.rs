//! Tests of reading scripts: valid forms, refused mistakes, and no crash on any input.

use super::*;

use proptest::prelude::*;

fn says(script: &str) -> Vec<Says> {
    parse(script.as_bytes()).unwrap().directives.into_iter().map(|d| d.says).collect()
}

fn complaints(script: &[u8]) -> Vec<Complaint> {
    parse(script).expect_err("must be refused")
}

fn command(words: &[&str]) -> Says {
    Says::Command(words.iter().map(ToString::to_string).collect())
}

#[test]
fn the_papers_example() {
    let script = "#!/bin/bash\n#PBS -N myjob\n#PBS -l nodes=128, walltime=12:00\n#STAGEIN -l walltime=10:00\n\
        #STAGEIN -retry 2\n#STAGEIN hsi -q -A keytab -k my_keytab_file -l user\\\n\"get /scratch/user/f : input\"\n\
        #STAGEOUT scp -r /scratch/user/output/ user@host:/home/user/\nmpirun -np 128 ~/programs/myapp\n";
    let head = parse(script.as_bytes()).unwrap();
    assert_eq!(head.resources.cores(), Some(128));
    assert_eq!(head.resources.walltime_s, Some(720));
    assert_eq!(head.resources.name.as_deref(), Some("myjob"));
    assert_eq!(head.directives.len(), 4);
    assert_eq!(head.directives[1].says, Says::Retry(2));
    let hsi = ["hsi", "-q", "-A", "keytab", "-k", "my_keytab_file", "-l", "user", "get /scratch/user/f : input"];
    assert_eq!(head.directives[2].says, command(&hsi));
    assert_eq!(head.warnings[0].line, 7, "a continuation without # is accepted and pointed out");
    let compute = String::from_utf8(head.compute_script).unwrap();
    assert_eq!(compute.lines().count(), script.lines().count(), "line numbers stay");
    assert!(!compute.contains("STAGE") && !compute.contains("hsi") && !compute.contains("get "), "{compute}");
    assert!(compute.ends_with("mpirun -np 128 ~/programs/myapp\n"));
}

#[test]
fn continued_lines_may_be_comments() {
    let script = "#!/bin/sh\n#STAGEIN scp \\\n#STAGEIN   h:/a \\\n#  b\ntrue\n";
    assert_eq!(says(script), [command(&["scp", "h:/a", "b"])]);
    assert_eq!(says("#!/bin/sh\n#STAGEIN cp a b\\\\\ntrue\n"), [command(&["cp", "a", "b\\"])], "an escaped backslash");
    assert_eq!(complaints(b"#!/bin/sh\n#STAGEIN cp a \\\n#STAGEOUT b\n")[0].line, 3);
    assert_eq!(complaints(b"#!/bin/sh\n#STAGEIN cp a \\")[0].line, 2);
}

#[test]
fn checkpoints_are_marked_in_either_form() {
    let script = "#!/bin/sh\n#CHECKPOINT path=state/{version}/** app=wave nodes=4\n#BB_LUA entrepot checkpoint path=x.chk\n\
        # CHECKPOINT files are written each hour\ntrue\n";
    let head = parse(script.as_bytes()).unwrap();
    let said: Vec<_> = head.checkpoints.iter().map(|c| (c.line, c.path.as_str(), c.nodes)).collect();
    assert_eq!(said, [(2, "state/{version}/**", Some(4)), (3, "x.chk", None)]);
    let compute = String::from_utf8(head.compute_script).unwrap();
    assert!(compute.lines().count() == 5 && !compute.contains("path="), "{compute}");
    for (line, cause) in [
        ("#CHECKPOINT", "names no files"),
        ("#CHECKPOINT state/**", "no KEY=VALUE"),
        ("#BB_LUA entrepot checkpoint path=a nodes=none", "nodes is"),
        ("#checkpoint path=a", "ordinary comment"),
        ("# CHECKPOINTS path=a", "ordinary comment"),
    ] {
        let found = complaints(format!("#!/bin/sh\n{line}\ntrue\n").as_bytes());
        assert!(found.len() == 1 && found[0].line == 2 && found[0].cause.contains(cause), "{line}: {found:?}");
    }
    let late = complaints(b"#!/bin/sh\ntrue\n#CHECKPOINT path=a\n");
    assert!(late[0].cause.contains("after the first command"), "{late:?}");
}

#[test]
fn a_directive_after_the_first_command_is_refused() {
    let found = complaints(b"#!/bin/sh\n\n# text\nset -e\n#STAGEIN cp a b\n#ENTREPOT -n 2\n");
    assert_eq!(found.iter().map(|c| c.line).collect::<Vec<_>>(), [5, 6]);
    assert!(found[0].cause.contains("after the first command"), "{}", found[0]);
    assert!(found[0].mend.contains("move it up"));
}

#[test]
fn slips_are_refused_and_prose_is_not() {
    let near = ["#STAGEIM cp a b", "#STAGIN cp a b", "#STAGEINN cp a b", "#STAEGIN cp a b", "# STAGEOUR cp a b"];
    let slips = ["# STAGEIN cp a b", "#stagein cp a b", "#STAGE_IN cp a b", "#STAGEIN: cp a b", " #STAGEOUT cp a b"];
    for line in near.into_iter().chain(slips) {
        let script = format!("#!/bin/sh\n{line}\ntrue\n");
        assert_eq!(complaints(script.as_bytes())[0].line, 2, "{line}");
    }
    assert_eq!(says("#!/bin/sh\n# stagein brings the data\n#STAGEINPUT is a word\n# Stage in\ntrue\n"), []);
}

#[test]
fn all_complaints_come_at_once_with_line_cause_and_mend() {
    let script = b"#!/bin/sh\n#STAGEIN cp a b; rm -rf x\n#STAGEIN cp $(id) b\n#STAGEOUT cp `id` b\n#STAGEIN\n\
        #STAGEIN -retry x\n#STAGEIN -retry 1 cp a b\n#STAGEIN A=b cp a b\n#STAGEIN '' a\n#STAGEIN cp a\0b\n\
        #STAGEIN cp \xff b\n#STAGEIN -retry 101\n#STAGEIN cp a b\r\n#ENTREPOT -x\n#SBATCH -n zero\ntrue\n";
    let found = complaints(script);
    assert_eq!(found.iter().map(|c| c.line).collect::<Vec<_>>(), (2..=15).collect::<Vec<_>>(), "{found:#?}");
    assert!(found.iter().all(|c| !c.cause.is_empty() && !c.mend.is_empty()));
}

#[test]
fn the_first_line_must_name_an_interpreter() {
    for script in
        [&b"echo hi\n"[..], b"#!bash\n", b"#!\n", b"#!/bin/sh\r\n", b"#!/bin/\0sh\n", b"", b"#STAGEIN cp a b\n"]
    {
        assert!(complaints(script)[0].line <= 1, "{script:?}");
    }
    assert_eq!(parse(b"#!/usr/bin/env -S python3 -u\n").unwrap().interpreter, ["/usr/bin/env", "-S python3 -u"]);
}

#[test]
fn the_users_program_stays_as_it_is() {
    let script = b"#!/bin/sh\n#STAGEIN cp a b\ncat <<'X'\n\xff\xfe\0 $(no) ; `no`\r\nX\n  #STAGEIN in a here-document";
    let head = parse(script).unwrap();
    assert_eq!(head.compute_script, [&b"#!/bin/sh\n#\n"[..], &script[26..]].concat());
}

#[test]
fn limits_hold() {
    assert_eq!(complaints(&vec![b'#'; SCRIPT_BYTES_MAX + 1])[0].line, 0);
    let many = format!("#!/bin/sh\n{}", "#STAGEIN cp a b\n".repeat(COMMANDS_MAX + 1));
    assert!(complaints(many.as_bytes())[0].cause.contains("more than 1000"));
    let long = format!("#!/bin/sh\n#STAGEIN cp {}\n", "a\\\n".repeat(100_000));
    assert!(!complaints(long.as_bytes()).is_empty());
}

#[test]
fn arrays_are_told_apart_from_what_has_no_effect() {
    let script =
        "#!/bin/sh\n#SBATCH --array=1-3 -a 1-3 -n 2\n#SBATCH --account=x -J name\n#PBS -J 1-3 -N name -A x\ntrue\n";
    let head = parse(script.as_bytes()).unwrap();
    let arrays: Vec<_> = head.arrays.iter().map(|(line, option)| format!("{line} {option}")).collect();
    assert_eq!(arrays, ["2 #SBATCH --array=1-3", "2 #SBATCH -a", "4 #PBS -J"]);
    assert_eq!(head.warnings.iter().map(|w| w.line).collect::<Vec<_>>(), [3, 4]);
}

/// [S-235]
#[test]
fn a_script_for_datawarp_says_what_it_stages_and_where() {
    let script = "#!/bin/sh\n#DW jobdw type=scratch capacity=1GiB\n#BB create_persistent name=a capacity=1GiB\n\
        #DW persistentdw name=b\n#DW stage_in type=file source=/h/x destination=$DW_JOB_STRIPED/x\n#DWARF\n\
        #BB_LUA other words\n#DW stage_out type=file source=$DW_PERSISTENT_STRIPED_a/y destination=/h/y\ntrue\n";
    let head = parse(script.as_bytes()).unwrap();
    let kinds: Vec<_> = head.directives.iter().map(|d| (d.line, d.kind)).collect();
    assert_eq!(kinds, [(5, PartKind::StageIn), (8, PartKind::StageOut)]);
    assert_eq!(head.datawarp.own.map(|own| own.line), Some(2));
    assert_eq!(head.datawarp.persistent.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(head.compute_script, b"#!/bin/sh\n#\n#\n#\n#\n#DWARF\n#BB_LUA other words\n#\ntrue\n");
}

/// [S-235]
#[test]
fn what_is_wrong_with_a_script_for_datawarp_is_said_at_once() {
    let script = "#!/bin/sh\n#DW jobdw type=scratch capacity=1GiB access_mode=private\n#DW jobdw capacity=1GiB\n#DW swap 1GiB\n\
        #DW stage_in type=file source=/h/x destination=$DW_JOB_PRIVATE/x\n\
        #DW stage_out type=file source=$DW_PERSISTENT_STRIPED_c/y destination=/h/y\ntrue\n#DW persistentdw name=c\n";
    let found = complaints(script.as_bytes());
    let mut lines: Vec<_> = found.iter().map(|c| c.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, [3, 4, 5, 6, 8], "{found:#?}");
    assert!(found.iter().all(|c| !c.cause.is_empty() && !c.mend.is_empty()));
}

fn any_directive() -> impl Strategy<Value = Directive> {
    let word = "[^\\p{Cc}]{0,10}";
    let program = "[a-z/.]{1,8}";
    let says = prop_oneof![
        (0..=RETRIES_MAX).prop_map(Says::Retry),
        ("-[a-qs-zA-Z]", proptest::collection::vec(word, 0..3))
            .prop_map(|(first, rest)| Says::Parameters([vec![first], rest].concat())),
        (program, proptest::collection::vec(word, 0..6))
            .prop_map(|(first, rest)| Says::Command([vec![first], rest].concat())),
    ];
    (says, any::<bool>()).prop_map(|(says, is_in)| Directive {
        line: 0,
        kind: if is_in { PartKind::StageIn } else { PartKind::StageOut },
        says,
    })
}

/// [S-085]
#[test]
fn lines_for_the_slurm_plug_in_are_ours_where_entrepot_is_named() {
    let script = "#!/bin/sh\n#BB_LUA entrepot stage in http://h/a /m/a\n#BB_LUA entrepot stage out /m/b file:///b\n\
                  #BB_LUA pool=fast capacity=1\ntrue\n";
    let head = parse(script.as_bytes()).unwrap();
    let kinds: Vec<_> = head.directives.iter().map(|d| (d.line, d.kind)).collect();
    assert_eq!(kinds, [(2, PartKind::StageIn), (3, PartKind::StageOut)]);
    assert_eq!(head.compute_script, b"#!/bin/sh\n#\n#\n#BB_LUA pool=fast capacity=1\ntrue\n");
    for wrong in ["#BB_LUA entrepot", "#BB_LUA entrepot stage", "#BB_LUA entrepot fetch a b"] {
        let complaints = parse(format!("#!/bin/sh\n{wrong}\ntrue\n").as_bytes()).unwrap_err();
        assert!(complaints[0].line == 2 && complaints[0].mend.contains("stage in URI PATH"), "{wrong}");
    }
    let late = parse(b"#!/bin/sh\nset -e\n#BB_LUA entrepot stage in http://h/a /m/a\n").unwrap_err();
    assert!(late[0].line == 3 && late[0].cause.contains("after the first command"), "{late:?}");
}

proptest! {
    #[test]
    fn written_directives_are_read_back(mut list in proptest::collection::vec(any_directive(), 0..8)) {
        let mut script = String::from("#!/bin/sh\n");
        for (directive, line) in list.iter_mut().zip(2..) {
            directive.line = line;
            script += &format!("{directive}\n");
        }
        script += "true\n";
        let head = parse(script.as_bytes()).unwrap();
        prop_assert_eq!(head.directives, list);
    }

    #[test]
    fn nothing_crashes_it_and_the_program_is_never_touched(
        lines in proptest::collection::vec("(#STAGEIN |#STAGEOUT |#SBATCH |#PBS |#ENTREPOT |# )?[ -~é\\\\]{0,20}", 0..8),
        body in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut script = format!("#!/bin/sh\n{}\ntrue\n", lines.join("\n")).into_bytes();
        let at = script.len();
        script.extend_from_slice(&body);
        if let Ok(head) = parse(&script) {
            prop_assert!(head.compute_script.ends_with(&script[at..]));
            let directives = |b: &[u8]| b.split(|b| *b == b'\n').filter(|l| l.starts_with(b"#STAGEIN ")).count();
            prop_assert_eq!(directives(&head.compute_script), 0);
        }
    }
}
