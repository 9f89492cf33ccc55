//! The Adam optimizer.

use crate::builder::{Views, flags, setters, values};
use crate::queue::Queue;
use crate::tensor::{Host, Memory, View};
use crate::{Result, Tensor, TensorMut};
use gsplat_c_sys as sys;

/// One step of Adam (Kingma & Ba 2015), in place, for every group in one call.
///
/// ```
/// use gsplat_c::{Adam, AdamGroup, Context, Device};
///
/// let context = Context::new(Device::Cpu)?;
/// let (mut parameter, gradient) = (vec![1.0f32; 4], vec![0.5f32; 4]);
/// let (mut moment1, mut moment2) = (vec![0.0f32; 4], vec![0.0f32; 4]);
/// Adam::new()
///     .group(AdamGroup::new(&mut parameter, &gradient, &mut moment1, &mut moment2).lr(0.1).step(1))
///     .run(&context)?;
/// assert!((parameter[0] - 0.9).abs() < 1e-6);
/// # Ok::<(), gsplat_c::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "no step is made until it runs"]
pub struct Adam<'a, M: Memory = Host> {
    flags: u32,
    groups: Vec<AdamGroup<'a, M>>,
    visible: Option<Tensor<'a, M>>,
}

impl<'a, M: Memory> Adam<'a, M> {
    /// A step without groups.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group.
    pub fn group(mut self, group: AdamGroup<'a, M>) -> Self {
        self.groups.push(group);
        self
    }

    setters! {
        /// `[N]` of `bool`, `u8` or `i32`: rows with 0 keep parameter and moments.  For
        /// the selective Adam of 3DGS training pass the radii and leave `step` 0.
        visible: Tensor<'a, M>,
    }

    flags! {
        /// Decoupled weight decay, as AdamW.
        decoupled: GSC_ADAM_DECOUPLED,
    }

    /// Updates the parameters.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        let start = queue.begin()?;
        let tensors: Vec<_> = self.groups.iter().map(AdamGroup::views).collect();
        let groups: Vec<_> = self.groups.iter().zip(&tensors).map(AdamGroup::descriptor).collect();
        let views = Views::new();
        let args = sys::gsc_adam_args {
            flags: self.flags,
            group_count: groups.len() as u32,
            groups: groups.as_ptr(),
            group_stride: size_of::<sys::gsc_adam_group>(),
            visible: views.of(&self.visible),
            ..Default::default()
        };
        start.inner.call("Adam::run", |api, context| {
            // SAFETY: descriptors and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_adam_step)(context, &args, start.stream) }
        })
    }
}

/// A parameter with its gradient and moments, all with the same shape `[N, ..]`.
#[derive(Debug)]
#[must_use = "a group belongs into Adam::group"]
pub struct AdamGroup<'a, M: Memory = Host> {
    parameter: TensorMut<'a, M>,
    gradient: Tensor<'a, M>,
    moment1: TensorMut<'a, M>,
    moment2: TensorMut<'a, M>,
    lr: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    weight_decay: f32,
    step: i32,
}

impl<'a, M: Memory> AdamGroup<'a, M> {
    /// A group with a learning rate of 0.
    pub fn new(
        parameter: impl Into<TensorMut<'a, M>>,
        gradient: impl Into<Tensor<'a, M>>,
        moment1: impl Into<TensorMut<'a, M>>,
        moment2: impl Into<TensorMut<'a, M>>,
    ) -> Self {
        Self {
            parameter: parameter.into(),
            gradient: gradient.into(),
            moment1: moment1.into(),
            moment2: moment2.into(),
            lr: 0.0,
            beta1: 0.0,
            beta2: 0.0,
            epsilon: 0.0,
            weight_decay: 0.0,
            step: 0,
        }
    }

    values! {
        /// The learning rate.
        lr: f32,
        /// Decay of the first moment; 0: 0.9, negative: 0.
        beta1: f32,
        /// Decay of the second moment; 0: 0.999, negative: 0.
        beta2: f32,
        /// Added to the root of the second moment; 0: 1e-8, negative: 0.
        epsilon: f32,
        /// Weight decay.
        weight_decay: f32,
        /// 1, 2, ..: for bias correction; 0: without.
        step: i32,
    }

    fn views(&self) -> [sys::DLTensor; 4] {
        [self.parameter.view(), self.gradient.view(), self.moment1.view(), self.moment2.view()]
    }

    fn descriptor((group, tensors): (&Self, &[sys::DLTensor; 4])) -> sys::gsc_adam_group {
        sys::gsc_adam_group {
            parameter: &tensors[0],
            gradient: &tensors[1],
            moment1: &tensors[2],
            moment2: &tensors[3],
            lr: group.lr,
            beta1: group.beta1,
            beta2: group.beta2,
            epsilon: group.epsilon,
            weight_decay: group.weight_decay,
            step: group.step,
        }
    }
}
