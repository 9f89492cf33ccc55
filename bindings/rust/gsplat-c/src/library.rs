//! The C library, linked or loaded.

use crate::{Device, Error, ErrorKind, Result, context::checked};
use gsplat_c_sys as sys;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

/// One loaded `libgsplat_c`; it stays loaded for the rest of the program.
///
/// Most programs do not need it: [`Context::new`](crate::Context::new) takes [`Library::get`].
#[derive(Clone, Copy, Debug)]
pub struct Library {
    pub(crate) api: &'static sys::Api,
}

impl Library {
    /// The library that the program is linked to.
    #[cfg(feature = "link")]
    pub fn linked() -> Self {
        Self { api: &sys::Api::LINKED }
    }

    /// The linked library.  Without the feature `link`: the one that the environment variable
    /// `GSPLAT_C_LIBRARY` names, or `libgsplat_c.so.1` where the system looks, opened once.
    pub fn get() -> Result<Self> {
        #[cfg(feature = "link")]
        return Ok(Self::linked());
        #[cfg(not(feature = "link"))]
        {
            static OPENED: std::sync::OnceLock<Result<Library>> = std::sync::OnceLock::new();
            let name = std::env::var_os("GSPLAT_C_LIBRARY");
            let path = name.unwrap_or_else(|| "libgsplat_c.so.1".into());
            // SAFETY: the user's choice, or the name that is this library's.
            OPENED.get_or_init(|| unsafe { Self::open(path) }).clone()
        }
    }

    /// Opens a library: a path, or a name that the system's loader searches for.
    ///
    /// # Safety
    /// The file must be a `libgsplat_c`, or fail to open.
    pub unsafe fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |reason: String| {
            let message = format!("Library::open: {} cannot be used: {reason}", path.display());
            Error::new(ErrorKind::Library, message)
        };
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| failed("a NUL in its name".into()))?;
        // SAFETY: the caller's promise.
        let api = unsafe { sys::Api::open(&name) }.map_err(|error| failed(error.to_string()))?;
        Ok(Self { api: Box::leak(Box::new(api)) })
    }

    /// The release, such as "0.9.0".
    pub fn version(&self) -> &'static str {
        // SAFETY: a static string.
        static_text(unsafe { (self.api.gsc_version)() })
    }

    /// Major and minor of the library's binary interface.
    pub fn abi_version(&self) -> (u32, u32) {
        // SAFETY: it takes nothing.
        let version = unsafe { (self.api.gsplat_c_abi_version)() };
        (version >> 16, version & 0xffff)
    }

    /// Compiler, targets and options of the build, as JSON.
    pub fn build_info(&self) -> &'static str {
        // SAFETY: a static string.
        static_text(unsafe { (self.api.gsc_build_info_json)() })
    }

    /// The number of usable CUDA devices: 0 on a machine without a driver.
    pub fn cuda_devices(&self) -> Result<u32> {
        let mut count = 0;
        checked(self.api, "Library::cuda_devices", |api| {
            // SAFETY: the place for the result lives during the call.
            unsafe { (api.gsc_device_count)(sys::kDLCUDA, &mut count) }
        })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// A description of a device, as JSON.
    pub fn device_report(&self, device: Device) -> Result<String> {
        let mut size = 0;
        let ask = |buffer: *mut c_char, size: &mut usize| {
            checked(self.api, "Library::device_report", |api| {
                // SAFETY: null, or a buffer of `size` bytes.
                unsafe { (api.gsc_device_report_json)(device.raw(), buffer, size) }
            })
        };
        ask(ptr::null_mut(), &mut size)?;
        let mut text = vec![0u8; size];
        ask(text.as_mut_ptr().cast(), &mut size)?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }
}

/// The library's own texts are ASCII.
fn static_text(text: *const c_char) -> &'static str {
    // SAFETY: callers pass static strings.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}
