//! The buffer of a router that trunks pass, for people and for programs.

use headend_engine::circuit::size::Trunks;
use serde_json::{Value, json};

/// The derivation with the numbers in it.
pub(super) fn derivation(trunks: &Trunks) -> String {
    let Trunks { alpha, connections, vmss, header, gmb, link } = *trunks;
    let buffer = trunks.buffer();
    format!(
        "Each of {connections} control TCPs needs a window of {alpha} packets:\n  \
         HP_Th = {alpha} x {connections} = {} header packets may wait.\n\
         They take HP_BS = {} x {header} = {}.\n\
         For each there are {vmss} of users' packets, and up to {vmss} for each TCP before its next header:\n  \
         UP_BS_TCP = ({} + {connections}) x {vmss} = {}.\n\
         With {gmb} of {link} guaranteed, their share of the buffer is the same:\n  \
         UP_BS_GMB = {}.\n\
         Required_BS = {}\n",
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
pub(super) fn numbers(trunks: &Trunks) -> Value {
    let buffer = trunks.buffer();
    json!({
        "header_packets": buffer.headers,
        "header_bytes": buffer.header_bytes.get(),
        "controlled_bytes": buffer.controlled.get(),
        "guaranteed_bytes": buffer.guaranteed.get(),
        "required_bytes": buffer.required().get(),
    })
}
