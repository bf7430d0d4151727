//! Objects on targets that are away.

use super::*;

/// [S-420]
#[test]
fn bytes_on_a_target_that_may_come_back_are_away_and_not_lost() {
    let c = new();
    c.staged("a", 3);
    c.open_file("a").expect("there").set_source(None).expect("forgotten");
    let target = c.layout("a").objects().next().expect("object").1.target;
    c.fail(target);
    let report = c.check(false);
    assert!(report.findings.iter().all(|f| f.outcome == Outcome::Away && f.missing_bytes > 0), "{report:?}");
    assert!(
        !report.findings.is_empty()
            && !report.is_healthy()
            && report.findings.iter().all(|f| f.outcome != Outcome::Lost)
    );
    let report = c.check(true);
    assert!(report.findings.iter().all(|f| f.outcome == Outcome::Away), "a repair does not change that");
    assert!(serde_json::to_string(&report).expect("json").contains(r#""outcome":"away""#));
    c.restore(target);
    assert!(c.check(false).findings.is_empty(), "and it is back");
}
