//! Files without names in which data waits: they are gone with the proxy, however that ends.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};

use crate::error::{During, Error};

/// The folder that files are made in.
#[derive(Debug)]
pub(crate) struct SpoolFolder {
    path: PathBuf,
    folder: OwnedFd,
}

/// The outcome of writing: how much is in the file, and the error that kept the rest out.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) file: Option<Arc<File>>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) len: usize,
    pub(crate) error: Option<io::Error>,
}

impl SpoolFolder {
    /// Opens the folder, and tries whether files can be made in it.
    pub(crate) fn open(path: &Path) -> Result<SpoolFolder, Error> {
        let what = || format!("keep data in {}", path.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        let folder = open().map_err(|error| explained(error.into())).during(what)?;
        let folder = SpoolFolder { path: path.to_owned(), folder };
        folder.file().map_err(explained).during(what)?;
        Ok(folder)
    }

    fn file(&self) -> io::Result<File> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, c".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => Ok(file.into()),
            // open(2): file systems and kernels without O_TMPFILE.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
                static NEXT: AtomicU64 = AtomicU64::new(0);
                let name = format!("headend-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
                let file = rustix::fs::openat(&self.folder, &*name, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
                rustix::fs::unlinkat(&self.folder, &*name, AtFlags::empty())?;
                Ok(file.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes `bytes` at the offset `at` of `file`, or of a new one; blocks.
    pub(crate) fn write(&self, file: Option<Arc<File>>, bytes: Vec<u8>, at: u64) -> Written {
        let file = match file.map_or_else(|| self.file().map(Arc::new), Ok) {
            Ok(file) => file,
            Err(error) => return Written { file: None, bytes, len: 0, error: Some(error) },
        };
        let mut len = 0;
        let mut error = None;
        while len < bytes.len() {
            match file.write_at(&bytes[len..], at + len as u64) {
                Ok(0) => {
                    error = Some(io::ErrorKind::WriteZero.into());
                    break;
                }
                Ok(written) => len += written,
                Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => {}
                Err(refused) => {
                    error = Some(refused);
                    break;
                }
            }
        }
        Written { file: Some(file), bytes, len, error }
    }
}

/// Adds to an error what a person can do about a folder that cannot be used: whoever started the proxy as root may well
/// use it.
fn explained(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(
                "this process is user {} by now, who must be able to write there",
                rustix::process::geteuid().as_raw()
            )
        }
        io::ErrorKind::NotFound => "make the folder, and let the proxy's user write there".to_owned(),
        _ => return error,
    };
    io::Error::other(format!("{error}: {advice}"))
}

/// Reads `len` bytes at the offset `at`, and gives their place on the disk back: if they are the last, all that the file has
/// left. Blocks.
pub(crate) fn take(file: &File, at: u64, len: usize, is_last: bool) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at)?;
    if is_last {
        file.set_len(0)?;
    } else {
        // Where a file system cannot do this, the file gives its place back when all of it has been read.
        let _ = rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len as u64);
    }
    Ok(bytes)
}

impl std::fmt::Display for SpoolFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_read_and_leave_neither_name_nor_place() {
        use std::os::unix::fs::MetadataExt;
        let place = tempfile::TempDir::new().unwrap();
        let folder = SpoolFolder::open(place.path()).unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|index| (index % 251) as u8).collect();
        let written = folder.write(None, bytes.clone(), 0);
        assert!(written.len == bytes.len() && written.error.is_none(), "{:?}", written.error);
        let file = written.file.unwrap();
        assert_eq!(place.path().read_dir().unwrap().count(), 0, "the file has no name");
        let before = file.metadata().unwrap().blocks();
        assert!(take(&file, 0, 600_000, false).unwrap() == bytes[..600_000]);
        assert!(file.metadata().unwrap().blocks() < before, "place is given back as it is read");
        assert!(take(&file, 600_000, 400_000, true).unwrap() == bytes[600_000..]);
        let after = file.metadata().unwrap();
        assert_eq!((after.len(), after.blocks()), (0, 0), "where holes cannot be made either");
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_by_its_name() {
        let error = SpoolFolder::open(Path::new("/none/such")).unwrap_err().to_string();
        assert!(error.starts_with("keep data in /none/such: "), "{error}");
    }
}
