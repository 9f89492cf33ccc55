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
pub(crate) use {flags, setters, values};
