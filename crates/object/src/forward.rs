//! Methods that only pass a call on to a part of their object.

/// Defines such methods by their signatures: `forward! { part: fn len(&self) -> u64; }` calls `self.part.len()`.
#[macro_export]
macro_rules! forward {
    ($part:ident: $(
        $(#[doc = $doc:literal])*
        $vis:vis fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;
    )+) => {
        $($(#[doc = $doc])* $vis fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            self.$part.$name($($argument),*)
        })+
    };
}
