//! Streams and memory of CUDA devices, for scopes.

use crate::{Device, Element, Result};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
#[cfg(feature = "cudarc")]
use std::sync::Arc;

/// A CUDA stream, which lives for `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    raw: *mut c_void,
    #[cfg(feature = "cudarc")]
    pub(crate) cudarc: Option<&'a Arc<cudarc::driver::CudaStream>>,
    lives: PhantomData<&'a ()>,
}

impl<'a> Stream<'a> {
    /// The legacy default stream.
    pub const LEGACY: Stream<'static> = Stream::of(ptr::null_mut());
    /// The default stream of the calling thread.
    pub const PER_THREAD: Stream<'static> = Stream::of(ptr::without_provenance_mut(2));

    const fn of(raw: *mut c_void) -> Self {
        Self {
            raw,
            #[cfg(feature = "cudarc")]
            cudarc: None,
            lives: PhantomData,
        }
    }

    /// A stream of the CUDA Runtime or the driver: `cudaStream_t` or `CUstream`.
    ///
    /// # Safety
    /// It must be a stream of the device that it is used with, and live for `'a`.
    pub const unsafe fn from_raw(raw: *mut c_void) -> Self {
        Self::of(raw)
    }

    /// The handle.
    pub fn as_raw(&self) -> *mut c_void {
        self.raw
    }
}

/// Memory of a CUDA device that a scope can read.
///
/// # Safety
/// `address` is the address of `len` elements on `device`, which stay there as long as the
/// value is borrowed.  Nothing writes them as long as it is borrowed.  What was queued to write
/// them is done before anything that is queued on `stream` after the call.
pub unsafe trait DeviceMemory {
    /// The type of the elements.
    type Element: Element;
    /// Where the memory is.
    fn device(&self) -> Device;
    /// The number of elements.
    fn len(&self) -> usize;
    /// Whether the memory is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The address, for reading by later work of `stream`.
    fn address(&self, stream: &Stream<'_>) -> Result<*const Self::Element>;
}

/// Memory of a CUDA device that a scope can write.
///
/// # Safety
/// As for [`DeviceMemory`]; and as long as the value is borrowed uniquely nothing else reads or
/// writes the memory, and what was queued to do so is done before later work of `stream`.
pub unsafe trait DeviceMemoryMut: DeviceMemory {
    /// The address, for writing by later work of `stream`.
    fn address_mut(&mut self, stream: &Stream<'_>) -> Result<*mut Self::Element>;
}

/// Device memory given by its address, for types without [`DeviceMemory`].
#[derive(Debug)]
pub struct RawMemory<T> {
    data: *mut T,
    len: usize,
    device: Device,
}

// SAFETY: `RawMemory::new` asks for memory that is the value's alone.
unsafe impl<T: Send> Send for RawMemory<T> {}
// SAFETY: the same.
unsafe impl<T: Sync> Sync for RawMemory<T> {}

impl<T: Element> RawMemory<T> {
    /// `len` elements at an address of a device.
    ///
    /// # Safety
    /// As long as the value lives the memory must be there; nothing else may write it, and
    /// nothing else may read it while the value is borrowed uniquely.  Work that uses the
    /// memory and was queued elsewhere must be ordered before the scope's stream.
    pub unsafe fn new(data: *mut T, len: usize, device: Device) -> Self {
        Self { data, len, device }
    }
}

// SAFETY: the promise of `RawMemory::new`.
unsafe impl<T: Element> DeviceMemory for RawMemory<T> {
    type Element = T;
    fn device(&self) -> Device {
        self.device
    }
    fn len(&self) -> usize {
        self.len
    }
    fn address(&self, _: &Stream<'_>) -> Result<*const T> {
        Ok(self.data)
    }
}

// SAFETY: the promise of `RawMemory::new`.
unsafe impl<T: Element> DeviceMemoryMut for RawMemory<T> {
    fn address_mut(&mut self, _: &Stream<'_>) -> Result<*mut T> {
        Ok(self.data)
    }
}
