//! Flows of frames.

use super::Section;
use crate::error::Problem;
use crate::model::{Media, Over, Stale};
use crate::setting::Setting;

/// What a flow of the kind `media` says of its frames.
pub(super) fn media(section: &Section<'_>) -> Media {
    let rates: Vec<_> = section.setting("rates").list().iter().map(Setting::rate).collect();
    if rates.windows(2).any(|pair| pair[0] >= pair[1]) {
        contradict(section, "rates", "of several rates each is higher than the one before");
    }
    let over = match section.setting("over").text().as_str() {
        "udp" => Over::Udp,
        "tcp" => Over::Tcp,
        _ => Over::Circuit {
            vmss: section.setting("vmss").size(),
            gmb: section.has("gmb").then(|| section.setting("gmb").rate()),
            queue: section.setting("queue").capacity(),
        },
    };
    if !matches!(over, Over::Circuit { .. }) {
        for field in ["gmb", "vmss", "queue"].into_iter().filter(|field| section.has(field)) {
            contradict(section, field, "belongs to a circuit: only with over = \"circuit\"");
        }
    }
    if over == Over::Udp {
        if rates.len() > 1 {
            contradict(section, "rates", "with over = \"udp\" a source cannot read what waits, and has one rate");
        }
        for field in ["stale", "stale_after"].into_iter().filter(|field| section.has(field)) {
            contradict(section, field, "with over = \"udp\" no frame waits at its source");
        }
    }
    let deadline = section.setting("deadline").span();
    let packet = section.setting("packet").size();
    if packet.get() <= headend_engine::packet::DATAGRAM_HEADERS {
        contradict(section, "packet", "a packet of 28 bytes has room for its headers alone");
    }
    Media {
        over,
        frame_interval: section.setting("frame_interval").span(),
        rates,
        key_every: section.setting("key_every").count(),
        key_size: section.setting("key_size").count(),
        deadline,
        packet,
        stale: match section.setting("stale").text().as_str() {
            "keep" => Stale::Keep,
            "replace" => Stale::Replace,
            _ => Stale::Withdraw,
        },
        stale_after: if section.has("stale_after") { section.setting("stale_after").span() } else { deadline / 2 },
    }
}

fn contradict(section: &Section<'_>, field: &str, text: &str) {
    section.wrong(field, section.place_of(field), Problem::Contradiction(text.to_owned()));
}
