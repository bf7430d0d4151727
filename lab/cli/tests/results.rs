//! The tables of `docs/results` have the words, and where the scale allows the numbers, that their commands print.
//!
//! A table in a section with a command has one of these marks above it:
//!
//! ```text
//! <!-- names of: sim burst --step 20s; grids/tiers.toml -->   each word in headings and first cells is in the output
//! <!-- names of: benches/tier/run.sh -->                      or in the program that prints a live table
//! <!-- figures of: patterns eval -->                          so is each number of the table, at its own precision
//! <!-- not compared: the run takes minutes -->               with the reason
//! ```
//! Several commands are separated by `;`; a file of the project stands for its text, a folder for that of its files.
//! `{data}` is the folder of fetched data, without which the table is skipped. Figures of a live run differ between runs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Words of pages that no command prints: the paper's own rows.
const OURS: [&str; 1] = ["published"];

/// A table of a page with its mark.
#[derive(Debug, Default)]
struct Table {
    line: usize,
    kind: String,
    text: String,
    rows: Vec<Vec<String>>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn data() -> Option<PathBuf> {
    let beside = root().join("../shared/data");
    std::env::var_os("ENTREPOT_DATA").map(PathBuf::from).or_else(|| beside.is_dir().then_some(beside))
}

/// Pages of results, by name.
fn pages() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root().join("docs/results")).expect("the pages");
    let page = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        name.ends_with(".md").then(|| (name, std::fs::read_to_string(&path).expect("text")))
    };
    let mut pages: Vec<_> = entries.filter_map(|entry| page(entry.ok()?.path())).collect();
    pages.sort();
    pages
}

/// Marked tables of a page, and the lines of tables that need a mark and have none.
fn tables(page: &str) -> (Vec<Table>, Vec<usize>) {
    let (mut tables, mut bare): (Vec<Table>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut mark, mut is_block, mut has_command, mut is_table) = (None, false, false, false);
    // A mark may go on in lines that are indented by five.
    for (at, line) in page.replace("\n     ", " ").lines().enumerate() {
        if line.starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            has_command = true;
        } else if line.starts_with("## ") {
            has_command = false;
        } else if let Some(text) = line.strip_prefix("<!-- ").and_then(|of| of.strip_suffix(" -->")) {
            let known = ["names of", "figures of", "not compared"];
            let found = text.split_once(": ").filter(|(kind, _)| known.contains(kind));
            mark = found.map(|(kind, text)| (kind.to_owned(), text.to_owned())).or(mark);
        } else if line.starts_with('|') {
            if !is_table {
                let (kind, text): (String, String) = mark.take().unwrap_or_default();
                if kind.is_empty() && has_command {
                    bare.push(at + 1);
                }
                tables.push(Table { line: at + 1, kind, text, rows: Vec::new() });
            }
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
            tables.last_mut().expect("it was pushed").rows.push(cells.collect());
        }
        is_table = line.starts_with('|');
    }
    tables.retain(|table| !table.kind.is_empty());
    (tables, bare)
}

/// Words of at least three letters in headings and first cells; arguments in backticks are none.
fn names(table: &Table) -> Vec<String> {
    let cells = table.rows[0].iter().chain(table.rows.iter().skip(2).map(|row| &row[0]));
    let words = |cell: &String| {
        let plain: Vec<&str> = cell.split('`').step_by(2).collect();
        let plain = plain.join(" ").to_lowercase();
        let words: Vec<String> = plain.split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
        words.into_iter().filter(|word| word.len() > 2 && word.chars().all(char::is_alphabetic))
    };
    cells.flat_map(words).collect()
}

/// Numbers of a text, each with the digits after its point; commas between thousands are left out.
fn numbers(text: &str) -> Vec<(f64, usize)> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
    let number = |word: &str| {
        let word = word.trim_matches([',', '.']).replace(',', "");
        Some((word.parse::<f64>().ok()?, word.split_once('.').map_or(0, |(_, digits)| digits.len())))
    };
    words.filter_map(number).collect()
}

/// Words and numbers of the table that are not in the text.
fn missing(table: &Table, text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let is_there = |word: &String| lower.contains(word.as_str()) || OURS.contains(&word.as_str());
    let mut missing: Vec<String> = names(table).into_iter().filter(|word| !is_there(word)).collect();
    if table.kind == "figures of" {
        let printed = numbers(text);
        let near = |(value, digits): &(f64, usize)| {
            let half = 0.500_001 * 10f64.powi(-(*digits as i32));
            printed.iter().any(|(of, shown)| shown >= digits && (of - value).abs() <= half)
        };
        let cells = table.rows.iter().skip(2).flat_map(|row| &row[1..]);
        let wrong = cells.flat_map(|cell| numbers(cell)).filter(|number| !near(number));
        missing.extend(wrong.map(|(value, digits)| format!("{value:.digits$}")));
    }
    missing
}

/// Text of a file, or of the files of a folder; `None` if it is neither.
fn text_of(path: &Path) -> Option<String> {
    let Ok(entries) = std::fs::read_dir(path) else { return std::fs::read_to_string(path).ok() };
    Some(entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok()).collect())
}

/// Output of the commands of a mark, with the commands; `None` without the data.
fn printed(table: &Table) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = String::new();
    for command in table.text.split(';').map(str::trim) {
        if let Some(of) = text_of(&root().join(command)) {
            text += &of;
            continue;
        }
        let filled = match command.contains("{data}") {
            true => command.replace("{data}", &data()?.display().to_string()),
            false => command.to_owned(),
        };
        let mut run = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
        let output = run.current_dir(folder.path()).args(filled.split_whitespace()).output().expect("the binary runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        text += &format!("{command}\n{}\n", String::from_utf8_lossy(&output.stdout));
    }
    Some(text)
}

#[test]
fn tables_have_the_words_and_figures_of_their_commands() {
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (name, page) in pages() {
        let (tables, bare) = tables(&page);
        wrong.extend(bare.iter().map(|line| format!("{name}:{line}: the table has no mark")));
        for table in tables.iter().filter(|table| table.kind != "not compared") {
            let Some(text) = printed(table) else {
                eprintln!("skipped: {name}:{}: no data in $ENTREPOT_DATA or ../shared/data", table.line);
                continue;
            };
            compared += 1;
            let missing = missing(table, &text);
            if !missing.is_empty() {
                wrong.push(format!("{name}:{}: `{}` does not print {missing:?}", table.line, table.text));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(compared > 30, "only {compared} tables are compared");
}

/// The page of verdicts lists each experiment once, and its figures have the names of the descriptions.
#[test]
fn the_page_of_verdicts_has_every_experiment_and_the_verdicts_of_those_that_take_no_time() {
    let page = std::fs::read_to_string(root().join("docs/results/reproduction.md")).expect("the page");
    let (folder, quick) = (tempfile::tempdir().expect("a folder"), "R01 R02 R03 R04 R05 R06 R07 R08 W01 W02 W05 W10");
    let lab = |arguments: &[&str]| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
        let output = run.current_dir(folder.path()).arg("reproduce").args(arguments).output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let list = lab(&["--list"]);
    let ids: Vec<&str> = list.lines().filter(|line| !line.starts_with(' ')).map(|line| &line[..3]).collect();
    let listed = page.split("\n- *").skip(1).map(|of| of.split("\n\n").next().unwrap_or(of));
    let listed: Vec<(&str, Vec<&str>)> = listed
        .filter_map(|of| of.split_once('*'))
        .map(|(verdict, rest)| (verdict, rest.split(|c: char| !c.is_alphanumeric()).collect()))
        .collect();
    for id in &ids {
        let count = listed.iter().filter(|(_, of)| of.contains(id)).count();
        assert_eq!(count, 1, "{id} is in {count} of the page's lists of verdicts");
    }
    let quick: Vec<&str> = quick.split(' ').collect();
    let report: serde_json::Value = serde_json::from_str(&lab(&[&quick[..], &["--json"]].concat())).expect("JSON");
    for row in report["rows"].as_array().expect("rows") {
        let (id, verdict) = (row["id"].as_str().expect("an id"), row["verdict"].as_str().expect("a verdict"));
        let of = listed.iter().find(|(_, of)| of.contains(&id)).expect("it is listed");
        assert_eq!(of.0, verdict, "{id}");
    }
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.map(|line| line.split(" | ").collect::<Vec<_>>()).filter(|cells| ids.contains(&cells[0]));
    let rows: Vec<_> = rows.collect();
    for cells in &rows {
        // Published and ours come behind it.
        let figure = format!("- {}: ", cells[cells.len() - 3]);
        assert!(list.replace("\n       ", " ").contains(&figure), "{} has no figure `{figure}`", cells[0]);
    }
    assert!(rows.len() > 5, "{rows:?}");
}

#[test]
fn a_changed_word_and_a_changed_number_are_found() {
    let page = |kind: &str, cell: &str| {
        format!("```sh\nentrepot-lab x\n```\n<!-- {kind}: x -->\n\n| load | mean, ms |\n|---|---|\n| high | {cell} |\n")
    };
    let of = |page: &str, text: &str| missing(&tables(page).0[0], text);
    let printed = "load  mean ms\nhigh  1234.56 ms\n";
    assert!(of(&page("figures of", "1,234.6"), printed).is_empty());
    assert_eq!(of(&page("figures of", "1,234.7"), printed), ["1234.7"]);
    assert_eq!(of(&page("figures of", "1234.561"), printed), ["1234.561"]);
    assert!(of(&page("names of", "7"), printed).is_empty());
    assert_eq!(of(&page("names of", "7"), "load  mean ms\nlow 7\n"), ["high"]);
    assert_eq!(tables(&page("a remark", "7")).1, [6]);
}
