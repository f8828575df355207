//! The signals that ask a command to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// A flag that Ctrl-C sets, or a request to terminate: it asks the runs to end. Whoever asks twice does not want to wait for
/// that; if `may_leave`, because there is nothing to take down, the second time ends the command.
///
/// Asked for before anything large is read: it takes a thread, and the memory that reading leaves should go to the first
/// worker of the sweep (see [`crate::request::ScenarioRequest::read`]).
pub(crate) fn stop_flag(may_leave: bool) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let handler = {
        let stop = stop.clone();
        move || {
            if stop.swap(true, Ordering::Relaxed) && may_leave {
                std::process::exit(130);
            }
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Failed(format!("no handler for Ctrl-C: {error}")))?;
    Ok(stop)
}
