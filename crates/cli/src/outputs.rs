//! The folder of a command's results, which is written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use headend_scenario::results::{Results, Table};

use crate::failure::Failure;

/// Every folder of results has this file, and `--force` replaces no other folder.
const META: &str = "meta.json";

/// Refuses the path of a folder at which, or above which, there is something else.
pub(crate) fn check_folder(path: &Path) -> Result<(), Failure> {
    match path.ancestors().find(|path| path.exists()) {
        Some(there) if !there.is_dir() => {
            Err(Failure::Wrong(format!("{}: is there and is no folder", there.display())))
        }
        _ => Ok(()),
    }
}

/// Makes a folder, unless it is there.
pub(crate) fn make_folder(path: &Path) -> Result<(), Failure> {
    check_folder(path)?;
    fs::create_dir_all(path).map_err(|error| Failure::io(path, error))
}

/// The folder for the results of a sweep.
#[derive(Debug)]
pub(crate) struct ResultsFolder {
    path: PathBuf,
    /// Replace earlier results.
    force: bool,
}

impl ResultsFolder {
    /// The folder `path`, if results can and may be written there. Nothing is made yet but for trying, and not left.
    pub(crate) fn new(path: &Path, force: bool) -> Result<ResultsFolder, Failure> {
        // Its neighbours' names are made from its own, so it must have one.
        let path = match path.file_name() {
            Some(name) => path.with_file_name(name),
            None => {
                let text = format!("{}: expected a folder with a name, such as out/run1", path.display());
                return Err(Failure::Wrong(text));
            }
        };
        check_folder(&path)?;
        let shown = path.display();
        match fs::read_dir(&path).map(Iterator::count) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::io(&path, error)),
            Ok(0) => {}
            Ok(_) if !force => {
                let text = format!("{shown}: is there and not empty; name another folder, or --force to replace it");
                return Err(Failure::Wrong(text));
            }
            Ok(_) if !path.join(META).is_file() => {
                let text = format!("{shown}: is not empty and holds no results (no {META}), so it is not replaced");
                return Err(Failure::Wrong(text));
            }
            Ok(_) => {}
        }
        let folder = ResultsFolder { path, force };
        folder.try_making()?;
        Ok(folder)
    }

    /// Runs may take hours: that nothing can be written is better known before them.
    fn try_making(&self) -> Result<(), Failure> {
        let part = self.part();
        let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made: Vec<&Path> = part.ancestors().take_while(is_new).collect();
        let done = fs::create_dir_all(&part);
        for path in made {
            // What another process has filled meanwhile stays; what was not made is not there.
            let _ = fs::remove_dir(path);
        }
        done.map_err(|error| Failure::io(&part, error))
    }

    /// The folder in which the results grow, beside the folder itself: `NAME.part`.
    pub(crate) fn part(&self) -> PathBuf {
        self.beside("part")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.file_name().expect("a folder of results has a name").to_owned();
        name.push(".");
        name.push(suffix);
        self.path.with_file_name(name)
    }

    /// Writes the results, whole or not at all.
    pub(crate) fn write(&self, results: &Results, scenario: &str, meta: &serde_json::Value) -> Result<(), Failure> {
        self.write_with(results, scenario, meta, |_| Ok(()))
    }

    /// The same, with what `more` writes into the folder beside them.
    pub(crate) fn write_with(
        &self,
        results: &Results,
        scenario: &str,
        meta: &serde_json::Value,
        more: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.write_whole(meta, |part, target| {
            more(part)?;
            results.write_folder(part, target, scenario)
        })
    }

    /// Writes these tables and the scenario, whole or not at all.
    pub(crate) fn write_tables(
        &self,
        tables: &[(&str, &Table)],
        scenario: &str,
        meta: &serde_json::Value,
    ) -> Result<(), Failure> {
        self.write_whole(meta, |part, target| {
            fs::write(part.join("scenario.toml"), scenario)?;
            for (name, table) in tables {
                let mut out = BufWriter::new(File::create(part.join(name))?);
                table.write_csv(&mut out)?;
                out.into_inner()?.sync_all()?;
            }
            fs::rename(part, target)
        })
    }

    /// Makes the folder of what `fill` writes into its first argument and moves to its second.
    fn write_whole(
        &self,
        meta: &serde_json::Value,
        fill: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let part = self.part();
        let is_taken = self.force && self.path.join(META).is_file();
        let target = if is_taken { self.beside("new") } else { self.path.clone() };
        let write = || {
            fs::create_dir_all(&part)?;
            fs::write(part.join(META), format!("{meta:#}\n"))?;
            fill(&part, &target)?;
            if is_taken {
                let old = self.beside("old");
                fs::rename(&self.path, &old)?;
                fs::rename(&target, &self.path)?;
                fs::remove_dir_all(&old)?;
            }
            Ok(())
        };
        write().map_err(|error: io::Error| Failure::io(&self.path, error))
    }
}
