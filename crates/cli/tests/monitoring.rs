//! The alert rules and boards that operators load: they ask for metrics that exist, say what to do, and fire when they
//! should.

#[path = "monitoring/boards.rs"]
mod boards;
mod exposition;

use boards::{boards, filled_in, items, monitoring, queries, text};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All names with our prefix in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("entrepot_"));
    words.map(str::to_owned).collect()
}

/// The names of all samples that a daemon shows, as Prometheus knows them.
fn shown() -> BTreeSet<String> {
    let shown = exposition::all();
    let families = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let samples = |(family, kind): (&str, &str)| {
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[""],
        };
        suffixes.iter().map(|suffix| format!("{family}{suffix}")).collect::<Vec<_>>()
    };
    families.flat_map(samples).collect()
}

/// The rules by their names, each with the lines that it consists of.
fn rules() -> BTreeMap<String, String> {
    let file = read(&monitoring().join("alerts.yml"));
    let rules = file.split("- alert: ").skip(1).filter_map(|rule| rule.split_once('\n'));
    let rules: BTreeMap<_, _> = rules.map(|(name, rule)| (name.to_owned(), rule.to_owned())).collect();
    assert_eq!(rules.len(), file.matches("alert:").count(), "each has a name of its own");
    assert!(rules.len() > 20, "the rules were not found");
    rules
}

/// The text of an annotation.
fn annotation<'a>(rule: &'a str, name: &str) -> Option<&'a str> {
    let line = rule.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "))?;
    Some(line.trim_matches('"')).filter(|text| !text.is_empty())
}

/// Result and output of promtool; `None` where it is not installed.
fn promtool(words: &[&str]) -> Option<(bool, String)> {
    match Command::new("promtool").args(words).current_dir(monitoring()).output() {
        Ok(done) => {
            let said = [done.stdout, done.stderr].concat();
            Some((done.status.success(), String::from_utf8_lossy(&said).into_owned()))
        }
        Err(error) => {
            println!("skipped: no promtool here ({error})");
            None
        }
    }
}

#[test]
fn rules_and_boards_ask_for_metrics_that_exist() {
    let shown = shown();
    assert!(shown.contains("entrepot_op_seconds_bucket") && shown.contains("entrepot_leads"), "{shown:?}");
    let files = ["alerts.yml", "alerts_test.yml"].map(|name| (name.to_owned(), read(&monitoring().join(name))));
    let boards = boards().into_iter().map(|(name, board)| (name, board.to_string()));
    for (name, text) in files.into_iter().chain(boards) {
        let asked = metrics(&text);
        assert!(!asked.is_empty(), "{name} asks for nothing");
        let unknown: Vec<_> = asked.difference(&shown).collect();
        assert!(unknown.is_empty(), "{name} asks for {unknown:?}, which no daemon shows");
    }
}

/// The headings of a page as links name them.
fn headings(page: &str) -> BTreeSet<String> {
    let plain = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-';
    let heading = |line: &str| line.trim_start_matches('#').trim().to_lowercase();
    let lines = page.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| heading(line).chars().filter(plain).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn every_alert_says_what_to_do() {
    for (name, rule) in &rules() {
        for of in ["summary", "description", "action"] {
            assert!(annotation(rule, of).is_some_and(|text| text.len() > 10), "{name} has no {of}");
        }
        let runbook = annotation(rule, "runbook").unwrap_or_else(|| panic!("{name} has no runbook"));
        let (page, heading) = runbook.split_once('#').unwrap_or_else(|| panic!("{name}: {runbook} names no heading"));
        assert!(headings(&read(&root().join(page))).contains(heading), "{name}: {runbook} is not there");
        let severe = ["critical", "warning"].iter().any(|is| rule.contains(&format!("labels: {{ severity: {is} }}")));
        assert!(severe, "{name} has no severity");
    }
}

/// [S-227]
#[test]
fn every_alert_fires_when_it_should_and_none_on_volumes_that_are_well() {
    let cases = read(&monitoring().join("alerts_test.yml"));
    let (idle, failing) = cases.split_once("\n\n").expect("the volumes that are well, then the others");
    let rules = rules();
    for (name, rule) in &rules {
        assert!(failing.contains(&format!("alertname=\"{name}\"")), "nothing shows that {name} fires");
        let unseen: Vec<_> = metrics(rule).difference(&metrics(idle)).cloned().collect();
        assert!(unseen.is_empty(), "{name} is silent on an idle volume since {unseen:?} is not there");
    }
    for words in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]] {
        let Some((well, said)) = promtool(&words) else { return };
        assert!(well && said.contains("SUCCESS"), "{said}");
    }
    // A test that must fail shows that they can.
    let dir = tempfile::tempdir().expect("dir");
    let rules =
        read(&monitoring().join("alerts.yml")).replace("up{job=\"entrepot\"} == 0", "up{job=\"entrepot\"} == 2");
    std::fs::write(dir.path().join("alerts.yml"), rules).expect("written");
    std::fs::write(dir.path().join("alerts_test.yml"), cases).expect("written");
    let (well, said) =
        promtool(&["test", "rules", dir.path().join("alerts_test.yml").to_str().expect("UTF-8")]).expect("promtool");
    assert!(!well && said.contains("EntrepotEndpointGone"), "{said}");
}

#[test]
fn boards_are_what_grafana_loads() {
    let boards = boards();
    assert!(boards.len() >= 3, "the boards were not found");
    let ids: BTreeSet<&str> = boards.iter().map(|(_, board)| text(board, "uid")).collect();
    assert_eq!(ids.len(), boards.len(), "each has an id of its own");
    for (name, board) in &boards {
        let variables: Vec<&str> = items(&board["templating"], "list").map(|one| text(one, "name")).collect();
        assert!(variables.starts_with(&["datasource", "volume", "node"]), "{name}: {variables:?}");
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in items(board, "panels") {
            let title = text(panel, "title");
            let number = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
            let (x, y, w, h) = (number("x"), number("y"), number("w"), number("h"));
            assert!(ids.insert(panel["id"].as_u64()) && w > 0 && h > 0 && x + w <= 24, "{name}: {title}");
            for at in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(at), "{name}: {title} lies over another");
            }
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name}: {title}");
            let units = ["short", "s", "bytes", "Bps", "ops", "percentunit"];
            assert!(units.contains(&text(&panel["fieldConfig"]["defaults"], "unit")), "{name}: {title}");
            let lines: BTreeSet<&str> = items(panel, "targets").map(|target| text(target, "refId")).collect();
            assert_eq!(lines.len(), items(panel, "targets").count(), "{name}: {title}");
        }
        for (title, query) in queries(board) {
            for variable in variables.iter().filter(|variable| **variable != "datasource") {
                let by = query.matches(&format!("{variable}=~\"${variable}\"")).count();
                assert!(by > 0 && by == query.matches('{').count(), "{name}: {title} is not by {variable}: {query}");
            }
            assert!(!filled_in(query).contains('$'), "{name}: {title} takes a variable that is not there: {query}");
        }
    }
}
