//! Enums whose variants have names: values of keys, kinds of events, states, reasons.

/// Defines such an enum. A line of its table is `Variant = "name",`, or `Variant = "name" | "synonym",`; the comment
/// before it is the help text. `default Variant` after the name of the enum is optional.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])+ $enum:ident $(default $default:ident)? {
        $($(#[doc = $help:literal])+ $variant:ident = $name:literal $(| $synonym:literal)*,)+
    }) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $($(#[doc = $help])+ $variant,)+
        }

        impl $enum {
            /// All, in the order of the table.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];
            /// All, each with its name.
            pub const NAMES: &'static [(&'static str, $enum)] = &[$(($name, $enum::$variant)),+];

            /// Name of the variant.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name),+ }
            }

            /// Its help text.
            pub const fn help(self) -> &'static str {
                match self { $($enum::$variant => concat!($($help),+).trim_ascii()),+ }
            }
        }

        $(impl Default for $enum {
            fn default() -> $enum {
                $enum::$default
            }
        })?

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = String;
            fn from_str(name: &str) -> Result<$enum, String> {
                match name {
                    $($name $(| $synonym)* => Ok($enum::$variant),)+
                    _ => Err(format!("`{name}` is unknown; choose one of {}", [$($name),+].join(", "))),
                }
            }
        }
    };
}
