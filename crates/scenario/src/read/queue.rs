//! What is dropped of what arrives at a queue: a limit, or a table.

use headend_engine::link::queue::{Counts, Early, Thresholds};
use headend_engine::units::Bytes;

use super::Section;
use crate::document::{Data, Value};
use crate::error::Problem;
use crate::fields::{self, Kind};
use crate::model::{Discipline, QueueSpec};

const UNLIMITED: Discipline = Discipline::Tail(QueueSpec::Unlimited);

/// The field `queue` of a link or direction.
pub(super) fn discipline(section: &Section<'_>) -> Discipline {
    let Some(Value { place, data }) = section.table.get("queue") else { return UNLIMITED };
    let Data::Table(table) = data else {
        return match Kind::Queue.read(data) {
            Ok(limit) => Discipline::Tail(limit.queue()),
            Err(_) => {
                let (found, expected) = (data.found(), Kind::Discipline.expected());
                section.wrong("queue", place, Problem::Value { found, expected });
                UNLIMITED
            }
        };
    };
    let queue = Section::open(section.log, &fields::QUEUE, format!("{}queue.", section.prefix), place, table);
    let buffer = queue.setting("buffer").queue();
    match queue.tag.as_deref() {
        Some("red") => red(&queue, buffer),
        Some("header-drop") => {
            let early = Early::Headers(queue.setting("headers").count());
            Discipline::Headers { early, bytes_max: bytes_max(&queue, buffer), unmarked_is_header: unmarked(&queue) }
        }
        Some("occupancy-drop") => {
            let threshold = queue.setting("threshold").size();
            let bytes_max = bytes_max(&queue, buffer);
            if bytes_max == Bytes::MAX || threshold >= bytes_max {
                let text =
                    format!("a buffer in bytes, more than the threshold of {threshold}, is what all are dropped at");
                queue.wrong("buffer", queue.place_of("buffer"), Problem::Contradiction(text));
                return UNLIMITED;
            }
            Discipline::Headers { early: Early::Occupancy(threshold), bytes_max, unmarked_is_header: unmarked(&queue) }
        }
        _ => Discipline::Tail(buffer),
    }
}

/// Bytes of a packet of `min` and `max` where bytes are counted.
const FULL_PACKET: u64 = 1_500;

fn red(queue: &Section<'_>, buffer: QueueSpec) -> Discipline {
    let (counts, each) = match queue.setting("counts").text().as_str() {
        "bytes" => (Counts::Bytes, FULL_PACKET),
        _ => (Counts::Packets, 1),
    };
    let thresholds = Thresholds {
        min: queue.setting("min").count() * each,
        max: queue.setting("max").count() * each,
        max_chance: queue.setting("max_chance").chance(),
        weight_bits: u32::try_from(queue.setting("weight_bits").count()).expect("the field's range fits 32 bits"),
        departure: queue.setting("departure").span(),
    };
    if thresholds.min >= thresholds.max {
        let text = format!("is not below max = {}", thresholds.max / each);
        queue.wrong("min", queue.place_of("min"), Problem::Contradiction(text));
        return UNLIMITED;
    }
    let packets_max = match buffer {
        QueueSpec::Unlimited => u64::MAX,
        QueueSpec::Packets(packets) => packets,
        QueueSpec::Bytes(_) => {
            let text = "model = \"red\" counts packets: give their number, such as \"50 packets\"".to_owned();
            queue.wrong("buffer", queue.place_of("buffer"), Problem::Contradiction(text));
            return UNLIMITED;
        }
    };
    Discipline::Red { counts, thresholds, packets_max }
}

fn bytes_max(queue: &Section<'_>, buffer: QueueSpec) -> Bytes {
    match buffer {
        QueueSpec::Unlimited => Bytes::MAX,
        QueueSpec::Bytes(bytes) => bytes,
        QueueSpec::Packets(_) => {
            let text =
                "header packets and users' packets differ in length: give a size, such as \"222656B\"".to_owned();
            queue.wrong("buffer", queue.place_of("buffer"), Problem::Contradiction(text));
            Bytes::MAX
        }
    }
}

fn unmarked(queue: &Section<'_>) -> bool {
    queue.setting("unmarked").text() == "header"
}
