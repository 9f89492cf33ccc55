//! Device memory and streams of `cudarc`.
//!
//! cudarc orders the work of different streams by events of each slice.  Handing a slice to a
//! scope makes the scope's stream wait for them; none needs to be recorded afterwards, since
//! the slice stays borrowed until the stream has been waited for.

use crate::{Device, DeviceMemory, DeviceMemoryMut, Element, Error, ErrorKind, Result, Stream};
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut,
    DeviceSlice, DriverError,
};
use std::sync::Arc;

impl From<&CudaContext> for Device {
    fn from(context: &CudaContext) -> Self {
        Self::Cuda(u32::try_from(context.ordinal()).unwrap_or(u32::MAX))
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Self::new(ErrorKind::Cuda, error.to_string()).with_cuda(error.0 as i32)
    }
}

impl<'a> From<&'a Arc<CudaStream>> for Stream<'a> {
    fn from(stream: &'a Arc<CudaStream>) -> Self {
        // SAFETY: borrowed, so it lives; `check_device` compares the devices.
        let mut handle = unsafe { Self::from_raw(stream.cu_stream().cast()) };
        handle.cudarc = Some(stream);
        handle
    }
}

impl Stream<'_> {
    /// A cudarc stream knows its device.
    pub(crate) fn check_device(&self, expected: Device) -> Result<()> {
        let Some(found) = self.cudarc.map(|stream| Device::from(&**stream.context())) else {
            return Ok(());
        };
        if found == expected {
            return Ok(());
        }
        let message = format!("Context::scope: stream is one of {found:?}, expected {expected:?}");
        Err(Error::new(ErrorKind::Device, message))
    }
}

/// The address of a slice, for reading by later work of `stream`.
fn address<T, S: DevicePtr<T>>(slice: &S, stream: &Stream<'_>) -> Result<*const T> {
    let Some(scopes) = stream.cudarc else {
        // A stream that cudarc does not know can't wait for its events.
        slice.stream().synchronize()?;
        return Ok(slice.device_ptr(slice.stream()).0 as *const T);
    };
    let address = slice.device_ptr(scopes).0 as *const T;
    scopes.context().check_err()?;
    Ok(address)
}

/// The address of a slice, for writing by later work of `stream`.
fn address_mut<T, S: DevicePtrMut<T>>(slice: &mut S, stream: &Stream<'_>) -> Result<*mut T> {
    let own = Arc::clone(slice.stream());
    if stream.cudarc.is_none() {
        own.synchronize()?;
    }
    let waiting = stream.cudarc.unwrap_or(&own);
    let address = slice.device_ptr_mut(waiting).0 as *mut T;
    waiting.context().check_err()?;
    Ok(address)
}

macro_rules! read {
    ($($slice:ty),*) => {
        $(
        // SAFETY: cudarc's slices own or borrow their memory, and `address` orders the work
        // that was queued on it before that of the stream.
        unsafe impl<T: Element> DeviceMemory for $slice {
            type Element = T;
            fn device(&self) -> Device {
                Device::from(&**DeviceSlice::stream(self).context())
            }
            fn len(&self) -> usize {
                DeviceSlice::len(self)
            }
            fn address(&self, stream: &Stream<'_>) -> Result<*const T> {
                address(self, stream)
            }
        }
        )*
    };
}
read!(CudaSlice<T>, CudaView<'_, T>, CudaViewMut<'_, T>);

macro_rules! written {
    ($($slice:ty),*) => {
        $(
        // SAFETY: the same.
        unsafe impl<T: Element> DeviceMemoryMut for $slice {
            fn address_mut(&mut self, stream: &Stream<'_>) -> Result<*mut T> {
                address_mut(self, stream)
            }
        }
        )*
    };
}
written!(CudaSlice<T>, CudaViewMut<'_, T>);
