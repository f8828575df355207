use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A socket as a relay's owner sees it, with real bytes, so that their order shows.
#[derive(Debug)]
struct Socket {
    condition: Condition,
    /// Bytes that the peer will send and that have not arrived yet.
    coming: VecDeque<u8>,
    arrived: VecDeque<u8>,
    arrived_max: usize,
    /// The peer closes after its last byte.
    closes: bool,
    sending: usize,
    sending_max: usize,
    /// Bytes that the peer got.
    delivered: Vec<u8>,
    closed: bool,
    aborted: bool,
}

impl Socket {
    fn new(bytes: Vec<u8>, arrived_max: usize, sending_max: usize) -> Socket {
        Socket {
            condition: Condition::Opening,
            coming: bytes.into(),
            arrived: VecDeque::new(),
            arrived_max,
            closes: true,
            sending: 0,
            sending_max,
            delivered: Vec::new(),
            closed: false,
            aborted: false,
        }
    }

    fn view(&self) -> View {
        let open = self.condition == Condition::Open;
        View {
            condition: self.condition,
            readable: Bytes::new(self.arrived.len() as u64),
            space: Bytes::new(if open && !self.closed { (self.sending_max - self.sending) as u64 } else { 0 }),
            at_end: self.closes && self.coming.is_empty() && open,
        }
    }

    /// Lets up to `len` bytes arrive from the peer, as far as there is room.
    fn arrive(&mut self, len: usize) {
        if self.condition == Condition::Open {
            let len = len.min(self.arrived_max - self.arrived.len()).min(self.coming.len());
            self.arrived.extend(self.coming.drain(..len));
        }
    }

    /// The peer acknowledges up to `len` bytes.
    fn drain(&mut self, len: usize) {
        self.sending -= len.min(self.sending);
    }
}

/// Two sockets, a relay between them, and the bytes that it holds.
#[derive(Debug)]
struct Rig {
    relay: Relay,
    local: Socket,
    remote: Socket,
    held: [VecDeque<u8>; 2],
}

impl Rig {
    fn new(model: RelayModel, local: Socket, remote: Socket) -> Rig {
        Rig { relay: Relay::new(model), local, remote, held: [VecDeque::new(), VecDeque::new()] }
    }

    fn socket(&mut self, side: Side) -> &mut Socket {
        match side {
            Side::Local => &mut self.local,
            Side::Remote => &mut self.remote,
        }
    }

    /// Obeys the relay until it wants nothing more.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let Some(action) = self.relay.next(&self.local.view(), &self.remote.view()) else { return };
            match action {
                Action::Read(from, len) => {
                    let bytes: Vec<u8> = self.socket(from).arrived.drain(..len.get() as usize).collect();
                    self.held[from.other() as usize].extend(bytes);
                    self.relay.has_read(from, len);
                }
                Action::Write(to, len) => {
                    assert_eq!(len.get() as usize, self.held[to as usize].len(), "all that is held is offered");
                    let space = self.socket(to).view().space.get() as usize;
                    let taken = space.min(len.get() as usize);
                    let bytes: Vec<u8> = self.held[to as usize].drain(..taken).collect();
                    let socket = self.socket(to);
                    assert!(!socket.closed, "nothing is written after the close");
                    socket.sending += taken;
                    socket.delivered.extend(bytes);
                    self.relay.has_written(to, Bytes::new(taken as u64));
                }
                Action::Close(to) => {
                    assert!(!self.socket(to).closed, "a direction closes once");
                    self.socket(to).closed = true;
                }
                Action::Abort(side) => {
                    let socket = self.socket(side);
                    assert!(!socket.aborted, "a side is reset once");
                    (socket.aborted, socket.condition) = (true, Condition::Failed);
                }
            }
        }
        panic!("a relay comes to rest");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Open(Side),
    Arrive(Side, usize),
    Drain(Side, usize),
}

fn event() -> impl Strategy<Value = Event> {
    let side = || prop_oneof![Just(Side::Local), Just(Side::Remote)];
    prop_oneof![
        1 => side().prop_map(Event::Open),
        8 => (side(), 1usize..3_000).prop_map(|(side, len)| Event::Arrive(side, len)),
        8 => (side(), 1usize..3_000).prop_map(|(side, len)| Event::Drain(side, len)),
    ]
}

fn model() -> impl Strategy<Value = RelayModel> {
    prop_oneof![
        Just(RelayModel::StoreAndForward),
        Just(RelayModel::BufferAndForward { limit: Bytes::ZERO }),
        (1u64..5_000).prop_map(|limit| RelayModel::BufferAndForward { limit: Bytes::new(limit) }),
    ]
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    (0..max, any::<u8>()).prop_map(|(len, first)| (0..len).map(|i| (i * 31) as u8 ^ first).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_goes_across_in_order_and_both_directions_close(
        model in model(),
        down in bytes(20_000),
        up in bytes(5_000),
        buffers in [1usize..4_000, 1usize..4_000, 1usize..4_000, 1usize..4_000],
        events in prop::collection::vec(event(), 0..200),
    ) {
        let local = Socket::new(up.clone(), buffers[0], buffers[1]);
        let remote = Socket::new(down.clone(), buffers[2], buffers[3]);
        let mut rig = Rig::new(model, local, remote);
        // After the schedule the network is a good one, so that all comes to an end.
        let rest = [Event::Open(Side::Local), Event::Open(Side::Remote)].into_iter().chain((0..30_000).flat_map(|_| {
            [Side::Local, Side::Remote].into_iter().flat_map(|s| [Event::Arrive(s, 5_000), Event::Drain(s, 5_000)])
        }));
        for event in events.into_iter().chain(rest) {
            match event {
                Event::Open(side) => rig.socket(side).condition = Condition::Open,
                Event::Arrive(side, len) => rig.socket(side).arrive(len),
                Event::Drain(side, len) => rig.socket(side).drain(len),
            }
            rig.settle();
            for side in [Side::Local, Side::Remote] {
                let held = rig.held[side as usize].len() as u64;
                prop_assert_eq!(rig.relay.held(side).get(), held, "what the relay counts is what is held");
                if let RelayModel::BufferAndForward { limit } = model {
                    prop_assert!(held <= limit.get(), "{held} bytes held, {limit} allowed");
                    prop_assert!(rig.relay.held_max(side) <= limit);
                } else {
                    prop_assert!(rig.socket(side.other()).arrived.is_empty(), "a store takes all that arrives");
                }
            }
            prop_assert!(!rig.local.closed || rig.local.delivered.len() == down.len(), "closed before the last byte");
            prop_assert!(!rig.remote.closed || rig.remote.delivered.len() == up.len(), "closed before the last byte");
            if rig.local.closed && rig.remote.closed {
                break;
            }
        }
        prop_assert!(rig.local.closed && rig.remote.closed, "both directions close in the end");
        prop_assert_eq!(&rig.local.delivered, &down);
        prop_assert_eq!(&rig.remote.delivered, &up);
    }

    #[test]
    fn a_failure_of_either_side_resets_the_other_once_and_moves_nothing_more(
        model in model(),
        events in prop::collection::vec(event(), 0..60),
        fails_local in any::<bool>(),
    ) {
        let local = Socket::new(vec![1; 3_000], 1_000, 700);
        let remote = Socket::new(vec![2; 9_000], 2_000, 700);
        let mut rig = Rig::new(model, local, remote);
        for event in events {
            match event {
                Event::Open(side) => rig.socket(side).condition = Condition::Open,
                Event::Arrive(side, len) => rig.socket(side).arrive(len),
                Event::Drain(side, len) => rig.socket(side).drain(len),
            }
            rig.settle();
        }
        let failing = if fails_local { Side::Local } else { Side::Remote };
        rig.socket(failing).condition = Condition::Failed;
        let before = (rig.local.delivered.len(), rig.remote.delivered.len());
        rig.settle();
        prop_assert!(rig.socket(failing.other()).aborted, "the other side hears of it");
        prop_assert!(!rig.socket(failing).aborted);
        prop_assert_eq!(before, (rig.local.delivered.len(), rig.remote.delivered.len()));
        prop_assert!(!rig.local.closed || !rig.local.aborted || before.0 == 9_000, "half a file never looks whole");
    }
}

const KB: Bytes = Bytes::new(1_000);

fn open(readable: Bytes, space: Bytes) -> View {
    View { condition: Condition::Open, readable, space, at_end: false }
}

#[test]
fn a_full_send_buffer_holds_back_a_buffers_other_side_and_no_stores() {
    let (local, remote) = (open(Bytes::ZERO, Bytes::ZERO), open(KB, KB));
    let mut buffer = Relay::new(RelayModel::BufferAndForward { limit: Bytes::ZERO });
    assert_eq!(buffer.next(&local, &remote), None);
    let mut store = Relay::new(RelayModel::StoreAndForward);
    assert_eq!(store.next(&local, &remote), Some(Action::Read(Side::Remote, KB)));
}

#[test]
fn a_buffer_reads_what_its_limit_and_the_other_send_buffer_take() {
    let (local, remote) = (open(Bytes::ZERO, Bytes::new(300)), open(KB, KB));
    let mut relay = Relay::new(RelayModel::BufferAndForward { limit: Bytes::new(500) });
    assert_eq!(relay.next(&local, &remote), Some(Action::Read(Side::Remote, Bytes::new(800))));
}

#[test]
fn one_direction_closes_while_the_other_goes_on() {
    let mut relay = Relay::new(RelayModel::StoreAndForward);
    let local = View { at_end: true, ..open(Bytes::ZERO, KB) };
    let remote = open(Bytes::ZERO, KB);
    assert_eq!(relay.next(&local, &remote), Some(Action::Close(Side::Remote)));
    assert_eq!(relay.next(&local, &remote), None, "a half-close is carried across once");
    let answering = View { readable: KB, ..remote };
    assert_eq!(relay.next(&local, &answering), Some(Action::Read(Side::Remote, KB)), "the answer still comes");
}

#[test]
fn a_close_waits_for_a_connection_that_is_still_opening() {
    let mut relay = Relay::new(RelayModel::StoreAndForward);
    let local = View { at_end: true, ..open(Bytes::ZERO, KB) };
    let opening = View { condition: Condition::Opening, ..open(Bytes::ZERO, Bytes::ZERO) };
    assert_eq!(relay.next(&local, &opening), None);
    assert_eq!(relay.next(&local, &open(Bytes::ZERO, KB)), Some(Action::Close(Side::Remote)));
}

#[test]
fn a_side_that_is_over_is_not_reset() {
    let mut relay = Relay::new(RelayModel::StoreAndForward);
    let over = View { condition: Condition::Over, ..open(Bytes::ZERO, Bytes::ZERO) };
    let failed = View { condition: Condition::Failed, ..over };
    assert_eq!(relay.next(&over, &failed), None);
}
