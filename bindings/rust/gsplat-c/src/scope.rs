//! Work on CUDA devices, and how long it borrows memory.
//!
//! A call on a stream returns before its work is done, so a borrow that ends with the call
//! would end too early, and a guard that waits when it is dropped can be forgotten.  Hence a
//! closure, as with [`std::thread::scope`]: its borrows last until the scope has waited for the
//! stream.

use crate::context::Inner;
use crate::tensor::{Flat, OnDevice};
use crate::{Context, DeviceMemory, DeviceMemoryMut, Element, Error, ErrorKind, Result, Stream};
use crate::{Tensor, TensorMut};
use gsplat_c_sys as sys;
use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{MutexGuard, PoisonError};

/// Device memory that a scope may write, borrowed until the scope ends.
///
/// Operations take `&mut buffer` to write it and `&buffer` to read what earlier ones wrote.
#[derive(Debug)]
pub struct Buffer<'scope> {
    tensor: Tensor<'scope, OnDevice<'scope>>,
}

impl<'scope> Buffer<'scope> {
    pub(crate) fn of(tensor: Tensor<'scope, OnDevice<'scope>>) -> Self {
        Self { tensor }
    }
}

impl<'a, 'scope> From<&'a Buffer<'scope>> for Tensor<'a, OnDevice<'scope>> {
    fn from(buffer: &'a Buffer<'scope>) -> Self {
        buffer.tensor
    }
}

impl<'a, 'scope> From<&'a mut Buffer<'scope>> for TensorMut<'a, OnDevice<'scope>> {
    fn from(buffer: &'a mut Buffer<'scope>) -> Self {
        TensorMut::of(buffer.tensor)
    }
}

/// Queues the operations of one closure of [`Context::scope`].
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    context: &'env Context,
    stream: Stream<'env>,
    pub(crate) id: u64,
    /// Invariant, so that it accepts nothing from another scope; bound to one thread, so that
    /// operations are queued one after the other.
    brand: PhantomData<(Cell<&'scope ()>, Cell<&'env ()>, *mut ())>,
}

impl Context {
    /// Runs a closure that queues operations on a stream, then waits for the stream: what the
    /// closure's operations use is borrowed until then, even if it panics.  Do not capture the stream
    /// meanwhile: operations refuse to be recorded into a graph, and a closure that
    /// leaves the stream capturing aborts the program.
    ///
    /// Pass buffers to the scope first: [`Scope::write`] for what operations write, [`Scope::read`]
    /// for what they read.
    ///
    /// ```no_run
    /// use gsplat_c::{Context, Device, Knn, RawMemory, Stream};
    ///
    /// # fn device_pointers() -> (*mut f32, *mut f32) { unimplemented!() }
    /// let context = Context::new(Device::Cuda(0))?;
    /// let (points, mean2) = device_pointers(); // of 3000 and of 1000 elements
    /// // SAFETY: allocated above, and used by nothing else.
    /// let (points, mut mean2) = unsafe {(
    ///     RawMemory::new(points, 3000, Device::Cuda(0)),
    ///     RawMemory::new(mean2, 1000, Device::Cuda(0)),
    /// )};
    /// context.scope(Stream::LEGACY, |scope| {
    ///     let points = scope.read(&points, [1000, 3])?;
    ///     let mut mean2 = scope.write(&mut mean2, [1000])?;
    ///     Knn::new(points).mean2(&mut mean2).run(scope)
    /// })?; // the distances are there
    /// # Ok::<(), gsplat_c::Error>(())
    /// ```
    ///
    /// Borrowed memory outlives the scope:
    ///
    /// ```compile_fail,E0505
    /// # use gsplat_c::*;
    /// # fn f(context: Context, points: RawMemory<f32>) -> Result<()> {
    /// context.scope(Stream::LEGACY, |scope| {
    ///     let tensor = scope.read(&points, [1000, 3])?;
    ///     drop(points); // the stream may still read it
    ///     Ok(())
    /// })
    /// # }
    /// ```
    /// ```compile_fail,E0597
    /// # use gsplat_c::*;
    /// # fn f(context: Context, allocate: impl Fn() -> RawMemory<f32>) -> Result<()> {
    /// context.scope(Stream::LEGACY, |scope| {
    ///     let inside = allocate();
    ///     let tensor = scope.read(&inside, [1000, 3])?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// A scope has exclusive access to a buffer that it writes:
    ///
    /// ```compile_fail,E0502
    /// # use gsplat_c::*;
    /// # fn f(context: Context, mut mean2: RawMemory<f32>) -> Result<()> {
    /// context.scope(Stream::LEGACY, |scope| {
    ///     let writing = scope.write(&mut mean2, [1000])?;
    ///     let reading = scope.read(&mean2, [1000])?;
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// One operation does not read what it writes:
    ///
    /// ```compile_fail,E0502
    /// # use gsplat_c::*;
    /// # fn f(context: Context, mut memory: RawMemory<f32>) -> Result<()> {
    /// context.scope(Stream::LEGACY, |scope| {
    ///     let mut buffer = scope.write(&mut memory, [1000, 3])?;
    ///     Knn::new(&buffer).distances2(&mut buffer).run(scope)
    /// })
    /// # }
    /// ```
    ///
    /// Host memory is not borrowed long enough for a stream:
    ///
    /// ```compile_fail,E0271
    /// # use gsplat_c::*;
    /// # fn f(context: Context, points: &[[f32; 3]], mean2: &mut [f32]) -> Result<()> {
    /// context.scope(Stream::LEGACY, |scope| {
    ///     let points: Tensor = points.into();
    ///     Knn::new(points).mean2(mean2).run(scope)
    /// })
    /// # }
    /// ```
    ///
    /// One thread queues the operations:
    ///
    /// ```compile_fail,E0277
    /// # use gsplat_c::*;
    /// # fn f(context: Context) -> Result<()> {
    /// context.scope(Stream::LEGACY, |scope| {
    ///     std::thread::scope(|threads| { threads.spawn(|| scope.stream()); });
    ///     Ok(())
    /// })
    /// # }
    /// ```
    pub fn scope<'env, R>(
        &'env self,
        stream: impl Into<Stream<'env>>,
        work: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        let stream = stream.into();
        let end = End::of(&self.inner, &stream)?;
        let scope = Scope { context: self, stream, id: end.id, brand: PhantomData };
        let result = work(&scope);
        end.wait().and(result)
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Borrows device memory for reading, as a dense tensor of this shape.
    pub fn read<T: DeviceMemory + ?Sized>(
        &'scope self,
        memory: &'scope T,
        shape: impl AsRef<[usize]>,
    ) -> Result<Tensor<'scope, OnDevice<'scope>>> {
        let address = memory.address(&self.stream)?.cast_mut().cast();
        let dtype = T::Element::DTYPE;
        let data = Flat { data: address, device: memory.device(), dtype, len: memory.len() };
        Tensor::dense("Scope::read", data, shape.as_ref())
    }

    /// Borrows device memory for writing, as a dense tensor of this shape.
    pub fn write<T: DeviceMemoryMut + ?Sized>(
        &'scope self,
        memory: &'scope mut T,
        shape: impl AsRef<[usize]>,
    ) -> Result<Buffer<'scope>> {
        let address = memory.address_mut(&self.stream)?.cast();
        let dtype = T::Element::DTYPE;
        let data = Flat { data: address, device: memory.device(), dtype, len: memory.len() };
        Tensor::dense("Scope::write", data, shape.as_ref()).map(Buffer::of)
    }

    /// The stream that the operations are queued on.
    pub fn stream(&self) -> Stream<'env> {
        self.stream
    }

    /// The context of the scope.
    pub fn context(&self) -> &'env Context {
        self.context
    }
}

/// The open scopes of a context, and the states that were dropped meanwhile.
#[derive(Default)]
pub(crate) struct Scopes {
    next: u64,
    pub open: Vec<u64>,
    dropped: Vec<Dropped>,
}

/// A state that scopes from before `next` may still use.
struct Dropped {
    saved: NonNull<sys::gsc_raster_saved>,
    next: u64,
}

impl Inner {
    pub fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees a state as soon as no open scope's stream may still use it.
    pub fn free_saved(&self, saved: NonNull<sys::gsc_raster_saved>) {
        let mut scopes = self.scopes();
        let next = scopes.next;
        scopes.dropped.push(Dropped { saved, next });
        self.free_dropped(&mut scopes);
    }

    fn free_dropped(&self, scopes: &mut Scopes) {
        let oldest = scopes.open.iter().min().copied().unwrap_or(scopes.next);
        scopes.dropped.retain(|dropped| {
            let in_use = oldest < dropped.next;
            if !in_use {
                let saved = dropped.saved.as_ptr();
                // SAFETY: nobody has it any more, and every stream that used it was waited for.
                unsafe { (self.api.gsc_raster_saved_free)(saved, ptr::null_mut()) }
            }
            in_use
        });
    }
}

/// Ends a scope, on panics too.
struct End<'e> {
    inner: &'e Inner,
    stream: *mut c_void,
    id: u64,
    waited: bool,
}

impl<'e> End<'e> {
    /// Begins the scope.
    fn of(inner: &'e Inner, stream: &Stream<'_>) -> Result<Self> {
        let Some(primary) = &inner.primary else {
            return Err(Error::new(
                ErrorKind::Device,
                "Context::scope: context is one of the CPU, which has no streams; run operations \
                 on it directly",
            ));
        };
        #[cfg(feature = "cudarc")]
        stream.check_device(inner.device)?;
        // SAFETY: the promise of `Stream::from_raw`.
        unsafe { primary.refuse_capture("Context::scope", stream.as_raw())? };
        let mut scopes = inner.scopes();
        let id = scopes.next;
        scopes.next += 1;
        scopes.open.push(id);
        Ok(Self { inner, stream: stream.as_raw(), id, waited: false })
    }

    fn wait(mut self) -> Result<()> {
        self.wait_once()
    }

    fn wait_once(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.waited, true) {
            return Ok(());
        }
        let result = self.inner.primary.as_ref().map_or(Ok(()), |primary| {
            // SAFETY: the promise of `Stream::from_raw`.
            unsafe { primary.wait(self.stream) }
        });
        if result.as_ref().is_err_and(is_capture_error) {
            // The closure began to capture the stream, so it is impossible to wait for work that
            // uses the borrowed memory.  Every way on from here would end the borrows.
            std::process::abort();
        }
        let mut scopes = self.inner.scopes();
        scopes.open.retain(|&id| id != self.id);
        self.inner.free_dropped(&mut scopes);
        result
    }
}

/// Whether the driver refused because of a capture (`CUDA_ERROR_STREAM_CAPTURE_*`).  After any
/// other failure to wait the device does no more work.
fn is_capture_error(error: &Error) -> bool {
    matches!(error.cuda_code(), Some(900..=909))
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // A failure here comes with the panic that led here.
        let _ = self.wait_once();
    }
}
