//! Training steps.

use crate::builder::{Views, flags};
use crate::queue::Queue;
use crate::tensor::{Host, Memory};
use crate::{
    AdamGroup, Buffers, ErrorKind, FrameInfo, Gradients, ImageLoss, Outputs, Result, Scene,
};
use gsplat_c_sys as sys;
use std::ptr;

macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident = $code:ident as $field:ident,)*) => {
        /// The tensor of a [`Scene`] that a group trains.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Parameter {
            $($(#[$doc])* $name,)*
        }

        impl Parameter {
            /// The library's number, the name, and the field of the arguments.
            fn of(self, args: &mut sys::gsc_raster_args)
            -> (i32, &'static str, &mut *const sys::DLTensor) {
                match self {
                    $(Self::$name => (sys::$code, stringify!($field), &mut args.$field),)*
                }
            }
        }
    };
}
parameters! {
    /// `[N, 3]`.
    Means = GSC_PARAMETER_MEANS as means,
    /// `[N]` or `[N, 1]`.
    Opacities = GSC_PARAMETER_OPACITIES as opacities,
    /// `[N, 3]`.
    Scales = GSC_PARAMETER_SCALES as scales,
    /// `[N, 4]`.
    Rotations = GSC_PARAMETER_ROTATIONS as rotations,
    /// `[N, 6]`.
    Covariances = GSC_PARAMETER_COVARIANCES as covariances,
    /// `[N, 3]`.
    Colors = GSC_PARAMETER_COLORS as colors,
    /// `[N, K, 3]`.
    Sh = GSC_PARAMETER_SH as sh,
    /// `[N, 1, 3]`.
    ShDc = GSC_PARAMETER_SH_DC as sh_dc,
}

/// Forward, image loss, backward and Adam of one camera in one call, with the same result as the
/// four, and without gradients of the scene in memory.
///
/// The trained parameters belong to the groups, which write them; the scene has everything else.
///
/// ```
/// use gsplat_c::{AdamGroup, Context, Device, ImageLoss, Parameter, Scene, Tensor, TrainStep};
///
/// let context = Context::new(Device::Cpu)?;
/// let target = vec![0.5f32; 3 * 48 * 64];
/// let mut colors = [[1.0f32, 0.0, 0.0]];
/// let (mut moment1, mut moment2) = ([[0.0f32; 3]], [[0.0f32; 3]]);
/// let mut loss = 0.0f32;
/// let scene = Scene::new(64, 48)
///     .view(&[[1.0f32, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
///     .intrinsics(&[50.0f32, 50.0, 32.0, 24.0])
///     .means(&[[0.0f32, 0.0, 4.0]])
///     .scales(&[[-0.7f32; 3]]).log_scales()
///     .rotations(&[[1.0f32, 0.0, 0.0, 0.0]])
///     .opacities(&[2.0f32]).logit_opacities();
/// let wanted = ImageLoss::of_color(Tensor::new(&target, [3, 48, 64])?).l1(1.0);
/// let colors_group = AdamGroup::trained(&mut colors, &mut moment1, &mut moment2).lr(0.1).step(1);
/// TrainStep::new(scene, wanted.loss(&mut loss))
///     .train(Parameter::Colors, colors_group)
///     .run(&context)?;
/// assert!(loss > 0.0 && (colors[0][1] - 0.1).abs() < 1e-5); // greener, by the learning rate
/// # Ok::<(), gsplat_c::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "no step is made until it runs"]
pub struct TrainStep<'a, M: Memory = Host> {
    flags: u32,
    scene: Scene<'a, M>,
    loss: ImageLoss<'a, M>,
    groups: Vec<(Parameter, AdamGroup<'a, M>)>,
    outputs: Option<Outputs<'a, M>>,
    gradients: Option<Gradients<'a, M>>,
    buffers: Option<Buffers<'a, M>>,
    info: Option<&'a mut FrameInfo>,
}

impl<'a, M: Memory> TrainStep<'a, M> {
    /// A step that trains nothing yet.  The loss is one [of the colour](ImageLoss::of_color).
    pub fn new(scene: Scene<'a, M>, loss: ImageLoss<'a, M>) -> Self {
        let (outputs, gradients, buffers, info) = (None, None, None, None);
        Self { flags: 0, scene, loss, groups: Vec::new(), outputs, gradients, buffers, info }
    }

    /// Trains a parameter, which the scene then lacks; see [`AdamGroup::trained`].
    pub fn train(mut self, parameter: Parameter, group: AdamGroup<'a, M>) -> Self {
        self.groups.push((parameter, group));
        self
    }

    /// What to write of the scene before the step; the colour is not required.
    pub fn outputs(mut self, outputs: Outputs<'a, M>) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// Writes `means2d`, `means2d_abs` and gradients of what has no group, before the step; takes
    /// derivatives with respect to alpha, depth and inverse depth, which are added to the loss.
    pub fn gradients(mut self, gradients: Gradients<'a, M>) -> Self {
        self.gradients = Some(gradients);
        self
    }

    /// Memory for the step; default: from the context.
    pub fn buffers(mut self, buffers: Buffers<'a, M>) -> Self {
        self.buffers = Some(buffers);
        self
    }

    /// Becomes what the frame needed.
    pub fn info(mut self, info: &'a mut FrameInfo) -> Self {
        self.info = Some(info);
        self
    }

    flags! {
        /// Decoupled weight decay, as AdamW.
        decoupled: GSC_TRAIN_DECOUPLED,
        /// Updates every row, and not only those that the camera sees.
        all_rows: GSC_TRAIN_ALL_ROWS,
    }

    /// Trains for one step.
    pub fn run<Q: Queue<Memory = M>>(mut self, queue: &Q) -> Result<()> {
        let start = queue.begin("TrainStep::run")?;
        let info = self.info.take().map_or(ptr::null_mut(), |info| &raw mut info.raw);
        let views = Views::new();
        let mut raster = self.scene.args(&views);
        let mut groups = Vec::with_capacity(self.groups.len());
        for (parameter, group) in &self.groups {
            let group = group.descriptor(&views);
            let (number, name, field) = parameter.of(&mut raster);
            if !field.is_null() {
                let message = format!("{name} is given twice, expected one group or the scene's");
                return Err(start.error(ErrorKind::InvalidArgument, message));
            }
            if !group.gradient.is_null() {
                let message = format!("{name} has a gradient, expected AdamGroup::trained");
                return Err(start.error(ErrorKind::InvalidArgument, message));
            }
            *field = group.parameter;
            groups.push(sys::gsc_train_group {
                parameter: number,
                moment1: group.moment1,
                moment2: group.moment2,
                lr: group.lr,
                beta1: group.beta1,
                beta2: group.beta2,
                epsilon: group.epsilon,
                weight_decay: group.weight_decay,
                step: group.step,
                ..Default::default()
            });
        }
        raster.flags |= self.gradients.as_ref().map_or(0, |gradients| gradients.flags);
        let loss = self.loss.args(&views);
        let outputs = self.outputs.as_ref().map(|outputs| outputs.descriptor(&views));
        let grads = self.gradients.as_ref().map(|gradients| gradients.descriptor(&views));
        let buffers = self.buffers.as_ref().map(|buffers| buffers.descriptor(&views));
        let args = sys::gsc_train_args {
            flags: self.flags,
            group_count: groups.len() as u32,
            groups: groups.as_ptr(),
            group_stride: size_of::<sys::gsc_train_group>(),
            raster: &raster,
            loss: &loss,
            outputs: outputs.as_ref().map_or(ptr::null(), ptr::from_ref),
            grads: grads.as_ref().map_or(ptr::null(), ptr::from_ref),
            buffers: buffers.as_ref().map_or(ptr::null(), ptr::from_ref),
            info,
            ..Default::default()
        };
        start.call(|api, context, stream| {
            // SAFETY: descriptors and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_train_step)(context, &args, stream) }
        })
    }
}
