//! What the builders of operations share: from fields to descriptors, and their setters.

use crate::tensor::View;
use gsplat_c_sys as sys;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr;

/// As many as most calls have tensors.
const CHUNK: usize = 32;

/// The C views of one call's tensors, which descriptors point to.
pub(crate) struct Views<'v> {
    /// Never grown beyond their capacity, so that views stay where they are.
    chunks: RefCell<Vec<Vec<sys::DLTensor>>>,
    tensors: PhantomData<&'v ()>,
}

impl<'v> Views<'v> {
    pub fn new() -> Self {
        Self { chunks: RefCell::default(), tensors: PhantomData }
    }

    /// For a field of a descriptor; valid as long as `self` lives.
    pub fn of(&self, tensor: &'v Option<impl View>) -> *const sys::DLTensor {
        let Some(tensor) = tensor else { return ptr::null() };
        let chunks = &mut *self.chunks.borrow_mut();
        if chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            chunks.push(Vec::with_capacity(CHUNK));
        }
        let at = chunks.len() - 1;
        let chunk = &mut chunks[at];
        chunk.push(tensor.view());
        chunk.as_ptr().wrapping_add(chunk.len() - 1)
    }
}

/// Setters of a builder, one for each field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $name: impl Into<$kind>) -> Self {
            self.$name = Some($name.into());
            self
        })*
    };
}
/// Setters of plain values.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        $($(#[$doc])*
        pub fn $name(mut self, $name: $kind) -> Self {
            self.$name = $name;
            self
        })*
    };
}
/// Setters of bits of `flags`.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident: $flag:ident,)*) => {
        $($(#[$doc])*
        pub fn $name(mut self) -> Self {
            self.flags |= gsplat_c_sys::$flag;
            self
        })*
    };
}
/// A builder of a descriptor: each value and tensor is a line with its documentation, from which
/// follow a field, a setter and the descriptor's field.  A tensor in `fixed` has no setter, and
/// `more` are fields of another kind.
macro_rules! descriptor {
    (
        $(#[$meta:meta])*
        $name:ident<$a:lifetime, $m:ident> => $sys:ident;
        $(more { $($more:ident: $more_kind:ty,)* })?
        $(fixed { $($fixed:ident: $fixed_kind:ty,)* })?
        $(values {
            $($(#[$value_doc:meta])* $value:ident as $value_field:ident: $value_kind:ty,)*
        })?
        tensors { $($(#[$doc:meta])* $tensor:ident as $field:ident: $kind:ty,)* }
    ) => {
        $(#[$meta])*
        pub struct $name<$a, $m: Memory = Host> {
            $($(pub(crate) $more: $more_kind,)*)?
            $($($fixed: Option<$fixed_kind>,)*)?
            $($($value: $value_kind,)*)?
            $(pub(crate) $tensor: Option<$kind>,)*
        }

        impl<$a, $m: Memory> $name<$a, $m> {
            $($crate::builder::values! { $($(#[$value_doc])* $value: $value_kind,)* })?
            $crate::builder::setters! { $($(#[$doc])* $tensor: $kind,)* }

            /// Without what `more` has.
            #[allow(clippy::needless_update)] // where the fields are all there are
            pub(crate) fn descriptor<'v>(&'v self, views: &Views<'v>) -> sys::$sys {
                sys::$sys {
                    $($($value_field: self.$value,)*)?
                    $($($fixed: views.of(&self.$fixed),)*)?
                    $($field: views.of(&self.$tensor),)*
                    ..Default::default()
                }
            }
        }
    };
}
pub(crate) use {descriptor, flags, setters, values};
