//! An ordinary user works on the volume: every kind of file operation, on each host.

use crate::hosts::{USER, hosts};
use crate::volume::{Shared, are_in_order};

/// Each line must succeed. `$1` is the mount point, `$2` the number of the host.
const WORK: &str = r#"
set -e
cat "$1/of-root" >/dev/null
ls -l "$1" >/dev/null
mkdir -p "$1/home$2/a/b"
cd "$1/home$2"
umask 027
echo one >file
echo two >>file
[ "$(cat file)" = "one
two" ]
[ "$(stat -c %a file)" = 640 ]
head -c 300000 /dev/zero >large
truncate -s 100 large
ln file hard
ln -s file soft
mv file a/b/moved
cat hard a/b/moved >/dev/null
chmod 600 hard
touch -d '2001-02-03' hard
find . -type f >/dev/null
[ ! -w "$1/of-root" ]
if echo no 2>/dev/null >"$1/of-root"; then exit 1; fi
if rm -f "$1/of-root" 2>/dev/null; then exit 1; fi
rm -r a soft
"#;

/// [S-390]
#[test]
fn an_ordinary_user_works_on_all_nodes() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    std::fs::write(nodes[0].path("of-root"), "all may read this").expect("write");
    let user = USER.to_string();
    for node in &nodes {
        let number = node.host.number.to_string();
        let words = ["--reuid", &user, "--regid", &user, "--clear-groups", "sh", "-c", WORK, "sh", &node.at, &number];
        node.host.must("setpriv", &words);
    }
    // Each home is there on every other host, too, with the owner's rights.
    for node in &nodes {
        for number in nodes.iter().map(|node| node.host.number) {
            let file = format!("{}/home{number}/hard", node.at);
            let words = ["--reuid", &user, "--regid", &user, "--clear-groups", "cat", &file];
            assert_eq!(node.host.must("setpriv", &words), "one\ntwo\n");
        }
    }
    are_in_order(&nodes);
}
