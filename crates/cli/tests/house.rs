//! The order of the house: arrows between crates, files that keep to one idea, nothing left half done, promises paired
//! with tests.

#[path = "house/folders.rs"]
mod folders;
#[path = "house/one_place.rs"]
mod one_place;
#[path = "house/prose.rs"]
mod prose;
#[path = "house/sizes.rs"]
mod sizes;

use folders::{folder_of, root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// All files below a directory, but for what is built or hidden.
fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.expect("a directory that can be listed").path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        // Build directories of cargo, not `crates/object/src/target`.
        if name.starts_with('.') || path.join("CACHEDIR.TAG").exists() {
            continue;
        }
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Every Rust file of the workspace, by its path below the root, with its text.
fn rust_files() -> Vec<(PathBuf, String)> {
    let root = root();
    let mut found = Vec::new();
    ["crates", "lab"].iter().for_each(|folder| files_below(&root.join(folder), &mut found));
    let texts: Vec<_> = found
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .map(|p| {
            (p.strip_prefix(&root).expect("below the root").to_path_buf(), std::fs::read_to_string(&p).expect("text"))
        })
        .collect();
    assert!(texts.len() > 20, "the sources were not found");
    texts
}

fn complain(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{what}:\n  {}", offenders.join("\n  "));
}

/// The crates of the live world below `node`.
const LIVE: &[&str] = &["entrepot-policy", "entrepot-object", "entrepot-meta", "entrepot-engine"];
const EMULATED: &[&str] =
    &["entrepot-policy", "entrepot-sim", "entrepot-object", "entrepot-meta", "entrepot-engine", "entrepot-node"];
const ON_NODE: &[&str] = &["entrepot-policy", "entrepot-object", "entrepot-meta", "entrepot-engine", "entrepot-node"];

#[test]
fn arrows_between_crates() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("entrepot-policy", &[][..]),
        ("entrepot-sim", &["entrepot-policy"][..]),
        ("entrepot-emulate", EMULATED),
        ("entrepot-object", &["entrepot-policy"]),
        ("entrepot-meta", &["entrepot-policy", "entrepot-object"]),
        ("entrepot-engine", &["entrepot-policy", "entrepot-object", "entrepot-meta"]),
        ("entrepot-node", LIVE),
        ("entrepot-source", &["entrepot-object", "entrepot-engine"]),
        ("entrepot-jobs", ON_NODE),
        ("entrepot-connect", ON_NODE),
        ("entrepot-terminal", &["entrepot-policy", "entrepot-object", "entrepot-engine", "entrepot-node"]),
        ("entrepot-endpoint", &["entrepot-object", "entrepot-engine", "entrepot-node"]),
        (
            "entrepot-cli",
            &[
                "entrepot-policy",
                "entrepot-object",
                "entrepot-meta",
                "entrepot-engine",
                "entrepot-node",
                "entrepot-source",
                "entrepot-jobs",
                "entrepot-connect",
                "entrepot-terminal",
                "entrepot-endpoint",
            ],
        ),
        (
            "entrepot-lab",
            &[
                "entrepot-policy",
                "entrepot-sim",
                "entrepot-object",
                "entrepot-engine",
                "entrepot-node",
                "entrepot-emulate",
                "entrepot-terminal",
            ],
        ),
    ]);
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&cargo.stdout).expect("json");
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = text(&package["name"]);
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name}: a new crate; say here and in docs/internals/architecture.md what it may use"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = text(&dependency["name"]);
            let for_tests = dependency["kind"] == "dev";
            if allowed.contains_key(used.as_str()) && !may.contains(&used.as_str()) && !for_tests {
                wrong.push(format!("{name} -> {used}"));
            }
            if name == "entrepot-policy" && !for_tests {
                wrong.push(format!("{name} -> {used}: decisions depend on nothing"));
            }
        }
        seen.insert(name);
    }
    complain("arrows that docs/internals/architecture.md does not know", &wrong);
    assert_eq!(seen.len(), allowed.len(), "a crate is gone: {seen:?}");
}

/// The Python package has a lock file of its own, which `make wheel` refuses to change.
#[test]
fn the_lock_of_the_python_package_has_what_its_crates_use() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).expect("a file");
    let parsed = |file: &str| read(file).parse::<toml::Table>().expect("TOML");
    let lock = parsed("lab/python/Cargo.lock");
    let packages = lock["package"].as_array().expect("packages");
    let mut missing = Vec::new();
    for package in packages.iter().filter(|package| package.get("source").is_none()) {
        let name = package["name"].as_str().expect("a name");
        // A package may have another name in the code, as md-5 has.
        let plain = |name: &str| name.trim_start_matches("entrepot-").replace('-', "");
        let locked = package.get("dependencies").and_then(|list| list.as_array()).into_iter().flatten();
        let locked: Vec<String> = locked.filter_map(|one| Some(plain(one.as_str()?.split(' ').next()?))).collect();
        let manifest = parsed(&format!("{}/Cargo.toml", folder_of(name.trim_start_matches("entrepot-"))));
        for (used, how) in manifest.get("dependencies").and_then(|table| table.as_table()).into_iter().flatten() {
            let is_optional = how.get("optional").is_some();
            if !is_optional && !locked.contains(&plain(used)) {
                missing.push(format!("{name} uses {used}"));
            }
        }
    }
    assert!(missing.is_empty(), "run `cargo update -w --manifest-path lab/python/Cargo.toml`: {missing:?}");
}

#[test]
fn every_file_says_its_purpose_first() {
    let mute = rust_files().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    complain(
        "files without a first line of purpose (`//! ...`)",
        &mute.map(|f| f.0.display().to_string()).collect::<Vec<_>>(),
    );
}

#[test]
fn nothing_is_left_half_done() {
    // In two halves, so that this file does not find itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
    ];
    let is_word = |line: &str, at: usize, mark: &str| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let open = mark.ends_with('(');
        !letter(line[..at].chars().next_back()) && (open || !letter(line[at + mark.len()..].chars().next()))
    };
    let mut found = Vec::new();
    for (path, text) in rust_files() {
        for (n, line) in text.lines().enumerate() {
            let marked = |mark: &&str| line.match_indices(*mark).any(|(at, _)| is_word(line, at, mark));
            if marks.iter().any(marked) || line.trim() == concat!("//! place", "holder") {
                found.push(format!("{}:{}: {}", path.display(), n + 1, line.trim()));
            }
        }
    }
    complain("left half done", &found);
}

#[test]
fn no_test_is_switched_off() {
    let mark = concat!("#[ign", "ore");
    let off = rust_files().into_iter().filter(|(_, text)| text.contains(mark));
    complain("tests that do not run", &off.map(|f| f.0.display().to_string()).collect::<Vec<_>>());
}

/// The numbers of promises (`S-` and three digits) in a text.
fn promises(text: &str) -> BTreeSet<String> {
    let number = |at: usize| text.get(at + 2..at + 5).filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    text.match_indices("S-").filter_map(|(at, _)| number(at)).map(|n| format!("S-{n}")).collect()
}

/// The numbers in the doc comments of tests. One that stands anywhere else tests nothing.
fn tested_in(text: &str) -> BTreeSet<String> {
    let (mut found, mut pending) = (BTreeSet::new(), BTreeSet::new());
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("/// ") {
            pending.append(&mut promises(line));
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]";
        } else {
            if is_test && line.starts_with("fn ") {
                found.append(&mut pending);
            }
            (pending, is_test) = (BTreeSet::new(), false);
        }
    }
    found
}

#[test]
fn a_number_counts_only_on_a_test() {
    let numbers = |text: &str| tested_in(text).into_iter().collect::<Vec<_>>();
    assert_eq!(numbers("/// [S-001] [S-002] words\n#[test]\nfn f() {"), ["S-001", "S-002"]);
    for elsewhere in ["/// [S-001]\nfn f() {", "// [S-001]\n#[test]\nfn f() {", "/// [S-001]\n\n#[test]\nfn f() {"] {
        assert!(numbers(elsewhere).is_empty(), "{elsewhere}");
    }
}

#[test]
fn every_promise_has_a_test_and_every_test_s_promise_is_made() {
    let root = root();
    let semantics = std::fs::read_to_string(root.join("docs/reference/semantics.md"))
        .expect("docs/reference/semantics.md is there");
    let made: Vec<String> =
        semantics.lines().filter_map(|l| l.strip_prefix("- [S-")).map(|l| format!("S-{}", &l[..3])).collect();
    let promised: BTreeSet<String> = made.iter().cloned().collect();
    assert!(promised.len() > 10, "the promises were not found");
    assert_eq!(made.len(), promised.len(), "a number is given twice");

    let mut tested = BTreeSet::new();
    for (path, text) in rust_files() {
        if !path.ends_with("cli/tests/house.rs") {
            tested.append(&mut tested_in(&text));
        }
    }
    // The suites in shell: comments at what they run.
    let mut suites = Vec::new();
    files_below(&root.join("tests"), &mut suites);
    for path in suites {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter(|l| l.starts_with("# ")).for_each(|l| tested.append(&mut promises(l)));
    }
    complain("promises without a test", &promised.difference(&tested).cloned().collect::<Vec<_>>());
    complain("tests of promises that nobody made", &tested.difference(&promised).cloned().collect::<Vec<_>>());
}

/// The modules of the crate's root that a module imports: by `crate::x`, `crate::{x, y}`, or as many `super::` as it is
/// deep.
fn imports(product: &str, depth: usize) -> BTreeSet<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let mut found = BTreeSet::new();
    for used in product.split("crate::").skip(1) {
        let Some(list) = used.strip_prefix('{') else {
            found.insert(name(used));
            continue;
        };
        let (mut open, mut begins) = (0, true);
        for (at, c) in list.char_indices() {
            match c {
                '{' => open += 1,
                '}' if open == 0 => break,
                '}' => open -= 1,
                ',' if open == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    found.insert(name(&list[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    let above = "super::".repeat(depth);
    let ups = product.split(&above).skip(1).filter(|rest| !rest.starts_with("super::"));
    found.extend(ups.map(name));
    found
}

/// The text of a file without the parts that are compiled only for tests.
fn product(text: &str) -> String {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut parts = code.split("#[cfg(test)]");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // An item ends with the brace that closes its first one, at the margin where it began, or with a semicolon.
        let semicolon = part.find(';').unwrap_or(part.len());
        let end = match part.find('{').filter(|brace| *brace < semicolon) {
            None => semicolon,
            Some(_) => {
                let begin = part.trim_start_matches('\n');
                let margin = begin.len() - begin.trim_start_matches(' ').len();
                part.find(&format!("\n{}}}", " ".repeat(margin))).unwrap_or(part.len())
            }
        };
        kept.push_str(&part[end..]);
    }
    kept
}

/// Modules reachable from a module, without itself unless a ring leads back to it.
fn reach(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&String> = imports[from].iter().collect();
    while let Some(module) = next.pop() {
        if seen.insert(module.clone()) {
            next.extend(&imports[module]);
        }
    }
    seen
}

/// The modules of each ring; what is imported and is none of the modules is left out first.
fn rings(modules: &mut BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<String>> {
    let known: BTreeSet<String> = modules.keys().cloned().collect();
    modules.values_mut().for_each(|used| used.retain(|module| known.contains(module)));
    let reached: BTreeMap<&String, _> = modules.keys().map(|module| (module, reach(modules, module))).collect();
    let in_one = reached.iter().filter(|(module, reaches)| reaches.contains(**module));
    in_one
        .map(|(module, reaches)| reaches.iter().filter(|other| reached[other].contains(*module)).cloned().collect())
        .collect()
}

#[test]
fn a_ring_is_found() {
    let texts = [
        ("a", "use crate::b::B;"),
        ("b", "use crate::{c, std};\n#[cfg(test)]\nmod tests {\n    use crate::d;\n}\n"),
        ("c", "use super::a;"),
        ("d", "use crate::a;"),
    ];
    let mut modules = texts.map(|(name, text)| (name.to_owned(), imports(&product(text), 1))).into();
    assert_eq!(rings(&mut modules), BTreeSet::from([["a", "b", "c"].map(str::to_owned).to_vec()]));
}

/// Modules are the files and folders directly in `src`.
#[test]
fn modules_import_each_other_in_no_ring() {
    let mut crates: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (path, text) in rust_files() {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let [folder, package, "src", module, ref below @ ..] = parts[..] else { continue };
        let test = parts.iter().any(|part| ["tests", "tests.rs"].contains(part));
        if test || module == "lib.rs" || module == "main.rs" || module == "bin" {
            continue;
        }
        let package = if folder == "lab" && package == "cli" { "lab" } else { package };
        let modules = crates.entry(package.to_owned()).or_default();
        let module = module.trim_end_matches(".rs");
        let used = imports(&product(&text), below.len() + 1);
        modules.entry(module.to_owned()).or_default().extend(used.into_iter().filter(|used| used != module));
    }
    assert!(crates.len() > 8 && crates["engine"].len() > 8, "the modules were not found");
    let found = crates.iter_mut().flat_map(|(package, modules)| {
        rings(modules).into_iter().map(move |ring| format!("{package}: {}", ring.join(", ")))
    });
    complain("modules in a ring", &found.collect::<Vec<_>>());
}

/// `a::{b, c::d}` names `a::b` and `a::c::d`.
fn expanded(name: &str) -> Vec<String> {
    let Some((before, rest)) = name.split_once('{') else { return vec![name.replace(' ', "")] };
    let Some((list, after)) = rest.split_once('}') else { return vec![name.to_owned()] };
    list.split(',').flat_map(|part| expanded(&format!("{before}{}{after}", part.trim()))).collect()
}

/// The file or folder of a module, or of the item in it that the last word names.
fn is_there(name: &str) -> bool {
    let mut words: Vec<&str> = name.split("::").collect();
    if words.last().is_some_and(|last| last.starts_with(char::is_uppercase)) {
        words.pop();
    }
    let below = root().join(folder_of(words[0])).join("src").join(words[1..].join("/"));
    below.is_dir() || below.with_extension("rs").is_file()
}

/// Modules that the pages of docs/internals name, by page. A path begins with a crate.
fn named_modules() -> Vec<(PathBuf, String)> {
    let mut pages = Vec::new();
    files_below(&root().join("docs/internals"), &mut pages);
    let of = |folder: &str| std::fs::read_dir(root().join(folder)).expect("crates").flatten();
    let crates = of("crates").chain(of("lab")).map(|entry| entry.file_name().to_string_lossy().into_owned());
    let crates: Vec<String> = crates.chain(["lab".to_owned()]).collect();
    let mut found = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("text");
        // Names that are still to change do not exist under their new name yet.
        let code =
            text.split("## Names in code that are to change").next().unwrap_or_default().split('`').skip(1).step_by(2);
        let of_ours = code.filter(|c| c.split_once("::").is_some_and(|(first, _)| crates.iter().any(|c| c == first)));
        found.extend(of_ours.flat_map(expanded).map(|name| (page.clone(), name)));
    }
    found
}

#[test]
fn modules_that_the_documents_name_are_there() {
    assert_eq!(expanded("a::{b, c::d}::e"), ["a::b::e", "a::c::d::e"]);
    let named = named_modules();
    assert!(named.len() > 100, "the names were not found");
    let lost = named.iter().filter(|(_, name)| !is_there(name));
    complain(
        "modules that are gone",
        &lost.map(|(page, name)| format!("{}: {name}", page.display())).collect::<Vec<_>>(),
    );
}

/// The pages below docs/internals/machines begin with the module of theirs.
#[test]
fn every_machine_has_a_page() {
    let named: BTreeSet<String> = named_modules()
        .into_iter()
        .filter(|(page, _)| page.parent().is_some_and(|folder| folder.ends_with("internals/machines")))
        .map(|(_, name)| name)
        .collect();
    let machines = rust_files()
        .into_iter()
        .filter(|(path, text)| path.starts_with("crates/policy/src") && text.contains("\nimpl Machine for "));
    let module = |path: &Path| {
        let path = path.with_extension("");
        let words: Vec<_> = path.iter().skip(3).map(|word| word.to_string_lossy().into_owned()).collect();
        format!("policy::{}", words.join("::"))
    };
    let modules: Vec<String> = machines.map(|(path, _)| module(&path)).collect();
    assert!(modules.len() > 10, "the machines were not found");
    // A machine in `x::machine` or beside its parts in `x` has the page of `x`.
    let parent = |name: &str| name.rsplit_once("::").map(|(parent, _)| parent.to_owned()).unwrap_or_default();
    let mute = modules.iter().filter(|name| !named.contains(*name) && !named.contains(&parent(name)));
    complain("machines without a page in docs/internals/machines", &mute.cloned().collect::<Vec<_>>());
}
