//! All there is to know of a proxy, as JSON: docs/howto/operate-proxy.md says what its fields mean.

use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use headend_engine::relay::Side;
use headend_engine::time::Duration;
use headend_host::proxy::books::{Books, FlowPage};
use headend_host::proxy::config::Model;
use headend_host::proxy::side::Grant;
use headend_host::socket::{Info, RecoveryPhase};
use serde_json::{Map, Value, json};

use super::sampler::{SIDES, Sample, Sampler, all};
use super::{Facts, State};
use crate::metrics::unix_seconds;

/// The question that the status answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StatusQuestion {
    /// The most connections that are listed, the busiest first.
    connections: usize,
    /// Samples after this one; `Some(None)` for all there are.
    samples: Option<Option<u64>>,
}

const CONNECTIONS_DEFAULT: usize = 100;
const CONNECTIONS_MAX: usize = 10_000;

impl StatusQuestion {
    /// Reads `connections=N&samples=all|N`.
    pub(super) fn read(query: &str) -> Result<StatusQuestion, String> {
        let mut question = StatusQuestion { connections: CONNECTIONS_DEFAULT, samples: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "connections" => {
                    let count = value.parse().ok().filter(|count| *count <= CONNECTIONS_MAX);
                    question.connections = count
                        .ok_or_else(|| format!("connections: found {value:?}, expected 0 to {CONNECTIONS_MAX}"))?;
                }
                "samples" if value == "all" => question.samples = Some(None),
                "samples" => {
                    let after = value.parse().map_err(|_| {
                        format!("samples: found {value:?}, expected all, or the number of the last one that you have")
                    })?;
                    question.samples = Some(Some(after));
                }
                _ => return Err(format!("{name}: unknown; there are connections and samples")),
            }
        }
        Ok(question)
    }
}

/// Answers.
pub(super) fn answer(question: &StatusQuestion, books: &Books, facts: &Facts, sampler: &Sampler) -> Value {
    let limits = &facts.config.limits;
    let sides = SIDES.map(|side| {
        let told = if side == Side::Local { &facts.config.local } else { &facts.config.remote };
        let (index, tcp) = (side as usize, &books.tcp[side as usize]);
        json!({
            "personality": told.name,
            "options": facts.grants[index].iter().map(option).collect::<Vec<_>>(),
            "read_bytes": books.read[index].load(Relaxed),
            "written_bytes": books.written[index].load(Relaxed),
            "segments": tcp.segments.load(Relaxed),
            "retransmits": tcp.retransmits.load(Relaxed),
            "timeouts": tcp.timeouts.load(Relaxed),
        })
    });
    let [local, remote] = sides;
    let listening = facts.listening.iter().map(|(address, way)| json!({ "address": address.to_string(), "way": way }));
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "time_unix_s": unix_seconds(SystemTime::now()),
        "started_unix_s": unix_seconds(books.started),
        "uptime_s": books.began.elapsed().as_secs_f64(),
        "state": facts.state.name(),
        "takes_connections": facts.state == State::Serving,
        "listening": listening.collect::<Vec<_>>(),
        "relay": match facts.config.model { Model::Buffer => "buffer", Model::Store(_) => "store" },
        "connections": {
            "open": books.open(),
            "limit": limits.connections,
            "accepted": books.accepted.load(Relaxed),
            "joined": books.joined.load(Relaxed),
            "refused": books.refused.load(Relaxed),
            "failed": books.failed.load(Relaxed),
        },
        "memory": { "bytes": books.memory.taken(), "limit_bytes": books.memory.bound() },
        "sockets": {
            "memory_bytes": books.sockets.taken(),
            "limit_bytes": books.sockets.bound(),
            "buffer_limit_bytes": books.buffer_bound.load(Relaxed),
        },
        "spool": {
            "bytes": books.spool.taken(),
            "limit_bytes": books.spool.bound(),
            "refusals": books.spool_refusals.load(Relaxed),
        },
        "local": local,
        "remote": remote,
    });
    if let Some(after) = question.samples {
        status["samples"] = sampler.after(after).map(sample).collect();
    }
    status["busiest"] = busiest(question.connections, books, sampler);
    status
}

fn option(grant: &Grant) -> Value {
    let (is_granted, Ok(what) | Err(what)) = (grant.granted.is_ok(), &grant.granted);
    json!({ "option": grant.option, "asked": grant.asked, "granted": is_granted, "what": what })
}

fn sample(sample: &Sample) -> Value {
    let side = |side: Side| {
        let side = side as usize;
        json!({
            "read_bps": sample.rates.read_bps[side],
            "written_bps": sample.rates.written_bps[side],
            "retransmitted": sample.retransmitted[side],
            "rtt_p50_s": sample.rtt_p50_s[side],
            "rtt_p95_s": sample.rtt_p95_s[side],
        })
    };
    json!({
        "number": sample.number,
        "time_unix_s": sample.time_unix_s,
        "open": sample.open,
        "accepted_per_s": sample.accepted_per_s,
        "memory_bytes": sample.memory_bytes,
        "spool_bytes": sample.spool_bytes,
        "local": side(Side::Local),
        "remote": side(Side::Remote),
    })
}

/// The connections that moved most in the last second; among equals the newest first.
fn busiest(count: usize, books: &Books, sampler: &Sampler) -> Value {
    if count == 0 {
        return json!([]);
    }
    let mut flows: Vec<_> = all(books).map(|flow| (sampler.rates(flow.id).total(), flow)).collect();
    flows.sort_by_key(|(rate, flow)| std::cmp::Reverse((*rate, flow.id)));
    flows.truncate(count);
    flows.iter().map(|(_, flow)| connection(flow, books, sampler)).collect()
}

fn connection(flow: &FlowPage, books: &Books, sampler: &Sampler) -> Value {
    let lap = flow.lap();
    let rates = sampler.rates(flow.id);
    let side = |side: Side| {
        let index = side as usize;
        json!({
            "read_bytes": flow.read[index].load(Relaxed),
            "written_bytes": flow.written[index].load(Relaxed),
            "read_bps": rates.read_bps[index],
            "written_bps": rates.written_bps[index],
            "held_bytes": flow.held[index].load(Relaxed),
            "spooled_bytes": flow.spooled[index].load(Relaxed),
            "tcp": books.sample(flow, side).map(|info| tcp(&info)),
        })
    };
    json!({
        "id": flow.id,
        "since_unix_s": unix_seconds(flow.since),
        "age_s": flow.began.elapsed().as_secs_f64(),
        "way": flow.way,
        "client": flow.client.to_string(),
        "behind": flow.behind.get().map(ToString::to_string),
        "user": lap.user.as_deref(),
        "destination": lap.destination.as_deref(),
        "server": lap.server.map(|server| server.to_string()),
        "local": side(Side::Local),
        "remote": side(Side::Remote),
    })
}

fn tcp(info: &Info) -> Value {
    let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    add("phase", json!(phase(info.phase)));
    add("rtt_s", json!(seconds(info.srtt)));
    add("rtt_min_s", json!(info.rtt_min.map(seconds)));
    add("rto_s", json!(seconds(info.rto)));
    add("cwnd_bytes", json!(info.cwnd().get()));
    add("in_flight_bytes", json!(info.in_flight().get()));
    add("mss_bytes", json!(info.mss.get()));
    add("delivery_bps", json!(info.delivery_rate.map(|rate| rate.get())));
    add("segments", json!(info.data_segments));
    add("retransmits", json!(info.retransmits));
    add("lost_segments", json!(info.lost_segments));
    add("timeouts", json!(info.timeouts));
    Value::Object(fields)
}

fn phase(phase: RecoveryPhase) -> &'static str {
    match phase {
        RecoveryPhase::Open => "open",
        RecoveryPhase::Disorder => "disorder",
        RecoveryPhase::Reduced => "reduced",
        RecoveryPhase::Recovery => "recovery",
        RecoveryPhase::Loss => "loss",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_and_a_wrong_one_told_what_would_be_right() {
        let plain = StatusQuestion { connections: CONNECTIONS_DEFAULT, samples: None };
        assert_eq!(StatusQuestion::read(""), Ok(plain));
        let both = StatusQuestion { connections: 5, samples: Some(Some(17)) };
        assert_eq!(StatusQuestion::read("samples=17&connections=5"), Ok(both));
        assert_eq!(StatusQuestion::read("samples=all").map(|question| question.samples), Ok(Some(None)));
        for (query, expected) in [
            ("connections=many", "0 to 10000"),
            ("connections=10001", "0 to 10000"),
            ("samples=x", "all"),
            ("x=1", "there are"),
        ] {
            let why = StatusQuestion::read(query).unwrap_err();
            assert!(why.contains(expected), "{query}: {why}");
        }
    }
}
