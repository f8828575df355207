//! `headend personalities`

use clap::Args;

use headend_engine::tcp::personality::Personality;
use headend_scenario::tcp::OPTIONS;

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
    let all: Vec<(&str, Personality)> = Personality::ALL.iter().map(|(name, make)| (*name, make())).collect();
    match arguments.format {
        Format::Table => {
            let headings: Vec<String> =
                ["option"].into_iter().chain(all.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
            let row = |option: &headend_scenario::tcp::TcpOption| {
                let values = all.iter().map(|(_, personality)| (option.show)(personality));
                [option.field.name.to_owned()].into_iter().chain(values).collect()
            };
            let rows: Vec<Vec<String>> = OPTIONS.iter().map(row).collect();
            printing::print(|out| printing::write_table(out, &headings, &rows))
        }
        Format::Json => {
            let options = |personality: &Personality| -> serde_json::Value {
                let shown = OPTIONS.iter().map(|option| (option.field.name, (option.show)(personality)));
                shown.map(|(name, value)| (name.to_owned(), serde_json::Value::from(value))).collect()
            };
            let json: serde_json::Value = all.iter().map(|(name, p)| ((*name).to_owned(), options(p))).collect();
            printing::print(|out| writeln!(out, "{json:#}"))
        }
    }
}
