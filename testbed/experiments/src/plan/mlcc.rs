//! Whether a network has what MLCC needs: border switches that run its program.

use fabric::ProgramKind;
use transport::cc::{CcKind, MlccLaw, MlccSignal};
use transport::params::ParamError;
use transport::rc::{MlccHalfInitial, MlccHalfSignal};
use transport::{Config, Duration, Settings};

use super::{Draft, Origin, Plan, RunError, policy_keys};
use crate::input::InputError;
use crate::topology::programs::{ProgramSpec, Switches};
use crate::topology::{FatTree, TIERS_MAX};
use crate::workload::Matrix;
use crate::workload::matrix::SwitchTier;

/// The advice where border switches are missing.
const HELP: &str = "use --topo two-dc-leaf with --transport mlcc, or do without border switches: \
                    --set cc.mlcc.signal=off";

/// Takes the programs of a preset out of border switches that take no part, and gives receivers'
/// halves the signal. Chooses what the loops follow.
///
/// # Errors
/// When a preset has programs for border switches, and the network has no such switches.
pub(super) fn fit(draft: &mut Draft, has_borders: bool) -> Result<(), RunError> {
    if draft.origin("rc.mlcc.signal") == Origin::Default {
        draft.settings.rc_params.mlcc.signal = match draft.settings.cc_params.mlcc.signal {
            MlccSignal::Int => MlccHalfSignal::Int,
            MlccSignal::Delay => MlccHalfSignal::Delay,
            MlccSignal::Auto | MlccSignal::Off => MlccHalfSignal::Auto,
        };
    }
    follow_inside(draft);
    take_over(draft);
    begin_as_halves(draft);
    let is_preset = matches!(draft.origin("switch.program"), Origin::Transport(_));
    let is_dci = |spec: &ProgramSpec| spec.program == ProgramKind::Dci;
    if !is_preset || !draft.programs.iter().any(is_dci) {
        return Ok(());
    }
    if draft.settings.cc_params.mlcc.is_alone() {
        draft.programs.retain(|spec| !is_dci(spec));
    } else if !has_borders {
        let found = format!("{} on a network of one site", draft.transport.name);
        let error = InputError::new(found, "two sites with border switches").help(HELP);
        return Err(RunError::at_topology(None, "Sites", error));
    }
    Ok(())
}

/// Counts of RTT_C below which theta makes queues oscillate: with 1.1 the border's buffer became
/// full at 8 ms one way, with 3 it did not.
const HASTY: f64 = 1.5;

impl Plan {
    /// The setting of theta, theta and RTT_C of receivers' halves, where MLCC is to reach its
    /// threshold in little more than its feedback takes, or in less.
    #[must_use]
    pub fn hasty_border(&self) -> Option<(&'static str, Duration, Duration)> {
        let (settings, params) = (&self.settings, &self.settings.rc_params.mlcc);
        let runs = settings.far.cc.unwrap_or(settings.cc) == CcKind::Mlcc;
        let is_count = params.theta_rtts > 0.0;
        let key = if is_count { "rc.mlcc.theta_rtts" } else { "rc.mlcc.theta" };
        // Just above RTT_C the queue oscillates, too.
        let is_hasty = params.theta < params.rtt_c.scaled(HASTY);
        (runs && is_hasty).then_some((key, params.theta, params.rtt_c))
    }
}

/// Makes the loops of MLCC follow the signal that flows inside a site follow, with the same
/// increase and gamma, unless a setting says otherwise. Nothing else makes both fair on links that
/// they share.
fn follow_inside(draft: &mut Draft) {
    let unset = |key| draft.origin(key) == Origin::Default;
    let [increase, half_increase] = ["cc.mlcc.rate_ai", "rc.mlcc.rate_ai"].map(unset);
    let [gain, half_gain] = ["cc.mlcc.gain", "rc.mlcc.gain"].map(unset);
    let inside = draft.settings.cc;
    let (cc, rc) = (&mut draft.settings.cc_params, &mut draft.settings.rc_params.mlcc);
    if cc.mlcc.law == MlccLaw::Auto {
        let is_power = inside == CcKind::PowerTcp;
        cc.mlcc.law = if is_power { MlccLaw::PowerTcp } else { MlccLaw::Hpcc };
    }
    if increase {
        cc.mlcc.rate_ai = match cc.mlcc.law {
            MlccLaw::PowerTcp => cc.powertcp.rate_ai,
            MlccLaw::Auto | MlccLaw::Hpcc => cc.hpcc.rate_ai,
        };
    }
    if gain {
        cc.mlcc.gain = cc.powertcp.gain;
    }
    if half_gain {
        rc.gain = cc.mlcc.gain;
    }
    if rc.law == MlccLaw::Auto {
        rc.law = cc.mlcc.law;
    }
    if half_increase {
        rc.rate_ai = cc.mlcc.rate_ai;
    }
}

/// Gives receivers' halves the target and the least rate that were set for senders by hand.
fn take_over(draft: &mut Draft) {
    for name in ["target", "rate_min"] {
        let (own, given) = (format!("rc.mlcc.{name}"), format!("cc.mlcc.{name}"));
        if let (true, false, Some(value)) =
            (draft.is_given(&given), draft.is_given(&own), policy_keys::show(draft, &given))
        {
            draft.choose(&own, &value, draft.origin(&given));
        }
    }
}

/// Gives the queues of border switches the first rate that receivers' halves have, where that was
/// set by hand.
fn begin_as_halves(draft: &mut Draft) {
    if draft.is_given("rc.mlcc.initial") && !draft.is_given("switch.dci.equal") {
        let equal = draft.settings.rc_params.mlcc.initial == MlccHalfInitial::Equal;
        let origin = draft.origin("rc.mlcc.initial");
        draft.choose("switch.dci.equal", if equal { "on" } else { "off" }, origin);
    }
}

/// Refuses flows whose controller is MLCC where nothing would control them. `rtts` are the base
/// RTTs of flows by the tier at which their path turns, and `cc_at` gives their controller.
pub(super) fn check(
    draft: &Draft,
    config: &Config,
    matrix: &Matrix,
    (tree, rtts, cc_at): (&FatTree, &[Duration; TIERS_MAX], impl Fn(u8) -> CcKind),
) -> Result<(), RunError> {
    let far = config.far.cc.unwrap_or(config.cc);
    let spec = tree.spec();
    let rtt = |tier: u8| rtts[usize::from(tier)];
    let crosses = |tier: u8| spec.wan.is_some() && tier == spec.tiers;
    let takes = |tier| cc_at(tier) == CcKind::Mlcc;
    let tiers = matrix.flows.iter().map(|flow| spec.meeting_tier(flow.src, flow.dst));
    let (mut inside, mut across) = (config.cc == CcKind::Mlcc, far == CcKind::Mlcc);
    let (is_far, mut is_missed) = (across && !config.cc_params.mlcc.is_alone(), false);
    for tier in tiers {
        inside |= takes(tier) && !crosses(tier);
        across |= takes(tier) && crosses(tier);
        is_missed |= is_far && crosses(tier) && !takes(tier);
    }
    if is_missed {
        let found = format!("{}, by {}", config.far.rtt, draft.origin("far.rtt"));
        let across = rtt(spec.tiers);
        let expected = format!(
            "at most {across}, the base RTT across by the topology: mlcc is for such flows"
        );
        return Err(refused("far.rtt", found, expected, "leave far.rtt out"));
    }
    if !(inside || across) || config.cc_params.mlcc.is_alone() {
        return check_times(draft, config, across);
    }
    if inside && config.cc != CcKind::Mlcc {
        let found = format!("{}, by {}", config.far.rtt, draft.origin("far.rtt"));
        let expected = format!(
            "longer than {}, the base RTT of a site by the topology: mlcc is for flows that pass \
             border switches",
            rtt(spec.tiers - 1)
        );
        return Err(refused("far.rtt", found, expected, "leave far.rtt out"));
    }
    if inside {
        let found = "cc `mlcc` for flows that pass no border switch".to_owned();
        let expected = "another controller inside a site, with far.cc=mlcc".to_owned();
        return Err(refused("cc", found, expected, HELP));
    }
    if spec.wan.is_none() {
        let found = "mlcc on a network of one site".to_owned();
        let error = InputError::new(found, "two sites with border switches").help(HELP);
        return Err(RunError::at_topology(None, "Sites", error));
    }
    let borders = tree.switches(&Switches::Tier(SwitchTier::Border));
    let runs = |switch: u32| {
        let of = |spec: &&ProgramSpec| {
            tree.switches(&spec.switches).is_ok_and(|range| range.contains(&switch))
        };
        let last = draft.programs.iter().rfind(of);
        last.is_some_and(|spec| spec.program == ProgramKind::Dci)
    };
    if !borders.is_ok_and(|mut all| all.all(runs)) {
        let found = "border switches without the program dci".to_owned();
        let expected = "switch.program=dci@border: mlcc needs what they write".to_owned();
        return Err(refused("switch.program", found, expected, HELP));
    }
    check_times(draft, config, across)
}

/// theta and D_t may be given as counts of round trips. The ranges of these times bound the counts.
pub(super) fn check_round_trips(draft: &Draft, settings: &Settings) -> Result<(), RunError> {
    let params = &settings.rc_params.mlcc;
    let Err(ParamError::OutOfRange(time)) = params.validate() else { return Ok(()) };
    let (count, value) = match time.key {
        "theta" if params.theta_rtts > 0.0 => (params.theta_rtts, params.theta),
        "dt" if params.dt_rtts > 0.0 => (params.dt_rtts, params.dt),
        _ => return Ok(()),
    };
    let key = format!("rc.mlcc.{}_rtts", time.key);
    let found = format!("{count} of RTT_C, {}: {value}, by {}", params.rtt_c, draft.origin(&key));
    let expected = format!("a count by which {} is {}", time.key, time.takes());
    Err(refused(draft.written(&key), found, expected, "count more or fewer round trips"))
}

/// Refuses a theta that is not longer than D_t: theta divides the delay beyond D_t.
fn check_times(draft: &Draft, config: &Config, across: bool) -> Result<(), RunError> {
    let params = &config.rc_params.mlcc;
    if !across || params.theta > params.dt {
        return Ok(());
    }
    // Either is set as a time, or as a count of round trips.
    let setting = |time: &'static str, count: &'static str, rtts: f32, value: Duration| {
        let is_count = rtts > 0.0;
        let of = if is_count { format!("{rtts} of RTT_C, ") } else { String::new() };
        (if is_count { count } else { time }, format!("{of}{value}"))
    };
    let theta = setting("rc.mlcc.theta", "rc.mlcc.theta_rtts", params.theta_rtts, params.theta);
    let dt = setting("rc.mlcc.dt", "rc.mlcc.dt_rtts", params.dt_rtts, params.dt);
    // The place is the setting that was given by hand.
    let is_dt = draft.is_given(dt.0) && !draft.is_given(theta.0);
    let ((key, found), (other, bound)) = if is_dt { (dt, theta) } else { (theta, dt) };
    let found = format!("{found}, by {}", draft.origin(key));
    let than = if is_dt { "shorter" } else { "longer" };
    let expected = format!("{than} than {}, {bound}", draft.written(other));
    let help = "theta has to be longer than D_t; three RTT_C and a sixth of one are a good pair: \
                --set cc.mlcc.theta_rtts=3 --set cc.mlcc.dt_rtts=0.167";
    Err(refused(draft.written(key), found, expected, help))
}

fn refused(key: &str, found: String, expected: String, help: &str) -> RunError {
    InputError::new(found, expected).at(key, 0, 0).help(help).into()
}
