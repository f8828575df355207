//! The engine has no input or output but its arguments, and no float decides anything in it: held of its sources, because
//! lints know functions and types one by one.
#![allow(clippy::disallowed_methods, reason = "a test reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the standard library that have no place in the engine, and why.
const FORBIDDEN: &[(&str, &str)] = &[
    ("env", "its inputs are its arguments"),
    ("fs", "it has no files"),
    ("io", "it has no input and output"),
    ("net", "it has no sockets; addresses are in core::net"),
    ("os", "it knows no operating system"),
    ("process", "it starts nothing"),
    ("thread", "it owns no thread and never waits"),
    ("time", "it is told the time"),
];

/// Functions with floats: they read configurations or write reports.
const REPORTS: &[&str] = &["units.rs: from_f64", "units.rs: as_f64", "time.rs: as_secs_f64"];

#[test]
fn the_engine_names_no_module_that_reaches_outside() {
    let mut found = Vec::new();
    each_line(|file, _, line| {
        for (module, why) in FORBIDDEN {
            if names(line, module) {
                found.push(format!("{file}: {line}\n    std::{module}: {why}"));
            }
        }
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn floats_are_for_configurations_and_reports_only() {
    let mut found = Vec::new();
    each_line(|file, function, line| {
        let is_report = REPORTS.contains(&format!("{file}: {function}").as_str());
        if words(line).any(|word| word == "f64" || word == "f32") && !is_report {
            found.push(format!("{file}, {function}: {line}"));
        }
    });
    assert!(found.is_empty(), "a float may decide something:\n{}", found.join("\n"));
}

#[test]
fn a_forbidden_module_is_found_however_it_is_named() {
    for line in ["use std::fs;", "use std::{fmt, fs};", "std::fs::read(path)", "use std::fs::{self, File};"] {
        assert!(names(line, "fs"), "{line}");
    }
    for line in ["use std::fmt;", "use std::collections::VecDeque;", "self.fs::x()", "use core::net::IpAddr;"] {
        assert!(!names(line, "fs") && !names(line, "net"), "{line}");
    }
}

/// True if a line of code names a module of the standard library.
fn names(line: &str, module: &str) -> bool {
    line.match_indices("std::").any(|(at, prefix)| {
        let rest = &line[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(list) => words(list).any(|word| word == module),
            None => words(rest).next() == Some(module) && rest.starts_with(module),
        }
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Calls `look` with the file, the function begun last, and each line of code that is no test's.
fn each_line(mut look: impl FnMut(&str, &str, &str)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 60, "all of the engine: {} files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("a source");
        let file = path.strip_prefix(&root).expect("below src").display().to_string();
        let mut function = "";
        // Tests stand at the end of a file.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in code.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            if let Some((_, name)) = line.split_once("fn ") {
                function = words(name).next().unwrap_or_default();
            }
            look(&file, function, line);
        }
    }
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default();
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
