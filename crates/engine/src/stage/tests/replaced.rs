//! Files that a stage-in replaces.

use super::*;

#[test]
fn what_is_there_is_replaced_only_on_demand() {
    let world = World::new();
    let (old, new) = (data(3_000_000, 6), data(2_000_000, 7));
    let remote = world.memory.add("mem://h/a", &old);
    world.stage(&["mem://h/a"], "a").expect("staged");
    remote.put(new.clone());
    let refused = world.stage(&["mem://h/a"], "a").expect_err("refused").to_string();
    assert!(refused.contains("--force"), "{refused}");
    assert!(world.read("a") == old);
    let used = world.file("a");
    let what = StageIn { replace: true, ..request(&["mem://h/a"], "a") };
    world.stage_as(&what, &who()).expect("replaced");
    assert!(world.read("a") == new);
    let mut there = vec![0; old.len()];
    assert!(used.read(0, &mut there).is_ok_and(|read| read == old.len()) && there == old, "a move reads it still");
    drop(used);
    let objects = |world: &World| -> usize {
        let count = |t: &Arc<object::target::Target>| t.run(|m| m.list()).map_or(0, |l| l.len());
        world.stager.volume.targets().all().iter().map(count).sum()
    };
    assert_eq!(objects(&world), layout_of(&world, "a").objects().count(), "the objects of the old file are gone");
}

#[test]
fn a_replacement_removes_no_file_but_the_replaced_one() {
    let world = World::new();
    world.memory.add("mem://h/a", &data(1000, 4));
    world.stage(&["mem://h/a"], "a").expect("staged");
    let others: Vec<_> = (0..512).map(|n| world.tree.join(format!(".entrepot-{n:x}"))).collect();
    others.iter().for_each(|path| std::fs::write(path, path.as_os_str().as_encoded_bytes()).expect("written"));
    let what = StageIn { replace: true, ..request(&["mem://h/a"], "a") };
    world.stage_as(&what, &who()).expect("replaced");
    for path in others {
        assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == path.as_os_str().as_encoded_bytes()), "{path:?}");
    }
}
