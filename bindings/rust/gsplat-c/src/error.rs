//! Errors.

use gsplat_c_sys as sys;
use std::{ffi::CStr, fmt};

/// The result of every function that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure: its kind, and a message that names the function, the tensor, what came and what
/// was expected.
///
/// ```
/// use gsplat_c::{Context, Device, ErrorKind, Knn};
///
/// let context = Context::new(Device::Cpu)?;
/// let points = [[0.0f32; 4]; 10];
/// let mut mean2 = [0.0f32; 10];
/// let error = Knn::new(&points).mean2(&mut mean2).run(&context).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Shape);
/// assert_eq!(error.to_string(), "Knn::run: points is [10, 4], expected [N, 3]");
/// # Ok::<(), gsplat_c::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    cuda: i32,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cuda: 0 }
    }

    pub(crate) fn with_cuda(mut self, code: i32) -> Self {
        self.cuda = code;
        self
    }

    /// The failure of the call that this thread has just made for `function`, whose name replaces
    /// the C function's in the message.
    pub(crate) fn last(api: &sys::Api, status: sys::gsc_status, function: &str) -> Self {
        // SAFETY: a string that lives until this thread's next failure; copied here.
        let text = unsafe { CStr::from_ptr((api.gsc_last_error)()) }.to_string_lossy();
        let reason = text.split_once(": ").map_or(&*text, |(_, reason)| reason);
        let message = format!("{function}: {reason}");
        // SAFETY: it takes nothing.
        let cuda = unsafe { (api.gsc_last_error_cuda)() };
        Self::new(ErrorKind::of(status), message).with_cuda(cuda)
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The CUDA driver's code (`CUresult`), if the driver reported one.
    pub fn cuda_code(&self) -> Option<i32> {
        (self.cuda != 0).then_some(self.cuda)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $status:ident,)*) => {
        /// Kinds of failures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $name,)*
            /// The library could not be opened.
            Library,
            /// A status that is newer than this crate.
            Other(i32),
        }

        impl ErrorKind {
            pub(crate) fn of(status: sys::gsc_status) -> Self {
                match status {
                    $(sys::$status => Self::$name,)*
                    other => Self::Other(other),
                }
            }
        }
    };
}

kinds! {
    /// A required argument is missing, or a value is out of range.
    InvalidArgument = GSC_ERROR_INVALID_ARGUMENT,
    /// A tensor has an unexpected shape.
    Shape = GSC_ERROR_SHAPE,
    /// A tensor has an unexpected element type.
    DataType = GSC_ERROR_DTYPE,
    /// A tensor is not dense and row-major, or misaligned.
    Layout = GSC_ERROR_LAYOUT,
    /// A tensor, or a call, is not on the context's device.
    Device = GSC_ERROR_DEVICE,
    /// The library has a version that this crate cannot use.
    Abi = GSC_ERROR_ABI,
    /// Valid, but not in this build of the library or not on this device.
    Unsupported = GSC_ERROR_UNSUPPORTED,
    /// Memory ran out.
    OutOfMemory = GSC_ERROR_OUT_OF_MEMORY,
    /// A buffer is too small.
    BufferTooSmall = GSC_ERROR_BUFFER_TOO_SMALL,
    /// The CUDA driver is missing or too old.
    NoDriver = GSC_ERROR_NO_DRIVER,
    /// There is no such device.
    NoDevice = GSC_ERROR_NO_DEVICE,
    /// The library has no code for this GPU.
    NoKernelImage = GSC_ERROR_NO_KERNEL_IMAGE,
    /// The CUDA driver reported a failure; see [`Error::cuda_code`].
    Cuda = GSC_ERROR_CUDA,
    /// A size is beyond [`Context::limits`](crate::Context::limits).
    Overflow = GSC_ERROR_OVERFLOW,
    /// A saved state belongs to another call or context, or is damaged.
    State = GSC_ERROR_STATE,
    /// A bug in the library.
    Internal = GSC_ERROR_INTERNAL,
}
