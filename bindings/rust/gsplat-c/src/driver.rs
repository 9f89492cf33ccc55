//! The little of the CUDA driver that a scope needs: waiting for a stream.
//!
//! The library opens the driver by itself and never waits; this is the same file, opened once
//! more.

use crate::{Error, ErrorKind, Result};
use gsplat_c_sys::dl::SharedLibrary;
use std::env;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::OnceLock;

/// `CUresult`; 0 is success.
type Code = c_int;

struct Driver {
    device: unsafe extern "C" fn(*mut c_int, c_int) -> Code,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> Code,
    release: unsafe extern "C" fn(c_int) -> Code,
    push: unsafe extern "C" fn(*mut c_void) -> Code,
    pop: unsafe extern "C" fn(*mut *mut c_void) -> Code,
    synchronize: unsafe extern "C" fn(*mut c_void) -> Code,
    is_capturing: unsafe extern "C" fn(*mut c_void, *mut c_int) -> Code,
}

impl Driver {
    fn get() -> Result<&'static Self> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self> {
        let failed = |reason: String| {
            let message = format!("Context::new: the CUDA driver cannot be opened: {reason}");
            Error::new(ErrorKind::NoDriver, message)
        };
        let name = env::var_os("GSC_CUDA_LIBRARY").unwrap_or_else(|| "libcuda.so.1".into());
        let path = CString::new(name.as_encoded_bytes())
            .map_err(|_| failed("GSC_CUDA_LIBRARY has a NUL".into()))?;
        // SAFETY: the driver, or what the user says is one; the library has opened it before.
        let library = unsafe { SharedLibrary::open(&path) }.map_err(|e| failed(e.to_string()))?;
        /// The function of this name, as the type that the field has.
        fn find<F: Copy>(library: &SharedLibrary, name: &CStr) -> Result<F> {
            assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
            let Some(address) = library.symbol(name) else {
                let name = name.to_string_lossy();
                let message = format!("Context::new: the CUDA driver has no {name}");
                return Err(Error::new(ErrorKind::NoDriver, message));
            };
            // SAFETY: the names below belong to functions of the types above.
            Ok(unsafe { transmute_copy(&address) })
        }
        Ok(Self {
            device: find(&library, c"cuDeviceGet")?,
            retain: find(&library, c"cuDevicePrimaryCtxRetain")?,
            release: find(&library, c"cuDevicePrimaryCtxRelease_v2")?,
            push: find(&library, c"cuCtxPushCurrent_v2")?,
            pop: find(&library, c"cuCtxPopCurrent_v2")?,
            synchronize: find(&library, c"cuStreamSynchronize")?,
            is_capturing: find(&library, c"cuStreamIsCapturing")?,
        })
    }
}

fn check(name: &str, function: &str, code: Code) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let message = format!("{name}: {function} failed with {code}");
    Err(Error::new(ErrorKind::Cuda, message).with_cuda(code))
}

/// A device's primary context, which the library uses too.
pub(crate) struct Primary {
    driver: &'static Driver,
    device: c_int,
    context: *mut c_void,
}

impl Primary {
    /// By the device's ordinal.  The driver is initialised: a context of the device was made.
    pub fn retain(ordinal: c_int) -> Result<Self> {
        let driver = Driver::get()?;
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the places for the results live during the calls.
        unsafe {
            check("Context::new", "cuDeviceGet", (driver.device)(&mut device, ordinal))?;
            let retained = (driver.retain)(&mut context, device);
            check("Context::new", "cuDevicePrimaryCtxRetain", retained)?;
        }
        Ok(Self { driver, device, context })
    }

    /// Runs a function of the driver with the context current, and leaves the caller's current
    /// context as it was.
    fn current(
        &self,
        name: &str,
        called: &str,
        function: impl FnOnce(&Driver) -> Code,
    ) -> Result<()> {
        // SAFETY: a retained context.
        check(name, "cuCtxPushCurrent", unsafe { (self.driver.push)(self.context) })?;
        let code = function(self.driver);
        // SAFETY: what was pushed above is on top.
        let popped = unsafe { (self.driver.pop)(&mut ptr::null_mut()) };
        check(name, called, code).and(check(name, "cuCtxPopCurrent", popped))
    }

    /// Waits until the stream has done all that was queued.
    ///
    /// # Safety
    /// A stream of this device.
    pub unsafe fn wait(&self, stream: *mut c_void) -> Result<()> {
        self.current("Context::scope", "cuStreamSynchronize", |driver| {
            // SAFETY: the caller's promise.
            unsafe { (driver.synchronize)(stream) }
        })
    }

    /// Fails if work for the stream is recorded into a graph instead of done.
    ///
    /// # Safety
    /// A stream of this device.
    pub unsafe fn refuse_capture(&self, name: &str, stream: *mut c_void) -> Result<()> {
        let mut capturing = 0;
        self.current(name, "cuStreamIsCapturing", |driver| {
            // SAFETY: the caller's promise; the place for the result lives.
            unsafe { (driver.is_capturing)(stream, &mut capturing) }
        })?;
        match capturing {
            0 => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{name}: stream is being captured; a graph would outlive what is borrowed"),
            )),
        }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once, released once.
        unsafe { (self.driver.release)(self.device) };
    }
}
