//! The files that people write: read from a path, or from standard input as `-`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::failure::Failure;

/// Bytes of the longest file; what people write is far shorter.
const BYTES_MAX: u64 = 1 << 20;

/// The name that messages give a file.
pub(crate) fn name(path: &Path) -> String {
    if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The name of a file in messages, and its text.
pub(crate) fn read(path: &Path) -> Result<(String, String), Failure> {
    let name = name(path);
    let read = || {
        let mut text = String::new();
        let source: Box<dyn Read> =
            if is_stdin(path) { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
        source.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => io::Error::new(error.kind(), "the file is not UTF-8 text"),
            _ => error,
        })?;
        Ok(text)
    };
    let text = read().map_err(|error: io::Error| match error.kind() {
        // A name that leads to no text is a wrong request; a disk that does not answer is a failure.
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidData => {
            Failure::Wrong(format!("{name}: {error}"))
        }
        _ => Failure::Failed(format!("{name}: {error}")),
    })?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::Wrong(format!("{name}: longer than {BYTES_MAX} bytes")));
    }
    Ok((name, text))
}
