//! Closed registries: one line names a policy, and everything that lists, parses, dispatches or tests
//! policies follows from it.

/// Declares an enum over concrete policies with dispatch to one trait.
///
/// `registry! { /// doc enum Cc: CongestionControl { "smartt" => Smartt, ... } }` gives the enum, a
/// `NAMES` list in declaration order, and `name()`. Construction stays with the module, since each
/// policy takes what it needs.
macro_rules! registry {
    ($(#[$meta:meta])* $vis:vis enum $kind:ident {
        $($(#[$vmeta:meta])* $name:literal => $variant:ident),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        $vis enum $kind { $($(#[$vmeta])* $variant),+ }

        impl $kind {
            /// Every registered name, in the order of registration.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

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
    };
}
pub(crate) use registry;
