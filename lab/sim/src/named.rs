//! Enums whose variants have names for users.

/// Declares such an enum, with all variants in order, and the way from a variant to its name and back.
macro_rules! named {
    ($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// All variants, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// Name of the variant.
            pub const fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// Returns the variant with this name.
            pub fn named(name: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|variant| variant.text() == name)
            }

            /// All names, for messages.
            pub fn names() -> String {
                [$($text,)*].join(", ")
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            /// Returns the variant with this name; the error has all names.
            fn from_str(name: &str) -> Result<$name, String> {
                $name::named(name).ok_or_else(|| format!("choose one of {}", $name::names()))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }
    };
}
