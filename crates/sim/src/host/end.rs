//! One end of a flow: a connection, what is written to it and what has been seen of it.

use headend_engine::circuit::reliable;
use headend_engine::node::Port;
use headend_engine::packet::{Ecn, Endpoint};
use headend_engine::tcp::connection::{Connection, Output, Snapshot, State};
use headend_engine::tcp::segment::Segment;
use headend_engine::time::{Time, earlier};
use headend_engine::units::Bytes;

use super::again::{Again, Past};
use super::gated::{self, Gated};
use crate::histogram::Histogram;
use crate::traffic::Application;
use headend_scenario::results::trace::Sample;

/// One end of a flow. Fields that every packet touches stand first and together (`repr(C)`), as in a connection.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct End {
    started: bool,
    /// True once the connection was established and the application could begin.
    opened: bool,
    closed: bool,
    ended: bool,
    /// True while the host is to poll it now.
    pub(crate) is_touched: bool,
    /// The earliest alarm that the host holds for this end; `Time::MAX` if none.
    alarm: Time,
    pub(crate) record: Record,
    setup: Setup,
}

/// The instructions of an end: its connection, its application, and when they begin and close.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Setup {
    pub(crate) closing: Closing,
    /// True to record a time series of the sender's state.
    pub(crate) series: bool,
    /// The host's port that leads to the peer.
    pub(crate) out: Port,
    pub(crate) peer: Endpoint,
    /// Bytes to read in all; `Bytes::MAX` for a flow without end.
    pub(crate) expected: Bytes,
    pub(crate) application: Application,
    /// A connection that was never polled before.
    pub(crate) connection: Connection,
    /// The time at which the connection opens and the application begins.
    pub(crate) start: Time,
    /// State for the next connection, if one follows this one.
    pub(crate) again: Option<Box<Again>>,
    /// The gate of the reliable socket that the flow goes through, if it does; the connection is its data TCP.
    pub(crate) gated: Option<Box<Gated>>,
}

/// The event after which an end closes its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// None: the connection has neither beginning nor end, as in ns.
    Never,
    /// The end has written its last byte.
    AfterWriting,
    /// The peer has closed.
    AfterPeer,
}

/// A record of what an end has seen.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Record {
    /// Bytes read by the application.
    pub(crate) read: Bytes,
    /// Bytes written by the application.
    pub(crate) written: Bytes,
    /// Bytes of all packets that arrived, as on the wire.
    pub(crate) wire: Bytes,
    /// The time at which the last expected byte was read.
    pub(crate) all_read: Option<Time>,
    /// The time at which the last byte written was acknowledged.
    pub(crate) all_acked: Option<Time>,
    /// The time at which the connection failed.
    pub(crate) failed: Option<Time>,
    pub(crate) rtt: Histogram,
    pub(crate) cwnd_max: Bytes,
    pub(crate) series: Option<Vec<Sample>>,
}

impl End {
    pub(crate) fn new(setup: Setup) -> End {
        let series = setup.series.then(Vec::new);
        End {
            setup,
            started: false,
            opened: false,
            closed: false,
            ended: false,
            is_touched: false,
            alarm: Time::MAX,
            record: Record { series, ..Record::default() },
        }
    }

    /// Begins the connection after one that is over, if there is to be one, and says when.
    pub(crate) fn begins_again(&mut self, now: Time) -> Option<Time> {
        let again = self.setup.again.as_mut()?;
        let record = std::mem::take(&mut self.record);
        again.past.push(Past {
            size: again.size(),
            start: self.setup.start,
            read: record.read,
            wire: record.wire,
            all_read: record.all_read,
            all_acked: record.all_acked,
            failed: record.failed,
            counters: self.setup.connection.counters(),
        });
        // What failed is asked for again.
        again.turn += usize::from(record.failed.is_none());
        self.setup.connection = again.connection();
        (self.setup.application, self.setup.expected) = again.application();
        self.setup.start = if again.is_client { now + again.pause } else { now };
        self.record = Record { rtt: record.rtt, cwnd_max: record.cwnd_max, series: record.series, ..Record::default() };
        (self.started, self.opened, self.closed, self.ended) = (false, false, false, false);
        Some(self.setup.start)
    }

    /// The connections that are over, where one follows another.
    pub(crate) fn past(&self) -> &[Past] {
        self.setup.again.as_ref().map_or(&[], |again| &again.past)
    }

    /// The size that is asked for now, where one connection follows another.
    pub(crate) fn asked_for(&self) -> Option<Bytes> {
        self.setup.again.as_ref().map(|again| again.size())
    }

    /// The time at which the connection opened, or is to.
    pub(crate) fn start(&self) -> Time {
        self.setup.start
    }

    pub(crate) fn peer(&self) -> Endpoint {
        self.setup.peer
    }

    pub(crate) fn out(&self) -> Port {
        self.setup.out
    }

    /// Notes that the end must be polled by `wake`: true if an alarm must be set, because none rings by then.
    pub(crate) fn set_alarm(&mut self, wake: Time) -> bool {
        let sooner = wake < self.alarm;
        if sooner {
            self.alarm = wake;
        }
        sooner
    }

    /// Notes that an alarm set for `alarm` has rung.
    pub(crate) fn ring(&mut self, alarm: Time) {
        if alarm == self.alarm {
            self.alarm = Time::MAX;
        }
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.setup.connection
    }

    /// The gate before the connection, if it is a socket's.
    #[inline]
    pub(crate) fn gated(&self) -> Option<&Gated> {
        self.setup.gated.as_deref()
    }

    /// Takes a segment of control TCP `which` that arrived in a packet of `len` bytes.
    pub(super) fn receive_control(&mut self, now: Time, which: usize, segment: &Segment, len: Bytes) {
        let Some(gated) = &mut self.setup.gated else { return };
        gated.gate.receive(now, gated.ring, which, segment);
        self.record.wire += len;
    }

    /// Takes a segment that arrived in a packet of `len` bytes with this ECN field. The application reads what it brought, and may
    /// answer.
    pub(crate) fn receive(&mut self, now: Time, segment: &Segment, len: Bytes, ecn: Ecn) {
        let Setup { connection, application, .. } = &mut self.setup;
        connection.receive_with(now, segment, ecn);
        if let Some(rtt) = connection.take_rtt() {
            self.record.rtt.record(rtt);
        }
        let read = connection.read(Bytes::MAX);
        self.record.wire += len;
        self.record.read += read;
        if self.opened {
            self.record.written += application.act(now, connection, read);
        }
    }

    /// The time until which a poll now would only wait, if that is plain without one.
    pub(crate) fn quiet_until(&self, now: Time) -> Option<Time> {
        let Setup { connection, application, closing, .. } = &self.setup;
        let stays_open = match closing {
            Closing::Never => true,
            Closing::AfterWriting => self.closed,
            Closing::AfterPeer => self.closed || !connection.is_peer_closed(),
        };
        if self.opened && stays_open && !application.writes_in_pieces() && self.setup.gated.is_none() {
            connection.quiet_until(now)
        } else {
            None
        }
    }

    /// Lets the application write what it can, and then polls the connection.
    pub(crate) fn poll(&mut self, now: Time) -> Output {
        let polled = self.poll_by(now, |connection, _| match connection.poll(now) {
            Output::Send(segment) => Ok(segment),
            Output::Wait(wake) => Err(wake),
        });
        polled.map_or_else(Output::Wait, Output::Send)
    }

    /// Lets the application write what it can, and then polls the gate of a socket.
    pub(super) fn poll_gated(&mut self, now: Time) -> reliable::Output {
        let polled = self.poll_by(now, |connection, gated| {
            let gated = gated.as_mut().expect("who has no gate is polled without");
            match gated.gate.poll(now, connection) {
                reliable::Output::Wait(wake) => Err(wake),
                output => Ok(output),
            }
        });
        polled.unwrap_or_else(reliable::Output::Wait)
    }

    /// Lets the application write what it can, and yields what `poll` does or the time until which it waits.
    #[inline(always)]
    fn poll_by<T>(
        &mut self,
        now: Time,
        mut poll: impl FnMut(&mut Connection, &mut Option<Box<Gated>>) -> Result<T, Option<Time>>,
    ) -> Result<T, Option<Time>> {
        let Setup { connection, application, start, closing, gated, .. } = &mut self.setup;
        if !self.started {
            if now < *start {
                return Err(Some(*start));
            }
            self.started = true;
            if connection.is_established() {
                self.opened = true;
                self.record.written += application.act(now, connection, Bytes::ZERO);
            }
        }
        loop {
            let closes = match closing {
                Closing::Never => false,
                Closing::AfterWriting => true,
                Closing::AfterPeer => connection.state() == State::CloseWait,
            };
            if closes && !self.closed && application.has_written_all() {
                connection.close();
                self.closed = true;
            }
            match poll(connection, gated) {
                // The application hears of the connection once the hand-shake's last ACK has left, and writes then.
                Err(_) if !self.opened && connection.is_established() => {
                    self.opened = true;
                    self.record.written += application.act(now, connection, self.record.read);
                }
                Err(wake) if self.opened && application.writes_in_pieces() => {
                    let written = application.act(now, connection, Bytes::ZERO);
                    if written == Bytes::ZERO {
                        return Err(earlier(wake, application.wake(now)));
                    }
                    self.record.written += written;
                }
                output => return output,
            }
        }
    }

    /// Notes what has come about by `now`; true once, when this end is over: all is read and acknowledged and, if the
    /// connection closes, closed; or it failed. To be called when the connection waits.
    pub(crate) fn has_just_ended(&mut self, now: Time) -> bool {
        let window = self.setup.gated.as_deref().map_or_else(|| self.setup.connection.window(), gated::window);
        self.record.cwnd_max = self.record.cwnd_max.max(window);
        if let Some(series) = &mut self.record.series
            && let Some(state) = self.setup.connection.snapshot()
        {
            let sample = Sample::of(now, &Snapshot { cwnd: window, ..state });
            if series.last().is_none_or(|last| !last.says_the_same(&sample)) {
                series.push(sample);
            }
        }
        if self.ended || !self.started {
            return false;
        }
        let Setup { connection, application, expected, closing, .. } = &self.setup;
        let record = &mut self.record;
        if record.all_read.is_none() && record.read >= *expected {
            record.all_read = Some(now);
        }
        if record.all_acked.is_none() && application.has_written_all() && connection.acknowledged() == record.written {
            record.all_acked = Some(now);
        }
        if connection.fault().is_some() {
            record.failed = Some(now);
            self.ended = true;
        } else if record.all_read.is_some() && record.all_acked.is_some() {
            self.ended = *closing == Closing::Never || matches!(connection.state(), State::Closed | State::TimeWait);
        }
        self.ended
    }
}
