//! Full-screen terminal of one program: redrawn repeatedly, with keys, and restored however the program ends.
//!
//! The escape sequences are those of the VT100 and two of xterm's, which all current terminals support, also over
//! ssh. They are: alternate screen (`?1049`), hidden cursor (`?25`), home, erase, reverse video. Terminfo is not
//! used.

mod keys;

pub use keys::Key;

use crate::signals;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::SIGWINCH;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Once;
use std::time::{Duration, Instant};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Assumed size of a terminal that does not report one.
const SIZE: Size = Size { columns: 80, rows: 24 };

const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const GIVE_BACK: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// The terminal in use by a screen, and its earlier modes. One at a time.
static TAKEN: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub columns: usize,
    /// Number of lines.
    pub rows: usize,
}

/// A line of a screen. Its text must contain no control characters, see [`plain`](crate::shown::plain).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Text of the line.
    pub text: String,
    /// Whether it is shown in reverse video.
    pub is_strong: bool,
}

/// Event that ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A key was pressed.
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Nothing happened until the time limit.
    Nothing,
}

/// A terminal in use until this is dropped.
pub struct Screen {
    input: File,
    output: File,
    resized: UnixStream,
    typed: Vec<u8>,
}

/// Returns whether standard input and output are a terminal that can be drawn on.
pub fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

impl Screen {
    /// Takes the terminal of this process. Ctrl-C, SIGTERM and SIGHUP restore it and end the process with success.
    pub fn take() -> io::Result<Screen> {
        let screen = Screen::on(io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?)?;
        signals::on(signals::ENDS, |_| {
            give_back();
            std::process::exit(0);
        })?;
        Ok(screen)
    }

    fn on(input: OwnedFd, output: OwnedFd) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            // A message on the alternate screen would disappear with it.
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let (resized, bell) = UnixStream::pair()?;
        resized.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGWINCH, bell)?;
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        raw.input_modes -= InputModes::IXON;
        raw.output_modes -= OutputModes::OPOST;
        // Ctrl-C stays a signal. Ctrl-Z and Ctrl-\ would leave the terminal in raw mode; 0 disables them.
        for off in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT, SpecialCodeIndex::VTIME] {
            raw.special_codes[off] = 0;
        }
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        *TAKEN.lock() = Some((output.try_clone()?, before));
        let mut screen = Screen { input: input.into(), output: output.into(), resized, typed: Vec::new() };
        tcsetattr(&screen.input, OptionalActions::Now, &raw)?;
        screen.output.write_all(TAKE.as_bytes())?;
        Ok(screen)
    }

    /// Returns the current size.
    pub fn size(&self) -> Size {
        match tcgetwinsize(&self.output) {
            Ok(reported) if reported.ws_col > 0 && reported.ws_row > 0 => {
                Size { columns: reported.ws_col.into(), rows: reported.ws_row.into() }
            }
            _ => SIZE,
        }
    }

    /// Shows these lines and nothing else, as far as they fit.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        // In one write, so that no half-drawn screen is visible.
        self.output.write_all(drawn(lines, self.size()).as_bytes())?;
        self.output.flush()
    }

    /// Waits for an event, at most `until`. An error means that the terminal is gone.
    pub fn wait(&mut self, until: Instant) -> io::Result<Happened> {
        loop {
            if let Some(key) = keys::take(&mut self.typed) {
                return Ok(Happened::Key(key));
            }
            let left = until.saturating_duration_since(Instant::now());
            let (typed, resized) = look(&self.input, &self.resized, left)?;
            if resized {
                while self.resized.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
                return Ok(Happened::Resized);
            }
            if !typed && left.is_zero() {
                return Ok(Happened::Nothing);
            }
            if typed {
                let mut chunk = [0; 64];
                match self.input.read(&mut chunk)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => self.typed.extend_from_slice(&chunk[..n]),
                }
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Returns whether a key was pressed and whether the size changed, within `span`.
fn look(input: &File, resized: &UnixStream, span: Duration) -> io::Result<(bool, bool)> {
    let mut fds = [PollFd::new(input, PollFlags::IN), PollFd::new(resized, PollFlags::IN)];
    let span = span.try_into().ok();
    match poll(&mut fds, span.as_ref()) {
        Ok(_) => Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty())),
        Err(Errno::INTR) => Ok((false, false)),
        Err(error) => Err(error.into()),
    }
}

/// Restores the terminal if it is taken. The modes come first, since a write may block on a stopped terminal.
fn give_back() {
    let Some((output, before)) = TAKEN.lock().take() else { return };
    // A terminal that is gone cannot be restored, so errors are ignored.
    let _ = tcsetattr(&output, OptionalActions::Now, &before);
    let _ = File::from(output).write_all(GIVE_BACK.as_bytes());
}

fn drawn(lines: &[Line], size: Size) -> String {
    let mut drawn = String::from("\x1b[H");
    for (number, line) in lines.iter().take(size.rows).enumerate() {
        let text = cut(&line.text, size.columns);
        let end = if number == 0 { "" } else { "\r\n" };
        let _ = match line.is_strong {
            true => {
                let left = size.columns - text.width();
                write!(drawn, "{end}\x1b[7m{text}{:left$}\x1b[0m", "")
            }
            // The line is erased before the text: after the last column the cursor would erase the last character.
            false => write!(drawn, "{end}\x1b[2K{text}"),
        };
    }
    if lines.len() < size.rows {
        drawn += "\r\n\x1b[J";
    }
    drawn
}

/// Returns the longest prefix of a text that fits into `columns`.
fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let fits = |(_, c): &(usize, char)| {
        used += c.width().unwrap_or(0);
        used > columns
    };
    text.char_indices().find(fits).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests;
