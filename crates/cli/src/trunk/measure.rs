//! `headend trunk measure`: a probe of the path to a peer, and what would be gained on it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use headend_engine::time::Duration as Span;
use headend_engine::units::quantity;
use headend_host::trunk::{self, Carriage, Handle, PeerStatus, Trunk};
use serde_json::json;

use super::{file, gain, status};
use crate::failure::Failure;
use crate::printing::{self, write_table};

/// The time that a peer has to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks at what came.
const LOOK: Duration = Duration::from_millis(100);
/// The part of the time for which little is sent; and the part after that for which what is sent still grows.
const PARTS: u64 = 3;
const GROWING_PARTS: u32 = 6;
/// The time for which little is still sent after it was counted: what is counted is what the probe was at a moment ago, and it began a
/// moment before it was seen to.
const SLACK: Duration = Duration::from_millis(500);
/// The shortest measurement.
const DURATION_MIN: Span = Span::from_secs(3);

/// A path as it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// The share of few datagrams that was lost, and how many there were.
    pub(super) loss: f64,
    pub(super) counted: u64,
    /// Round trips, smoothed: the shortest, and the longest when the path was full.
    pub(super) rtt_s: f64,
    pub(super) full_rtt_s: f64,
    /// Bits a second that came when it was full, headers of the trunk included, and the share that was lost then.
    pub(super) rate_bps: f64,
    pub(super) full_loss: f64,
}

/// Reads a time of the command line.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let span = quantity::span(text).ok_or_else(|| format!("expected {}", quantity::SPAN))?;
    if span < DURATION_MIN { Err("expected 3 s at least".to_owned()) } else { Ok(span) }
}

pub(super) fn run(path: &Path, peer: &str, duration: Span, as_json: bool) -> Result<(), Failure> {
    let file::Read { mut config, identity, .. } = file::read(path)?;
    let names: Vec<String> = config.peers.iter().map(|known| known.name.clone()).collect();
    config.peers.retain(|known| known.name == peer);
    if config.peers.is_empty() {
        let why = format!("{}: no peer is called {peer:?}; there is {}", path.display(), names.join(", "));
        return Err(Failure::Wrong(why));
    }
    let gentle = duration / PARTS + Span::from_nanos(SLACK.as_nanos() as u64);
    (config.carriage, config.gentle) = (Carriage::Probe, gentle);
    let controller = config.peers[0].send.controller.name().to_owned();
    let trunk = Trunk::start(config, identity)?;
    let handle = trunk.handle();
    let running = thread::spawn(move || trunk.run());
    let measured = measure(&handle, duration);
    handle.stop();
    running.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))?;
    let measured = measured?;
    let gains = gain::simulate(&measured)?;
    let advice = advice(&measured, &controller);
    printing::print(|out| {
        if as_json {
            let gains: Vec<_> = gains
                .iter()
                .map(|gain| json!({ "with": gain.with, "goodput_bps": gain.goodput_bps, "page_s": gain.page_s }))
                .collect();
            let path = json!({
                "loss": measured.loss, "counted": measured.counted, "rtt_s": measured.rtt_s,
                "full_rtt_s": measured.full_rtt_s, "rate_bps": measured.rate_bps, "full_loss": measured.full_loss,
            });
            return writeln!(out, "{}", json!({ "peer": peer, "path": path, "simulated": gains, "advice": advice }));
        }
        writeln!(out, "the path to {peer}, by datagrams under a trunk's own control:")?;
        let few = format!("{:.2} % of {} that were sent slowly", measured.loss * 100.0, measured.counted);
        writeln!(out, "  loss        {few}; {:.2} % when it was full", measured.full_loss * 100.0)?;
        writeln!(
            out,
            "  round trip  {:.1} ms; {:.1} ms when it was full",
            measured.rtt_s * 1e3,
            measured.full_rtt_s * 1e3
        )?;
        writeln!(out, "  rate        {:.2} Mbit/s\n", measured.rate_bps / 1e6)?;
        let over = match measured.rate_bps > gain::RATE_MAX_BPS {
            true => format!("a path of {:.0} Mbit/s, the fastest that it is asked to follow", gain::RATE_MAX_BPS / 1e6),
            false => "such a path".to_owned(),
        };
        writeln!(
            out,
            "by the simulator, over {over}: a download without end, and a page of 10 KB again and again beside it"
        )?;
        let headings = ["", "download [Mbit/s]", "page [ms]"].map(str::to_owned);
        let rows: Vec<Vec<String>> = gains
            .iter()
            .map(|gain| {
                vec![
                    gain.with.to_owned(),
                    format!("{:.2}", gain.goodput_bps / 1e6),
                    format!("{:.0}", gain.page_s * 1e3),
                ]
            })
            .collect();
        write_table(out, &headings, &rows)?;
        advice.iter().try_for_each(|line| writeln!(out, "\n{line}"))
    })
}

/// The change of the file that the path's queue calls for, if it calls for one.
fn advice(path: &Measured, controller: &str) -> Option<String> {
    let queueing_s = path.full_rtt_s - path.rtt_s;
    (trunk::fills_queues(controller) && queueing_s > trunk::DEEP.as_secs_f64()).then(|| {
        let ms = queueing_s * 1e3;
        format!(
            "Under {controller} everybody's packets wait for {ms:.0} ms in the path's queue. {}",
            status::SHORT_QUEUE
        )
    })
}

/// Watches the probe until the time is over.
fn measure(handle: &Handle, duration: Span) -> Result<Measured, Failure> {
    let begin = Instant::now();
    let peer = || handle.status().peers.first().cloned();
    let mut state = "down";
    while begin.elapsed() < PATIENCE && state != "carrying" {
        thread::sleep(LOOK);
        state = peer().map_or("down", |peer| peer.state);
    }
    match state {
        "carrying" => {}
        "refused" => {
            return Err(Failure::Failed("the peer refuses circuits from here (`controls_max` in its file)".to_owned()));
        }
        _ => {
            let why =
                "the peer does not answer: is `headend trunk up` running there, with this site's key in its file?";
            return Err(Failure::Failed(why.to_owned()));
        }
    }
    let duration = Duration::from_nanos(duration.as_nanos());
    let (gentle, begin) = (duration / PARTS as u32, Instant::now());
    let few = watch(&peer, begin, gentle)?;
    let grown = watch(&peer, begin, gentle + SLACK + duration / GROWING_PARTS)?;
    let at = begin.elapsed();
    let full = watch(&peer, begin, duration + SLACK)?;
    let (sent, lost) = (full.sent - grown.sent, full.lost.saturating_sub(grown.lost));
    let full_loss = lost as f64 / sent.max(1) as f64;
    let rate_bps = (full.bytes - grown.bytes) as f64 * 8.0 * (1.0 - full_loss) / (begin.elapsed() - at).as_secs_f64();
    Ok(Measured {
        loss: few.lost as f64 / few.sent.max(1) as f64,
        counted: few.sent,
        rtt_s: few.rtt_least_s,
        full_rtt_s: full.rtt_most_s,
        rate_bps,
        full_loss,
    })
}

/// Counts so far, and the extremes of the smoothed round trip since the watch began.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent: u64,
    lost: u64,
    bytes: u64,
    rtt_least_s: f64,
    rtt_most_s: f64,
}

fn watch(peer: &impl Fn() -> Option<PeerStatus>, begin: Instant, until: Duration) -> Result<Seen, Failure> {
    let mut seen: Option<Seen> = None;
    while begin.elapsed() < until || seen.is_none() {
        thread::sleep(LOOK);
        let to = peer().and_then(|peer| peer.to);
        let to = to.ok_or_else(|| Failure::Failed("the peer was lost while the path was measured".to_owned()))?;
        let rtt_s = to.srtt.map_or(f64::NAN, |srtt| srtt.as_secs_f64());
        let extremes = seen.map_or((rtt_s, rtt_s), |seen| (seen.rtt_least_s.min(rtt_s), seen.rtt_most_s.max(rtt_s)));
        seen = Some(Seen {
            sent: to.headers,
            lost: to.lost,
            bytes: to.controlled_bytes,
            rtt_least_s: extremes.0,
            rtt_most_s: extremes.1,
        });
    }
    Ok(seen.expect("it looked once at least"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_queue_is_advised_where_a_loss_based_trunk_fills_a_deep_one() {
        let path = |full_rtt_s| Measured {
            loss: 0.0,
            counted: 1_000,
            rtt_s: 0.03,
            full_rtt_s,
            rate_bps: 50e6,
            full_loss: 0.01,
        };
        let advised = advice(&path(0.8), "cubic").unwrap();
        assert!(advised.contains("770 ms") && advised.contains("controller = \"fast\""), "{advised}");
        assert_eq!(advice(&path(0.04), "cubic"), None);
        assert_eq!(advice(&path(0.8), "bbr"), None, "it knows better");
    }
}
