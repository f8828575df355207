//! Results as a folder that is written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::trace::CaptureFile;
use super::{Results, Table};

/// The file in which a sweep keeps its finished runs until all are.
pub const JOURNAL: &str = "journal.jsonl";

impl Results {
    /// Writes `flows.csv`, `links.csv`, `circuits.csv`, `media.csv` and `intervals.csv` if there are any, and with traces
    /// `series.csv` and `packets.csv`, into the folder `part`, which may hold a journal and is renamed to `folder` when all is written. `scenario` is stored beside them, so that the results can be
    /// had again.
    ///
    /// # Errors
    /// If `folder` exists and is not empty, or something cannot be written; then `folder` is untouched.
    pub fn write_folder(&self, part: &Path, folder: &Path, scenario: &str) -> io::Result<()> {
        fs::create_dir_all(part)?;
        write(&part.join("scenario.toml"), |out| out.write_all(scenario.as_bytes()))?;
        write_table(&part.join("flows.csv"), &self.flows)?;
        write_table(&part.join("links.csv"), &self.links)?;
        for (name, table) in
            [("circuits.csv", &self.circuits), ("media.csv", &self.media), ("intervals.csv", &self.intervals)]
        {
            if let Some(table) = table {
                write_table(&part.join(name), table)?;
            }
        }
        if let Some(traces) = &self.traces {
            for (name, table) in [("series.csv", &traces.series), ("packets.csv", &traces.packets)] {
                // Captures alone were wanted.
                if !table.columns().is_empty() {
                    write_table(&part.join(name), table)?;
                }
            }
        }
        match fs::remove_file(part.join(JOURNAL)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(part, folder)
    }
}

/// Writes each capture of a host in a run into a file of its own, `pointP-runR-HOST.pcapng`; none that is there is overwritten.
pub fn write_captures(captures: &[CaptureFile], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for CaptureFile { point, run, host, pcapng } in captures {
        File::create_new(folder.join(format!("point{point}-run{run}-{host}.pcapng")))?.write_all(pcapng)?;
    }
    Ok(())
}

fn write_table(path: &Path, table: &Table) -> io::Result<()> {
    write(path, |out| table.write_csv(out))
}

fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    content(&mut out)?;
    out.into_inner()?.sync_all()
}
