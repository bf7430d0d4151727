//! `completions`: shell completions. Commands and options come from clap, values from a call of the program.

use crate::failure::Result;
use clap::{Args, Command};
use clap_complete::Shell;

/// Write the completions of a shell to standard output
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell to complete for.
    shell: Shell,
}

impl Completions {
    /// Writes the script; `with_values` if the program has a `complete-values` command.
    pub fn run(self, mut program: Command, with_values: bool) -> Result<u8> {
        let name = program.get_name().to_owned();
        // Written at once, so that a closed pipe does not cause a panic in the generator.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        let script = String::from_utf8_lossy(&script);
        crate::shown::text(&if with_values { asking(self.shell, &script) } else { script.into_owned() })?;
        Ok(0)
    }
}

/// Adds a function to the script that calls the program for values first. It calls the one in the search path, since
/// the typed command line has not been executed yet.
fn asking(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{BASH}"),
        Shell::Fish => format!("{script}{FISH}"),
        Shell::Zsh => {
            let own_end = script.rfind("\nif [ \"$funcstack[1]\"").unwrap_or(script.len());
            format!("{}{ZSH}", &script[..own_end])
        }
        _ => script.to_owned(),
    }
}

/// Values are printed in the shell's own quoting, and are not evaluated again. Without values the standard completion
/// applies.
const BASH: &str = r#"
_entrepot_or_values() {
    mapfile -t COMPREPLY < <(command entrepot complete-values bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    [ ${#COMPREPLY[@]} -gt 0 ] || _entrepot "$@"
}
complete -F _entrepot_or_values -o bashdefault -o default entrepot
"#;

const ZSH: &str = r#"
_entrepot_or_values() {
    local -a values before
    before=("${(@Q)words[2,CURRENT-1]}")
    values=("${(@f)$(command entrepot complete-values words "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
    if [[ -n "$values" ]]; then
        [[ "$PREFIX" != --*=* ]] || compset -P '*='
        compadd -a values
    else
        _entrepot "$@"
    fi
}

compdef _entrepot_or_values entrepot
[ "$funcstack[1]" != "_entrepot" ] || _entrepot_or_values "$@"
"#;

const FISH: &str = r#"
function __entrepot_values
    set -l before (commandline -opc)
    command entrepot complete-values words $before[2..] (commandline -ct) 2>/dev/null
end
complete -c entrepot -n 'count (__entrepot_values) >/dev/null' -f -a '(__entrepot_values)'
for option in target from to volume
    complete -c entrepot -n 'count (__entrepot_values) >/dev/null' -l $option -r -a '(__entrepot_values)'
end
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_asks_and_is_registered_once_with_that() {
        for (shell, registered) in
            [(Shell::Bash, "complete -F _entrepot"), (Shell::Zsh, "compdef _entrepot"), (Shell::Fish, "function ")]
        {
            let mut script = Vec::new();
            let mut program = Command::new("entrepot").arg(clap::Arg::new("target").long("target"));
            clap_complete::generate(shell, &mut program, "entrepot", &mut script);
            let script = asking(shell, &String::from_utf8(script).expect("text"));
            assert!(script.contains("complete-values"), "{shell}");
            let last = script.rfind(registered).expect("registered");
            assert!(script[last..].contains("values"), "{shell}: {}", &script[last..]);
        }
        let mut zsh = Vec::new();
        clap_complete::generate(Shell::Zsh, &mut Command::new("entrepot"), "entrepot", &mut zsh);
        let zsh = asking(Shell::Zsh, &String::from_utf8(zsh).expect("text"));
        assert!(!zsh.contains("compdef _entrepot entrepot"), "the end of clap's script is another: {zsh}");
    }
}
