//! Arrays and views of `ndarray` as tensors, with their strides.

use crate::tensor::{Memory, Parts, Sealed};
use crate::{CameraTensor, Device, Element, Tensor, TensorMut};
use ndarray::{
    ArrayBase, ArrayView, ArrayViewMut, Data, DataMut, Dimension, Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6,
};
use std::ffi::c_void;

/// A number of dimensions that a tensor can have: `Ix0` to `Ix6` of `ndarray`.
pub trait Rank: Dimension + Sealed {}

macro_rules! ranks {
    ($($rank:ty),*) => { $(impl Sealed for $rank {} impl Rank for $rank {})* };
}
ranks!(Ix0, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6);

/// A view of an array's elements, which are borrowed for `'a`.
fn tensor<'a, T: Element>(data: *mut c_void, shape: &[usize], strides: &[isize]) -> Tensor<'a> {
    let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let strides: Vec<i64> = strides.iter().map(|&step| step as i64).collect();
    let device = Device::Cpu.raw();
    let parts = Parts { data, device, dtype: T::DTYPE, shape: &shape, strides: &strides };
    Tensor::from_parts("Tensor::from", &parts).expect("a rank has few dimensions")
}

impl<'a, T: Element, D: Rank> From<ArrayView<'a, T, D>> for Tensor<'a> {
    fn from(view: ArrayView<'a, T, D>) -> Self {
        tensor::<T>(view.as_ptr().cast_mut().cast(), view.shape(), view.strides())
    }
}

impl<'a, T: Element, D: Rank> From<ArrayViewMut<'a, T, D>> for TensorMut<'a> {
    fn from(mut view: ArrayViewMut<'a, T, D>) -> Self {
        let data = view.as_mut_ptr().cast();
        Self::of(tensor::<T>(data, view.shape(), view.strides()))
    }
}

impl<'a, T: Element, S: Data<Elem = T>, D: Rank> From<&'a ArrayBase<S, D>> for Tensor<'a> {
    fn from(array: &'a ArrayBase<S, D>) -> Self {
        array.view().into()
    }
}

impl<'a, T: Element, S: DataMut<Elem = T>, D: Rank> From<&'a mut ArrayBase<S, D>>
    for TensorMut<'a>
{
    fn from(array: &'a mut ArrayBase<S, D>) -> Self {
        array.view_mut().into()
    }
}

impl<'a, T: Element, D: Rank, M: Memory> From<ArrayView<'a, T, D>> for CameraTensor<'a, M> {
    fn from(view: ArrayView<'a, T, D>) -> Self {
        Tensor::from(view).into()
    }
}

impl<'a, T: Element, S: Data<Elem = T>, D: Rank, M: Memory> From<&'a ArrayBase<S, D>>
    for CameraTensor<'a, M>
{
    fn from(array: &'a ArrayBase<S, D>) -> Self {
        Tensor::from(array).into()
    }
}
