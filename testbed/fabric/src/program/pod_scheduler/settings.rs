//! The settings of a pod's scheduler, from those of its hosts.

use transport::params::ParamValue as _;
use transport::sched::zeropod::timing::{SILENT_MAX, Timing, TimingInputs};
use transport::sched::zeropod::{Kernel, SizeClasses, ZeropodParams};

use crate::pod::matcher::{MatcherKind, MatcherSetup};
use crate::pod::scheduler::Settings;
use crate::pod::{self, Ladder};
use crate::program::LinkSpec;

/// The timing of the pod whose links are like `link`.
pub(in crate::program) fn timing(params: &ZeropodParams, link: &LinkSpec) -> Timing {
    let port = link.port;
    Timing::new(&TimingInputs {
        cell: port.params.packet_max,
        control: port.params.sizes.probe,
        rate: port.rate,
        hop: port.delay,
        cells: params.cells,
        guard: params.guard,
        delay: params.delay,
        layers: params.layers(),
        early: params.early,
        guards_answers: params.follow,
    })
    .asking_every(params.ask_every)
}

/// The code that the matcher runs on; `None` when this processor cannot run the chosen one.
#[must_use]
pub fn kernel(params: &ZeropodParams) -> Option<pod::Kernel> {
    let kernel = match params.kernel {
        Kernel::Auto => pod::Kernel::best(),
        Kernel::Scalar => pod::Kernel::Scalar,
        Kernel::Avx2 => pod::Kernel::Avx2,
        Kernel::Avx512 => pod::Kernel::Avx512,
    };
    kernel.is_supported().then_some(kernel)
}

/// The matcher that is chosen; `None` when there is none of that name.
#[must_use]
pub fn matcher(params: &ZeropodParams) -> Option<MatcherKind> {
    MatcherKind::by_name(&params.matcher.show())
}

/// The settings of the decision; `None` when no scheduler can have them.
pub(super) fn settings(params: &ZeropodParams, timing: &Timing) -> Option<Settings> {
    let ladder = match params.classes {
        SizeClasses::One => Ladder::One,
        SizeClasses::Pias => Ladder::Pias,
        SizeClasses::Mice => Ladder::Mice,
        SizeClasses::Sizes => Ladder::Sizes,
    };
    let payload = u32::from(params.cell);
    let guarded = params.backup > 0;
    let silent_after = if guarded { timing.to_decision + SILENT_MAX } else { 0 };
    let judge_after = timing.to_lost + timing.to_decision + JUDGED_LATER;
    Some(Settings {
        matcher: matcher(params)?,
        setup: MatcherSetup { kernel: kernel(params)?, iterations: params.iterations.into() },
        ladder,
        cell: payload,
        cells: params.cells,
        lead: timing.lead,
        delay: timing.to_answers,
        fair_every: params.fair_every.into(),
        backlog: BACKLOG_MAX.checked_div(payload)? * payload,
        // What is granted to a host has to end before another scheduler may grant it anything.
        silent_after,
        joins_after: if guarded { silent_after + timing.lead } else { 0 },
        judge_after,
        retry_after: RETRY_AFTER * (timing.lead + judge_after),
        // A scheduler that is cut off has to stop soon.
        superepoch: if guarded { 1 } else { params.superepoch },
        ..Settings::default()
    })
}

/// Bytes of one demand that wait at most: what a total can raise at once.
const BACKLOG_MAX: u32 = (1 << 31) - 1;

/// Epochs after which the receipts of an epoch are judged, beyond those that word of their lack
/// takes.
const JUDGED_LATER: u64 = 4;

/// Times that a grant and its receipt take until a link that was accused is tried again.
const RETRY_AFTER: u64 = 8;
