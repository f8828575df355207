//! The receiving end of a circuit (thesis s2.2.6): control TCPs that acknowledge headers, each as if it had brought a VMSS of
//! data. Users' packets pass by.

use super::Output;
use crate::tcp::connection::{self, Connection};
use crate::tcp::segment::Segment;
use crate::time::{Time, earlier};
use crate::units::Bytes;

/// The receiving end of a circuit.
#[derive(Debug)]
pub struct Receiver {
    connections: Vec<Connection>,
    /// The header that arrived last, of each control TCP whose headers have copies.
    last: Vec<Option<Segment>>,
}

impl Receiver {
    /// The ends of control TCPs that receive, in the order in which the sending end has the others.
    pub fn new(connections: Vec<Connection>) -> Receiver {
        Receiver { connections, last: Vec::new() }
    }

    /// Expects copies behind headers, and takes what comes twice in a row for one: to the TCP it would be a duplicate, which
    /// it acknowledges at once, and three such acknowledgements mean a loss. What is sent again has another timestamp.
    pub fn with_copies(self) -> Receiver {
        Receiver { last: vec![None; self.connections.len()], ..self }
    }

    /// The control TCPs.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// A header packet arrived for control TCP `which`.
    pub fn receive(&mut self, now: Time, which: usize, segment: &Segment) {
        if let Some(last) = self.last.get_mut(which)
            && last.replace(*segment) == Some(*segment)
        {
            return;
        }
        let connection = &mut self.connections[which];
        connection.receive(now, segment);
        connection.read(Bytes::MAX);
    }

    /// Says what leaves now, or how long to wait.
    pub fn poll(&mut self, now: Time) -> Output {
        let mut wake = None;
        for (which, connection) in self.connections.iter_mut().enumerate() {
            match connection.poll(now) {
                connection::Output::Send(segment) => return Output::Control(which, segment),
                connection::Output::Wait(time) => wake = earlier(wake, time),
            }
        }
        Output::Wait(wake)
    }
}
