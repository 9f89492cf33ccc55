//! The Adam optimizer.

use crate::builder::{Views, descriptor, flags, setters};
use crate::queue::Queue;
use crate::tensor::{Host, Memory};
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
        let views = Views::new();
        let groups: Vec<_> = self.groups.iter().map(|group| group.descriptor(&views)).collect();
        let args = sys::gsc_adam_args {
            flags: self.flags,
            group_count: groups.len() as u32,
            groups: groups.as_ptr(),
            group_stride: size_of::<sys::gsc_adam_group>(),
            visible: views.of(&self.visible),
            ..Default::default()
        };
        queue.begin("Adam::run")?.call(|api, context, stream| {
            // SAFETY: descriptors and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_adam_step)(context, &args, stream) }
        })
    }
}

descriptor! {
    /// A parameter with its gradient and moments, all with the same shape `[N, ..]`.
    #[derive(Debug, Default)]
    #[must_use = "a group belongs into Adam::group or TrainStep::train"]
    AdamGroup<'a, M> => gsc_adam_group;
    fixed {
        parameter: TensorMut<'a, M>,
        gradient: Tensor<'a, M>,
        moment1: TensorMut<'a, M>,
        moment2: TensorMut<'a, M>,
    }
    values {
        /// The learning rate.
        lr as lr: f32,
        /// Decay of the first moment; 0: 0.9, negative: 0.
        beta1 as beta1: f32,
        /// Decay of the second moment; 0: 0.999, negative: 0.
        beta2 as beta2: f32,
        /// Added to the root of the second moment; 0: 1e-8, negative: 0.
        epsilon as epsilon: f32,
        /// Weight decay.
        weight_decay as weight_decay: f32,
        /// 1, 2, ..: for bias correction; 0: without.
        step as step: i32,
    }
    tensors {}
}

impl<'a, M: Memory> AdamGroup<'a, M> {
    /// A group with a learning rate of 0.
    pub fn new(
        parameter: impl Into<TensorMut<'a, M>>,
        gradient: impl Into<Tensor<'a, M>>,
        moment1: impl Into<TensorMut<'a, M>>,
        moment2: impl Into<TensorMut<'a, M>>,
    ) -> Self {
        Self { gradient: Some(gradient.into()), ..Self::trained(parameter, moment1, moment2) }
    }

    /// A group of a [`TrainStep`](crate::TrainStep), which computes the gradient itself.
    pub fn trained(
        parameter: impl Into<TensorMut<'a, M>>,
        moment1: impl Into<TensorMut<'a, M>>,
        moment2: impl Into<TensorMut<'a, M>>,
    ) -> Self {
        Self {
            parameter: Some(parameter.into()),
            moment1: Some(moment1.into()),
            moment2: Some(moment2.into()),
            ..Self::default()
        }
    }
}
