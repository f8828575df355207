//! `headend examples`: the scenarios and configurations of the repository, inside the binary.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::failure::Failure;
use crate::outputs;
use crate::printing::{self, Format};

/// List the examples that come with this command, or print one of them
///
/// Scenarios are for sim, check, lab, compare and emulate; the others are configurations of the daemons.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  headend examples\n  headend examples hfc | headend sim -\n  \
    headend examples hfc --out .\n  headend examples all --out examples")]
pub(crate) struct Arguments {
    /// The example to print, or `all` with --out [default: list them]
    name: Option<String>,

    /// Write NAME.toml to this folder instead; a file that is there is left as it is
    #[arg(long, value_name = "DIR", requires = "name")]
    out: Option<PathBuf>,

    /// Form of the list
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "name")]
    format: Format,
}

/// A file of the repository.
struct Example {
    name: &'static str,
    /// The command that takes it.
    for_: &'static str,
    /// The file as the repository has it.
    source: &'static str,
    /// The recordings that it plays, by the names that it has for them.
    recordings: &'static [(&'static str, &'static str)],
}

/// Scenarios by the names of their files.
macro_rules! scenarios {
    ($($name:literal)*) => {
        [$(Example {
            name: $name,
            for_: "sim",
            source: include_str!(concat!("../../../scenarios/", $name, ".toml")),
            recordings: &[],
        }),*]
    };
}

/// Scenarios of the folder `links` by the names of their files, each with the recording beside it.
macro_rules! links {
    ($($name:literal)*) => {
        [$(Example {
            name: $name,
            for_: "sim",
            source: include_str!(concat!("../../../scenarios/links/", $name, ".toml")),
            recordings: &[(concat!($name, ".csv"), include_str!(concat!("../../../scenarios/links/", $name, ".csv")))],
        }),*]
    };
}

const SCENARIOS: [Example; 14] = scenarios!(
    "hfc" "dumbbell" "web" "load" "bursty" "docsis" "handover" "bbr" "bbr-beside-cubic" "bufferbloat" "sockets" "trunks" "trunk-shared" "live"
);

const LINKS: [Example; 2] = links!("starlink" "cellular");

const CONFIGURATIONS: [Example; 5] = [
    Example {
        name: "proxy-local",
        for_: "proxy",
        source: include_str!("../../../examples/proxy/local.toml"),
        recordings: &[],
    },
    Example {
        name: "proxy-headend",
        for_: "proxy",
        source: include_str!("../../../examples/proxy/headend.toml"),
        recordings: &[],
    },
    Example {
        name: "proxy-store",
        for_: "proxy",
        source: include_str!("../../../examples/proxy/store.toml"),
        recordings: &[],
    },
    Example {
        name: "proxy-transparent",
        for_: "proxy",
        source: include_str!("../../../examples/proxy/transparent.toml"),
        recordings: &[],
    },
    Example {
        name: "trunk-west",
        for_: "trunk",
        source: include_str!("../../../examples/trunk/west.toml"),
        recordings: &[],
    },
];

impl Example {
    /// The file, whose commands take it from the folder in which it now lies.
    fn text(&self) -> String {
        self.source.replace(" scenarios/links/", " ").replace(" scenarios/", " ")
    }

    /// What it shows: its first comment, up to the end of the first sentence, or else its title.
    fn summary(&self) -> String {
        let comment = self.source.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        let comment = comment.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        if comment.is_empty() {
            let title = self.source.lines().find_map(|line| line.strip_prefix("title = "));
            return title.unwrap_or_default().trim_matches('"').to_owned();
        }
        comment.split_once(". ").map_or(comment.as_str(), |(first, _)| first).trim_end_matches(['.', ':']).to_owned()
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all = || SCENARIOS.iter().chain(&LINKS).chain(&CONFIGURATIONS);
    let Some(name) = &arguments.name else {
        return list(arguments.format, &all().collect::<Vec<_>>());
    };
    let wanted: Vec<&Example> = all().filter(|example| name == "all" || example.name == name).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = all().map(|example| example.name).collect();
        let meant = headend_scenario::nearest(name, &names).map(|near| format!("did you mean \"{near}\"? "));
        let (meant, names) = (meant.unwrap_or_default(), names.join(", "));
        return Err(Failure::Wrong(format!("{name}: no such example; {meant}there are {names}")));
    }
    match &arguments.out {
        Some(folder) => wanted.into_iter().try_for_each(|example| write(folder, example)),
        None if name == "all" => Err(Failure::Wrong("all: name a folder for the examples with --out DIR".to_owned())),
        None => printing::print(|out| out.write_all(wanted[0].text().as_bytes())),
    }
}

fn list(format: Format, examples: &[&Example]) -> Result<(), Failure> {
    printing::print(|out| match format {
        Format::Table => {
            let headings = ["name", "for", "what it is"].map(str::to_owned);
            let rows: Vec<Vec<String>> =
                examples.iter().map(|e| vec![e.name.to_owned(), e.for_.to_owned(), e.summary()]).collect();
            printing::write_table(out, &headings, &rows)
        }
        Format::Json => {
            let of = |e: &&Example| serde_json::json!({ "name": e.name, "for": e.for_, "summary": e.summary() });
            writeln!(out, "{:#}", serde_json::Value::from_iter(examples.iter().map(of)))
        }
    })
}

/// Writes an example and what it plays, and says where.
fn write(folder: &Path, example: &Example) -> Result<(), Failure> {
    outputs::make_folder(folder)?;
    write_new(&folder.join(example.name).with_extension("toml"), &example.text())?;
    example.recordings.iter().try_for_each(|(name, text)| write_new(&folder.join(name), text))
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = fs::File::create_new(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::Wrong(format!("{}: is there already; it is not replaced", path.display()))
        }
        _ => Failure::io(path, error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::io(path, error))?;
    printing::print(|out| writeln!(out, "{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &str) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let paths = fs::read_dir(folder).expect("the repository has it").map(|entry| entry.expect("an entry").path());
        let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
        let name = |path: PathBuf| path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
        let mut names: Vec<String> = paths.filter(is_toml).map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn every_example_of_the_repository_is_in_the_binary() {
        let mut embedded: Vec<&str> = SCENARIOS.iter().map(|example| example.name).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, names_in("scenarios"));
        let mut links: Vec<&str> = LINKS.iter().map(|example| example.name).collect();
        links.sort_unstable();
        assert_eq!(links, names_in("scenarios/links"));
        assert_eq!(CONFIGURATIONS.len(), names_in("examples/proxy").len() + names_in("examples/trunk").len());
    }

    #[test]
    fn every_example_says_what_it_is_in_one_line() {
        for example in SCENARIOS.iter().chain(&LINKS).chain(&CONFIGURATIONS) {
            let summary = example.summary();
            assert!((10..=150).contains(&summary.len()), "{}: {summary:?}", example.name);
        }
    }
}
