//! [DLPack](https://dmlc.github.io/dlpack/latest/): borrowed views, and tensors that are handed
//! over with their memory.
//!
//! Enums of foreign memory are integers here: another program may know values that this one
//! does not.

use core::ffi::c_void;

/// `DLDevice::device_type` of ordinary memory.
#[allow(non_upper_case_globals)]
pub const kDLCPU: i32 = 1;
/// Of a CUDA device.
#[allow(non_upper_case_globals)]
pub const kDLCUDA: i32 = 2;
/// Of pinned host memory.
#[allow(non_upper_case_globals)]
pub const kDLCUDAHost: i32 = 3;
/// Of memory that CUDA moves between host and device.
#[allow(non_upper_case_globals)]
pub const kDLCUDAManaged: i32 = 13;

/// `DLDataType::code` of signed integers.
#[allow(non_upper_case_globals)]
pub const kDLInt: u8 = 0;
/// Of unsigned integers.
#[allow(non_upper_case_globals)]
pub const kDLUInt: u8 = 1;
/// Of IEEE floating-point numbers.
#[allow(non_upper_case_globals)]
pub const kDLFloat: u8 = 2;
/// Of booleans, one byte each.
#[allow(non_upper_case_globals)]
pub const kDLBool: u8 = 6;

/// Where memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    /// [`kDLCPU`], [`kDLCUDA`], ..
    pub device_type: i32,
    /// Which of the kind; 0 for CPU, pinned and managed memory.
    pub device_id: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    /// [`kDLFloat`], [`kDLInt`], ..
    pub code: u8,
    /// Of one element.
    pub bits: u8,
    /// 1, but for vector types.
    pub lanes: u16,
}

/// A view of memory that somebody else owns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// May be null if there are no elements.
    pub data: *mut c_void,
    /// Where `data` is.
    pub device: DLDevice,
    /// 0 is a scalar.
    pub ndim: i32,
    /// Of the elements.
    pub dtype: DLDataType,
    /// `ndim` sizes.
    pub shape: *mut i64,
    /// `ndim` steps, in elements; null: dense, row-major.
    pub strides: *mut i64,
    /// Added to `data`.
    pub byte_offset: u64,
}

/// A tensor with the means to give it back; the struct of DLPack before 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The view.
    pub dl_tensor: DLTensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once, by whoever has the tensor last.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// The version of the struct that follows it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Only the deleter of a tensor of another major may be used.
    pub major: u32,
    /// Adds enum values only.
    pub minor: u32,
}

/// A tensor with the means to give it back.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// Of this struct.
    pub version: DLPackVersion,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Called once, by whoever has the tensor last.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`DLPACK_FLAG_BITMASK_READ_ONLY`], ..
    pub flags: u64,
    /// The view.
    pub dl_tensor: DLTensor,
}

/// The consumer must not write.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;
/// The version that these structs are of.
pub const DLPACK_VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };
