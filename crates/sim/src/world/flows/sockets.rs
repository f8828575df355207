//! The circuits of reliable sockets: their two ends.

use headend_engine::circuit::reliable::{Circuit, Gate, Opening as Opens, Ring};
use headend_engine::rng::Rng;
use headend_engine::tcp::connection::{Connection, PairedEnd};
use headend_engine::tcp::personality::Personality;
use headend_engine::time::Duration;

use super::connection::Opening;
use crate::host::Gated;
use headend_scenario::Socket;

/// The gates that are put before the two data TCPs of a flow, its sender's first. The control TCPs open as the data
/// TCPs do.
pub(super) fn gates(
    socket: &Socket,
    data: [&Personality; 2],
    openings: [Opening; 2],
    phases: [Duration; 2],
    ports: [u16; 2],
    rng: &mut Rng,
) -> [Box<Gated>; 2] {
    let circuit = Circuit {
        tcp: (*socket.tcp.personality).clone(),
        controls: socket.controls as usize,
        vmss: socket.vmss,
        copies: socket.copies,
        queue: socket.queue,
    };
    let personality = circuit.personality();
    let mut connections = |opening, phase| {
        let mut isn = || rng.bits() as u32;
        match opening {
            Opening::Active => circuit.connections(Opens::Connect, &mut isn, phase),
            Opening::Passive => circuit.connections(Opens::Listen, &mut isn, phase),
            Opening::Beforehand => Vec::new(),
        }
    };
    let (mut sending, mut receiving) = (connections(openings[0], phases[0]), connections(openings[1], phases[1]));
    if sending.is_empty() {
        let mut end = |clock_phase| PairedEnd { personality: &personality, isn: rng.bits() as u32, clock_phase };
        let pairs = (0..circuit.controls).map(|_| Connection::pair(end(phases[0]), end(phases[1])));
        (sending, receiving) = pairs.unzip();
    }
    let gate = |ring, sends, receives, end: usize| {
        let gate = Gate::new(data[end], sends, receives).with_queue(socket.queue);
        Box::new(Gated { gate, ring, personality: personality.clone(), ports: [ports[end], ports[1 - end]] })
    };
    [
        gate(Ring::Ours, Some(circuit.sender(sending)), None, 0),
        gate(Ring::Theirs, None, Some(circuit.receiver(receiving)), 1),
    ]
}
