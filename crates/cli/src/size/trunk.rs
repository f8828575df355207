//! The buffer of a router that trunks pass, for people and for programs.

use headend_engine::circuit::fair::required_room;
use headend_engine::circuit::size::Trunks;
use headend_engine::time::Duration;
use headend_engine::units::{Bytes, Rate};
use serde_json::{Value, json};

/// The sending end of a trunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// The longest round trip of its users: RTTup.
    pub(super) user_rtt: Duration,
    /// The most that it is to send: TrunkBW.
    pub(super) peak: Rate,
}

impl Sender {
    /// Principle P1 of section 3.6.
    fn buffer(self) -> Bytes {
        required_room(self.user_rtt, self.peak)
    }
}

/// The derivation with the numbers in it.
pub(super) fn derivation(trunks: &Trunks, sender: Option<Sender>) -> String {
    let Trunks { alpha, connections, vmss, header, gmb, link } = *trunks;
    let buffer = trunks.buffer();
    let at_sender = sender.map_or_else(String::new, |sender| {
        let Sender { user_rtt, peak } = sender;
        format!(
            "A trunk's sender keeps what is too much when the trunk halves its rate:\n  RTTup x TrunkBW / 2 = {user_rtt} x \
             {peak} / 2 = {}\n",
            sender.buffer()
        )
    });
    format!(
        "Each of {connections} control TCPs needs a window of {alpha} packets:\n  \
         HP_Th = {alpha} x {connections} = {} header packets may wait.\n\
         They take HP_BS = {} x {header} = {}.\n\
         For each there are {vmss} of users' packets, and up to {vmss} for each TCP before its next header:\n  \
         UP_BS_TCP = ({} + {connections}) x {vmss} = {}.\n\
         With {gmb} of {link} guaranteed, their share of the buffer is the same:\n  \
         UP_BS_GMB = {}.\n\
         Required_BS = {}\n{at_sender}",
        buffer.headers,
        buffer.headers,
        buffer.header_bytes,
        buffer.headers,
        buffer.controlled,
        buffer.guaranteed,
        buffer.required(),
    )
}

/// The numbers alone.
pub(super) fn numbers(trunks: &Trunks, sender: Option<Sender>) -> Value {
    let buffer = trunks.buffer();
    json!({
        "header_packets": buffer.headers,
        "header_bytes": buffer.header_bytes.get(),
        "controlled_bytes": buffer.controlled.get(),
        "guaranteed_bytes": buffer.guaranteed.get(),
        "required_bytes": buffer.required().get(),
        "sender_bytes": sender.map(|sender| sender.buffer().get()),
    })
}
