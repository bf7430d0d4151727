//! Splits a directive into words by a shell's quoting rules, and refuses everything that only a shell could do.
//!
//! The program gets the words as they are. A construct for a shell is refused: taken literally it has another effect
//! than the user meant, and a shell would permit injection.

/// Longest directive, including its continued lines.
pub const DIRECTIVE_BYTES_MAX: usize = 16 * 1024;
/// Most words of a directive.
pub const WORDS_MAX: usize = 1024;

/// The words of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The words, as the program gets them.
    pub words: Vec<String>,
    /// An unquoted character that a shell would have expanded if a file had matched.
    pub pattern: Option<char>,
}

/// Result of reading a directive.
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Why a directive was refused: cause and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Cause of the refusal.
    pub cause: String,
    /// Remedy for the user.
    pub mend: String,
}

impl Refusal {
    pub(crate) fn new(cause: impl Into<String>, mend: impl Into<String>) -> Refusal {
        Refusal { cause: cause.into(), mend: mend.into() }
    }
}

/// Splits a line into words.
pub fn split(line: &str) -> Result<Fields, Refusal> {
    if line.len() > DIRECTIVE_BYTES_MAX {
        return Err(Refusal::new(
            format!("the directive is {} bytes long, more than {DIRECTIVE_BYTES_MAX}", line.len()),
            "put many transfers into a manifest and name it: entrepot stage in --manifest FILE",
        ));
    }
    if let Some(c) = line.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(Refusal::new(
            format!("the directive holds the control character {}", c.escape_default()),
            if c == '\r' { "save the script with Unix line ends (dos2unix)" } else { "remove it" },
        ));
    }
    Splitter { rest: line.chars().peekable(), words: Vec::new(), word: None, pattern: None }.run()
}

struct Splitter<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    words: Vec<String>,
    word: Option<String>,
    pattern: Option<char>,
}

impl Splitter<'_> {
    fn run(mut self) -> Result<Fields, Refusal> {
        while let Some(c) = self.rest.next() {
            match c {
                ' ' | '\t' => self.end_word()?,
                '\'' => self.single_quoted()?,
                '"' => self.double_quoted()?,
                '\\' => match self.rest.next() {
                    Some(escaped) => self.push(escaped),
                    None => return Err(Refusal::new("the directive ends in a \\", "remove it or continue the line")),
                },
                _ => {
                    self.refuse_shell(c)?;
                    if matches!(c, '*' | '?' | '[' | '{') {
                        self.pattern.get_or_insert(c);
                    }
                    self.push(c);
                }
            }
        }
        self.end_word()?;
        Ok(Fields { words: self.words, pattern: self.pattern })
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) -> Result<(), Refusal> {
        self.words.extend(self.word.take());
        if self.words.len() > WORDS_MAX {
            let cause = format!("the directive has more than {WORDS_MAX} words");
            return Err(Refusal::new(cause, "use several directives"));
        }
        Ok(())
    }

    fn single_quoted(&mut self) -> Result<(), Refusal> {
        let word = self.word.get_or_insert_default();
        for c in self.rest.by_ref() {
            if c == '\'' {
                return Ok(());
            }
            word.push(c);
        }
        Err(Refusal::new("a ' is not closed", "close it, or write \\' for the character itself"))
    }

    fn double_quoted(&mut self) -> Result<(), Refusal> {
        self.word.get_or_insert_default();
        while let Some(c) = self.rest.next() {
            match c {
                '"' => return Ok(()),
                '$' | '`' => self.refuse_shell(c)?,
                '\\' => match self.rest.peek() {
                    Some('$' | '`' | '"' | '\\') => {
                        let escaped = self.rest.next().expect("was peeked");
                        self.push(escaped);
                    }
                    _ => self.push('\\'),
                },
                _ => self.push(c),
            }
        }
        Err(Refusal::new("a \" is not closed", "close it, or write \\\" for the character itself"))
    }

    /// Refuses characters that a shell would interpret.
    fn refuse_shell(&self, c: char) -> Result<(), Refusal> {
        let quoted = format!("if the character itself is meant, quote it: '{c}'");
        let starts_word = self.word.is_none();
        let (does, instead) = match c {
            ';' | '&' => ("would run several commands", "write each command in a directive of its own"),
            '|' => ("would join commands by a pipe", "put the pipe into a script and name the script here"),
            '<' | '>' => ("would redirect", "name the file as an argument of the command"),
            '`' => ("would run another command", "write its result out"),
            '$' => ("would be replaced by a shell", "write the value out"),
            '(' | ')' => ("would start a subshell", "write the command alone"),
            '~' if starts_word => ("would be replaced by a home directory", "write the directory out"),
            '#' if starts_word => ("would start a comment", "put the comment on a line of its own"),
            _ => return Ok(()),
        };
        Err(Refusal::new(
            format!("the unquoted {c} {does}, and directives are never run by a shell"),
            format!("{instead}; {quoted}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap().words
    }

    #[test]
    fn quoting_is_a_shells() {
        assert_eq!(words(r#"scp 'a b' "c\"d" e\ f g'h'"i" '' "#), ["scp", "a b", "c\"d", "e f", "ghi", ""]);
        assert_eq!(words(r#"hsi -q -A keytab "get /scratch/f : input""#)[4], "get /scratch/f : input");
        assert_eq!(words(r#"curl 'http://h/x?a=1&b=2' -o x#y a~b"#)[1], "http://h/x?a=1&b=2");
        assert_eq!(words(r#"a "\x""#)[1], "\\x");
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused() {
        for line in [
            "cp a b; rm -rf x",
            "cp a b && rm x",
            "cp a b & ",
            "cat a | sh",
            "cat a > b",
            "sort < b",
            "cp $(id) b",
            "cp `id` b",
            "cp \"`id`\" b",
            "cp \"$(id)\" b",
            "cp $HOME/a b",
            "cp ~/a b",
            "(cp a b)",
            "cp a b # to b",
            "cp 'a b",
            "cp \"a b",
            "cp a b\\",
            "cp a\0b c",
            "cp 'a\rb' c",
            "cp 'a\nb' c",
        ] {
            let refusal = split(line).expect_err(line);
            assert!(!refusal.cause.is_empty() && !refusal.mend.is_empty(), "{line:?}");
        }
    }

    #[test]
    fn patterns_are_passed_and_noted() {
        assert_eq!(split("scp h:/d/*.nc x").unwrap().pattern, Some('*'));
        assert_eq!(split("scp 'h:/d/*.nc' x").unwrap().pattern, None);
    }

    #[test]
    fn size_is_bounded() {
        assert!(split(&"a".repeat(DIRECTIVE_BYTES_MAX + 1)).is_err());
        assert!(split(&"a ".repeat(WORDS_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(list in proptest::collection::vec("[^\\p{Cc}]{0,12}", 0..8)) {
            let line = shlex::try_join(list.iter().map(String::as_str)).unwrap();
            prop_assert_eq!(words(&line), list);
        }

        #[test]
        fn agrees_with_shlex_where_it_accepts(line in "[a-c'\"\\\\ $;#*~=]{0,24}") {
            if let Ok(ours) = split(&line) {
                prop_assert_eq!(Some(ours.words), shlex::split(&line));
            }
        }
    }
}
