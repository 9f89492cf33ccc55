//! Bindings of `libgsplat_c`: a differentiable rasterizer of 3D Gaussians, nearest neighbours,
//! SSIM and image losses, and Adam, on CPU and CUDA tensors.  The safe crate is `gsplat-c`.
//!
//! Constants, structs and functions have the names of `gsplat_c.h`, which is the manual; they
//! are generated from it, with its comments.  No dependencies, no `std`.
//!
//! # Linked, or loaded at run time
//! With the feature `link`, the default, the functions are linked and can be called by name.
//! The build looks in the folder named by `GSPLAT_C_LIB_DIR`, then asks pkg-config.  With the
//! feature `bundled` it compiles the library for the CPU instead of asking.
//!
//! With the feature `dlopen` a program starts without the library and opens it with
//! [`Api::open`].  An [`Api`] is a table of the functions, either of the linked library
//! ([`Api::LINKED`]) or of one that was opened.  The features go together.
//!
//! # Descriptors
//! `Default` zeroes a descriptor, which is every field's default, and sets its `struct_size`:
//!
//! ```
//! use gsplat_c_sys as sys;
//!
//! let desc = sys::gsc_context_desc {
//!     abi_version: sys::GSC_ABI_VERSION,
//!     device: sys::DLDevice { device_type: sys::kDLCPU, device_id: 0 },
//!     ..Default::default()
//! };
//! # #[cfg(feature = "link")]
//! // SAFETY: the descriptor and the place for the result live during the call.
//! unsafe {
//!     let mut context = core::ptr::null_mut();
//!     assert_eq!(sys::gsc_context_create(&desc, &mut context), sys::GSC_OK);
//!     sys::gsc_context_free(context);
//! }
//! ```
#![no_std]

mod dlpack;
pub use dlpack::*;

#[cfg(all(feature = "dlopen", unix))]
pub mod dl;
#[cfg(all(feature = "dlopen", unix))]
pub use dl::OpenError;

/// `Default` of a struct: all zero but the field for its size, if it has one.
macro_rules! descriptor {
    ($name:ident $(, $size:ident)?) => {
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: numbers, raw pointers and Option of function pointers: all may be 0.
                let zero: Self = unsafe { core::mem::zeroed() };
                Self { $($size: size_of::<Self>(),)? ..zero }
            }
        }
    };
}

/// The functions of the header: linked, and as a table.
macro_rules! functions {
    ($($(#[$doc:meta])*
       fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        #[cfg(feature = "link")]
        unsafe extern "C" {
            $($(#[$doc])* pub fn $name($($argument: $kind),*) $(-> $result)?;)*
        }

        /// The functions of one loaded library.
        #[derive(Clone, Copy, Debug)]
        pub struct Api {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($argument: $kind),*) $(-> $result)?,)*
        }

        impl Api {
            /// The library that the program is linked to.
            #[cfg(feature = "link")]
            pub const LINKED: Self = Self { $($name,)* };

            /// Every function, looked up by name with `symbol`.
            ///
            /// # Safety
            /// `symbol` must return functions of a `libgsplat_c` that stays loaded, with this ABI
            /// major and at least this minor.
            pub unsafe fn from_symbols<E>(
                mut symbol: impl FnMut(&'static core::ffi::CStr) -> Result<core::ptr::NonNull<c_void>, E>,
            ) -> Result<Self, E> {
                Ok(Self {
                    $($name: {
                        const NAME: &str = concat!(stringify!($name), "\0");
                        let name = const {
                            match core::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                                Ok(name) => name,
                                Err(_) => unreachable!(),
                            }
                        };
                        // SAFETY: the caller's promise; function pointers are as wide as others.
                        unsafe { core::mem::transmute::<
                            core::ptr::NonNull<c_void>,
                            unsafe extern "C" fn($($argument: $kind),*) $(-> $result)?,
                        >(symbol(name)?) }
                    },)*
                })
            }
        }
    };
}

// Names and comments come from the header.
#[allow(missing_docs, non_camel_case_types)]
#[rustfmt::skip]
mod bindings;
pub use bindings::*;
