//! The whole of a terminal for one program: drawn over and over, with keys, and given back as it was however the program ends.
//!
//! Escape sequences are those of the VT100 and two of xterm's, which every terminal that people use today has, also behind
//! ssh: the other screen (`?1049`), the cursor hidden (`?25`), home, erase, reverse video. Nothing is asked of terminfo.

mod keys;

pub use keys::Key;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Once;
use std::time::{Duration, Instant};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is taken of a terminal that does not tell its size.
const SIZE: Size = Size { columns: 80, rows: 24 };

const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const GIVE_BACK: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// The terminal that a screen has, and how it was. One at a time.
static TAKEN: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// Characters beside and lines above each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Beside each other.
    pub columns: usize,
    /// Above each other.
    pub rows: usize,
}

/// A line of a screen. Its text must hold nothing that steers a terminal, see [`plain`](crate::shown::plain).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it says.
    pub text: String,
    /// Whether it stands out.
    pub is_strong: bool,
}

/// What happened while a program waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A key was pressed.
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Nothing, for as long as was asked.
    Nothing,
}

/// A terminal, taken until this is dropped.
pub struct Screen {
    input: File,
    output: File,
    resized: UnixStream,
    typed: Vec<u8>,
}

/// Whether standard input and output are a terminal that can be drawn on.
pub fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

impl Screen {
    /// Takes the terminal of this process. Ctrl-C, SIGTERM and SIGHUP give it back and end the process well.
    pub fn take() -> io::Result<Screen> {
        let screen = Screen::on(io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?)?;
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        std::thread::Builder::new().name("interrupt".into()).spawn(move || {
            if signals.forever().next().is_some() {
                give_back();
                std::process::exit(0);
            }
        })?;
        Ok(screen)
    }

    fn on(input: OwnedFd, output: OwnedFd) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            // A message on the other screen would go with it.
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
        // Ctrl-C stays a signal. Ctrl-Z and Ctrl-\ would leave the terminal as it is now; 0 switches them off.
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

    /// How large it is now.
    pub fn size(&self) -> Size {
        match tcgetwinsize(&self.output) {
            Ok(told) if told.ws_col > 0 && told.ws_row > 0 => {
                Size { columns: told.ws_col.into(), rows: told.ws_row.into() }
            }
            _ => SIZE,
        }
    }

    /// Shows these lines and nothing else, as far as there is room.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        // In one go, so that nobody sees half of it.
        self.output.write_all(drawn(lines, self.size()).as_bytes())?;
        self.output.flush()
    }

    /// Waits until something happens, or that moment. An error: the terminal is gone.
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

/// Whether something was typed, and whether the size changed, within that span.
fn look(input: &File, resized: &UnixStream, span: Duration) -> io::Result<(bool, bool)> {
    let mut fds = [PollFd::new(input, PollFlags::IN), PollFd::new(resized, PollFlags::IN)];
    let span = span.try_into().ok();
    match poll(&mut fds, span.as_ref()) {
        Ok(_) => Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty())),
        Err(Errno::INTR) => Ok((false, false)),
        Err(error) => Err(error.into()),
    }
}

/// Gives the terminal back as it was, if it is taken. First its modes: what is written may wait for a terminal that stands still.
fn give_back() {
    let Some((output, before)) = TAKEN.lock().take() else { return };
    // Nothing can be done for a terminal that is gone.
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
            // What was there is erased first: behind the last column the cursor stands on it.
            false => write!(drawn, "{end}\x1b[2K{text}"),
        };
    }
    if lines.len() < size.rows {
        drawn += "\r\n\x1b[J";
    }
    drawn
}

/// As much of a text as fits into so many columns.
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
