//! CUBIC (RFC 9438).

use super::{Ack, Congestion, Controller, Setup};
use crate::units::Bytes;

/// CUBIC; grows as Reno until its own file is written.
#[derive(Debug)]
pub struct Cubic(super::reno::Reno);

impl Cubic {
    /// A controller at its initial window.
    pub fn new(setup: Setup) -> Cubic {
        Cubic(super::reno::Reno::new(setup))
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, ack: &Ack) {
        self.0.on_ack(ack);
    }
    fn on_congestion(&mut self, congestion: &Congestion) {
        self.0.on_congestion(congestion);
    }
    fn window(&self) -> Bytes {
        self.0.window()
    }
    fn threshold(&self) -> Bytes {
        self.0.threshold()
    }
}
