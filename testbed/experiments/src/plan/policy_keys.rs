//! The keys of policies and of queue disciplines with their values, from their own tables:
//! `cc.<name>.<key>`, `lb.<key>`, `sched.<name>.<key>`, `switch.<name>.<key>`.

use fabric::{QdiscKind, QdiscSettings};
use transport::Settings;
use transport::cc::{CcKind, CcParams};
use transport::lb::LbParams;
use transport::path::NetworkFacts;
use transport::sched::{SchedKind, SchedParams};

/// The keys of policies that `facts` change, of chosen and other policies, each with the value that
/// it gets.
pub(super) fn resolved(settings: &Settings, facts: &NetworkFacts) -> Vec<(String, String)> {
    let mut after = settings.clone();
    after.resolve(facts);
    let changes = of_policies(settings).zip(of_policies(&after));
    changes.filter(|(before, after)| before != after).map(|(_, after)| after).collect()
}

/// Every key of every policy with its value.
fn of_policies(settings: &Settings) -> impl Iterator<Item = (String, String)> + '_ {
    let cc = CcKind::ALL.iter().flat_map(|&kind| of_cc(settings, kind));
    let sched = SchedKind::ALL.iter().flat_map(|&kind| of_sched(settings, kind));
    cc.chain(of_lb(settings)).chain(sched)
}

/// The keys of one controller with their values.
pub(super) fn of_cc(
    settings: &Settings,
    kind: CcKind,
) -> impl Iterator<Item = (String, String)> + '_ {
    CcParams::keys(kind).iter().filter_map(move |key| {
        let value = settings.cc_params.show(kind, key.key)?;
        Some((format!("cc.{}.{}", kind.name(), key.key), value))
    })
}

/// The keys of all balancers with their values.
pub(super) fn of_lb(settings: &Settings) -> impl Iterator<Item = (String, String)> + '_ {
    let value = |key: &str| settings.lb_params.show(key);
    LbParams::KEYS.iter().filter_map(move |key| Some((format!("lb.{}", key.key), value(key.key)?)))
}

/// The keys of one scheduler with their values.
pub(super) fn of_sched(
    settings: &Settings,
    kind: SchedKind,
) -> impl Iterator<Item = (String, String)> + '_ {
    SchedParams::keys(kind).iter().filter_map(move |key| {
        let value = settings.sched_params.show(kind, key.key)?;
        Some((format!("sched.{}.{}", kind.name(), key.key), value))
    })
}

/// The keys of all disciplines with their values.
pub(super) fn of_qdiscs(settings: &QdiscSettings) -> impl Iterator<Item = (String, String)> + '_ {
    QdiscKind::ALL.iter().flat_map(move |&kind| {
        QdiscSettings::keys(kind).iter().filter_map(move |key| {
            let value = settings.show(kind, key.key)?;
            Some((format!("switch.{}.{}", kind.name(), key.key), value))
        })
    })
}
