//! Modems and their channels.

use headend_engine::cable::docsis::{Channel, MODEMS_MAX, Modem, Shaping};
use headend_engine::time::Duration;
use headend_engine::units::Bytes;

use super::Section;
use crate::error::Problem;
use crate::fields;
use crate::model::{Docsis, DocsisChannel, Link, LinkKind};

/// What a docsis link says. With whom it shares a channel is found once all links are read.
pub(super) fn link(section: &Section<'_>, delay: Duration) -> LinkKind {
    let modem = modem(&section.table_under("modem", &fields::MODEM));
    let channel = if section.setting("shares").text().is_empty() {
        let before = section.log.count();
        let channel = channel(&section.table_under("channel", &fields::DOCSIS_CHANNEL), delay);
        if section.log.count() == before
            && let Err(text) = channel.check()
        {
            section.wrong("channel", section.place_of("channel"), Problem::Contradiction(text));
        }
        DocsisChannel::Own(channel)
    } else {
        DocsisChannel::Of(usize::MAX)
    };
    LinkKind::Docsis(Box::new(Docsis { channel, modem }))
}

/// Gives each link that shares a channel the index of the link that has it.
pub(super) fn find_channels(links: &mut [Link], sections: &[(&str, Section<'_>)]) {
    let has_own = |link: &Link| match &link.kind {
        LinkKind::Docsis(docsis) => matches!(docsis.channel, DocsisChannel::Own(_)),
        _ => false,
    };
    let owners: Vec<(usize, String)> =
        links.iter().enumerate().filter(|(_, link)| has_own(link)).map(|(i, link)| (i, link.name.clone())).collect();
    let mut modems = vec![1; links.len()];
    for (link, (_, section)) in links.iter_mut().zip(sections) {
        let LinkKind::Docsis(docsis) = &mut link.kind else { continue };
        let DocsisChannel::Of(owner) = &mut docsis.channel else { continue };
        let name = section.setting("shares").text();
        match owners.iter().find(|(_, other)| *other == name) {
            Some(&(index, _)) => {
                *owner = index;
                modems[index] += 1;
                if modems[index] == MODEMS_MAX + 1 {
                    let (found, expected) =
                        (format!("modem {}", modems[index]), format!("at most {MODEMS_MAX} on a channel"));
                    section.wrong("shares", section.place_of("shares"), Problem::Value { found, expected });
                }
            }
            None => {
                let what = "docsis link with a channel of its own";
                section.unknown("shares", what, &name, owners.iter().map(|(_, other)| other.as_str()));
            }
        }
        for field in ["channel", "delay"].into_iter().filter(|field| section.has(field)) {
            let text = format!("links.{name} says it for all modems on its channel");
            section.wrong(field, section.place_of(field), Problem::Contradiction(text));
        }
    }
}

fn channel(section: &Section<'_>, delay: Duration) -> Channel {
    let exponent = |name| section.setting(name).count() as u32;
    Channel {
        down: section.setting("down").rate(),
        symbols: section.setting("symbols").count(),
        bits_per_symbol: section.setting("modulation").choice(fields::BITS_PER_SYMBOL),
        slot_ticks: section.setting("slot_ticks").count(),
        propagation: delay,
        interleaving: section.setting("interleaving").span(),
        map_interval: section.setting("map_interval").span(),
        look_ahead: section.setting("look_ahead").span(),
        processing: section.setting("processing").span(),
        opportunities: section.setting("opportunities").count(),
        fill: section.setting("fill").flag(),
        backoff_start: exponent("backoff_start"),
        backoff_end: exponent("backoff_end"),
        access: section.setting("access").choice(fields::ACCESS),
    }
}

fn modem(section: &Section<'_>) -> Modem {
    let shaping = |rate: &str, burst: &str, granularity: &str| {
        section.has(rate).then(|| Shaping {
            rate: section.setting(rate).rate(),
            burst: section.setting(burst).size(),
            granularity: section.setting(granularity).span(),
        })
    };
    for (rate, fields) in
        [("down_rate", ["down_burst", "down_granularity"]), ("up_rate", ["up_burst", "up_granularity"])]
    {
        for field in fields.into_iter().filter(|field| section.has(field) && !section.has(rate)) {
            let text = format!("only with `{rate}`: without one nothing waits for tokens");
            section.wrong(field, section.place_of(field), Problem::Contradiction(text));
        }
    }
    Modem {
        down: shaping("down_rate", "down_burst", "down_granularity"),
        down_delay_max: section.setting("down_delay_max").span(),
        up: shaping("up_rate", "up_burst", "up_granularity"),
        grant_calendar: section.setting("grant_calendar").span(),
        up_buffer: section.setting("up_buffer").size_or().unwrap_or(Bytes::MAX),
        burst_max: section.setting("burst_max").size(),
        piggyback: section.setting("piggyback").flag(),
        concatenation: section.setting("concatenation").flag(),
        fragmentation: section.setting("fragmentation").flag(),
    }
}
