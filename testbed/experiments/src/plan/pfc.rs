//! Checks of a plan whose switches pause links.

use fabric::{Blueprint, ProgramKind};
use transport::Bytes;

use super::checks::of_buffer;
use super::{Draft, RunError, dcsim};
use crate::input::InputError;
use crate::topology::{FabricParams, FatTreeSpec};

/// The buffer of a port where neither a setting nor the topology gives one, at least `own`. A
/// buffer that links share has the headroom of all of them and, beyond it, `own` for each.
pub(super) fn buffer(blueprint: &Blueprint, own: Bytes) -> Bytes {
    let least = blueprint.least_buffer();
    if blueprint.program_settings.pfc.alpha <= 0.0 {
        return least.max(own);
    }
    let links = |switch: u32| blueprint.switches[switch as usize].ports().len() as u64;
    let most = blueprint.switches_with(ProgramKind::Pfc).map(links).max().unwrap_or(0);
    let shared = own.0.saturating_mul(most.max(1));
    Bytes(shared.saturating_add(least.0)).max(own)
}

/// Checks that hosts bear pauses, and that a lossless switch has room for data that arrives by a
/// link until a pause is obeyed.
pub(super) fn check(
    draft: &Draft,
    tree: &FatTreeSpec,
    (fabric, blueprint): (&FabricParams, &Blueprint),
) -> Result<(), RunError> {
    dcsim::check_switches(draft, fabric, blueprint)?;
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
    let (least, room) = (short.least().0, short.headroom.0);
    let (of, paused, or) = if short.is_shared {
        let paused = format!("links are paused and {room} that may come until they are");
        ("all links", paused, "give each link its own with --set switch.pfc.alpha=0")
    } else {
        let paused = format!("the link is paused and {room} that may come until it is");
        ("a link", paused, "lower switch.pfc.xoff")
    };
    let found = format!("a buffer of {} bytes for {of} into a lossless switch", short.buffer.0);
    let expected = format!("at least {least}: {} before {paused}", short.xoff.0);
    // Border switches have a setting of their own, which replaces the other.
    let border = draft.switch.border_queue == Some(short.buffer);
    let key = if border { "switch.border_queue" } else { "switch.queue" };
    let help = format!(
        "raise it with --set {key}={least} (or Queue_Down and Queue_Up of the topology), or {or}",
    );
    let error = InputError::new(found, expected).help(help);
    if short.is_shared {
        return Err(error.at(key, 0, 0).into());
    }
    Err(of_buffer(draft, tree, (key, short.buffer), error))
}
