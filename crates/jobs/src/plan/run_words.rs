//! Words of a directive as they are run: our own command becomes the running program, and skips data that are there.

use std::path::Path;

/// Arguments of a command as it is run. With `retries` our staging commands retry by themselves, unless the directive
/// sets the number.
pub fn run_words(argv: &[String], program: &Path, retries: Option<u32>) -> Vec<String> {
    let mut words = argv.to_vec();
    if words[0] != "entrepot" {
        return words;
    }
    words[0] = program.to_string_lossy().into_owned();
    let is = |word: &str, option: &str| word == option || word.strip_prefix(option).is_some_and(|r| r.starts_with('='));
    let has = |option: &str| argv.iter().any(|word| is(word, option));
    if words.len() > 2 && words[1] == "stage" {
        if words[2] == "in" && !has("--keep") && !has("--force") {
            words.insert(3, "--keep".into());
        }
        if let Some(retries) = retries.filter(|_| !has("--retry")) {
            words.splice(3..3, ["--retry".to_string(), retries.to_string()]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_command_keeps_what_is_there_and_retries_what_may_pass() {
        let run = |line: &str, retries| {
            let argv: Vec<String> = line.split(' ').map(String::from).collect();
            run_words(&argv, Path::new("/e"), retries).join(" ")
        };
        assert_eq!(run("entrepot stage in u p", Some(3)), "/e stage in --retry 3 --keep u p");
        assert_eq!(run("entrepot stage in u p", None), "/e stage in --keep u p");
        assert_eq!(run("entrepot stage in --force --retry=1 u p", Some(3)), "/e stage in --force --retry=1 u p");
        assert_eq!(run("entrepot stage out p u", Some(3)), "/e stage out --retry 3 p u");
        assert_eq!(run("scp a:b c", Some(3)), "scp a:b c");
    }
}
