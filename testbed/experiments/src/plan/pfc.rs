//! Checks of a plan whose switches pause links.

use fabric::Blueprint;

use super::{Draft, RunError};
use crate::input::InputError;

/// Checks that a lossless switch has room for data that arrives by a link until a pause is obeyed.
pub(super) fn check(draft: &Draft, blueprint: &Blueprint) -> Result<(), RunError> {
    let pfc = &draft.switch.programs.pfc;
    if let (Some(xoff), Some(xon)) = (pfc.xoff, pfc.xon)
        && xon > xoff
    {
        let found = format!("{} bytes", xon.0);
        let expected = format!("at most switch.pfc.xoff, {} bytes", xoff.0);
        let help = "lower it, or leave it out: two packets below switch.pfc.xoff";
        return Err(InputError::new(found, expected).at("switch.pfc.xon", 0, 0).help(help).into());
    }
    let Err(short) = blueprint.check_buffers() else { return Ok(()) };
    let (of, paused) = if short.is_shared {
        ("all links into a lossless switch", "links are paused and {} that may come until they are")
    } else {
        ("a link into a lossless switch", "the link is paused and {} that may come until it is")
    };
    let found = format!("a buffer of {} bytes for {of}", short.buffer.0);
    let least = short.least().0;
    let paused = paused.replace("{}", &short.headroom.0.to_string());
    let expected = format!("at least {least}: {} before {paused}", short.xoff.0);
    // Border switches have a setting of their own, which replaces the other.
    let border = draft.switch.border_queue == Some(short.buffer);
    let key = if border { "switch.border_queue" } else { "switch.queue" };
    let help = format!(
        "raise it with --set {key}={least} (or Queue_Down and Queue_Up of the topology), or lower \
         switch.pfc.xoff",
    );
    Err(InputError::new(found, expected).at(key, 0, 0).help(help).into())
}
