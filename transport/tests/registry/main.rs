//! A registry of another crate: `registry!`, `params!` and `words!` outside of `transport`, each
//! policy one file and one line.

use transport::params::ParamError;
use transport::path::NetworkFacts;
use transport::registry::{Registered, registry};

/// The behaviour of a registered policy.
pub trait Policy {
    /// Counts, and gives the sum.
    fn count(&mut self, by: u16) -> i32;
    /// The sum.
    fn total(&self) -> i32;
}

/// The registration of a policy, in its file.
pub trait Registration: Policy + Registered {
    /// The policy with its first sum.
    fn build(params: &AnyParams, total: i32) -> Self;
    /// The largest step.
    fn largest(params: &AnyParams) -> u16;
}

registry! {
    /// Names.
    pub enum AnyKind;
    /// Policies.
    pub enum Any: Policy;
    new: Registration::build(params: &AnyParams, total: i32);
    params {
        /// Settings of all.
        pub struct AnyParams;
    }
    kinds {
        /// The largest step.
        fn largest(params: &AnyParams) -> u16;
    }
    policies {
        "counter" => counter::Counter,
        "still" => still::Still,
    }
    fn count(&mut self, by: u16) -> i32;
    fn total(&self) -> i32;
}

#[test]
fn a_policy_is_built_and_called_by_its_name() {
    let mut params = AnyParams::default();
    params.counter.step = 3;
    let all: Vec<_> = AnyKind::ALL.iter().map(|kind| (kind.name(), kind.about())).collect();
    assert_eq!(all, [("counter", "counts"), ("still", "stays where it is")]);
    for (name, largest, counted) in [("counter", 3, 11), ("still", 0, 5)] {
        let kind = AnyKind::by_name(name).unwrap();
        let mut policy = Any::new(kind, &params, 5);
        assert_eq!((policy.count(2), policy.total(), policy.kind()), (counted, counted, kind));
        assert_eq!(kind.largest(&params), largest);
    }
    assert_eq!(AnyKind::by_name("counted"), None);
}

#[test]
fn settings_of_a_policy_are_set_shown_checked_and_resolved_by_its_name() {
    let [counter, still] = AnyKind::ALL else { panic!("two policies") };
    let mut params = AnyParams::default();
    let keys = AnyParams::keys(*counter);
    params.set(*counter, "direction", "down").unwrap();
    assert_eq!(params.set(*counter, "step", "10"), Err(ParamError::OutOfRange(&keys[1])));
    assert_eq!(params.set(*still, "step", "1"), Err(ParamError::UnknownKey(&[])));
    assert_eq!(params.show(*counter, "direction").as_deref(), Some("down"));
    assert_eq!(params.show(*still, "direction"), None);
    params.resolve(&NetworkFacts::default());
    assert_eq!(params.counter.step, 2);
    params.resolve(&NetworkFacts { trims: Some(false), ..NetworkFacts::default() });
    assert_eq!(params.counter.step, 1);
    params.counter.step = 10;
    assert_eq!(params.validate(), Err(ParamError::OutOfRange(&keys[1])));
}

#[test]
fn settings_of_all_policies_survive_their_words() {
    let mut params = AnyParams::default();
    params.counter.step = 7;
    let mut words = Vec::new();
    params.words(&mut |word| words.push(word));
    assert_eq!(words, [0, 7]);
    let read = |words: &[u64]| {
        let mut words = words.iter().copied();
        AnyParams::from_words(&mut || words.next())
    };
    assert_eq!(read(&words), Some(params));
    assert_eq!(read(&words[1..]), None);
}
