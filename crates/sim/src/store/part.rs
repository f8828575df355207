//! A part: a Parquet file for each table of a task, and a record of their lengths and hashes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

use headend_scenario::results::{Results, Table};
use serde::{Deserialize, Serialize};

use super::{Error, parquet};
use crate::fingerprint::Fingerprint;

/// The folder of the records.
const RECORDS: &str = "parts";

/// The files of a part, by table.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    tables: BTreeMap<String, Written>,
}

/// A file as it was written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    rows: u64,
    bytes: u64,
    hash: String,
}

/// Writes the tables of `results` as `TABLE/NAME.parquet`, and then `parts/NAME.json`.
pub(super) fn write(folder: &Path, name: &str, results: &Results, about: &[(&str, String)]) -> Result<(), Error> {
    let mut record = Record::default();
    let always = [("flows", Some(&results.flows)), ("links", Some(&results.links))];
    let others = [
        ("circuits", results.circuits.as_ref()),
        ("media", results.media.as_ref()),
        ("intervals", results.intervals.as_ref()),
    ];
    for (table_name, table) in always.into_iter().chain(others) {
        let Some(table) = table else { continue };
        let content = content(table_name, table, about).map_err(|error| Error::File(folder.to_owned(), error))?;
        place(&folder.join(table_name), &format!("{name}.parquet"), &content)?;
        let written = Written { rows: table.rows() as u64, bytes: content.len() as u64, hash: hash(&content) };
        record.tables.insert(table_name.to_owned(), written);
    }
    let text = serde_json::to_string(&record).expect("a record has only string keys") + "\n";
    place(&folder.join(RECORDS), &format!("{name}.json"), text.as_bytes())
}

fn content(name: &str, table: &Table, about: &[(&str, String)]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    parquet::write(&mut content, name, table, about)?;
    Ok(content)
}

/// True if the record is there and every file that it names is as it was written.
pub(super) fn is_whole(folder: &Path, name: &str) -> Result<bool, Error> {
    let Some(text) = read(&folder.join(RECORDS).join(format!("{name}.json")))? else { return Ok(false) };
    let Ok(record) = serde_json::from_slice::<Record>(&text) else { return Ok(false) };
    for (table, written) in &record.tables {
        let content = read(&folder.join(table).join(format!("{name}.parquet")))?;
        let is_same = |content: &Vec<u8>| content.len() as u64 == written.bytes && hash(content) == written.hash;
        if !content.as_ref().is_some_and(is_same) {
            return Ok(false);
        }
    }
    Ok(!record.tables.is_empty())
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::File(path.to_owned(), error)),
    }
}

fn hash(content: &[u8]) -> String {
    let mut hash = Fingerprint::new();
    hash.write_all(content).expect("hashing never fails");
    hash.hex()
}

/// Writes a file beside its place in `folder`, which is made if need be, and renames it.
pub(super) fn place(folder: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let path = folder.join(name);
    let beside = folder.join(beside(name));
    let write = || {
        fs::create_dir_all(folder)?;
        File::create_new(&beside)?.write_all(content)?;
        fs::rename(&beside, &path)
    };
    write().map_err(|error| Error::File(path.clone(), error))
}

/// A name for what becomes the file `name`, which readers of the folder pass over. It is by chance: two machines that share the
/// folder may have two processes of one number at one task.
pub(super) fn beside(name: &str) -> String {
    let chance = RandomState::new().build_hasher().finish();
    format!(".{name}.{chance:016x}.tmp")
}
