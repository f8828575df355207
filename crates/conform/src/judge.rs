//! The judge: the faults of a connection, from what its two ends saw.

use super::fault::Fault;
use super::outcome::{Arrival, Outcome};
use super::pattern::Difference;
use super::role::Role;
use super::schedule::{ConnectionPlan, Last, Script, Step};

/// The faults that a connection showed, each name once.
pub(crate) fn judge(plan: &ConnectionPlan, client: &Outcome, server: &Outcome) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    let is_message = plan.dialogue.is_some();
    let ends = [
        (Role::Client, &plan.client, client, &plan.server, server),
        (Role::Server, &plan.server, server, &plan.client, client),
    ];
    for (from, writer, sent, reader, seen) in ends {
        let direction = format!("{} to {}", from.name(), from.other().name());
        let found = content(seen, sent, &direction).or_else(|| match is_message {
            true => ending_of_message(writer, sent, reader, seen, &direction),
            false => ending(writer, sent, reader, seen, &direction),
        });
        let found = found.into_iter().chain(seen.faults.iter().cloned());
        // A server that is cut off because the client was refused shows what the client knows better.
        let found = found.chain(failed_write(sent, reader, seen, &direction).filter(|_| client.refused.is_none()));
        for fault in found.chain(sent.not_held.map(|bytes| not_held(writer, bytes, &direction))) {
            if faults.iter().all(|known| known.name != fault.name) {
                faults.push(fault);
            }
        }
    }
    // That a connection broke is the consequence of whatever else is known.
    if faults.len() > 1 {
        faults.retain(|fault| fault.name != "broken-off");
    }
    faults
}

/// The fault of bytes that arrived and were not sent, or not so.
fn content(seen: &Outcome, sent: &Outcome, direction: &str) -> Option<Fault> {
    let fault = match seen.difference.as_ref()? {
        Difference::Missing { at, bytes } => {
            Fault::new("bytes-missing", format!("{direction}: bytes {at} to {} of {}", at + bytes - 1, sent.sent))
        }
        Difference::Reordered { at } => Fault::new("bytes-reordered", format!("{direction}: from byte {at} on")),
        Difference::Repeated { at, from } => {
            Fault::new("bytes-repeated", format!("{direction}: at byte {at} those from {from} on came again"))
        }
        Difference::Foreign { at, whose } => {
            Fault::new("bytes-foreign", format!("{direction}: at byte {at} came bytes of {whose}"))
        }
        Difference::Changed { at } => {
            Fault::new("bytes-changed", format!("{direction}: at byte {at} of {} came something else", sent.sent))
        }
    };
    Some(fault)
}

fn has_reset(script: &Script, outcome: &Outcome) -> bool {
    script.last == Last::Reset && outcome.cut_at.is_none() && outcome.write_error.is_none()
}

/// The fault in how the direction of `writer` ended at `reader`, if it did not end as it should.
fn ending(writer: &Script, sent: &Outcome, reader: &Script, seen: &Outcome, direction: &str) -> Option<Fault> {
    let progress = format!("{direction}: {} of {} bytes had arrived", seen.received, sent.sent);
    if has_reset(reader, seen) {
        // Whoever resets has no right to what is on the way. That the other one learns of it is the other direction's matter.
        return None;
    }
    let ends_first = writer.steps.contains(&Step::HalfClose);
    if has_reset(writer, sent) {
        return match seen.arrival {
            _ if ends_first && seen.write_error.is_some() => None,
            _ if ends_first => Some(Fault::new("reset-not-passed", format!("{direction}, after its end"))),
            Arrival::Reset => None,
            Arrival::Clean => Some(Fault::new("reset-became-end", progress)),
            Arrival::Open => Some(Fault::new("reset-not-passed", progress)),
        };
    }
    let reader_has_closed = reader.last == Last::Close && seen.cut_at.is_none() && seen.write_error.is_none();
    let reader_ended_first = reader.steps.contains(&Step::HalfClose);
    match seen.arrival {
        Arrival::Clean if seen.received == sent.sent => None,
        Arrival::Clean if seen.received < sent.sent && reader_ended_first && was_to_follow(writer, sent, seen) => {
            Some(Fault::new("half-close-became-close", progress))
        }
        Arrival::Clean if seen.received < sent.sent => {
            Some(Fault::new("bytes-missing", format!("{progress} at its end")))
        }
        Arrival::Clean => Some(Fault::new("bytes-changed", format!("{progress}: more than were sent"))),
        Arrival::Reset if reader_ended_first => Some(Fault::new("half-close-became-close", progress)),
        Arrival::Reset => Some(Fault::new("end-became-reset", progress)),
        Arrival::Open if reader_has_closed && seen.received == sent.sent => None,
        Arrival::Open if sent.cut_at.is_some_and(|at| at != "its end") && seen.received == sent.sent => {
            // Nothing of its own is missing: it waited for the other direction.
            None
        }
        Arrival::Open if seen.received == sent.sent => Some(Fault::new("end-not-passed", progress)),
        Arrival::Open => {
            let at = sent.cut_at.map_or_else(String::new, |at| format!("; the writer was at {at}"));
            Some(Fault::new("stuck", progress + &at))
        }
    }
}

/// The same of a message. One that was cut off says so by not being whole, whatever its connection ends with.
fn ending_of_message(
    writer: &Script,
    sent: &Outcome,
    reader: &Script,
    seen: &Outcome,
    direction: &str,
) -> Option<Fault> {
    let progress = format!("{direction}: {} of {} bytes had arrived", seen.received, sent.sent);
    if has_reset(reader, seen) {
        return None;
    }
    if has_reset(writer, sent) {
        let has_ended = writer.steps.contains(&Step::HalfClose);
        return match seen.arrival {
            _ if has_ended && seen.write_error.is_some() => None,
            Arrival::Reset => None,
            Arrival::Clean if !has_ended => Some(Fault::new("reset-became-end", progress)),
            _ => Some(Fault::new("reset-not-passed", progress)),
        };
    }
    if let Some(answer) = &seen.refused {
        return Some(Fault::new("no-connection", format!("the proxy answered {answer:?}")));
    }
    match seen.arrival {
        Arrival::Clean if seen.received > sent.sent => {
            Some(Fault::new("bytes-changed", format!("{progress}: more than were sent")))
        }
        Arrival::Clean if seen.received < sent.sent => {
            Some(Fault::new("bytes-missing", format!("{progress} at its end")))
        }
        Arrival::Clean if seen.is_unclosed => {
            Some(Fault::new("end-not-passed", "the answer said that its connection ends, and it did not"))
        }
        Arrival::Clean => None,
        // What is missing for a reason of its own has a fault already, or has not been written.
        _ if !seen.faults.is_empty() || sent.arrival == Arrival::Reset => None,
        Arrival::Reset if seen.received < sent.sent => {
            Some(Fault::new("bytes-missing", format!("{progress} when it broke off")))
        }
        Arrival::Reset => Some(Fault::new("end-not-passed", format!("{progress}, and its end had not"))),
        Arrival::Open if sent.cut_at.is_some_and(|at| at != "its end") && seen.received == sent.sent => None,
        Arrival::Open if seen.received == sent.sent => Some(Fault::new("end-not-passed", progress)),
        Arrival::Open => {
            let at = sent.cut_at.map_or_else(String::new, |at| format!("; the writer was at {at}"));
            Some(Fault::new("stuck", progress + &at))
        }
    }
}

/// True if what is missing was cut off by the end of the other direction: the writer was told, or it had waited for
/// that end before it wrote what did not arrive.
fn was_to_follow(writer: &Script, sent: &Outcome, seen: &Outcome) -> bool {
    let before = writer.steps.iter().take_while(|step| **step != Step::UntilEnd);
    let before: u64 = before.map(Step::bytes).sum();
    sent.write_error.is_some() || (writer.steps.contains(&Step::UntilEnd) && seen.received <= before)
}

/// A write that failed though the reader had done nothing to make it fail.
fn failed_write(sent: &Outcome, reader: &Script, seen: &Outcome, direction: &str) -> Option<Fault> {
    let error = sent.write_error?;
    if reader.last == Last::Reset {
        return None;
    }
    let detail = format!("{direction}: after {} bytes: {error}", sent.sent);
    let name = if reader.steps.contains(&Step::HalfClose) { "half-close-became-close" } else { "broken-off" };
    // A reader that failed itself saw the same break.
    (seen.arrival != Arrival::Reset || name != "broken-off").then(|| Fault::new(name, detail))
}

fn not_held(writer: &Script, bytes: u64, direction: &str) -> Fault {
    if writer.steps.contains(&Step::Pour) {
        return Fault::new("reset-not-passed", format!("{direction}: {bytes} bytes were taken after the reset"));
    }
    Fault::new("not-held-back", format!("{direction}: {bytes} bytes were on the way"))
}
