//! `headend personalities`

use clap::Args;

use headend_engine::tcp::personality::Personality;
use headend_scenario::fields::Field;
use headend_scenario::tcp::{self, Draft};

use crate::failure::Failure;
use crate::printing::{self, Format};

/// List the built-in personalities and their options, as scenarios name them
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all: Vec<(&str, Draft)> = Personality::ALL.iter().map(|(name, make)| (*name, make().into())).collect();
    match arguments.format {
        Format::Table => {
            let headings: Vec<String> =
                ["option"].into_iter().chain(all.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
            let row = |field: &Field| {
                let values = all.iter().map(|(_, personality)| personality.show(field));
                [field.name.to_owned()].into_iter().chain(values).collect()
            };
            let rows: Vec<Vec<String>> = tcp::fields().iter().map(row).collect();
            printing::print(|out| printing::write_table(out, &headings, &rows))
        }
        Format::Json => {
            let options = |personality: &Draft| -> serde_json::Value {
                let shown = tcp::fields().iter().map(|field| (field.name, personality.show(field)));
                shown.map(|(name, value)| (name.to_owned(), serde_json::Value::from(value))).collect()
            };
            let json: serde_json::Value = all.iter().map(|(name, p)| ((*name).to_owned(), options(p))).collect();
            printing::print(|out| writeln!(out, "{json:#}"))
        }
    }
}
