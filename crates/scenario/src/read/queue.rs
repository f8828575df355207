//! What is dropped of what arrives at a queue: a limit, or a table.

use headend_engine::link::queue::Discipline;

use super::Section;
use crate::document::{Data, Value};
use crate::error::Problem;
use crate::fields::{self, Kind};

/// The field `queue` of a link or direction.
pub(super) fn discipline(section: &Section<'_>) -> Discipline {
    let Some(Value { place, data }) = section.table.get("queue") else { return Discipline::UNLIMITED };
    if let Data::Table(table) = data {
        let queue = Section::open(section.log, &fields::QUEUE, format!("{}queue.", section.prefix), place, table);
        return queue.part(Discipline::ALL, Discipline::read).unwrap_or(Discipline::UNLIMITED);
    }
    match Kind::Capacity.read(data) {
        Ok(limit) => Discipline::drop_tail(limit.capacity()),
        Err(_) => {
            let (found, expected) = (data.found(), Kind::Discipline.expected());
            section.wrong("queue", place, Problem::Value { found, expected });
            Discipline::UNLIMITED
        }
    }
}
