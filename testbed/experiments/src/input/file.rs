//! Files of text, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::InputError;

const READ_BYTES: usize = 256 * 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Whether a zstd frame that begins so has no data: several programs put one first.
fn is_skippable(magic: &[u8]) -> bool {
    matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Opens the file at `path` as text, or standard input where it is `-`. The first bytes show
/// whether it is compressed, by gzip or zstd. It is read piece by piece, so its length costs no
/// memory.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, InputError> {
    let io = |error: io::Error| InputError::io(&name_of(path), &error);
    if is_standard_input(path) {
        return text(io::stdin()).map_err(io);
    }
    text(File::open(path).map_err(io)?).map_err(io)
}

/// What errors call the file at `path`.
pub(crate) fn name_of(path: &Path) -> String {
    match is_standard_input(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Whether a path stands for standard input, which can be read once.
#[must_use]
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// [`open`] for a file that has been read before; `None` for one that can be read only once, such
/// as a pipe.
pub(crate) fn open_again(path: &Path) -> Option<Box<dyn BufRead>> {
    let file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|of| of.is_file()))?;
    text(file).ok()
}

fn text(file: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(READ_BYTES, file);
    let first = file.fill_buf()?;
    if first.starts_with(GZIP) {
        Ok(Box::new(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(file))))
    } else if first.starts_with(ZSTD) || is_skippable(first) {
        let frames = ZstdFrames { frame: None, rest: Some(file) };
        Ok(Box::new(BufReader::with_capacity(READ_BYTES, frames)))
    } else {
        Ok(Box::new(file))
    }
}

/// What is left of a file, with the first bytes of a frame, which have been looked at.
type ZstdFrame<R> = Chain<Cursor<[u8; 4]>, R>;

/// The frames of a zstd file, one after the other.
struct ZstdFrames<R: BufRead> {
    /// The frame that is read, with what follows it.
    frame: Option<StreamingDecoder<ZstdFrame<R>, ruzstd::decoding::FrameDecoder>>,
    /// What follows the frame that was read last; `None` also behind the end of the file.
    rest: Option<R>,
}

/// The next frame with data; `None` at the end of the file.
fn next_frame<R: BufRead>(mut file: R) -> io::Result<Option<ZstdFrame<R>>> {
    // Bounded by the frames of the file.
    while !file.fill_buf()?.is_empty() {
        let mut magic = [0; 4];
        file.read_exact(&mut magic)?;
        if !is_skippable(&magic) {
            return Ok(Some(Cursor::new(magic).chain(file)));
        }
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        if io::copy(&mut file.by_ref().take(length), &mut io::sink())? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(None)
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // Bounded: each turn returns or ends a frame of the file.
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(out)?;
                if count > 0 || out.is_empty() {
                    return Ok(count);
                }
                let Some(frame) = self.frame.take() else { return Ok(0) };
                // The decoder computes the checksum and leaves the comparison to its caller.
                let written = frame.decoder.get_checksum_from_data();
                if written.is_some() && written != frame.decoder.get_calculated_checksum() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "corrupt zstd frame"));
                }
                self.rest = Some(frame.into_inner().into_inner().1);
            }
            let Some(rest) = self.rest.take() else { return Ok(0) };
            let Some(frame) = next_frame(rest)? else { return Ok(0) };
            self.frame = Some(StreamingDecoder::new(frame).map_err(io::Error::other)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: Vec<u8>) -> io::Result<String> {
        let mut all = String::new();
        text(Cursor::new(bytes))?.read_to_string(&mut all)?;
        Ok(all)
    }

    fn gzip(plain: &str) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(plain.as_bytes()).unwrap();
        writer.finish().unwrap()
    }

    fn zstd(plain: &str) -> Vec<u8> {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(plain.as_bytes(), level)
    }

    #[test]
    fn compressed_text_is_read_as_it_was_in_one_piece_or_several() {
        let plain = "Nodes 16\n".repeat(50_000);
        assert_eq!(read(plain.clone().into_bytes()).unwrap(), plain);
        for compressed in [gzip(&plain), zstd(&plain)] {
            assert!(compressed.len() < plain.len() / 10);
            assert_eq!(read(compressed.clone()).unwrap(), plain);
            let twice = [&compressed[..], &compressed].concat();
            assert_eq!(read(twice).unwrap(), plain.repeat(2));
            assert!(read(compressed[..compressed.len() - 6].to_vec()).is_err(), "cut short");
        }
        assert_eq!(read(Vec::new()).unwrap(), "");
    }

    #[test]
    fn zstd_frames_without_data_are_passed_over_wherever_they_are() {
        let empty: &[u8] = &[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let frame = zstd("Nodes 16\n");
        let parts = [empty, &frame, empty, empty, &frame, empty].concat();
        assert_eq!(read(parts).unwrap(), "Nodes 16\n".repeat(2));
        let cut = [&frame, &empty[..empty.len() - 1]].concat();
        assert_eq!(read(cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_bit_that_changed_in_a_compressed_file_changes_no_text() {
        let plain: String = (0..200).map(|at| format!("{}->{at} size {at}7\n", at * 3)).collect();
        for compressed in [gzip(&plain), zstd(&plain)] {
            for at in 4..compressed.len() {
                let mut changed = compressed.clone();
                changed[at] ^= 1;
                let same = read(changed).map_or(true, |text| text == plain);
                assert!(same, "byte {at} of {}", compressed.len());
            }
        }
    }

    #[test]
    fn any_bytes_behind_a_magic_number_are_text_or_an_error() {
        let mut rng = transport::Rng::new(1);
        for magic in [GZIP, ZSTD] {
            for _ in 0..500 {
                let mut bytes = magic.to_vec();
                bytes.extend((0..rng.below(200)).map(|_| rng.next_u64().to_le_bytes()[0]));
                let mut text = text(Cursor::new(bytes)).unwrap();
                let _ = io::copy(&mut text.by_ref().take(1 << 20), &mut io::sink());
            }
        }
    }
}
