//! Closed registries: one line names a policy, and everything that lists, parses, builds, sets,
//! records, dispatches or tests policies follows from it.

use crate::path::NetworkFacts;

/// The registration of a policy, which its file states beside its behaviour.
pub trait Registered {
    /// The sentence that `headrace list` prints beside the name: one line, no full stop.
    const ABOUT: &'static str;
    /// The policy's settings, declared by `params!`; [`NoParams`](crate::params::NoParams) when it
    /// has none.
    type Params;
    /// Adapts settings to facts about the network. Facts may be known in parts: a fact of `None`
    /// leaves the settings as they are, and a second call with the same facts changes nothing more.
    fn resolve(_params: &mut Self::Params, _facts: &NetworkFacts) {}
    /// Calls `each` with the name and the value of every counter that the policy keeps of its own.
    /// A result's `counters` has the sums over all schedulers, queue disciplines and switch
    /// programs of a run, each as `sched.<policy>.<counter>` or `switch.<policy>.<counter>`, and
    /// leaves out sums of 0. Policies of flows are gone when a run ends: their counters are never
    /// read.
    fn own_counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

/// Declares a closed set of policies of one trait.
///
/// ```text
/// registry! {
///     /// Names the registered controllers.
///     pub enum CcKind;
///     /// A controller, stored inline.
///     pub enum Cc: CongestionControl;
///     new: Controller::build(params: &CcParams, path: &Path);
///     params {
///         /// The settings of every controller.
///         pub struct CcParams;
///     }
///     kinds {
///         /// The largest window.
///         fn window_max(params: &CcParams) -> f32;
///     }
///     policies {
///         "smartt" => smartt::Smartt,
///     }
///     unlisted {
///         "custom" => custom::Custom,
///     }
///     fn window(&self) -> Window;
/// }
/// ```
///
/// A line of `policies` is all that a policy needs: it declares the module of the policy's file and
/// makes
///
/// - a variant of `CcKind`, which has no data: `NAMES`, `ALL`, `by_name`, `name`, `about`, and each
///   function of `kinds`, an associated function of the family (`Controller`);
/// - a variant of `Cc`, which has the policies by value: `new`, `kind`, and the trait, each method
///   going to the policy inside by one `match`. List every method of the trait: one that is left
///   out would fall back to the trait's default. A policy that has several roles lists the
///   methods of each further trait as `for Trait { fn ..; }`;
/// - a field of `CcParams`, named as the module, of the type [`Registered::Params`]: `keys`, `set`,
///   `show`, `validate`, `resolve`, and the words of recordings. Settings are called
///   `<policy>.<key>`. With fields of its own (`pub struct LbParams { common: CommonParams }`) all
///   settings share one name space, which begins with those. `params {}` makes none.
///
/// A line of `unlisted`, a group that may be left out, makes all of that for a policy that no text
/// chooses. Such a policy has a kind and a name. It is neither in `NAMES` and `ALL` nor found
/// `by_name`.
///
/// A family is a trait beside the registry, on top of [`Registered`] and of the policies' trait. It
/// says how a policy is built, and what other code asks of a policy before it is built.
///
/// Other crates declare their own registries: `use transport::registry::registry;`. Generators of
/// traffic and named networks, which text builds once a run, have lists of their own in
/// `testbed/experiments`, with the reason there. `make fmt` formats the files of modules that are
/// declared here; `cargo fmt` does not find them.
#[doc(hidden)]
#[macro_export]
macro_rules! registry {
    (
        $(#[$kind_meta:meta])* $kind_vis:vis enum $kind:ident;
        $(#[$policy_meta:meta])* $policy_vis:vis enum $policy:ident: $trait:ident;
        new: $family:ident::$build:ident($($arg:ident: $arg_type:ty),* $(,)?);
        params $params:tt
        kinds { $($by_kind:tt)* }
        policies { $($name:literal => $module:ident::$variant:ident),+ $(,)? }
        unlisted { $($other_name:literal => $other_module:ident::$other:ident),* $(,)? }
        $($methods:tt)*
    ) => {
        $(
            pub mod $module;
            pub use $module::$variant;
        )+
        $(
            pub mod $other_module;
            pub use $other_module::$other;
        )*

        $(#[$kind_meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        $kind_vis enum $kind {
            $(#[doc = concat!("[`", stringify!($variant), "`].")] $variant,)+
            $(#[doc = concat!("[`", stringify!($other), "`].")] $other,)*
        }

        impl $kind {
            /// Every registered name, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            /// Every registered policy, in the order of [`Self::NAMES`].
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The policy called `name`.
            #[must_use]
            pub fn by_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }

            /// The name that the policy is registered under.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    $(Self::$other => $other_name,)*
                }
            }

            /// The policy's sentence, one line.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => <$variant as $crate::registry::Registered>::ABOUT,)+
                    $(Self::$other => <$other as $crate::registry::Registered>::ABOUT,)*
                }
            }

            $crate::registry::by_kind! { [$($variant)+ $($other)*] $family $($by_kind)* }
        }

        $(#[$policy_meta])*
        #[derive(Clone, Debug)]
        $policy_vis enum $policy {
            $(#[doc = concat!("[`", stringify!($variant), "`].")] $variant($variant),)+
            $(#[doc = concat!("[`", stringify!($other), "`].")] $other($other),)*
        }

        impl $policy {
            /// The policy named by `kind`, in its initial state.
            #[must_use]
            pub fn new(kind: $kind, $($arg: $arg_type),*) -> Self {
                $crate::registry::build! {
                    kind $kind [$($variant)+ $($other)*] $family::$build ($($arg),*)
                }
            }

            /// Which one this is.
            #[must_use]
            pub const fn kind(&self) -> $kind {
                match self {
                    $(Self::$variant(_) => $kind::$variant,)+
                    $(Self::$other(_) => $kind::$other,)*
                }
            }

            /// Calls `each` with the name and the value of every counter of its own.
            pub fn own_counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
                use $crate::registry::Registered as _;
                $crate::registry::forward!(self [$($variant)+ $($other)*] own_counters (each))
            }
        }

        $crate::registry::roles! { $policy [$($variant)+ $($other)*] $trait $($methods)* }

        $crate::registry::settings! {
            $params $kind
            [$($name $module $variant)+ $($other_name $other_module $other)*]
        }
    };
    // Without unlisted ones.
    (
        $(#[$kind_meta:meta])* $kind_vis:vis enum $kind:ident;
        $(#[$policy_meta:meta])* $policy_vis:vis enum $policy:ident: $trait:ident;
        new: $family:ident::$build:ident $args:tt;
        params $params:tt
        kinds $by_kind:tt
        policies $policies:tt
        fn $($methods:tt)*
    ) => {
        $crate::registry::registry! {
            $(#[$kind_meta])* $kind_vis enum $kind;
            $(#[$policy_meta])* $policy_vis enum $policy: $trait;
            new: $family::$build $args;
            params $params
            kinds $by_kind
            policies $policies
            unlisted {}
            fn $($methods)*
        }
    };
}

/// The traits of a registry's enum: the methods of the first, then those of each further one in
/// `for Trait { .. }`.
#[doc(hidden)]
#[macro_export]
macro_rules! roles {
    ($policy:ident $variants:tt $trait:ident
        $(fn $method:ident $args:tt $(-> $ret:ty)?;)*
        $(for $role:ident $methods:tt)*
    ) => {
        impl $trait for $policy {
            $crate::registry::dispatch! { $variants $(fn $method $args $(-> $ret)?;)* }
        }
        $crate::registry::further_roles! { $policy $variants $(for $role $methods)* }
    };
}

/// One trait after the other. `$variants` is one token tree.
#[doc(hidden)]
#[macro_export]
macro_rules! further_roles {
    ($policy:ident $variants:tt) => {};
    ($policy:ident $variants:tt for $role:ident { $($methods:tt)* } $($rest:tt)*) => {
        impl $role for $policy {
            $crate::registry::dispatch! { $variants $($methods)* }
        }
        $crate::registry::further_roles! { $policy $variants $($rest)* }
    };
}

/// Builds the policy of a kind. `$args` is one token tree, so it may repeat per variant.
#[doc(hidden)]
#[macro_export]
macro_rules! build {
    ($of:ident $kind:ident [$($variant:ident)+] $family:ident::$build:ident $args:tt) => {
        match $of { $($kind::$variant => Self::$variant(<$variant as $family>::$build $args)),+ }
    };
}

/// Functions of a kind: associated functions of the family, one `match` each.
#[doc(hidden)]
#[macro_export]
macro_rules! by_kind {
    ($variants:tt $family:ident) => {};
    ([$($variant:ident)+] $family:ident
        $(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty; $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[must_use]
        pub fn $name(self $(, $arg: $type)*) -> $ret {
            $crate::registry::of_kind!(self [$($variant)+] $family::$name ($($arg),*))
        }
        $crate::registry::by_kind! { [$($variant)+] $family $($rest)* }
    };
}

/// One call to the family's function of the policy that a kind names.
#[doc(hidden)]
#[macro_export]
macro_rules! of_kind {
    ($me:ident [$($variant:ident)+] $family:ident::$name:ident $args:tt) => {
        match $me { $(Self::$variant => <$variant as $family>::$name $args),+ }
    };
}

/// The bodies of a registry's trait methods, one `match` each.
#[doc(hidden)]
#[macro_export]
macro_rules! dispatch {
    ($variants:tt) => {};
    ([$($variant:ident)+]
        fn $method:ident(&mut $me:ident $(, $arg:ident: $type:ty)*) $(-> $ret:ty)?; $($rest:tt)*
    ) => {
        #[inline(always)]
        fn $method(&mut $me $(, $arg: $type)*) $(-> $ret)? {
            $crate::registry::forward!($me [$($variant)+] $method ($($arg),*))
        }
        $crate::registry::dispatch! { [$($variant)+] $($rest)* }
    };
    ([$($variant:ident)+]
        fn $method:ident(&$me:ident $(, $arg:ident: $type:ty)*) $(-> $ret:ty)?; $($rest:tt)*
    ) => {
        #[inline(always)]
        fn $method(&$me $(, $arg: $type)*) $(-> $ret)? {
            $crate::registry::forward!($me [$($variant)+] $method ($($arg),*))
        }
        $crate::registry::dispatch! { [$($variant)+] $($rest)* }
    };
}

/// One call to the policy inside. `$args` is one token tree, so it may repeat per variant.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    ($me:ident [$($variant:ident)+] $method:ident $args:tt) => {
        match $me { $(Self::$variant(policy) => policy.$method $args),+ }
    };
}

/// The settings of all policies of a registry.
#[doc(hidden)]
#[macro_export]
macro_rules! settings {
    ({} $kind:ident $policies:tt) => {};
    ({ $(#[$meta:meta])* pub struct $name:ident; } $kind:ident $policies:tt) => {
        $crate::registry::settings_struct! { $(#[$meta])* $name {} $policies }
        $crate::registry::settings_by_name! { $name $kind $policies }
    };
    (
        { $(#[$meta:meta])* pub struct $name:ident { $($shared:tt)+ } } $kind:ident $policies:tt
    ) => {
        $crate::registry::settings_struct! { $(#[$meta])* $name { $($shared)+ } $policies }
        $crate::registry::settings_in_one! { $name { $($shared)+ } $policies }
    };
}

/// The struct of settings, and its functions over all of them.
#[doc(hidden)]
#[macro_export]
macro_rules! settings_struct {
    (
        $(#[$meta:meta])* $name:ident
        { $($(#[$doc:meta])* pub $shared:ident: $type:ty),* $(,)? }
        [$($policy:literal $module:ident $variant:ident)+]
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name {
            $($(#[$doc])* pub $shared: $type,)*
            $(
                #[doc = concat!("Settings of `", $policy, "`.")]
                pub $module: <$variant as $crate::registry::Registered>::Params,
            )+
        }

        impl $name {
            /// Adapts settings to facts about the network.
            pub fn resolve(&mut self, facts: &$crate::path::NetworkFacts) {
                $(<$variant as $crate::registry::Registered>::resolve(&mut self.$module, facts);)+
            }

            /// # Errors
            /// Names the first setting that is out of its range.
            pub fn validate(&self) -> Result<(), $crate::params::ParamError> {
                $(self.$shared.validate()?;)*
                $(self.$module.validate()?;)+
                Ok(())
            }

            /// Every value in 64 bits, in the order of declaration.
            pub fn words(&self, out: &mut dyn FnMut(u64)) {
                $(self.$shared.words(out);)*
                $(self.$module.words(out);)+
            }

            /// The settings of these words; `None` when the words end early or one is no value.
            /// Ranges are not checked.
            #[must_use]
            pub fn from_words(next: &mut dyn FnMut() -> Option<u64>) -> Option<Self> {
                Some(Self {
                    $($shared: <$type>::from_words(next)?,)*
                    $($module: <<$variant as $crate::registry::Registered>::Params>::from_words(
                        next,
                    )?,)+
                })
            }
        }
    };
}

/// Settings by the name of their policy and their own.
#[doc(hidden)]
#[macro_export]
macro_rules! settings_by_name {
    ($name:ident $kind:ident [$($policy:literal $module:ident $variant:ident)+]) => {
        impl $name {
            /// The keys of the policy `kind`, in the order of declaration.
            #[must_use]
            pub const fn keys(kind: $kind) -> &'static [$crate::params::ParamKey] {
                match kind {
                    $($kind::$variant => {
                        <<$variant as $crate::registry::Registered>::Params>::KEYS
                    })+
                }
            }

            /// Sets `key` of the policy `kind` from text.
            ///
            /// # Errors
            /// When there is no such key, or `value` is not one of its values or out of its range.
            pub fn set(
                &mut self,
                kind: $kind,
                key: &str,
                value: &str,
            ) -> Result<(), $crate::params::ParamError> {
                match kind { $($kind::$variant => self.$module.set(key, value)),+ }
            }

            /// The value of `key` of the policy `kind` as text that sets it; `None` when there is
            /// no such key.
            #[must_use]
            pub fn show(&self, kind: $kind, key: &str) -> Option<$crate::params::String> {
                match kind { $($kind::$variant => self.$module.show(key)),+ }
            }
        }
    };
}

/// Settings of all policies in one name space.
#[doc(hidden)]
#[macro_export]
macro_rules! settings_in_one {
    (
        $name:ident
        { $($(#[$doc:meta])* pub $shared:ident: $type:ty),* $(,)? }
        [$($policy:literal $module:ident $variant:ident)+]
    ) => {
        impl $name {
            const PARTS: &'static [&'static [$crate::params::ParamKey]] = &[
                $(<$type>::KEYS,)*
                $(<<$variant as $crate::registry::Registered>::Params>::KEYS,)+
            ];
            /// Every setting, in the order of declaration.
            pub const KEYS: &'static [$crate::params::ParamKey] =
                &$crate::params::joined::<{ $crate::params::count(Self::PARTS) }>(Self::PARTS);

            /// Sets the setting called `key` from text; `self` is unchanged on error.
            ///
            /// # Errors
            /// When there is no such setting, or `value` does not parse or is out of range.
            pub fn set(
                &mut self,
                key: &str,
                value: &str,
            ) -> Result<(), $crate::params::ParamError> {
                use $crate::params::ParamError::UnknownKey;
                let none = Err(UnknownKey(Self::KEYS));
                $(let none = match none {
                    Err(UnknownKey(_)) => self.$shared.set(key, value),
                    done => done,
                };)*
                $(let none = match none {
                    Err(UnknownKey(_)) => self.$module.set(key, value),
                    done => done,
                };)+
                none.map_err(|error| match error {
                    UnknownKey(_) => UnknownKey(Self::KEYS),
                    refused => refused,
                })
            }

            /// The value of the setting called `key`, as text that sets it; `None` when there is no
            /// such setting.
            #[must_use]
            pub fn show(&self, key: &str) -> Option<$crate::params::String> {
                None$(.or_else(|| self.$shared.show(key)))*$(.or_else(|| self.$module.show(key)))+
            }

            /// The name of the policy that alone has the setting `key`; `None` for a setting of
            /// several policies.
            #[must_use]
            pub fn owner(key: &str) -> Option<&'static str> {
                let has = |keys: &[$crate::params::ParamKey]| keys.iter().any(|k| k.key == key);
                $(if has(<<$variant as $crate::registry::Registered>::Params>::KEYS) {
                    return Some($policy);
                })+
                None
            }
        }
    };
}

pub use {
    build, by_kind, dispatch, forward, further_roles, of_kind, registry, roles, settings,
    settings_by_name, settings_in_one, settings_struct,
};
