//! The prose of comments and pages: sentences that a reader has to read twice.
//!
//! A line with `prose: ok` and a reason is an exception.

use super::{complain, files_below, root, rust_files};

/// More words between two of `.`, `;` and `:` make a sentence too long.
const WORDS_MAX: usize = 30;
/// First words of a sentence whose subject is a clause.
const CLAUSES: &[&str] = &["What", "Who", "Whoever", "Whose", "Whom", "Of", "Those", "Which", "That"];
/// Pronouns of persons. A machine is no person.
const PERSONS: &[&str] = &["who", "whom", "whoever", "nobody", "somebody", "anybody", "everybody"];
/// Verbs of speech. A machine sends, returns or records.
const SPEECH: &[&str] = &["told", "tells", "said", "says", "hears", "heard", "saying"];
/// Words that modern technical English does not use.
const ARCHAIC: &[&str] =
    &["anew", "meanwhile", "thereof", "whence", "lest", "beforehand", "therein", "so long", "so often", "as yet"];
/// Beside one of these words, pronouns of persons and verbs of speech are right.
const PEOPLE: &[&str] = &[
    "user",
    "operator",
    "person",
    "people",
    "researcher",
    "administrator",
    "author",
    "owner",
    "root",
    "attacker",
    "contributor",
    "developer",
    "newcomer",
];
/// Pages that are generated.
const GENERATED: &[&str] = &["reference/entrepot.md", "reference/entrepot-lab.md", "reference/metrics.md"];

/// A run of prose.
struct Block {
    line: usize,
    text: String,
    is_doc: bool,
}

/// The comment on a line of Rust: its marker, and its text.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let of = |marker: &'static str| line.strip_prefix(marker).map(|text| (marker, text.trim()));
    of("///").or_else(|| of("//!")).or_else(|| of("//")).filter(|(_, text)| !text.starts_with('/'))
}

/// The prose of a line of a page. Tables, headings and indented code have none.
fn of_page(line: &str) -> Option<(&'static str, &str)> {
    let skipped = ["|", "#", "<!--"].iter().any(|mark| line.trim_start().starts_with(mark)) || line.starts_with("    ");
    let text = line.trim();
    (!skipped && !text.is_empty()).then(|| ("", text.strip_prefix("- ").unwrap_or(text)))
}

fn blocks(text: &str, is_rust: bool) -> Vec<Block> {
    let (mut found, mut marker, mut in_code) = (Vec::<Block>::new(), None, false);
    for (line, shown) in text.lines().enumerate() {
        let prose = if is_rust { comment(shown) } else { of_page(shown) };
        let fence = prose.is_some_and(|(_, text)| text.starts_with("```"));
        in_code ^= fence;
        let prose = prose.filter(|(_, text)| !fence && !in_code && !text.is_empty() && !text.contains("prose: ok"));
        let starts_item = !is_rust && shown.trim_start().starts_with("- ");
        match (prose, found.last_mut()) {
            (Some((kind, text)), Some(last)) if marker == Some(kind) && !starts_item => {
                last.text.push(' ');
                last.text.push_str(text);
            }
            (Some((kind, text)), _) => {
                found.push(Block { line: line + 1, text: text.to_string(), is_doc: kind == "///" });
            }
            (None, _) => {}
        }
        marker = prose.map(|(kind, _)| kind);
    }
    found.retain(|block| !["  |", "---", "->"].iter().any(|picture| block.text.contains(picture)));
    found
}

/// The text with a letter for each code span and quotation, and with the texts of links alone.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (n, part) in text.split('`').enumerate() {
        plain += if n % 2 == 0 { part } else { "X" };
    }
    let quoted = plain.split('"').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "X" });
    let mut rest = quoted.collect::<String>().replace('*', "");
    while let Some(at) = rest.find("](") {
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        rest.replace_range(at..end, "");
    }
    rest.replace('[', "")
}

/// The sentences of a text.
fn sentences(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for word in text.split_whitespace() {
        let ended = found.last().is_some_and(|last| last.ends_with(['.', '!', '?', ':']));
        if ended && word.starts_with(|c: char| c.is_ascii_uppercase() || c == '(') {
            found.push(String::new());
        }
        if let Some(last) = found.last_mut() {
            last.push_str(if last.is_empty() { "" } else { " " });
            last.push_str(word);
        }
    }
    found
}

/// The words of a text in small letters, with a space around each.
fn spoken(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric() && c != '-').collect();
    format!(" {} ", words.join(" "))
}

/// Name of the rule that a sentence breaks.
fn breach(sentence: &str) -> Option<&'static str> {
    let spoken = spoken(sentence);
    let words: Vec<&str> = spoken.split(' ').collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let has_people =
        words.iter().any(|word| PEOPLE.iter().any(|p| word.strip_prefix(p).is_some_and(|end| end.len() < 2)));
    let first = sentence.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let longest = sentence.split([';', ':']).map(|part| part.split_whitespace().count()).max();
    match () {
        () if CLAUSES.contains(&first) && !sentence.ends_with('?') => Some("its subject is a clause"),
        () if has(PERSONS) && !has_people => Some("a machine is no person"),
        () if has(SPEECH) && !has_people => Some("a machine does not speak"),
        () if ARCHAIC.iter().any(|word| spoken.contains(&format!(" {word} "))) => Some("an archaic word"),
        () if longest > Some(WORDS_MAX) => Some("too long"),
        () => None,
    }
}

fn breaches(text: &str, is_rust: bool) -> Vec<(usize, &'static str, String)> {
    let mut found = Vec::new();
    for block in blocks(text, is_rust) {
        if block.is_doc && block.text.split_whitespace().count() <= 2 && block.text.starts_with(char::is_alphabetic) {
            found.push((block.line, "it only repeats the name", block.text.clone()));
        }
        let sentences = sentences(&plain(&block.text)).into_iter();
        found.extend(sentences.filter_map(|sentence| Some((block.line, breach(&sentence)?, sentence))));
    }
    found
}

#[test]
fn each_rule_finds_its_breach() {
    let found = |line: &str| breaches(line, true).into_iter().map(|(_, rule, _)| rule).collect::<Vec<_>>();
    assert_eq!(found("// What it sent who asked."), ["its subject is a clause"]);
    assert_eq!(found("// The daemon waits until nobody writes."), ["a machine is no person"]);
    assert_eq!(found("// The node tells the leader."), ["a machine does not speak"]);
    assert_eq!(found("// The object is made anew."), ["an archaic word"]);
    assert_eq!(found("/// The count."), ["it only repeats the name"]);
    assert_eq!(found(&format!("// It {}.", "is ".repeat(WORDS_MAX))), ["too long"]);
    for right in [
        "// The user who says so.",
        "// `what` is a word.",
        "//     let who = 1; -> 2",
        "//! The \"who\" column.",
        "let who = 1;",
    ] {
        assert_eq!(found(right), <[&str; 0]>::default(), "{right}");
    }
    let page = "# Who\n| who | x |\n- A line\n  of a list.\n```\nwho\n```\nA [link](who.md).\n";
    assert_eq!(breaches(page, false), []);
}

/// Comments of the product and pages, by path.
fn texts() -> Vec<(String, String)> {
    let is_test =
        |path: &str| path.split('/').any(|part| matches!(part, "tests" | "benches")) || path.ends_with("tests.rs");
    let mut texts: Vec<(String, String)> =
        rust_files().into_iter().map(|(path, text)| (path.display().to_string(), text)).collect();
    texts.retain(|(path, _)| !is_test(path));
    let mut pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)).to_vec();
    files_below(&root().join("docs"), &mut pages);
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let path = page.strip_prefix(root()).expect("below the root").display().to_string();
        if !GENERATED.iter().any(|end| path.ends_with(end)) {
            texts.push((path, std::fs::read_to_string(page).expect("a page")));
        }
    }
    texts
}

#[test]
fn comments_and_pages_are_in_plain_english() {
    let texts = texts();
    let found = texts.iter().flat_map(|(path, text)| {
        let found = breaches(text, path.ends_with(".rs")).into_iter();
        found.map(move |(line, rule, sentence)| format!("{path}:{line}: {rule}: {sentence}"))
    });
    complain("sentences to be rewritten", &found.collect::<Vec<_>>());
}

/// The last column of the glossary, without the words that have other meanings too.
fn replaced_words(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let words = rows.filter_map(|row| row.split('|').nth(3)).flat_map(|words| words.trim().split(", "));
    words.filter(|word| !word.is_empty() && !word.contains('(')).map(str::to_lowercase).collect()
}

#[test]
fn comments_and_pages_use_the_words_of_the_glossary() {
    let page = "docs/internals/words.md";
    let replaced = replaced_words(&std::fs::read_to_string(root().join(page)).expect("the glossary"));
    assert!(replaced.iter().any(|word| word == "kept copy") && replaced.len() > 5, "{replaced:?}");
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| path != page) {
        for block in blocks(text, path.ends_with(".rs")) {
            let spoken = spoken(&plain(&block.text));
            let wrong = replaced.iter().filter(|word| spoken.contains(&format!(" {word} ")));
            found.extend(wrong.map(|word| format!("{path}:{}: {word}", block.line)));
        }
    }
    complain("words that the glossary replaces", &found);
}
