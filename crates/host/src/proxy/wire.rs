//! Two connected sockets, joined: the engine's relay decides, this moves the bytes.
//!
//! What is small is read into the worker's scratch buffer and offered to the other socket at once. Only what that does not take
//! is kept, in memory of the connection's own that is given back when it is empty: an idle connection holds none, and a
//! fast one copies nothing. What flows goes through a pipe and is not even copied there and back ([`pipes`]).
//! When all memory is taken, bytes are only looked at, offered, and read as far as they were taken: the rest stays in the
//! kernel's receive buffer, whose window holds back the sender.

mod held;
mod leg;
pub(crate) mod pipes;
pub(crate) mod socket;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use headend_engine::relay::{Action, Condition, Relay, RelayModel, Side, View};
use headend_engine::units::Bytes;
use rustix::net::RecvFlags;
use tokio::time::{Instant, Sleep, sleep_until};

use super::books::{Books, FlowPage};
use super::listen;
use super::rates::Quota;
use super::spool::SpoolFolder;
use held::Held;
use leg::{LARGE_READ, WireLeg};
use pipes::Piped;
use socket::WireSocket;

/// Less costs more calls, and from 128 KiB on there was little between sizes (docs/explanation/proxy-measured.md).
const SCRATCH_BYTES: usize = 256 * 1024;
/// Looked at when memory is short: less than what one look may cost again and again.
const PEEK_BYTES: usize = 64 * 1024;
/// The bytes after which the other connections of the worker have their turn.
const TURN_BYTES: usize = 1024 * 1024;
/// The time for which bytes may stand still in a pipe; at most twice that.
const PIPE_PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice());
}

/// Two sockets and the relay between them.
pub(crate) struct Wire<'a> {
    legs: [WireLeg<'a>; 2],
    relay: Relay,
    /// The bytes that are held for each side.
    held: [Held; 2],
    /// The bytes for each side that are in a pipe: never while others are held, and none are read while there are.
    piped: [Option<Piped>; 2],
    /// The most bytes that go into a pipe at once; 0 if none may.
    pipe_max: usize,
    flow: &'a FlowPage,
    books: &'a Arc<Books>,
    closes: u32,
    moved_bytes: usize,
    /// The rates that its client and its user have to keep, and the time at which they allow more.
    quota: Quota,
    pause: Option<Pin<Box<Sleep>>>,
}

/// Bytes in the scratch buffer that the relay has counted and nobody has taken yet.
struct Fresh {
    to: Side,
    len: usize,
    /// Memory taken beforehand, so that there is room for all of them.
    reserved: u64,
}

/// The ways in which two joined connections come to their end.
#[derive(Debug)]
pub(crate) enum WireEnd {
    /// Both directions closed, after the last byte.
    Closed,
    /// This side failed; the other was reset.
    Failed(Side, io::Error),
    /// Nothing moved for too long; both were reset.
    Idle,
}

impl<'a> Wire<'a> {
    /// Joins the client's and the server's connection. No more than `hold_max` bytes wait in memory each way; with a store
    /// others wait there, else they are left to their sender.
    pub(crate) fn new(
        [local, remote]: [&'a mut WireSocket; 2],
        hold_max: u64,
        store: Option<Arc<SpoolFolder>>,
        flow: &'a FlowPage,
        books: &'a Arc<Books>,
    ) -> Wire<'a> {
        let model = match store {
            None => RelayModel::BufferAndForward { limit: Bytes::new(hold_max) },
            Some(_) => RelayModel::StoreAndForward,
        };
        let held = || Held::new(books, store.clone(), hold_max);
        Wire {
            legs: [WireLeg::new(local), WireLeg::new(remote)],
            relay: Relay::new(model),
            held: [held(), held()],
            piped: [None, None],
            // Bytes that wait for a disk must be in memory.
            pipe_max: if store.is_some() { 0 } else { usize::try_from(hold_max).unwrap_or(usize::MAX) },
            flow,
            books,
            closes: 0,
            moved_bytes: 0,
            quota: flow.quota(),
            pause: None,
        }
    }

    /// `bytes` go to that side before anything else.
    pub(crate) fn preload(&mut self, to: Side, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.held[to as usize].push(bytes);
            self.relay.has_read(to.other(), Bytes::new(bytes.len() as u64));
        }
    }

    /// Moves bytes until both directions are closed, or something fails, or nothing has moved for `idle`.
    /// Once a direction is closed, no longer than `half_closed`.
    pub(crate) async fn run(mut self, idle: Duration, half_closed: Duration) -> WireEnd {
        let mut idle = idle;
        let mut last_moved = Instant::now();
        let mut alarm = pin!(sleep_until(last_moved + idle));
        let mut pipe_alarm = pin!(sleep_until(last_moved));
        let mut pipe_alarm_is_set = false;
        poll_fn(|cx| {
            for side in [Side::Local, Side::Remote] {
                let leg = &mut self.legs[side as usize];
                if leg.failure.is_some() {
                    continue;
                }
                if let Poll::Ready(error) = leg.socket.poll_failed(cx) {
                    leg.fail(error);
                }
            }
            let end = self.poll(cx);
            if self.moved_bytes > 0 {
                self.moved_bytes = 0;
                last_moved = Instant::now();
            }
            if self.closes > 0 && half_closed < idle {
                idle = half_closed;
                alarm.as_mut().reset(last_moved + idle);
            }
            if end.is_pending() && self.piped.iter().any(Option::is_some) {
                if !std::mem::replace(&mut pipe_alarm_is_set, true) {
                    pipe_alarm.as_mut().reset(Instant::now() + PIPE_PATIENCE);
                }
                if pipe_alarm.as_mut().poll(cx).is_ready() {
                    self.give_up_stuck_pipes();
                    pipe_alarm_is_set = false;
                    cx.waker().wake_by_ref();
                }
            }
            if end.is_pending() && alarm.as_mut().poll(cx).is_ready() {
                if last_moved.elapsed() >= idle {
                    self.legs.iter().for_each(|leg| listen::let_it_fail(&*leg.socket));
                    return Poll::Ready(WireEnd::Idle);
                }
                alarm.as_mut().reset(last_moved + idle);
                if alarm.as_mut().poll(cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
            }
            end
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<WireEnd> {
        let mut has_acted = false;
        loop {
            let mut is_awake = false;
            for side in [Side::Local, Side::Remote] {
                is_awake |= self.legs[side as usize].look(cx);
                match self.held[side as usize].poll(cx) {
                    Ok(is_new) => is_awake |= is_new,
                    // Bytes that were taken cannot be given on: only a reset says so.
                    Err(error) => self.legs[side.other() as usize].lose(error),
                }
                self.note_held(side);
                if self.legs[side as usize].writable {
                    self.legs[side.other() as usize].is_starved &= !self.held[side as usize].is_empty();
                }
            }
            if !self.quota.is_free() {
                self.keep_rates(cx);
            }
            let acted = SCRATCH.with_borrow_mut(|scratch| self.step(scratch));
            if let Some(end) = self.end() {
                return Poll::Ready(end);
            }
            if self.moved_bytes >= TURN_BYTES {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !acted && !is_awake {
                if !has_acted {
                    self.hush_what_waits();
                }
                return Poll::Pending;
            }
            has_acted |= acted;
        }
    }

    /// Woken for nothing: the sides of which something waits to be read, and cannot be, are not to wake it again.
    fn hush_what_waits(&mut self) {
        for leg in self.legs.iter_mut().filter(|leg| leg.readable && leg.failure.is_none()) {
            leg.hush();
        }
    }

    /// Notes which sides may not be read now, and is woken when one may be again.
    fn keep_rates(&mut self, cx: &mut Context<'_>) {
        let mut next: Option<Duration> = None;
        for side in [Side::Local, Side::Remote] {
            let wait = self.quota.wait(side);
            let was_delayed = std::mem::replace(&mut self.legs[side as usize].is_delayed, wait.is_some());
            if wait.is_some() && !was_delayed {
                self.books.delayed.fetch_add(1, Ordering::Relaxed);
            }
            next = [next, wait].into_iter().flatten().min();
        }
        let Some(wait) = next else { return };
        let at = Instant::now() + wait;
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep_until(at)));
        pause.as_mut().reset(at);
        if pause.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Does what the relay says, until it has nothing more to say or the turn is over; false if that was nothing.
    fn step(&mut self, scratch: &mut [u8]) -> bool {
        let mut fresh: Option<Fresh> = None;
        let mut acted = false;
        loop {
            let [local, remote] = [self.view(Side::Local), self.view(Side::Remote)];
            let action = self.relay.next(&local, &remote);
            if let Some(bytes) = fresh.take()
                && self.pass_on(bytes, action, scratch)
            {
                continue;
            }
            match action {
                Some(Action::Read(from, _)) if self.moved_bytes >= TURN_BYTES => {
                    debug_assert!(self.legs[from as usize].readable);
                    return acted;
                }
                Some(Action::Read(from, len)) => fresh = self.read(from, len, scratch),
                Some(Action::Write(to, _)) => self.write_held(to),
                Some(Action::Close(to)) => {
                    self.closes += 1;
                    let leg = &mut self.legs[to as usize];
                    if let Err(error) = rustix::net::shutdown(&*leg.socket, rustix::net::Shutdown::Write) {
                        leg.fail(error.into());
                    }
                }
                Some(Action::Abort(side)) => listen::let_it_fail(&*self.legs[side as usize].socket),
                None => return acted,
            }
            acted = true;
        }
    }

    /// The relay's view of a side. Nobody asks the kernel how much there is: until it says that there is nothing,
    /// anything may be readable, and room for at least one byte. So no more is read than may be held.
    fn view(&self, side: Side) -> View {
        let (leg, other) = (&self.legs[side as usize], &self.legs[side.other() as usize]);
        // What a failed connection had received is still good, as it would be without a proxy.
        let is_drained = !leg.readable || leg.is_starved || !other.writable || other.failure.is_some();
        let is_open = leg.failure.is_none();
        // Nothing can be written while the oldest bytes are in a file, and nothing read while no more can be kept.
        let has_next = self.piped[side as usize].is_some()
            || self.held[side as usize].is_empty()
            || !self.held[side as usize].front().is_empty();
        let (behind, pipe) = (&self.held[side.other() as usize], &self.piped[side.other() as usize]);
        let has_room = behind.room() > 0 && pipe.is_none();
        View {
            condition: if !is_open && is_drained { Condition::Failed } else { Condition::Open },
            readable: if leg.readable && !leg.is_starved && !leg.is_delayed && has_room {
                Bytes::MAX
            } else {
                Bytes::ZERO
            },
            space: if leg.writable && is_open && has_next { Bytes::new(1) } else { Bytes::ZERO },
            at_end: leg.at_end,
        }
    }

    fn read(&mut self, from: Side, len: Bytes, scratch: &mut [u8]) -> Option<Fresh> {
        let to = from.other();
        let most = usize::try_from(len.get()).unwrap_or(usize::MAX);
        let most = most.min(self.held[to as usize].room()).min(self.quota.piece());
        if self.legs[from as usize].flows() && self.splice(from, most) {
            return None;
        }
        let want = most.min(scratch.len());
        let reserved = Held::room_for(want);
        if !self.books.memory.take(reserved) {
            self.pass_through(from, want, scratch);
            return None;
        }
        let read = self.legs[from as usize].receive(&mut scratch[..want], RecvFlags::empty());
        if read == 0 {
            self.books.memory.give(reserved);
            return None;
        }
        self.count(from, read);
        Some(Fresh { to, len: read, reserved })
    }

    /// Moves bytes through a pipe, and keeps it while not all of them are taken; false if they are to be read instead.
    fn splice(&mut self, from: Side, want: usize) -> bool {
        let to = from.other();
        let want = want.min(self.pipe_max);
        if want < LARGE_READ || !self.held[to as usize].is_empty() || !self.books.memory.take(want as u64) {
            return false;
        }
        let Some(mut piped) = Piped::take(self.books, want as u64) else {
            self.books.memory.give(want as u64);
            return false;
        };
        let Some(read) = self.legs[from as usize].fill(&mut piped, want) else { return false };
        if read > 0 {
            self.count(from, read);
            self.piped[to as usize] = Some(piped);
            self.empty_pipe(to);
        }
        true
    }

    /// Writes what is in the pipe for that side, as far as it is taken.
    fn empty_pipe(&mut self, to: Side) -> usize {
        let Some(mut piped) = self.piped[to as usize].take() else { return 0 };
        let leg = &mut self.legs[to as usize];
        let taken = if leg.writable && leg.failure.is_none() { leg.empty(&mut piped) } else { 0 };
        piped.account(piped.len() as u64);
        if piped.len() > 0 {
            self.piped[to as usize] = Some(piped);
        }
        self.wrote(to, taken);
        self.note_held(to);
        taken
    }

    /// Copies to ordinary memory what nobody took for a while: readers that stall are not to have all pipes.
    fn give_up_stuck_pipes(&mut self) {
        for to in [Side::Local, Side::Remote] {
            let slot = &mut self.piped[to as usize];
            if !slot.as_ref().is_some_and(|piped| piped.is_stuck) {
                slot.iter_mut().for_each(|piped| piped.is_stuck = true);
                continue;
            }
            match slot.take().map(Piped::into_bytes) {
                Some(Ok(bytes)) => self.held[to as usize].push(&bytes),
                Some(Err(error)) => self.legs[to.other() as usize].lose(error),
                None => {}
            }
        }
    }

    /// Passes bytes on without memory for them: reads no more than the other side has taken.
    fn pass_through(&mut self, from: Side, want: usize, scratch: &mut [u8]) {
        let to = from.other();
        if !self.legs[to as usize].writable || !self.held[to as usize].is_empty() {
            // Something of what is held before it must go first.
            self.legs[from as usize].is_starved = true;
            return;
        }
        let bytes = &mut scratch[..want.min(PEEK_BYTES)];
        let seen = self.legs[from as usize].receive(bytes, RecvFlags::PEEK);
        let taken = self.legs[to as usize].send(&bytes[..seen]);
        if taken > 0 {
            // Linux: of TCP, with this flag, bytes are taken from the queue and not copied.
            let read = self.legs[from as usize].receive(&mut bytes[..taken], RecvFlags::TRUNC);
            assert_eq!(read, taken, "what was looked at is there to be read");
            self.count(from, read);
            self.wrote(to, taken);
        }
    }

    fn wrote(&mut self, to: Side, taken: usize) {
        self.relay.has_written(to, Bytes::new(taken as u64));
        self.flow.written[to as usize].fetch_add(taken as u64, Ordering::Relaxed);
        self.books.written[to as usize].fetch_add(taken as u64, Ordering::Relaxed);
    }

    fn count(&mut self, from: Side, read: usize) {
        self.relay.has_read(from, Bytes::new(read as u64));
        self.moved_bytes += read;
        self.legs[from as usize].note_read(read);
        self.books.has_read(self.flow, from, read as u64);
        if !self.quota.is_free() {
            self.quota.has_read(from, read as u64);
            if self.quota.wait(from).is_some() {
                self.legs[from as usize].is_delayed = true;
                self.books.delayed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Offers fresh bytes if that is what the relay wants, and keeps what is not taken. True if the action is done by that.
    fn pass_on(&mut self, fresh: Fresh, action: Option<Action>, scratch: &[u8]) -> bool {
        let Fresh { to, len, reserved } = fresh;
        let mut bytes = &scratch[..len];
        let is_wanted =
            self.held[to as usize].is_empty() && matches!(action, Some(Action::Write(side, _)) if side == to);
        if is_wanted {
            let taken = self.legs[to as usize].send(bytes);
            self.wrote(to, taken);
            bytes = &bytes[taken..];
        }
        if !bytes.is_empty() {
            self.held[to as usize].push(bytes);
            self.note_held(to);
        }
        self.books.memory.give(reserved);
        is_wanted
    }

    fn write_held(&mut self, to: Side) {
        if self.piped[to as usize].is_some() {
            self.moved_bytes += self.empty_pipe(to);
            return;
        }
        let held = &mut self.held[to as usize];
        let taken = self.legs[to as usize].send(held.front());
        held.pop(taken);
        self.moved_bytes += taken;
        self.legs[to.other() as usize].is_starved &= taken == 0;
        self.wrote(to, taken);
        self.note_held(to);
    }

    fn note_held(&self, to: Side) {
        let held = &self.held[to as usize];
        let spooled = held.spooled();
        let piped = self.piped[to as usize].as_ref().map_or(0, |piped| piped.len() as u64);
        self.flow.held[to as usize].store(held.len() - spooled + piped, Ordering::Relaxed);
        self.flow.spooled[to as usize].store(spooled, Ordering::Relaxed);
    }

    fn end(&mut self) -> Option<WireEnd> {
        for side in [Side::Local, Side::Remote] {
            if self.view(side).condition == Condition::Failed {
                let error = self.legs[side as usize].failure.take().expect("a failed side has a failure");
                listen::let_it_fail(&*self.legs[side as usize].socket);
                listen::let_it_fail(&*self.legs[side.other() as usize].socket);
                return Some(WireEnd::Failed(side, error));
            }
        }
        (self.closes == 2).then_some(WireEnd::Closed)
    }
}
