//! Tensors that are handed over with their memory, as
//! [DLPack](https://dmlc.github.io/dlpack/latest/) defines them: the way to and from Python's
//! arrays and every framework.
//!
//! [`Managed`] is one.  Its raw pointer is what a Python capsule carries, and what the crate
//! `dlpark` and others take and give.
//!
//! ```
//! use gsplat_c::dlpack::Managed;
//! use gsplat_c::{Context, Device, Knn};
//!
//! // Out: whoever gets the pointer calls its deleter.
//! let pointer = Managed::from(vec![[0.0f32; 3]; 100]).into_raw();
//!
//! // In.
//! // SAFETY: a tensor that is ours, and that nobody else uses.
//! let points = unsafe { Managed::from_raw(pointer)? };
//! let mut mean2 = vec![0.0f32; 100];
//! Knn::new(points.tensor()?).mean2(&mut mean2).run(&Context::new(Device::Cpu)?)?;
//! # Ok::<(), gsplat_c::Error>(())
//! ```

use crate::tensor::Parts;
use crate::{
    Buffer, Device, Element, Error, ErrorKind, Item, Memory, OnDevice, Result, Scope, Tensor,
    TensorMut,
};
use gsplat_c_sys as sys;
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::slice;
use sys::{DLManagedTensor, DLManagedTensorVersioned};

/// An owned DLPack tensor; its deleter is called when it is dropped.
pub struct Managed {
    owner: Owner,
}

enum Owner {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Legacy(NonNull<DLManagedTensor>),
}

// SAFETY: `from_raw` and `from_raw_legacy` ask for tensors that any thread may use and delete;
// others are made of owners that are Send.
unsafe impl Send for Managed {}
// SAFETY: through a shared reference memory is only read.
unsafe impl Sync for Managed {}

impl Managed {
    /// Takes a tensor over.  One of another DLPack major is given back at once, with an error.
    ///
    /// # Safety
    /// A tensor that is the caller's to take, which any thread may use and delete.  As long as
    /// it lives nothing else writes its memory, nor reads it while it is borrowed uniquely.
    /// Pending work on a device's memory is ordered before the streams that are used with it,
    /// as DLPack's exchange does.
    pub unsafe fn from_raw(tensor: *mut DLManagedTensorVersioned) -> Result<Self> {
        let tensor = NonNull::new(tensor).ok_or_else(|| no_tensor("from_raw"))?;
        let managed = Self { owner: Owner::Versioned(tensor) };
        // SAFETY: the version is at the same place in every major.
        let major = unsafe { (*tensor.as_ptr()).version.major };
        if major != sys::DLPACK_VERSION.major {
            let known = sys::DLPACK_VERSION.major;
            let message =
                format!("Managed::from_raw: tensor is one of DLPack {major}, expected {known}");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(managed)
    }

    /// Takes a tensor of the kind before DLPack 1.0 over.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub unsafe fn from_raw_legacy(tensor: *mut DLManagedTensor) -> Result<Self> {
        let tensor = NonNull::new(tensor).ok_or_else(|| no_tensor("from_raw_legacy"))?;
        Ok(Self { owner: Owner::Legacy(tensor) })
    }

    /// Flat data with a shape.
    pub fn from_vec<T: Element>(mut data: Vec<T>, shape: impl AsRef<[usize]>) -> Result<Self> {
        let tensor = TensorMut::new(&mut data, shape)?;
        let shape = tensor.shape().to_vec();
        let pointer = data.as_mut_ptr();
        // SAFETY: the vector owns its elements, wherever it is itself.
        Ok(unsafe { Self::from_owner(data, pointer, Device::Cpu, shape) })
    }

    /// Dense memory that `owner` owns, dropped with the tensor's deleter.
    ///
    /// # Safety
    /// `data` must point to as many elements as the shape says, on the device, which stay there
    /// as long as `owner` lives, wherever it is moved to.
    pub unsafe fn from_owner<T: Element, O: Send + 'static>(
        owner: O,
        data: *mut T,
        device: Device,
        shape: Vec<i64>,
    ) -> Self {
        let mut strides = vec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * shape[i].max(1);
        }
        let view = sys::DLTensor {
            data: data.cast(),
            device: device.raw(),
            ndim: shape.len() as i32,
            dtype: T::DTYPE,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        Holder::handed_over(owner, view, 0, shape, strides)
    }

    /// Gives the tensor away; whoever has it last calls its deleter.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        match self.owner {
            Owner::Versioned(tensor) => {
                let _ = ManuallyDrop::new(self);
                tensor.as_ptr()
            }
            Owner::Legacy(_) => {
                let (view, flags) = (*self.view(), 0);
                let (shape, strides) = (self.shape().to_vec(), self.strides());
                Holder::handed_over(self, view, flags, shape, strides).into_raw()
            }
        }
    }

    /// The view, whose shape may have any number of dimensions.
    fn view(&self) -> &sys::DLTensor {
        // SAFETY: the tensor lives as long as `self`.
        unsafe {
            match &self.owner {
                Owner::Versioned(tensor) => &tensor.as_ref().dl_tensor,
                Owner::Legacy(tensor) => &tensor.as_ref().dl_tensor,
            }
        }
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> &[i64] {
        let view = self.view();
        let ndim = usize::try_from(view.ndim).unwrap_or(0);
        // SAFETY: there are `ndim` sizes; a scalar may have none.
        if ndim == 0 { &[] } else { unsafe { slice::from_raw_parts(view.shape, ndim) } }
    }

    /// In elements; empty: dense.
    fn strides(&self) -> Vec<i64> {
        let view = self.view();
        if view.strides.is_null() {
            return Vec::new();
        }
        // SAFETY: if there are strides there are as many as sizes.
        unsafe { slice::from_raw_parts(view.strides, self.shape().len()) }.to_vec()
    }

    /// Where the memory is; `None`: a device that this crate has no name for.
    pub fn device(&self) -> Option<Device> {
        let device = self.view().device;
        match device.device_type {
            sys::kDLCPU | sys::kDLCUDAHost => Some(Device::Cpu),
            sys::kDLCUDA => u32::try_from(device.device_id).ok().map(Device::Cuda),
            _ => None,
        }
    }

    /// Whether the elements are of this type.
    pub fn is_of<T: Element>(&self) -> bool {
        self.view().dtype == T::DTYPE
    }

    /// Whether the producer forbids writing.
    pub fn is_read_only(&self) -> bool {
        match &self.owner {
            // SAFETY: the tensor lives as long as `self`.
            Owner::Versioned(tensor) => unsafe {
                tensor.as_ref().flags & sys::DLPACK_FLAG_BITMASK_READ_ONLY != 0
            },
            Owner::Legacy(_) => false,
        }
    }

    /// Memory of the host as a tensor.
    pub fn tensor(&self) -> Result<Tensor<'_>> {
        self.expect("Managed::tensor", |device| device == Device::Cpu, "the host")?;
        self.borrowed("Managed::tensor")
    }

    /// Memory of the host as a tensor that is written.
    pub fn tensor_mut(&mut self) -> Result<TensorMut<'_>> {
        self.expect("Managed::tensor_mut", |device| device == Device::Cpu, "the host")?;
        self.refuse_read_only("Managed::tensor_mut")?;
        self.borrowed("Managed::tensor_mut").map(TensorMut::of)
    }

    fn expect(&self, name: &str, wanted: fn(Device) -> bool, place: &str) -> Result<()> {
        if self.device().is_some_and(wanted) {
            return Ok(());
        }
        let device = self.view().device;
        let message = format!("{name}: tensor is on {device:?}, expected one on {place}");
        Err(Error::new(ErrorKind::Device, message))
    }

    fn refuse_read_only(&self, name: &str) -> Result<()> {
        if self.is_read_only() {
            let message = format!("{name}: tensor is read-only, says its producer");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(())
    }

    /// The caller has checked where the memory is, and the lifetime of the result.
    fn borrowed<'a, M: Memory>(&'a self, name: &str) -> Result<Tensor<'a, M>> {
        let view = self.view();
        let parts = Parts {
            data: view.data.wrapping_byte_add(view.byte_offset as usize),
            device: view.device,
            dtype: view.dtype,
            shape: self.shape(),
            strides: &self.strides(),
        };
        Tensor::from_parts(name, &parts)
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Borrows a DLPack tensor on a CUDA device for reading.
    pub fn import(
        &'scope self,
        tensor: &'scope Managed,
    ) -> Result<Tensor<'scope, OnDevice<'scope>>> {
        tensor.expect("Scope::import", Device::is_cuda, "a CUDA device")?;
        tensor.borrowed("Scope::import")
    }

    /// Borrows a DLPack tensor on a CUDA device for writing.
    pub fn import_mut(&'scope self, tensor: &'scope mut Managed) -> Result<Buffer<'scope>> {
        tensor.expect("Scope::import_mut", Device::is_cuda, "a CUDA device")?;
        tensor.refuse_read_only("Scope::import_mut")?;
        tensor.borrowed("Scope::import_mut").map(Buffer::of)
    }
}

/// A tensor of shape `[len, ..]`.
impl<T: Item + Send + 'static> From<Vec<T>> for Managed {
    fn from(mut items: Vec<T>) -> Self {
        let shape = TensorMut::from(&mut items).shape().to_vec();
        let pointer = items.as_mut_ptr().cast::<T::Element>();
        // SAFETY: the vector owns its elements, wherever it is itself.
        unsafe { Self::from_owner(items, pointer, Device::Cpu, shape) }
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: ours to delete, once; a tensor without a deleter needs none.
        unsafe {
            match self.owner {
                Owner::Versioned(tensor) => {
                    if let Some(deleter) = (*tensor.as_ptr()).deleter {
                        deleter(tensor.as_ptr());
                    }
                }
                Owner::Legacy(tensor) => {
                    if let Some(deleter) = (*tensor.as_ptr()).deleter {
                        deleter(tensor.as_ptr());
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed")
            .field("device", &self.view().device)
            .field("dtype", &self.view().dtype)
            .field("shape", &self.shape())
            .finish_non_exhaustive()
    }
}

fn no_tensor(function: &str) -> Error {
    let message = format!("Managed::{function}: tensor is null, expected a DLPack tensor");
    Error::new(ErrorKind::InvalidArgument, message)
}

/// What is behind a tensor that was made here: one allocation, freed by the deleter.
#[repr(C)]
struct Holder<O> {
    tensor: DLManagedTensorVersioned,
    shape: Vec<i64>,
    strides: Vec<i64>,
    owner: O,
}

impl<O: Send + 'static> Holder<O> {
    fn handed_over(
        owner: O,
        view: sys::DLTensor,
        flags: u64,
        shape: Vec<i64>,
        strides: Vec<i64>,
    ) -> Managed {
        let tensor = DLManagedTensorVersioned {
            version: sys::DLPACK_VERSION,
            manager_ctx: ptr::null_mut(),
            deleter: Some(Self::delete),
            flags,
            dl_tensor: view,
        };
        let holder = Box::into_raw(Box::new(Self { tensor, shape, strides, owner }));
        // SAFETY: just allocated; the vectors' elements stay where they are.
        let tensor = unsafe {
            let strides = &mut (*holder).strides;
            (*holder).tensor.manager_ctx = holder.cast::<c_void>();
            (*holder).tensor.dl_tensor.strides =
                if strides.is_empty() { ptr::null_mut() } else { strides.as_mut_ptr() };
            (*holder).tensor.dl_tensor.shape = (*holder).shape.as_mut_ptr();
            NonNull::new_unchecked(&raw mut (*holder).tensor)
        };
        Managed { owner: Owner::Versioned(tensor) }
    }

    unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
        // SAFETY: made by `handed_over`, deleted once.
        drop(unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Self>()) });
    }
}
