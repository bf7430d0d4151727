//! Whether a thread that waits in a system call was interrupted. The kernel would report it (FUSE_INTERRUPT), but fuser
//! refuses those messages.

/// State of a waiting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The thread still waits.
    Waits,
    /// A signal is pending for the thread.
    Interrupted,
    /// The thread is in a PID namespace that is not visible from here.
    Unseen,
}

/// Examines a thread, by the number in its request.
pub fn waits(thread: u32) -> Wait {
    let status = |thread: u64| std::fs::read_to_string(format!("/proc/{thread}/status")).ok();
    let Some(text) = Some(thread).filter(|thread| *thread != 0).and_then(|thread| status(thread.into())) else {
        return Wait::Unseen;
    };
    if is_interrupted(&text) { Wait::Interrupted } else { Wait::Waits }
}

/// Whether a signal to the thread or its process is pending and not blocked. EINTR without a signal would reach the
/// application as an errno that does not exist. The first thread of a process gets its signal, unless it blocks it.
/// Other threads go on, unless the signal ends the process: then each gets SIGKILL.
fn is_interrupted(status: &str) -> bool {
    let word = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let signals = |name| word(name).and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0);
    let is_first = word("Tgid").is_some_and(|first| word("Pid") == Some(first));
    let pending = signals("SigPnd") | if is_first { signals("ShdPnd") } else { 0 };
    pending & !signals("SigBlk") != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pid: u32, own: u64, shared: u64, blocked: u64) -> String {
        format!(
            "Name:\tx\nTgid:\t7\nPid:\t{pid}\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
        )
    }

    /// [S-218]
    #[test]
    fn a_signal_that_is_not_blocked_interrupts() {
        assert!(!is_interrupted(&status(7, 0, 0, 0)));
        assert!(is_interrupted(&status(7, 0, 0x4000, 0)));
        assert!(!is_interrupted(&status(7, 0, 0x4000, 0x4000)));
        assert!(!is_interrupted(&status(8, 0, 0x4000, 0)), "another thread takes it");
        assert!(is_interrupted(&status(8, 0x100, 0x4000, 0)), "it ends the process");
    }

    #[test]
    fn who_is_there_is_seen() {
        assert_eq!(waits(rustix::thread::gettid().as_raw_nonzero().get() as u32), Wait::Waits);
        assert_eq!(waits(0), Wait::Unseen);
        assert_eq!(waits(u32::MAX), Wait::Unseen);
    }
}
