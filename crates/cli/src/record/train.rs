//! Packets of a train, and reports of trains, as bytes: numbers in network order behind a mark.

/// The beginning of each packet and each report: others' datagrams are none of ours.
const TRAIN_MARK: [u8; 8] = *b"hdTRAIN1";
const REPORT_MARK: [u8; 8] = *b"hdREPRT1";
/// Trains that a report speaks of: a lost report is made good by the next.
pub(super) const REPORTED: usize = 16;
const PACKET_BYTES: usize = 32;
const REPORT_BYTES: usize = 32;
const SEEN_BYTES: usize = 40;

/// A packet of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// The number of the measurement.
    pub(super) run: u64,
    pub(super) train: u32,
    /// Its place in the train, from 0.
    pub(super) index: u32,
    /// The time at which it was sent, since the measurement began.
    pub(super) sent_ns: u64,
}

impl Packet {
    /// Writes it at the beginning of `payload`, which has room.
    pub(super) fn write(&self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&TRAIN_MARK);
        payload[8..16].copy_from_slice(&self.run.to_be_bytes());
        payload[16..20].copy_from_slice(&self.train.to_be_bytes());
        payload[20..24].copy_from_slice(&self.index.to_be_bytes());
        payload[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// None if it is no such packet.
    pub(super) fn read(payload: &[u8]) -> Option<Packet> {
        if payload.len() < PACKET_BYTES || payload[..8] != TRAIN_MARK {
            return None;
        }
        Some(Packet {
            run: long(payload, 8),
            train: short(payload, 16),
            index: short(payload, 20),
            sent_ns: long(payload, 24),
        })
    }
}

/// A train as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) train: u32,
    /// Packets of it up to the last that came, and those that came.
    pub(super) sent: u32,
    pub(super) came: u32,
    /// The places of the first and the last that came.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The time from the first that came to the last.
    pub(super) span_ns: u64,
    /// From the sending of the first to its coming, by two clocks that were never set to each other.
    pub(super) way_ns: i64,
    /// The round trip of its report; known to the sender alone.
    pub(super) round_ns: Option<u64>,
}

impl Seen {
    /// The rate at which packets of so many bytes came; `None` if fewer than four did.
    pub(super) fn rate_bps(&self, bytes: u32) -> Option<u64> {
        let bits = u128::from(self.came.checked_sub(1)?) * u128::from(bytes) * 8;
        let rate = (bits * 1_000_000_000).checked_div(self.span_ns.into())?;
        (self.came >= 4).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// The report of the receiving end on the last train.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) run: u64,
    /// The time at which the packet was sent that came last, and for how long the report of it was held.
    pub(super) last_sent_ns: u64,
    pub(super) held_ns: u64,
    pub(super) trains: Vec<Seen>,
}

impl Report {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = REPORT_MARK.to_vec();
        for number in [self.run, self.last_sent_ns, self.held_ns] {
            bytes.extend(number.to_be_bytes());
        }
        for seen in &self.trains {
            for number in [seen.train, seen.sent, seen.came, seen.first, seen.last, 0] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.extend(seen.span_ns.to_be_bytes());
            bytes.extend(seen.way_ns.to_be_bytes());
        }
        bytes
    }

    /// None if it is no report, or says what cannot be.
    pub(super) fn read(bytes: &[u8]) -> Option<Report> {
        if bytes.len() < REPORT_BYTES || bytes[..8] != REPORT_MARK {
            return None;
        }
        let seen = |bytes: &[u8]| Seen {
            train: short(bytes, 0),
            sent: short(bytes, 4),
            came: short(bytes, 8),
            first: short(bytes, 12),
            last: short(bytes, 16),
            span_ns: long(bytes, 24),
            way_ns: long(bytes, 32) as i64,
            round_ns: None,
        };
        let trains: Vec<Seen> = bytes[REPORT_BYTES..].chunks_exact(SEEN_BYTES).map(seen).collect();
        let can_be = |seen: &Seen| seen.came <= seen.sent && seen.way_ns.unsigned_abs() < 1 << 62;
        let last_sent_ns = long(bytes, 16);
        (trains.len() <= REPORTED && trains.iter().all(can_be) && last_sent_ns < 1 << 62).then(|| Report {
            run: long(bytes, 8),
            last_sent_ns,
            held_ns: long(bytes, 24).min(1 << 62),
            trains,
        })
    }
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_and_reports_come_out_as_they_went_in_and_others_not_at_all() {
        let packet = Packet { run: 7, train: 8, index: 9, sent_ns: 1 << 40 };
        let mut payload = vec![0; 100];
        packet.write(&mut payload);
        assert_eq!(Packet::read(&payload), Some(packet));
        let seen = Seen { train: 1, sent: 9, came: 8, first: 0, last: 8, span_ns: 5, way_ns: -6, round_ns: None };
        let report = Report { run: 7, last_sent_ns: 1, held_ns: 2, trains: vec![seen.clone(), seen.clone()] };
        assert_eq!(Report::read(&report.bytes()), Some(report.clone()));
        assert_eq!((Packet::read(&report.bytes()), Report::read(&payload)), (None, None));
        assert_eq!((Packet::read(&payload[..20]), Report::read(&report.bytes()[..20])), (None, None));
        let wrong = Report { trains: vec![Seen { came: 10, ..seen }], ..report };
        assert_eq!(Report::read(&wrong.bytes()), None, "more came than were sent");
    }
}
