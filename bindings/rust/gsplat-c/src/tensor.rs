//! Borrowed views of memory, of any shape.

use crate::{Device, Error, ErrorKind, Result, scope::Buffer};
use gsplat_c_sys as sys;
use std::ffi::c_void;
use std::marker::PhantomData;

/// The maximum number of dimensions of a tensor.
pub const MAX_DIMS: usize = 6;

mod sealed {
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// An element type of tensors: `f32`, `i32`, `i64`, `u8` or `bool`.
pub trait Element: Item<Element = Self> + Send + Sync + 'static {
    #[doc(hidden)]
    const DTYPE: sys::DLDataType;
}

macro_rules! elements {
    ($($kind:ty: $code:ident,)*) => {
        $(impl Sealed for $kind {}
        impl Element for $kind {
            const DTYPE: sys::DLDataType =
                sys::DLDataType { code: sys::$code, bits: 8 * size_of::<Self>() as u8, lanes: 1 };
        }
        impl Item for $kind {
            type Element = Self;
            const DIMS: usize = 0;
            fn dims(_: &mut Vec<usize>) {}
        })*
    };
}
elements! { f32: kDLFloat, i32: kDLInt, i64: kDLInt, u8: kDLUInt, bool: kDLBool, }

/// What a slice that becomes a tensor contains: elements, or arrays of items.  A slice of
/// `[f32; 3]` is a tensor of shape `[len, 3]`.
pub trait Item: Copy + Sealed {
    /// The innermost type.
    type Element: Element;
    #[doc(hidden)]
    const DIMS: usize;
    #[doc(hidden)]
    fn dims(shape: &mut Vec<usize>);
}

impl<T: Item, const N: usize> Sealed for [T; N] {}
impl<T: Item, const N: usize> Item for [T; N] {
    type Element = T::Element;
    const DIMS: usize = T::DIMS + 1;
    fn dims(shape: &mut Vec<usize>) {
        shape.push(N);
        T::dims(shape);
    }
}

/// Where a tensor's memory is, and how long it is borrowed.
pub trait Memory: Copy + Default + Sealed {}

/// Memory of the host, borrowed for one call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;
impl Sealed for Host {}
impl Memory for Host {}

/// Memory of a CUDA device, borrowed until a [`Scope`](crate::Scope) ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDevice<'scope>(PhantomData<fn(&'scope ()) -> &'scope ()>);
impl Sealed for OnDevice<'_> {}
impl Memory for OnDevice<'_> {}

/// A tensor to read: a pointer, an element type and a shape.
///
/// Slices and arrays convert automatically, with one dimension per level of nesting.  Flat data
/// needs a shape:
///
/// ```
/// use gsplat_c::Tensor;
///
/// let rows = vec![[0.0f32; 3]; 10];
/// assert_eq!(Tensor::from(&rows).shape(), [10, 3]);
/// let flat = vec![0.0f32; 30];
/// assert_eq!(Tensor::new(&flat, [10, 3])?.shape(), [10, 3]);
/// assert!(Tensor::new(&flat, [10, 4]).is_err());
/// # Ok::<(), gsplat_c::Error>(())
/// ```
#[derive(Debug)]
pub struct Tensor<'a, M: Memory = Host> {
    data: *mut c_void,
    device: sys::DLDevice,
    dtype: sys::DLDataType,
    ndim: usize,
    shape: [i64; MAX_DIMS],
    strides: [i64; MAX_DIMS],
    borrowed: PhantomData<(&'a (), M)>,
}

/// A tensor to write; otherwise like [`Tensor`].
#[derive(Debug)]
pub struct TensorMut<'a, M: Memory = Host> {
    tensor: Tensor<'a, M>,
    borrowed: PhantomData<&'a mut ()>,
}

impl<M: Memory> Clone for Tensor<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Memory> Copy for Tensor<'_, M> {}

// SAFETY: a shared borrow of elements, which are Sync.
unsafe impl Send for Tensor<'_, Host> {}
// SAFETY: the same.
unsafe impl Sync for Tensor<'_, Host> {}
// SAFETY: a unique borrow of elements, which are Send; nothing is reached through `&TensorMut`.
unsafe impl Send for TensorMut<'_, Host> {}
// SAFETY: the same.
unsafe impl Sync for TensorMut<'_, Host> {}

/// The parts of a tensor.
pub(crate) struct Parts<'p> {
    pub data: *mut c_void,
    pub device: sys::DLDevice,
    pub dtype: sys::DLDataType,
    pub shape: &'p [i64],
    /// In elements; empty: dense.
    pub strides: &'p [i64],
}

/// Elements one after the other.
pub(crate) struct Flat {
    pub data: *mut c_void,
    pub device: Device,
    pub dtype: sys::DLDataType,
    pub len: usize,
}

impl Flat {
    fn on_host<T: Element>(data: *mut c_void, len: usize) -> Self {
        Self { data, device: Device::Cpu, dtype: T::DTYPE, len }
    }
}

impl<'a, M: Memory> Tensor<'a, M> {
    /// For the function that the user called.  The memory must exist, and be of kind `M`, for as long as the borrow.
    pub(crate) fn from_parts(name: &str, parts: &Parts<'_>) -> Result<Self> {
        let ndim = parts.shape.len();
        if ndim > MAX_DIMS {
            let message =
                format!("{name}: shape has {ndim} dimensions, expected at most {MAX_DIMS}");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let mut tensor = Self {
            data: parts.data,
            device: parts.device,
            dtype: parts.dtype,
            ndim,
            shape: [0; MAX_DIMS],
            strides: [0; MAX_DIMS],
            borrowed: PhantomData,
        };
        tensor.shape[..ndim].copy_from_slice(parts.shape);
        match parts.strides {
            [] => tensor.set_dense(),
            strides => tensor.strides[..ndim].copy_from_slice(strides),
        }
        Ok(tensor)
    }

    /// A dense tensor; fails if the shape has another number of elements.
    pub(crate) fn dense(name: &str, flat: Flat, shape: &[usize]) -> Result<Self> {
        let Flat { data, device, dtype, len } = flat;
        if shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size)) != Some(len) {
            let message = format!("{name}: shape is {shape:?}, expected one of {len} elements");
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let device = device.raw();
        Self::from_parts(name, &Parts { data, device, dtype, shape: &shape, strides: &[] })
    }

    fn set_dense(&mut self) {
        let mut step = 1i64;
        for i in (0..self.ndim).rev() {
            self.strides[i] = step;
            step = step.wrapping_mul(self.shape[i].max(1));
        }
    }

    /// The sizes of the dimensions; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        &self.shape[..self.ndim]
    }

    /// Steps from one element to the next in each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        &self.strides[..self.ndim]
    }

    /// The address of the first element.
    pub fn as_ptr(&self) -> *const c_void {
        self.data
    }

    /// The C view; it points into `self`.
    fn view(&self) -> sys::DLTensor {
        sys::DLTensor {
            data: self.data,
            device: self.device,
            ndim: self.ndim as i32,
            dtype: self.dtype,
            shape: self.shape.as_ptr().cast_mut(),
            strides: self.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        }
    }
}

impl<'a> Tensor<'a> {
    /// Flat data with a shape.
    pub fn new<T: Element>(data: &'a [T], shape: impl AsRef<[usize]>) -> Result<Self> {
        let pointer = data.as_ptr().cast_mut().cast();
        Self::dense("Tensor::new", Flat::on_host::<T>(pointer, data.len()), shape.as_ref())
    }

    /// Items, with the dimensions of `outer` in front.
    fn of_items<T: Item>(data: *const T, outer: &[usize]) -> Self {
        const { assert!(T::DIMS < MAX_DIMS, "items are nested too deep for a tensor") };
        let mut shape = outer.to_vec();
        T::dims(&mut shape);
        let elements = shape.iter().product();
        let flat = Flat::on_host::<T::Element>(data.cast_mut().cast(), elements);
        Self::dense("Tensor::from", flat, &shape)
            .expect("a shape of few dimensions, made from the number of elements")
    }
}

impl<'a, M: Memory> TensorMut<'a, M> {
    /// Nobody else may use the memory.
    pub(crate) fn of(tensor: Tensor<'a, M>) -> Self {
        Self { tensor, borrowed: PhantomData }
    }

    /// The sizes of the dimensions; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        self.tensor.shape()
    }

    /// The address of the first element.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.tensor.data
    }
}

impl<'a> TensorMut<'a> {
    /// Flat data with a shape.
    pub fn new<T: Element>(data: &'a mut [T], shape: impl AsRef<[usize]>) -> Result<Self> {
        let flat = Flat::on_host::<T>(data.as_mut_ptr().cast(), data.len());
        Tensor::dense("TensorMut::new", flat, shape.as_ref()).map(Self::of)
    }
}

/// Conversions of host memory to a tensor and to a camera's tensor.
macro_rules! from_host {
    ($target:ident<'a $(, $memory:ident)?>) => {
        impl<'a, T: Item $(, $memory: Memory)?> From<&'a [T]> for $target<'a $(, $memory)?> {
            fn from(items: &'a [T]) -> Self {
                Tensor::of_items(items.as_ptr(), &[items.len()]).into()
            }
        }
        impl<'a, T: Item, const N: usize $(, $memory: Memory)?> From<&'a [T; N]>
            for $target<'a $(, $memory)?>
        {
            fn from(items: &'a [T; N]) -> Self {
                items.as_slice().into()
            }
        }
        impl<'a, T: Item $(, $memory: Memory)?> From<&'a Vec<T>> for $target<'a $(, $memory)?> {
            fn from(items: &'a Vec<T>) -> Self {
                items.as_slice().into()
            }
        }
    };
}
from_host!(Tensor<'a>);
from_host!(CameraTensor<'a, M>);

impl<'a, T: Element> From<&'a T> for Tensor<'a> {
    fn from(scalar: &'a T) -> Self {
        Self::of_items(scalar, &[])
    }
}

impl<'a, T: Item> From<&'a mut [T]> for TensorMut<'a> {
    fn from(items: &'a mut [T]) -> Self {
        Self::of(Tensor::of_items(items.as_mut_ptr(), &[items.len()]))
    }
}

impl<'a, T: Item, const N: usize> From<&'a mut [T; N]> for TensorMut<'a> {
    fn from(items: &'a mut [T; N]) -> Self {
        items.as_mut_slice().into()
    }
}

impl<'a, T: Item> From<&'a mut Vec<T>> for TensorMut<'a> {
    fn from(items: &'a mut Vec<T>) -> Self {
        items.as_mut_slice().into()
    }
}

impl<'a, T: Element> From<&'a mut T> for TensorMut<'a> {
    fn from(scalar: &'a mut T) -> Self {
        Self::of(Tensor::of_items(scalar, &[]))
    }
}

/// A camera's tensor: in device calls it may also be on the host, and is read before the call
/// returns.
#[derive(Debug)]
pub struct CameraTensor<'a, M: Memory = Host>(Tensor<'a, M>);

impl<M: Memory> Clone for CameraTensor<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Memory> Copy for CameraTensor<'_, M> {}

impl<'a, M: Memory> From<Tensor<'a>> for CameraTensor<'a, M> {
    fn from(host: Tensor<'a>) -> Self {
        Self(Tensor {
            data: host.data,
            device: host.device,
            dtype: host.dtype,
            ndim: host.ndim,
            shape: host.shape,
            strides: host.strides,
            borrowed: PhantomData,
        })
    }
}

impl<'a, 'scope> From<Tensor<'a, OnDevice<'scope>>> for CameraTensor<'a, OnDevice<'scope>> {
    fn from(tensor: Tensor<'a, OnDevice<'scope>>) -> Self {
        Self(tensor)
    }
}

impl<'a, 'scope> From<&'a Buffer<'scope>> for CameraTensor<'a, OnDevice<'scope>> {
    fn from(buffer: &'a Buffer<'scope>) -> Self {
        Self(buffer.into())
    }
}

/// A tensor that can be passed to C.
pub(crate) trait View {
    fn view(&self) -> sys::DLTensor;
}
impl<M: Memory> View for Tensor<'_, M> {
    fn view(&self) -> sys::DLTensor {
        Tensor::view(self)
    }
}
impl<M: Memory> View for TensorMut<'_, M> {
    fn view(&self) -> sys::DLTensor {
        self.tensor.view()
    }
}
impl<M: Memory> View for CameraTensor<'_, M> {
    fn view(&self) -> sys::DLTensor {
        self.0.view()
    }
}
