//! What the builders of operations share: from fields to descriptors, and their setters.

use crate::tensor::View;
use gsplat_c_sys as sys;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

/// A scene has 14 tensors, its gradients have 17.
const MOST_VIEWS: usize = 31;

/// The C views of one call's tensors, which descriptors point to.
pub(crate) struct Views<'v> {
    slots: [Cell<sys::DLTensor>; MOST_VIEWS],
    used: Cell<usize>,
    tensors: PhantomData<&'v ()>,
}

impl<'v> Views<'v> {
    pub fn new() -> Self {
        const EMPTY: sys::DLTensor = sys::DLTensor {
            data: ptr::null_mut(),
            device: sys::DLDevice { device_type: sys::kDLCPU, device_id: 0 },
            ndim: 0,
            dtype: sys::DLDataType { code: sys::kDLFloat, bits: 32, lanes: 1 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        Self {
            slots: [const { Cell::new(EMPTY) }; MOST_VIEWS],
            used: Cell::new(0),
            tensors: PhantomData,
        }
    }

    /// For a field of a descriptor; it is good as long as `self` stays where it is.
    pub fn of(&self, tensor: &'v Option<impl View>) -> *const sys::DLTensor {
        let Some(tensor) = tensor else { return ptr::null() };
        let slot = &self.slots[self.used.get()];
        self.used.set(self.used.get() + 1);
        slot.set(tensor.view());
        slot.as_ptr()
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
/// follow a field, a setter and the descriptor's field.  `more` are fields of another kind.
macro_rules! descriptor {
    (
        $(#[$meta:meta])*
        $name:ident<$a:lifetime, $m:ident> => $sys:ident;
        more { $($more:ident: $more_kind:ty,)* }
        values { $($(#[$value_doc:meta])* $value:ident: $value_kind:ty,)* }
        tensors { $($(#[$doc:meta])* $tensor:ident as $field:ident: $kind:ty,)* }
    ) => {
        $(#[$meta])*
        pub struct $name<$a, $m: Memory = Host> {
            $(pub(crate) $more: $more_kind,)*
            $($value: $value_kind,)*
            $($tensor: Option<$kind>,)*
        }

        impl<$a, $m: Memory> $name<$a, $m> {
            $crate::builder::values! { $($(#[$value_doc])* $value: $value_kind,)* }
            $crate::builder::setters! { $($(#[$doc])* $tensor: $kind,)* }

            /// Without what `more` has.
            pub(crate) fn descriptor<'v>(&'v self, views: &Views<'v>) -> sys::$sys {
                sys::$sys {
                    $($value: self.$value,)*
                    $($field: views.of(&self.$tensor),)*
                    ..Default::default()
                }
            }
        }
    };
}
pub(crate) use {descriptor, flags, setters, values};
