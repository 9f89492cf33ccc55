//! Memory for what the caller did not provide.

use crate::Device;
use gsplat_c_sys as sys;
use std::ffi::c_void;
use std::fmt;

/// Where a context gets memory that the caller did not provide; see
/// [`ContextBuilder::allocator`](crate::ContextBuilder::allocator).
///
/// # Safety
/// `allocate` must return null, or memory as described, which nothing else uses until it is given to
/// `free`.
pub unsafe trait Allocator: Send + Sync {
    /// At least this many bytes on the device, for work queued on the stream, or null.
    fn allocate(
        &self,
        bytes: usize,
        alignment: usize,
        device: Device,
        stream: *mut c_void,
    ) -> *mut c_void;

    /// Takes back what `allocate` returned, with the same bytes and device.  Work on it may still be
    /// queued on the stream.
    fn free(&self, data: *mut c_void, bytes: usize, device: Device, stream: *mut c_void);
}

/// An allocator whose address C keeps.
pub(crate) struct Shared(Box<dyn Allocator>);

impl Shared {
    pub fn new(allocator: impl Allocator + 'static) -> Box<Self> {
        Box::new(Self(Box::new(allocator)))
    }

    /// Valid as long as `self` lives where it is.
    pub fn descriptor(&self) -> sys::gsc_allocator {
        sys::gsc_allocator {
            user: (&raw const *self).cast_mut().cast(),
            alloc: Some(Self::allocate),
            free: Some(Self::free),
            ..Default::default()
        }
    }

    unsafe extern "C" fn allocate(
        user: *mut c_void,
        bytes: usize,
        alignment: usize,
        device: sys::DLDevice,
        stream: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the allocator of a context that lives.
        let shared = unsafe { &*user.cast::<Self>() };
        shared.0.allocate(bytes, alignment, Device::of(device), stream)
    }

    unsafe extern "C" fn free(
        user: *mut c_void,
        data: *mut c_void,
        bytes: usize,
        device: sys::DLDevice,
        stream: *mut c_void,
    ) {
        // SAFETY: the same.
        let shared = unsafe { &*user.cast::<Self>() };
        shared.0.free(data, bytes, Device::of(device), stream);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Allocator")
    }
}
