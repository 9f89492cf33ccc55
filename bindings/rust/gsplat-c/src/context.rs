//! Devices and contexts.

use crate::allocator::{Allocator, Shared};
use crate::driver::Primary;
use crate::scope::Scopes;
use crate::{Error, ErrorKind, Library, Result};
use gsplat_c_sys as sys;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

/// Where tensors are and where work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    /// The processor.
    Cpu,
    /// A CUDA device, by its ordinal.
    Cuda(u32),
}

impl Device {
    /// Of the library, which has contexts on these two kinds.
    pub(crate) fn of(raw: sys::DLDevice) -> Self {
        match raw.device_type {
            sys::kDLCUDA => Self::Cuda(u32::try_from(raw.device_id).unwrap_or(0)),
            _ => Self::Cpu,
        }
    }

    pub(crate) fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda(_))
    }

    pub(crate) fn raw(self) -> sys::DLDevice {
        match self {
            Self::Cpu => sys::DLDevice { device_type: sys::kDLCPU, device_id: 0 },
            Self::Cuda(ordinal) => sys::DLDevice {
                device_type: sys::kDLCUDA,
                device_id: i32::try_from(ordinal).unwrap_or(i32::MAX),
            },
        }
    }
}

/// The severity of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Problems that do not fail a call.
    Warning,
    /// Choices, such as the device and its kernels.
    Info,
    /// Everything else.
    Debug,
}

impl LogLevel {
    fn raw(self) -> i32 {
        match self {
            Self::Error => sys::GSC_LOG_ERROR,
            Self::Warning => sys::GSC_LOG_WARNING,
            Self::Info => sys::GSC_LOG_INFO,
            Self::Debug => sys::GSC_LOG_DEBUG,
        }
    }

    fn of(raw: i32) -> Self {
        match raw {
            ..=sys::GSC_LOG_ERROR => Self::Error,
            sys::GSC_LOG_WARNING => Self::Warning,
            sys::GSC_LOG_INFO => Self::Info,
            _ => Self::Debug,
        }
    }
}

type Listener = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Messages wait here until the library's call returns.  A listener may then do anything, even
/// panic or call the library.
struct Log {
    listener: Listener,
    waiting: Mutex<Vec<(LogLevel, String)>>,
}

impl Log {
    unsafe extern "C" fn receive(user: *mut c_void, level: i32, message: *const c_char) {
        // SAFETY: `user` is the log of a context that lives; the message is a string.
        let (log, message) = unsafe { (&*user.cast::<Self>(), CStr::from_ptr(message)) };
        let mut waiting = log.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((LogLevel::of(level), message.to_string_lossy().into_owned()));
    }

    fn deliver(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = std::mem::take(&mut *waiting);
        drop(waiting);
        for (level, message) in messages {
            (self.listener)(level, &message);
        }
    }
}

/// Builds a [`Context`] with options.
///
/// ```
/// use gsplat_c::{Context, Device, LogLevel};
///
/// let context = Context::builder(Device::Cpu)
///     .threads(2)
///     .log(LogLevel::Info, |level, message| eprintln!("{level:?}: {message}"))
///     .build()?;
/// # Ok::<(), gsplat_c::Error>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct ContextBuilder {
    device: Device,
    library: Option<Library>,
    threads: u32,
    flags: u32,
    log: Option<(LogLevel, Listener)>,
    allocator: Option<Box<Shared>>,
}

impl ContextBuilder {
    /// Uses this library instead of [`Library::get`].
    pub fn library(mut self, library: Library) -> Self {
        self.library = Some(library);
        self
    }

    /// Threads of a CPU context; 0, the default: as many as the process may use.  Results do not
    /// depend on the number, bit for bit.
    pub fn threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    /// Takes memory that callers do not provide from here, instead of from a pool of the device or,
    /// on the CPU, from `malloc`.
    pub fn allocator(mut self, allocator: impl Allocator + 'static) -> Self {
        self.allocator = Some(Shared::new(allocator));
        self
    }

    /// Waits after every kernel and names the one that failed; for debugging.
    pub fn check_every_kernel(mut self) -> Self {
        self.flags |= sys::GSC_CONTEXT_SYNC_CHECK;
        self
    }

    /// Receives messages of this level and of more severe ones, after the call that caused them.
    pub fn log(
        mut self,
        level: LogLevel,
        listener: impl Fn(LogLevel, &str) + Send + Sync + 'static,
    ) -> Self {
        self.log = Some((level, Box::new(listener)));
        self
    }

    /// Creates the context.
    pub fn build(self) -> Result<Context> {
        let Library { api } = self.library.map_or_else(Library::get, Ok)?;
        let level = self.log.as_ref().map_or(0, |(level, _)| level.raw());
        let log =
            self.log.map(|(_, listener)| Box::new(Log { listener, waiting: Mutex::default() }));
        let user = log.as_deref().map_or(ptr::null_mut(), |log| ptr::from_ref(log).cast_mut());
        let allocator = self.allocator.as_deref().map(Shared::descriptor);
        let desc = sys::gsc_context_desc {
            abi_version: sys::GSC_ABI_VERSION,
            flags: self.flags,
            device: self.device.raw(),
            allocator: allocator.as_ref().map_or(ptr::null(), ptr::from_ref),
            log: log.is_some().then_some(Log::receive),
            log_user: user.cast(),
            log_level: level,
            cpu_threads: i32::try_from(self.threads).unwrap_or(i32::MAX),
            ..Default::default()
        };
        let mut raw = ptr::null_mut();
        let created = checked(api, "Context::new", |api| {
            // SAFETY: the descriptor and the place for the result live during the call.
            unsafe { (api.gsc_context_create)(&desc, &mut raw) }
        });
        if let Some(log) = &log {
            log.deliver();
        }
        created?;
        let raw = NonNull::new(raw)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "Context::new: no context"))?;
        let mut inner = Inner {
            api,
            raw,
            device: self.device,
            log,
            _allocator: self.allocator,
            primary: None,
            scopes: Mutex::default(),
        };
        if let Device::Cuda(_) = self.device {
            inner.primary = Some(Primary::retain(desc.device.device_id)?);
        }
        Ok(Context { inner: Arc::new(inner) })
    }
}

impl fmt::Debug for ContextBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextBuilder")
            .field("device", &self.device)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// A device with its threads or its compiled kernels, which every operation runs on.
///
/// It keeps no tensor.  A clone is the same context, which is freed with its last clone and its
/// last [`Saved`](crate::Saved).  Threads may share one: operations write only to what they borrow
/// uniquely, so no two write the same memory.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

impl Context {
    /// A context with default options.
    pub fn new(device: Device) -> Result<Self> {
        Self::builder(device).build()
    }

    /// A builder for a context with options.
    pub fn builder(device: Device) -> ContextBuilder {
        ContextBuilder { device, library: None, threads: 0, flags: 0, log: None, allocator: None }
    }

    /// The device that it was made for.
    pub fn device(&self) -> Device {
        self.inner.device
    }

    /// The library that it belongs to.
    pub fn library(&self) -> Library {
        Library { api: self.inner.api }
    }

    /// The largest sizes that operations accept.
    pub fn limits(&self) -> Result<Limits> {
        let mut raw = sys::gsc_limits::default();
        self.inner.call("Context::limits", |api, context| {
            // SAFETY: a context and a descriptor that live during the call.
            unsafe { (api.gsc_context_limits)(context, &mut raw) }
        })?;
        Ok(Limits {
            gaussians: raw.max_gaussians,
            intersections: raw.max_intersections,
            pixels: raw.max_pixels,
            cameras: raw.max_cameras,
            channels: raw.max_channels,
            sh_degree: raw.max_sh_degree,
            neighbours: raw.max_knn_k,
            side: raw.max_side,
        })
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The largest sizes that operations accept, from [`Context::limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Gaussians of a scene.
    pub gaussians: i64,
    /// Intersections of Gaussians and tiles.
    pub intersections: i64,
    /// Pixels of all images in a call.
    pub pixels: i64,
    /// Cameras in a call.
    pub cameras: i64,
    /// Channels of colours.
    pub channels: i32,
    /// Degree of spherical harmonics.
    pub sh_degree: i32,
    /// Neighbours of a point.
    pub neighbours: i32,
    /// Of an image to rasterize, in pixels.
    pub side: i32,
}

/// One `gsc_context`, freed when nothing refers to it any more.
pub(crate) struct Inner {
    pub api: &'static sys::Api,
    raw: NonNull<sys::gsc_context>,
    pub device: Device,
    log: Option<Box<Log>>,
    /// The library has its address.
    _allocator: Option<Box<Shared>>,
    /// Of a CUDA device.
    pub primary: Option<Primary>,
    pub scopes: Mutex<Scopes>,
}

// SAFETY: "every function may be called from any thread.  Calls that share a context are safe
// together if they write different tensors", which unique borrows make sure of.  It is freed
// when there is no other reference, so no call is in progress.
unsafe impl Send for Inner {}
// SAFETY: the same.
unsafe impl Sync for Inner {}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Inner {
    /// Makes a call on the context for `name`, the function that the user called, and delivers what
    /// it logged.
    pub fn call(
        &self,
        name: &str,
        function: impl FnOnce(&sys::Api, *mut sys::gsc_context) -> sys::gsc_status,
    ) -> Result<()> {
        let result = checked(self.api, name, |api| function(api, self.raw.as_ptr()));
        if let Some(log) = &self.log {
            log.deliver();
        }
        result
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the last reference, so no call is in progress and every saved state is freed.
        unsafe { (self.api.gsc_context_free)(self.raw.as_ptr()) }
    }
}

/// The message of a failure belongs to the thread: it is read before anything else is called.
pub(crate) fn checked(
    api: &sys::Api,
    name: &str,
    function: impl FnOnce(&sys::Api) -> sys::gsc_status,
) -> Result<()> {
    match function(api) {
        sys::GSC_OK => Ok(()),
        status => Err(Error::last(api, status, name)),
    }
}
