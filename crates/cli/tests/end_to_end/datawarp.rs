//! A script written for DataWarp, from its first byte of input to its results, on the built-in runner.

use crate::real::{Volume, code, err, noise, out, until};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// [S-235] [S-236]
#[test]
fn a_script_written_for_datawarp_runs_as_it_is() {
    let Some(volume) = Volume::up() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir_all(home.join("tree/deep")).expect("directory");
    let data = noise(300_000);
    fs::write(home.join("a file"), &data).expect("write");
    fs::write(home.join("tree/deep/x"), b"x").expect("write");
    let h = home.display();
    let script = home.join("job.sh");
    let submit = |text: &str| {
        fs::write(&script, format!("#!/bin/bash\n{text}")).expect("write");
        volume.run_in(&home, &["job", "submit", "--wait", script.to_str().expect("UTF-8")])
    };
    let text = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=1MiB\n\
         #BB create_persistent name=alpha capacity=1MiB access=striped type=scratch\n\
         #DW stage_in type=file source='{h}/a file' destination=$DW_JOB_STRIPED/input\n\
         #DW stage_in type=directory source={h}/tree destination=$DW_JOB_STRIPED/tree\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/out/result destination={h}/result\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/out destination={h}/home\n\
         cd $DW_JOB_STRIPED || exit\nmkdir out && cp input out/result && cp tree/deep/x out/ && pwd\n\
         cp input $DW_PERSISTENT_STRIPED_alpha/kept\n"
    );
    let done = submit(&text);
    assert_eq!(code(&done), 0, "{}{}", err(&done), out(&volume.run(&["job", "show", "1"])));
    let own = volume.at.join(".datawarp/job-1");
    assert_eq!(out(&volume.run(&["job", "log", "1"])), format!("{}/striped\n", own.display()));
    assert!(fs::read(home.join("result")).expect("the result is home") == data);
    assert_eq!(fs::read(home.join("home/x")).expect("the other, too"), b"x");
    until("its directory is gone", || !own.exists());
    let kept = volume.at.join(".datawarp/persistent/alpha");
    assert!(fs::read(kept.join("kept")).expect("it stays") == data);
    assert_eq!(fs::metadata(&kept).expect("it stays").mode() & 0o7777, 0o700);

    // Files in the volume are taken from there, and a failed stage-out keeps its files.
    let text = format!(
        "#DW jobdw type=scratch capacity=1MiB\n#DW persistentdw name=alpha\n\
         #DW stage_in type=file source={}/kept destination=$DW_JOB_STRIPED/input\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/none destination={h}/none\n\
         cmp $DW_JOB_STRIPED/input $DW_PERSISTENT_STRIPED_alpha/kept\n",
        kept.display()
    );
    let done = submit(&text);
    let own = volume.at.join(".datawarp/job-2");
    assert!(
        code(&done) == 1 && out(&done).contains(&format!("its directory {} is kept", own.display())),
        "{}",
        out(&done)
    );
    assert!(fs::read(own.join("striped/input")).expect("it is kept") == data);

    let done =
        submit("#DW jobdw type=cache capacity=1MiB\n#DW swap 1GiB\n#DW jobdw type=scratch capacity=900TiB\ntrue\n");
    assert!(
        code(&done) != 0 && err(&done).contains("line 2") && err(&done).contains("line 3: #DW swap"),
        "{}",
        err(&done)
    );
    let done = submit("#DW jobdw type=scratch capacity=900TiB\ntrue\n");
    assert!(code(&done) != 0 && err(&done).contains("900 TiB"), "{}", err(&done));
}
