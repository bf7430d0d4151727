//! Bytes of a trace file, decompressed by magic number (gzip, zstd, xz, bzip2), in a buffer of fixed size.

use super::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// Size of reads; measured: a larger one gains nothing.
const BUFFER_BYTES: usize = 256 << 10;

/// A decompressed stream that can return its head without consuming it.
pub struct Bytes {
    path: PathBuf,
    from: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
}

/// The content of a stream, compressed or not, by its first bytes.
pub(crate) fn decompressed(mut from: impl Read + Send + 'static) -> std::io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(4);
    from.by_ref().take(4).read_to_end(&mut magic)?;
    let kind: [u8; 4] = std::array::from_fn(|i| magic.get(i).copied().unwrap_or(0));
    let whole = std::io::Cursor::new(magic).chain(from);
    Ok(match kind {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(whole))),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(whole)?),
        [0xfd, b'7', b'z', b'X'] => Box::new(lzma_rust2::XzReader::new(BufReader::new(whole), true)),
        [b'B', b'Z', b'h', _] => Box::new(bzip2_rs::DecoderReader::new(whole)),
        _ => Box::new(whole),
    })
}

impl Bytes {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Bytes, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            return Err(io(std::io::Error::from(std::io::ErrorKind::IsADirectory)));
        }
        Bytes::decompress(path, file)
    }

    /// Reads from any stream, compressed or not; `path` is for messages.
    pub fn decompress(path: &Path, from: impl Read + Send + 'static) -> Result<Bytes, Error> {
        let from = decompressed(from).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let (buffer, path) = (vec![0; BUFFER_BYTES], path.to_owned());
        Ok(Bytes { path, from, buffer, start: 0, end: 0, at_end: false })
    }

    /// Returns the buffered bytes that are not consumed yet.
    pub fn held(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Consumes buffered bytes.
    pub fn advance(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Reads until at least `bytes` bytes are buffered, or the end; returns the number of buffered bytes. At most the
    /// buffer's size.
    pub fn want(&mut self, bytes: usize) -> Result<usize, Error> {
        let bytes = bytes.min(self.buffer.len());
        while self.end - self.start < bytes && !self.at_end {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    self.at_end = true;
                    return Err(Error::Io { path: self.path.clone(), source });
                }
            }
        }
        Ok(self.end - self.start)
    }

    /// Returns the head of the stream, at most the buffer's size, without consuming it.
    pub fn head(&mut self, bytes: usize) -> Result<&[u8], Error> {
        let held = self.want(bytes)?.min(bytes);
        Ok(&self.buffer[self.start..self.start + held])
    }

    /// Path of the file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(mut bytes: Bytes) -> Vec<u8> {
        let mut out = Vec::new();
        while bytes.want(1).unwrap() > 0 {
            out.extend_from_slice(bytes.held());
            bytes.advance(usize::MAX);
        }
        out
    }

    #[test]
    fn compressed_streams_are_told_by_their_first_bytes() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let path = Path::new("t");
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&text[..1000]).unwrap();
        let mut two_members = gz.finish().unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&text[1000..]).unwrap();
        two_members.extend(gz.finish().unwrap());
        let zst = zstd::encode_all(&text[..], 1).unwrap();
        for source in [text.clone(), two_members, zst] {
            assert_eq!(all(Bytes::decompress(path, std::io::Cursor::new(source)).unwrap()), text);
        }
        assert_eq!(all(Bytes::decompress(path, &b"x"[..]).unwrap()), b"x");
    }

    #[test]
    fn a_cut_file_is_an_error_and_not_an_end() {
        let zst = zstd::encode_all(&[7u8; 100_000][..], 1).unwrap();
        let mut bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(zst[..zst.len() - 3].to_vec())).unwrap();
        let error = loop {
            match bytes.want(1) {
                Ok(0) => panic!("the cut went unnoticed"),
                Ok(n) => bytes.advance(n),
                Err(e) => break e,
            }
        };
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
}
