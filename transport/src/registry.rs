//! Closed registries: one line names a policy, and everything that lists, parses, builds,
//! dispatches or tests policies follows from it.

/// Declares a closed set of policies of one trait.
///
/// ```text
/// registry! {
///     /// Names the registered controllers.
///     pub enum CcKind;
///     /// A controller, stored inline.
///     pub enum Cc: CongestionControl;
///     new(params: &CcParams, path: &Path);
///     { "smartt" => Smartt: Smartt::new(&params.smartt, path), }
///     fn window(&self) -> Window;
/// }
/// ```
///
/// gives `CcKind` (without data: `NAMES`, `ALL`, `by_name`, `name`), `Cc` (the policies by value:
/// `new`, `kind`), and the trait for `Cc`, each listed method going to the policy inside by one
/// `match`. The variant of a policy is called as its type. List every method of the trait: one that
/// is left out would fall back to the trait's default. Other crates declare their own registries
/// with it: `use transport::registry::registry;`.
#[doc(hidden)]
#[macro_export]
macro_rules! registry {
    (
        $(#[$kind_meta:meta])* $kind_vis:vis enum $kind:ident;
        $(#[$policy_meta:meta])* $policy_vis:vis enum $policy:ident: $trait:ident;
        new($($arg:ident: $arg_type:ty),*);
        { $($(#[$meta:meta])* $name:literal => $variant:ident: $build:expr),+ $(,)? }
        $($methods:tt)*
    ) => {
        $(#[$kind_meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        $kind_vis enum $kind { $($(#[$meta])* $variant),+ }

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

            /// The name it is registered under.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        $(#[$policy_meta])*
        #[derive(Clone, Debug)]
        $policy_vis enum $policy { $($(#[$meta])* $variant($variant)),+ }

        impl $policy {
            /// The policy named by `kind`, in its initial state.
            #[must_use]
            pub fn new(kind: $kind, $($arg: $arg_type),*) -> Self {
                match kind { $($kind::$variant => Self::$variant($build)),+ }
            }

            /// Which one this is.
            #[must_use]
            pub const fn kind(&self) -> $kind {
                match self { $(Self::$variant(_) => $kind::$variant),+ }
            }
        }

        impl $trait for $policy {
            $crate::registry::dispatch! { [$($variant)+] $($methods)* }
        }
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
        #[inline]
        fn $method(&mut $me $(, $arg: $type)*) $(-> $ret)? {
            $crate::registry::forward!($me [$($variant)+] $method ($($arg),*))
        }
        $crate::registry::dispatch! { [$($variant)+] $($rest)* }
    };
    ([$($variant:ident)+]
        fn $method:ident(&$me:ident $(, $arg:ident: $type:ty)*) $(-> $ret:ty)?; $($rest:tt)*
    ) => {
        #[inline]
        fn $method(&$me $(, $arg: $type)*) $(-> $ret)? {
            $crate::registry::forward!($me [$($variant)+] $method ($($arg),*))
        }
        $crate::registry::dispatch! { [$($variant)+] $($rest)* }
    };
}

/// One call to whichever policy is inside. `$args` is one token tree, so it may repeat per variant.
#[doc(hidden)]
#[macro_export]
macro_rules! forward {
    ($me:ident [$($variant:ident)+] $method:ident $args:tt) => {
        match $me { $(Self::$variant(policy) => policy.$method $args),+ }
    };
}

pub use {dispatch, forward, registry};
