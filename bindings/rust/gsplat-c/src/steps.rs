//! The rasterizer in steps, with memory of the caller's.

use crate::builder::{Views, descriptor};
use crate::queue::Queue;
use crate::tensor::{Host, Memory};
use crate::{Gradients, Outputs, Result, Scene, TensorMut};
use gsplat_c_sys as sys;
use std::ptr;

descriptor! {
    /// The memory of a frame: `u8`, 256-byte aligned, of [`FrameInfo`]'s sizes.  `state` and
    /// `intersections` carry forward's results to backward.
    #[derive(Debug, Default)]
    #[must_use = "buffers are used by Scene::project, Scene::blend and TrainStep"]
    Buffers<'a, M> => gsc_raster_buffers;
    tensors {
        /// Of [`state_bytes`](FrameInfo::state_bytes).
        state as state: TensorMut<'a, M>,
        /// Of [`intersections_bytes`](FrameInfo::intersections_bytes); with less, down to
        /// [`intersections_min_bytes`](FrameInfo::intersections_min_bytes), work is done in bands.
        intersections as intersections: TensorMut<'a, M>,
        /// Of [`forward_scratch_bytes`](FrameInfo::forward_scratch_bytes) or
        /// [`backward_scratch_bytes`](FrameInfo::backward_scratch_bytes); default: from the context.
        scratch as scratch: TensorMut<'a, M>,
    }
}

impl<M: Memory> Buffers<'_, M> {
    /// No buffers yet.
    pub fn new() -> Self {
        Self::default()
    }
}

/// What a frame needs, and what backward needs to know of forward.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameInfo {
    pub(crate) raw: sys::gsc_raster_info,
}

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        impl FrameInfo {
            $($(#[$doc])* pub fn $name(&self) -> $kind { self.raw.$name })*
        }
    };
}
facts! {
    /// Pairs of a tile and a Gaussian that reaches it: of all cameras once counted; before, the
    /// most of one camera.
    intersections: i64,
    /// The most Gaussians that one camera sees; 0: unknown.
    visible: i64,
    /// Of all cameras.
    state_bytes: usize,
    /// For every frame at once.
    intersections_bytes: usize,
    /// For the fullest tile.
    intersections_min_bytes: usize,
    /// For the next step.
    forward_scratch_bytes: usize,
    /// For [`Scene::backward_in`].
    backward_scratch_bytes: usize,
}

impl FrameInfo {
    /// Of a frame with this many intersections and visible Gaussians, for [`Scene::sizes`].
    pub fn of_counts(intersections: i64, visible: i64) -> Self {
        let raw = sys::gsc_raster_info { intersections, visible, ..Default::default() };
        Self { raw }
    }
}

/// [`rasterize`](Scene::rasterize) in steps, for callers that provide the memory:
/// [`project`](Scene::project) and [`blend`](Scene::blend), or
/// [`project_blend`](Scene::project_blend), then [`backward_in`](Scene::backward_in).
impl<M: Memory> Scene<'_, M> {
    /// The sizes that depend on the scene alone; with counts in `info` also the others.
    pub fn sizes<Q: Queue<Memory = M>>(&self, queue: &Q, info: &mut FrameInfo) -> Result<()> {
        let views = Views::new();
        let args = self.args(&views);
        queue.begin("Scene::sizes")?.call(|api, context, _| {
            // SAFETY: descriptors and views live during the call, which reads no data.
            unsafe { (api.gsc_raster_sizes)(context, &args, &mut info.raw) }
        })
    }

    /// As [`sizes`](Self::sizes), with counts predicted from earlier frames; they are 0 where
    /// nothing is known, and on the CPU.
    pub fn forecast<Q: Queue<Memory = M>>(&self, queue: &Q) -> Result<FrameInfo> {
        let views = Views::new();
        let args = self.args(&views);
        let mut info = FrameInfo::default();
        queue.begin("Scene::forecast")?.call(|api, context, _| {
            // SAFETY: as for sizes.
            unsafe { (api.gsc_raster_forecast)(context, &args, &mut info.raw) }
        })?;
        Ok(info)
    }

    /// Step 1: writes `state` and the outputs for each Gaussian down to `opacities`.  With `info`
    /// it waits for the counts and completes `info`.
    pub fn project<Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        buffers: &mut Buffers<'_, M>,
        outputs: &mut Outputs<'_, M>,
        info: Option<&mut FrameInfo>,
    ) -> Result<()> {
        let views = Views::new();
        let args = self.args(&views);
        let (buffers, outputs) = (buffers.descriptor(&views), outputs.descriptor(&views));
        let info = info.map_or(ptr::null_mut(), |info| &raw mut info.raw);
        queue.begin("Scene::project")?.call(|api, context, stream| {
            // SAFETY: descriptors and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_raster_project)(context, &args, &buffers, &outputs, info, stream) }
        })
    }

    /// Step 2: writes the other outputs.  Takes the outputs of step 1 again.  `overflow`, an `i64`,
    /// becomes the bytes that `intersections` lacked on a device, or 0.
    pub fn blend<'o, Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        buffers: &mut Buffers<'_, M>,
        outputs: &mut Outputs<'_, M>,
        info: &FrameInfo,
        overflow: Option<TensorMut<'o, M>>,
    ) -> Result<()>
    where
        M: 'o,
    {
        let views = Views::new();
        let args = self.args(&views);
        let (buffers, outputs) = (buffers.descriptor(&views), outputs.descriptor(&views));
        let overflow = views.of(&overflow);
        queue.begin("Scene::blend")?.call(|api, context, stream| {
            let info = &info.raw;
            // SAFETY: as for project.
            unsafe {
                (api.gsc_raster_blend)(context, &args, &buffers, &outputs, info, overflow, stream)
            }
        })
    }

    /// Both steps without a wait between them, in buffers of the sizes of
    /// [`forecast`](Self::forecast).  A frame that needs more is an error, `info` then says how
    /// much, and [`blend`](Self::blend) continues with larger buffers.
    pub fn project_blend<Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        buffers: &mut Buffers<'_, M>,
        outputs: &mut Outputs<'_, M>,
        info: &mut FrameInfo,
    ) -> Result<()> {
        let views = Views::new();
        let args = self.args(&views);
        let (buffers, outputs) = (buffers.descriptor(&views), outputs.descriptor(&views));
        queue.begin("Scene::project_blend")?.call(|api, context, stream| {
            let info = &mut info.raw;
            // SAFETY: as for project.
            unsafe {
                (api.gsc_raster_project_blend)(context, &args, &buffers, &outputs, info, stream)
            }
        })
    }

    /// Gradients from `state` and `intersections` as forward left them.
    pub fn backward_in<Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        buffers: &mut Buffers<'_, M>,
        info: &FrameInfo,
        gradients: Gradients<'_, M>,
    ) -> Result<()> {
        let views = Views::new();
        let mut args = self.args(&views);
        args.flags |= gradients.flags;
        let (buffers, grads) = (buffers.descriptor(&views), gradients.descriptor(&views));
        queue.begin("Scene::backward_in")?.call(|api, context, stream| {
            let info = &info.raw;
            // SAFETY: as for project.
            unsafe { (api.gsc_raster_backward)(context, &args, &buffers, info, &grads, stream) }
        })
    }
}
