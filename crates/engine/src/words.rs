//! Enums that have a word for each variant: values of keys, kinds of events, names of metrics.

/// Defines such an enum. A line of its table is `Variant = "word",`; the comment before it is the help text.
macro_rules! words {
    ($(#[$about:meta])+ $enum:ident { $($(#[doc = $help:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $enum {
            $($(#[doc = $help])+ $variant,)+
        }

        impl $enum {
            /// All, in the order of the table.
            pub const ALL: &[$enum] = &[$($enum::$variant),+];
            /// All, each with its word.
            pub const WORDS: &[(&str, $enum)] = &[$(($word, $enum::$variant)),+];

            /// Word of the variant.
            pub fn name(self) -> &'static str {
                match self { $($enum::$variant => $word),+ }
            }

            /// Its help text.
            pub fn help(self) -> &'static str {
                match self { $($enum::$variant => concat!($($help),+).trim_ascii()),+ }
            }
        }
    };
}
pub(crate) use words;
