//! Circuits with in-band control at an edge: what their datagrams hold, which on a wire is in them.

use std::collections::BTreeMap;

use headend_engine::circuit::in_band::{self, Acknowledgement, OVERHEAD};
use headend_engine::packet::{Body, Class, Ecn, Endpoint, Packet};
use headend_engine::time::Time;

use super::{Edge, End, Mouth};

/// Datagrams that are remembered: what was lost is forgotten once so many more have left.
const REMEMBERED: usize = 1 << 16;

/// The contents of one circuit's datagrams, by their packets' ids.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    /// A user's packet, and the datagram's number if it has one.
    data: BTreeMap<u64, (Option<u64>, Packet)>,
    acknowledgements: BTreeMap<u64, Acknowledgement>,
}

fn remember<T>(held: &mut BTreeMap<u64, T>, id: u64, what: T) {
    held.insert(id, what);
    if held.len() > REMEMBERED {
        held.pop_first();
    }
}

impl Mouth {
    /// A datagram between the two ends, which routers take for one of anybody's.
    fn datagram(&self, node: u16, id: u64, len: u32) -> Packet {
        let src = Endpoint { node, port: self.first_port };
        Packet { id, src, dst: self.peer, len, class: Class::Unmarked, ecn: Ecn::NotEct, body: Body::Opaque }
    }
}

impl Edge {
    /// Makes ready what an end with in-band control has to send now, or notes when to look again.
    pub(super) fn settle_in_band(&mut self, now: Time, which: usize) {
        let mouth = &mut self.mouths[which];
        let datagram = match &mut mouth.end {
            End::Numbers(circuit, _) => match circuit.poll(now) {
                in_band::Output::Datagram(number, packet) => {
                    let mut common = mouth.joint.common();
                    if mouth.joint.delays {
                        common.journeys.leave_queue(now, &packet);
                    }
                    remember(&mut common.datagrams.data, self.next_id, (number, packet));
                    mouth.datagram(self.node, self.next_id, packet.len + OVERHEAD as u32)
                }
                in_band::Output::Wait(at) => {
                    mouth.wake = at;
                    return;
                }
            },
            End::Acknowledges(receiver) => {
                let Some(told) = receiver.poll(now) else {
                    mouth.wake = receiver.deadline();
                    return;
                };
                let len = told.wire_len().get() as u32;
                remember(&mut mouth.joint.common().datagrams.acknowledgements, self.next_id, told);
                mouth.datagram(self.node, self.next_id, len)
            }
            End::Sends(..) | End::Receives(_) | End::Packs(..) | End::Unpacks(_) => {
                unreachable!("only ends with in-band control are settled here")
            }
        };
        self.next_id += 1;
        mouth.sent += datagram.len();
        let (out, acknowledges) = (mouth.out, matches!(mouth.end, End::Acknowledges(_)));
        if acknowledges {
            self.charge(which, datagram.len());
        }
        self.ready.push_back((out, datagram));
    }

    /// A datagram came for an end with in-band control. One that comes twice is passed on once.
    pub(super) fn receive_in_band(&mut self, now: Time, which: usize, id: u64) {
        let mouth = &mut self.mouths[which];
        mouth.wake = Some(Time::ZERO);
        match &mut mouth.end {
            End::Numbers(circuit, _) => {
                let told = mouth.joint.common().datagrams.acknowledgements.remove(&id);
                if let Some(told) = told {
                    circuit.receive(now, &told);
                }
            }
            End::Acknowledges(receiver) => {
                let held = mouth.joint.common().datagrams.data.remove(&id);
                let Some((number, packet)) = held else { return };
                if let Some(number) = number {
                    receiver.receive(now, number);
                }
                if mouth.joint.delays {
                    mouth.joint.common().journeys.arrive(now, &packet, None);
                }
                self.forward(now, packet);
            }
            End::Sends(..) | End::Receives(_) | End::Packs(..) | End::Unpacks(_) => {}
        }
    }
}
