//! An application's own controller: the example runs, a controller behind the pointer behaves as
//! the registered one, and a configuration without one is refused.

#[expect(dead_code, reason = "its main is run by `cargo run --example`")]
#[path = "../examples/own_controller.rs"]
mod own_controller;

use core::num::NonZeroU32;

use own_controller::{settings, transfer};
use transport::cc::fixed::FixedParams;
use transport::cc::{CcKind, CongestionControl, Custom, Fixed, Smartt};
use transport::{Config, ConfigError, Duration, FarSettings, Settings};

const LEN: NonZeroU32 = NonZeroU32::new(4 << 20).unwrap();

#[test]
fn the_examples_controller_keeps_the_queue_shorter_than_a_window_that_never_moves() {
    let own = transfer(settings(), LEN);
    let mut fixed = Settings { cc: CcKind::Fixed, ..settings() };
    fixed.cc_params.fixed = FixedParams { bdps: 20.0 };
    let fixed = transfer(fixed, LEN);
    assert_eq!((own.delivered, fixed.delivered), (LEN.get(), LEN.get()));
    assert!(own.marked > 0 && own.queue_max * 3 < fixed.queue_max, "{own:?} {fixed:?}");
}

#[test]
fn a_registered_controller_does_the_same_behind_the_pointer() {
    fn behind<C>(settings: &Settings, make: impl Fn(&transport::Path) -> C + Send + Sync + 'static)
    where
        C: CongestionControl + Clone + core::fmt::Debug + Send + Sync + 'static,
    {
        let mut own = Settings { cc: CcKind::Custom, ..settings.clone() };
        own.cc_params.custom = Custom::built_by(20.0, make);
        assert_eq!(transfer(own, LEN), transfer(settings.clone(), LEN));
    }
    let base = Settings { cc: CcKind::Fixed, ..settings() };
    let params = base.cc_params.fixed;
    behind(&base, move |path| Fixed::new(&params, path));
    let base = Settings { cc: CcKind::Smartt, ..settings() };
    let params = Config::new(base.clone()).unwrap().cc_params.smartt;
    behind(&base, move |path| Smartt::new(&params, path));
}

#[test]
fn far_paths_alone_may_have_it_and_without_it_a_choice_of_it_is_refused() {
    let far = FarSettings { cc: Some(CcKind::Custom), ..FarSettings::default() };
    let settings = Settings { cc: CcKind::Smartt, far, ..settings() };
    let config = Config::new(settings.clone()).unwrap();
    let mut path = config.default_path();
    assert_eq!(config.policies(&path).cc, CcKind::Smartt);
    path.base_rtt = Duration::from_ms(1);
    assert_eq!(config.policies(&path).cc, CcKind::Custom);
    let without = Settings { cc_params: transport::cc::CcParams::default(), ..settings };
    let refused = Config::new(without).unwrap_err();
    assert!(matches!(refused, ConfigError::Setting { name: "cc_params.custom", .. }));
}

#[test]
fn no_text_chooses_it() {
    assert_eq!(CcKind::by_name(CcKind::Custom.name()), None);
    assert!(!CcKind::ALL.contains(&CcKind::Custom) && !CcKind::NAMES.contains(&"custom"));
}
