//! The keys of policies, of queue disciplines and of switch programs, from their own tables:
//! `cc.<name>.<key>`, `rc.<name>.<key>`, `lb.<key>`, `ec.<key>`, `ec.<name>.<key>`,
//! `sched.<name>.<key>`, `switch.<name>.<key>`.

use fabric::{ProgramKind, ProgramSettings, QdiscKind, QdiscSettings};
use transport::cc::{CcKind, CcParams};
use transport::ec::{CodeParams, EcKind, EcParams};
use transport::lb::LbParams;
use transport::params::{ParamError, ParamKey};
use transport::path::NetworkFacts;
use transport::rc::{RcKind, RcParams};
use transport::sched::{SchedKind, SchedParams};

use super::draft::Draft;

/// The settings of the members of one registry, or of all of a kind of policy together.
pub(super) struct KeyFamily {
    /// The beginning of its keys.
    prefix: &'static str,
    members: fn() -> Vec<Member>,
    /// Sets the key behind the prefix; `None` when there is no such member.
    set: fn(&mut Draft, &str, &str) -> Option<Result<(), ParamError>>,
    /// The value of the key behind the prefix.
    show: fn(&Draft, &str) -> Option<String>,
}

/// The name of a member, and its keys; no name where all members share one name space.
type Member = (Option<&'static str>, &'static [ParamKey]);

/// A family whose keys are `<prefix><member>.<key>`.
macro_rules! by_member {
    ($prefix:literal, $kind:ident, $settings:ident, |$draft:ident| $value:expr) => {
        KeyFamily {
            prefix: $prefix,
            members: || {
                let all = $kind::ALL.iter();
                all.map(|&kind| (Some(kind.name()), $settings::keys(kind))).collect()
            },
            set: |$draft, key, value| {
                let (name, key) = key.split_once('.')?;
                Some($value.set($kind::by_name(name)?, key, value))
            },
            show: |$draft, key| {
                let (name, key) = key.split_once('.')?;
                $value.show($kind::by_name(name)?, key)
            },
        }
    };
}

/// A family whose keys are `<prefix><key>`.
macro_rules! in_one {
    ($prefix:literal, $settings:ident, |$draft:ident| $value:expr) => {
        KeyFamily {
            prefix: $prefix,
            members: || vec![(None, $settings::KEYS)],
            set: |$draft, key, value| Some($value.set(key, value)),
            show: |$draft, key| $value.show(key),
        }
    };
}

const CC: KeyFamily = by_member!("cc.", CcKind, CcParams, |draft| draft.settings.cc_params);
const RC: KeyFamily = by_member!("rc.", RcKind, RcParams, |draft| draft.settings.rc_params);
const LB: KeyFamily = in_one!("lb.", LbParams, |draft| draft.settings.lb_params);
const CODE: KeyFamily = by_member!("ec.", EcKind, CodeParams, |draft| draft.settings.code_params);
const EC: KeyFamily = in_one!("ec.", EcParams, |draft| draft.settings.ec_params);
const SCHED: KeyFamily =
    by_member!("sched.", SchedKind, SchedParams, |draft| draft.settings.sched_params);
const QDISC: KeyFamily =
    by_member!("switch.", QdiscKind, QdiscSettings, |draft| draft.switch.qdiscs);
const PROGRAM: KeyFamily =
    by_member!("switch.", ProgramKind, ProgramSettings, |draft| draft.switch.programs);

/// The policies of endpoints; codes before their common settings, which take any key.
pub(super) const ENDPOINTS: &[KeyFamily] = &[CC, RC, LB, CODE, EC, SCHED];
/// The families of switches.
pub(super) const SWITCHES: &[KeyFamily] = &[QDISC, PROGRAM];

/// Every key of `families` with its rustdoc.
pub(super) fn all(families: &[KeyFamily]) -> Vec<(String, &'static str)> {
    let keys = families.iter().flat_map(|family| family.keys(|_| true));
    keys.map(|(name, key)| (name, key.doc)).collect()
}

/// Every key of `families` with its value, as text that sets it.
pub(super) fn values(families: &[KeyFamily], draft: &Draft) -> Vec<(String, String)> {
    families.iter().flat_map(|family| family.values(draft, |_| true)).collect()
}

/// The keys of the chosen policies of endpoints, with the values that act.
pub(super) fn chosen(draft: &Draft) -> Vec<(String, String)> {
    let settings = &draft.settings;
    let mut acting = draft.clone();
    acting.settings = draft.acting();
    let near = settings.cc;
    let far = settings.far.cc.filter(|&far| far != near);
    // The near controller's keys stand before those of the far one, in any order of registration.
    let cc = [Some(near), far].into_iter().flatten();
    let mut chosen: Vec<_> =
        cc.flat_map(|kind| CC.values(&acting, |name| name == kind.name())).collect();
    let halves = [Some(near), far].into_iter().flatten();
    let halves: Vec<_> =
        halves.filter_map(|kind| kind.half(&acting.settings.cc_params)).map(RcKind::name).collect();
    chosen.extend(RC.values(&acting, |name| halves.contains(&name)));
    chosen.extend(values(&[LB, EC], &acting));
    chosen.extend(CODE.values(&acting, |name| name == settings.ec.name()));
    chosen.extend(SCHED.values(&acting, |name| name == settings.sched.name()));
    chosen
}

/// The keys of the chosen policies of endpoints that `facts` change, each with the value that it
/// gets.
pub(super) fn resolved_of_chosen(draft: &Draft, facts: &NetworkFacts) -> Vec<(String, String)> {
    let mut after = draft.clone();
    after.settings.resolve(facts);
    changes(chosen(draft), chosen(&after))
}

/// The keys of policies of endpoints and of programs that `facts` change, of chosen and other
/// policies, each with the value that it gets.
pub(super) fn resolved(draft: &Draft, facts: &NetworkFacts) -> Vec<(String, String)> {
    let mut after = draft.clone();
    after.settings.resolve(facts);
    after.switch.programs.resolve(facts);
    let all = |draft| values(ENDPOINTS, draft).into_iter().chain(values(&[PROGRAM], draft));
    changes(all(draft), all(&after))
}

/// What differs in `after`; both have the same keys in the same order.
fn changes(
    before: impl IntoIterator<Item = (String, String)>,
    after: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let pairs = before.into_iter().zip(after);
    pairs.filter(|(before, after)| before != after).map(|(_, after)| after).collect()
}

/// The keys that begin with `prefix` and have a value that stands for the network's.
pub(super) fn of_network(prefix: &str) -> impl Iterator<Item = String> + '_ {
    let keys = ENDPOINTS.iter().chain(SWITCHES).flat_map(|family| family.keys(|_| true));
    let found =
        keys.filter(move |(name, key)| name.starts_with(prefix) && key.of_network.is_some());
    found.map(|(name, _)| name)
}

/// Whether the value of `key` is one of its own, and not the one that stands for the network's.
pub(super) fn is_set(draft: &Draft, key: &str) -> bool {
    let of_network = declared(key).and_then(|key| key.of_network);
    of_network.is_none_or(|of_network| show(draft, key).as_deref() != Some(of_network))
}

/// Sets `key`; `None` when no family has it.
pub(super) fn set(draft: &mut Draft, key: &str, value: &str) -> Option<Result<(), ParamError>> {
    ENDPOINTS.iter().chain(SWITCHES).find_map(|family| {
        let rest = key.strip_prefix(family.prefix)?;
        (family.set)(draft, rest, value)
    })
}

/// The value of `key`; `None` when no family has it.
pub(super) fn show(draft: &Draft, key: &str) -> Option<String> {
    let mut families = ENDPOINTS.iter().chain(SWITCHES);
    families.find_map(|family| (family.show)(draft, key.strip_prefix(family.prefix)?))
}

/// What `key` takes: the form of its values and their range; `None` when no family has it.
pub(super) fn takes(key: &str) -> Option<String> {
    declared(key).map(ParamKey::takes)
}

/// The declaration of `key`; `None` when no family has it.
fn declared(key: &str) -> Option<&'static ParamKey> {
    let mut families = ENDPOINTS.iter().chain(SWITCHES);
    families.find_map(|family| {
        let keys = family.keys(|_| true);
        keys.into_iter().find(|(name, _)| name == key).map(|(_, key)| key)
    })
}

impl KeyFamily {
    /// The keys of the members whose names are `wanted`.
    fn keys(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, &'static ParamKey)> {
        let mut found = Vec::new();
        for (name, keys) in (self.members)() {
            let own = match name {
                Some(name) if !wanted(name) => continue,
                Some(name) => format!("{}{name}.", self.prefix),
                None => self.prefix.to_owned(),
            };
            found.extend(keys.iter().map(|key| (format!("{own}{}", key.key), key)));
        }
        found
    }

    /// The keys of the members whose names are `wanted`, with their values.
    fn values(&self, draft: &Draft, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let value = |name: String| {
            let value = (self.show)(draft, name.strip_prefix(self.prefix)?)?;
            Some((name, value))
        };
        self.keys(wanted).into_iter().filter_map(|(name, _)| value(name)).collect()
    }
}
