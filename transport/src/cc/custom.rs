//! A controller of the application's own, which no registry names: a value behind a pointer that
//! the application makes when a flow opens.
//!
//! ```
//! use transport::cc::{AckSample, CcKind, CongestionControl, Custom, LossSample, Path, Window};
//! use transport::{Config, Settings};
//!
//! #[derive(Clone, Debug)]
//! struct OnePacket(Window);
//!
//! impl CongestionControl for OnePacket {
//!     fn window(&self) -> Window {
//!         self.0
//!     }
//!     fn on_ack(&mut self, _ack: &AckSample, _path: &Path) {}
//!     fn on_nack(&mut self, _loss: &LossSample, _path: &Path) {}
//!     fn on_timeout(&mut self, _loss: &LossSample, _path: &Path) {}
//! }
//!
//! let mut settings = Settings { cc: CcKind::Custom, ..Settings::default() };
//! settings.cc_params.custom = Custom::built_by(1.0, |path| {
//!     OnePacket(Window { cwnd: path.mtu, pacing: None, wake_at: None })
//! });
//! assert!(Config::new(settings).is_ok());
//! ```
//!
//! `far.cc` may be [`CcKind::Custom`](super::CcKind::Custom) as well. Each flow costs an allocation
//! when it opens, and each sample an indirect call; other controllers cost no more than without it.
//! A recording does not contain the controller, so a recording that was made with it cannot be
//! replayed.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::{AckSample, CcParams, CongestionControl, Controller, LossSample, Path, Window};
use crate::params::{NoParams, ParamError, ParamKey, String};
use crate::rc::RcKind;
use crate::registry::Registered;
use crate::time::Instant;
use crate::wire::{ExtRefusal, Extensions, Note};

/// A controller of the application's own.
#[derive(Debug)]
pub struct Custom(Box<dyn Boxed>);

/// The function that makes an application's controllers; `None` unless the application sets one.
///
/// [`CustomParams::with_half`] and [`CustomParams::with_int`] set what else their flows carry.
#[derive(Clone, Default)]
pub struct CustomParams(Option<Maker>);

#[derive(Clone)]
struct Maker {
    make: Arc<dyn Fn(&Path) -> Custom + Send + Sync>,
    window_max: f32,
    half: Option<RcKind>,
    reads_int: bool,
}

/// A controller that can be copied behind its pointer.
trait Boxed: CongestionControl + fmt::Debug + Send + Sync {
    fn boxed(&self) -> Box<dyn Boxed>;
}

impl<C: CongestionControl + Clone + fmt::Debug + Send + Sync + 'static> Boxed for C {
    fn boxed(&self) -> Box<dyn Boxed> {
        Box::new(self.clone())
    }
}

impl Clone for Custom {
    fn clone(&self) -> Self {
        // Clones the value inside the box: the box itself is a `Boxed`, too.
        Self((*self.0).boxed())
    }
}

impl Custom {
    /// Settings with which flows of [`CcKind::Custom`](super::CcKind::Custom) have the controllers
    /// that `make` gives. `window_max` is the largest window that they ask for, in BDPs of a path.
    #[must_use]
    pub fn built_by<C>(
        window_max: f32,
        make: impl Fn(&Path) -> C + Send + Sync + 'static,
    ) -> CustomParams
    where
        C: CongestionControl + Clone + fmt::Debug + Send + Sync + 'static,
    {
        let make = Arc::new(move |path: &Path| Self(Box::new(make(path))));
        CustomParams(Some(Maker { make, window_max, half: None, reads_int: false }))
    }
}

impl Registered for Custom {
    const ABOUT: &'static str = "a controller of the application's own";
    type Params = CustomParams;
}

impl Controller for Custom {
    /// # Panics
    /// When the application has given none, which [`Config`](crate::Config) refuses.
    fn build(params: &CcParams, path: &Path) -> Self {
        let maker = params.custom.0.as_ref().expect("a checked configuration has the controller");
        (maker.make)(path)
    }

    fn window_max(params: &CcParams) -> f32 {
        params.custom.0.as_ref().map_or(0.0, |maker| maker.window_max)
    }

    fn half(params: &CcParams) -> Option<RcKind> {
        params.custom.0.as_ref().and_then(|maker| maker.half)
    }

    fn reads_int(params: &CcParams) -> bool {
        params.custom.0.as_ref().is_some_and(|maker| maker.reads_int)
    }
}

impl CongestionControl for Custom {
    fn window(&self) -> Window {
        self.0.window()
    }
    fn on_ack(&mut self, ack: &AckSample, path: &Path) {
        self.0.on_ack(ack, path);
    }
    fn on_ack_with(
        &mut self,
        ack: &AckSample,
        extensions: Extensions<'_>,
        path: &Path,
    ) -> Option<ExtRefusal> {
        self.0.on_ack_with(ack, extensions, path)
    }
    fn on_nack(&mut self, loss: &LossSample, path: &Path) {
        self.0.on_nack(loss, path);
    }
    fn on_timeout(&mut self, loss: &LossSample, path: &Path) {
        self.0.on_timeout(loss, path);
    }
    fn on_wake(&mut self, now: Instant, path: &Path) {
        self.0.on_wake(now, path);
    }
    fn on_note(
        &mut self,
        note: &Note,
        extensions: Extensions<'_>,
        now: Instant,
        path: &Path,
    ) -> Result<(), ExtRefusal> {
        self.0.on_note(note, extensions, now, path)
    }
}

/// Equal when both have one and the same maker, or none.
impl PartialEq for CustomParams {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(two)) => {
                let of = |maker: &Maker| (maker.window_max, maker.half, maker.reads_int);
                Arc::ptr_eq(&one.make, &two.make) && of(one) == of(two)
            }
            _ => false,
        }
    }
}

impl fmt::Debug for CustomParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "CustomParams(..)" } else { "CustomParams(none)" })
    }
}

/// Settings as the registry has them: none that text can set or a recording can hold.
impl CustomParams {
    /// Controllers that have the half `half` at receivers.
    #[must_use]
    pub fn with_half(self, half: RcKind) -> Self {
        Self(self.0.map(|maker| Maker { half: Some(half), ..maker }))
    }

    /// Controllers that read what switches write into packets.
    #[must_use]
    pub fn with_int(self) -> Self {
        Self(self.0.map(|maker| Maker { reads_int: true, ..maker }))
    }

    /// No settings.
    pub const KEYS: &'static [ParamKey] = NoParams::KEYS;

    /// Whether the application has given a controller.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// # Errors
    /// Always: there is no setting.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ParamError> {
        NoParams {}.set(key, value)
    }

    /// Always `None`: there is no setting.
    #[must_use]
    pub fn show(&self, key: &str) -> Option<String> {
        NoParams {}.show(key)
    }

    /// # Errors
    /// Never: other settings decide whether an application's controller is needed.
    pub const fn validate(&self) -> Result<(), ParamError> {
        Ok(())
    }

    /// No words.
    pub fn words(&self, out: &mut dyn FnMut(u64)) {
        NoParams {}.words(out);
    }

    /// No controller.
    #[must_use]
    pub fn from_words(next: &mut dyn FnMut() -> Option<u64>) -> Option<Self> {
        NoParams::from_words(next).map(|_| Self::default())
    }
}
