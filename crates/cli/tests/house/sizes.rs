//! Lengths of files and of functions.

use super::{complain, rust_files};

/// Longer files hold more than one idea.
const LINES_MAX: usize = 500;
/// Longer functions do more than one step, and do not fit on a screen.
const FUNCTION_LINES_MAX: usize = 80;

/// Name of the function that begins on a line.
fn name_in(line: &str) -> Option<&str> {
    let is_before = |word: &&str| {
        ["pub", "const", "async", "unsafe", "extern"].contains(word)
            || word.starts_with("pub(")
            || word.ends_with([')', '"'])
    };
    let mut words = line.split_whitespace().skip_while(is_before);
    let name = words.next().filter(|word| *word == "fn").and_then(|_| words.next())?;
    name.split(['(', '<']).next()
}

/// Functions with their numbers of lines, without those on one line and those without a body. A function ends at the
/// first brace at its own margin.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let measured = |at: usize| {
        let name = name_in(lines[at])?;
        let margin = &lines[at][..lines[at].len() - lines[at].trim_start().len()];
        let head = lines[at..].iter().find(|line| line.ends_with(['{', '}', ';']))?;
        let end =
            lines[at..].iter().position(|line| line.strip_prefix(margin).is_some_and(|rest| rest.starts_with('}')))?;
        head.ends_with('{').then_some((name, end + 1))
    };
    (0..lines.len()).filter_map(measured).collect()
}

#[test]
fn no_file_outgrows_its_idea() {
    let long =
        rust_files().into_iter().map(|(path, text)| (path, text.lines().count())).filter(|(_, n)| *n > LINES_MAX);
    complain("files that are too long", &long.map(|(p, n)| format!("{}: {n} lines", p.display())).collect::<Vec<_>>());
}

#[test]
fn a_function_is_measured_to_its_brace() {
    let text = "fn a() {\n    b(|| {\n        c\n    });\n}\n\ntrait T {\n    fn d();\n\n    pub(in crate::x) unsafe fn \
                e<T>(\n        t: T,\n    ) -> u8 {\n        0\n    }\n    fn f() {}\n}\n";
    assert_eq!(functions(text), [("a", 5), ("e", 5)]);
}

#[test]
fn no_function_outgrows_its_step() {
    let mut long = Vec::new();
    for (path, text) in &rust_files() {
        let found = functions(text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        long.extend(found.map(|(name, lines)| format!("{}: {name} has {lines} lines", path.display())));
    }
    complain("functions that are too long", &long);
}
