//! Shared libraries that are opened at run time.

// There is no allocator: the loader's words lie in the error.
#![allow(clippy::result_large_err, clippy::large_enum_variant)]

use crate::{Api, GSC_ABI_MAJOR, GSC_ABI_MINOR};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::{fmt, mem, ptr::NonNull};

#[cfg_attr(target_os = "linux", link(name = "dl"))]
unsafe extern "C" {
    fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

/// A shared library, open for the rest of the program.
#[derive(Clone, Copy, Debug)]
pub struct SharedLibrary(NonNull<c_void>);

// SAFETY: a handle that is never closed; dlsym may be called from any thread.
unsafe impl Send for SharedLibrary {}
// SAFETY: the same.
unsafe impl Sync for SharedLibrary {}

impl SharedLibrary {
    /// Opens a file, or what the system finds for a name without a slash.
    ///
    /// # Safety
    /// Code that the library runs when it is loaded must be sound.
    pub unsafe fn open(path: &CStr) -> Result<Self, OpenError> {
        // SAFETY: a string; the caller vouches for the library.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        NonNull::new(handle).map(Self).ok_or_else(|| OpenError::NotLoaded(Reason::last()))
    }

    /// The address of a function, if the library has it.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: an open library and a string.
        NonNull::new(unsafe { dlsym(self.0.as_ptr(), name.as_ptr()) })
    }
}

impl Api {
    /// Opens `libgsplat_c`, for the rest of the program: a file, or the system's if the name has
    /// no slash (`libgsplat_c.so.1`).  Its ABI is checked before anything of it is used.
    ///
    /// # Safety
    /// What is opened must be a `libgsplat_c` or fail to open.
    pub unsafe fn open(path: &CStr) -> Result<Self, OpenError> {
        // SAFETY: the caller's promise.
        let library = unsafe { SharedLibrary::open(path)? };
        let find = |name| library.symbol(name).ok_or(OpenError::NoSymbol(name));
        // SAFETY: this function has this signature in every version.
        let abi_version: unsafe extern "C" fn() -> u32 =
            unsafe { mem::transmute(find(c"gsplat_c_abi_version")?) };
        // SAFETY: it takes nothing.
        let found = unsafe { abi_version() };
        let (major, minor) = (found >> 16, found & 0xffff);
        if major != GSC_ABI_MAJOR || !(GSC_ABI_MINOR..).contains(&minor) {
            return Err(OpenError::Abi(found));
        }
        // SAFETY: it stays loaded, and its ABI was checked.
        unsafe { Self::from_symbols(find) }
    }
}

/// Why a library cannot be used.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The loader refused, and why.
    NotLoaded(Reason),
    /// It lacks this function.
    NoSymbol(&'static CStr),
    /// Its ABI version, major << 16 | minor, which is not one that these bindings are for.
    Abi(u32),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded(reason) => reason.fmt(f),
            Self::NoSymbol(name) => write!(f, "it has no {}", name.to_str().unwrap_or("?")),
            Self::Abi(found) => write!(
                f,
                "its ABI is {}.{}, expected {GSC_ABI_MAJOR}.{GSC_ABI_MINOR} or a later minor",
                found >> 16,
                found & 0xffff
            ),
        }
    }
}

impl core::error::Error for OpenError {}

/// The loader's words, as much of them as fits.
#[derive(Clone, Copy)]
pub struct Reason {
    text: [u8; 256],
    length: usize,
}

impl Reason {
    /// Of this thread's last failure.
    fn last() -> Self {
        let mut reason = Self { text: [0; 256], length: 0 };
        // SAFETY: null, or a string that lives until this thread's next call.
        let message = unsafe { dlerror() };
        if !message.is_null() {
            // SAFETY: the same.
            let bytes = unsafe { CStr::from_ptr(message) }.to_bytes();
            reason.length = bytes.len().min(reason.text.len());
            reason.text[..reason.length].copy_from_slice(&bytes[..reason.length]);
        }
        reason
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.text[..self.length].utf8_chunks() {
            f.write_str(chunk.valid())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
