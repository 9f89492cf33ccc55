//! The rasterizer.

use crate::builder::{Views, descriptor, flags};
use crate::context::Inner;
use crate::queue::{Queue, Start};
use crate::tensor::{CameraTensor, Host, Memory};
use crate::{ErrorKind, Gradients, Outputs, Result, Tensor, TensorMut};
use gsplat_c_sys as sys;
use std::ptr::{self, NonNull};
use std::sync::Arc;

descriptor! {
    /// Gaussians and the cameras that see them.
    ///
    /// N Gaussians, C cameras; every `[C, ..]` may drop C when it is 1.  Cameras look along +z, x to
    /// the right, y down.  Required: `view`, `intrinsics` or `projection`, `means`, `opacities`,
    /// `scales` and `rotations` or `covariances`, and `colors` or `sh`.
    ///
    /// Two numeric conventions: exact, the default, where every gradient is the derivative of the
    /// image; and [`compat_3dgs`](Self::compat_3dgs).
    ///
    /// ```
    /// use gsplat_c::{Context, Device, Outputs, Scene, TensorMut};
    ///
    /// let (width, height) = (64, 48);
    /// let mut image = vec![0.0f32; 3 * height * width];
    /// let scene = Scene::new(width, height)
    ///     .view(&[[1.0f32, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    ///     .intrinsics(&[50.0f32, 50.0, 32.0, 24.0])
    ///     .means(&[[0.0f32, 0.0, 4.0]])
    ///     .scales(&[[0.3f32, 0.3, 0.3]])
    ///     .rotations(&[[1.0f32, 0.0, 0.0, 0.0]])
    ///     .opacities(&[0.9f32])
    ///     .colors(&[[1.0f32, 0.5, 0.0]]);
    /// let context = Context::new(Device::Cpu)?;
    /// let outputs = Outputs::new(TensorMut::new(&mut image, [3, height, width])?);
    /// scene.rasterize(&context, outputs)?;
    /// assert!(image[24 * width + 32] > 0.8); // red, in the middle
    /// # Ok::<(), gsplat_c::Error>(())
    /// ```
    ///
    /// A scene borrows its tensors; a call borrows its outputs:
    ///
    /// ```compile_fail,E0505
    /// # use gsplat_c::*;
    /// let means = vec![[0.0f32; 3]; 10];
    /// let scene: Scene = Scene::new(64, 64).means(&means);
    /// drop(means);
    /// let _ = scene.clone();
    /// ```
    /// ```compile_fail,E0499
    /// # use gsplat_c::*;
    /// let mut image = vec![[0.0f32; 3]; 10];
    /// let outputs: Outputs = Outputs::new(&mut image).alpha(&mut image); // one memory for two
    /// ```
    /// ```compile_fail,E0502
    /// # use gsplat_c::*;
    /// let mut means = vec![[0.0f32; 3]; 10];
    /// let gradients: Gradients = Gradients::new().grad_color(&means).means(&mut means);
    /// ```
    #[derive(Clone, Debug, Default)]
    #[must_use = "a scene does nothing until it is rasterized"]
    Scene<'a, M> => gsc_raster_args;
    more {
        flags: u32,
        size: [i32; 2],
        tan_fov: [f32; 2],
    }
    values {
        /// 0 to 4: the degree in use; `sh` may store more.
        sh_degree as sh_degree: i32,
        /// Multiplies the scales; 0: 1.
        scale_modifier as scale_modifier: f32,
        /// Culled at this depth or nearer; 0: 0.2.
        near_plane as near_plane: f32,
        /// Culled beyond this depth; 0: none.
        far_plane as far_plane: f32,
        /// Culled if the radius is at most this, in pixels; 0: none.
        radius_clip as radius_clip: f32,
        /// Added to the diagonal of the 2D covariance; 0: 0.3, negative: none.
        blur as blur: f32,
        /// `median_depth` where the transmittance stays above 0.5.
        median_default as median_default: f32,
    }
    tensors {
        /// `[C, 4, 4]`: world to camera, column-major unless
        /// [`view_row_major`](Self::view_row_major).
        view as view: CameraTensor<'a, M>,
        /// `[C, 4, 4]`: world to clip, stored as `view`: a pinhole projection times the view.
        /// With [`tan_fov`](Self::tan_fov).
        projection as projection: CameraTensor<'a, M>,
        /// `[C, 4]`: fx, fy, cx, cy in pixels.  Or `projection`.
        intrinsics as intrinsics: CameraTensor<'a, M>,
        /// `[C, 3]`: the camera's centre, for spherical harmonics; default: from `view`.
        position as position: CameraTensor<'a, M>,
        /// `[channels]` or `[C, channels]`; default: zero.
        background as background: CameraTensor<'a, M>,
        /// `[C, H, W]`: for the `weight_*` statistics.
        pixel_weights as pixel_weights: Tensor<'a, M>,
        /// `[N, 3]`: the centres.
        means as means: Tensor<'a, M>,
        /// `[N]` or `[N, 1]`: from 0 to 1, unless they are
        /// [`logit_opacities`](Self::logit_opacities).
        opacities as opacities: Tensor<'a, M>,
        /// `[N, 3]`: standard deviations, unless they are [`log_scales`](Self::log_scales); with
        /// `rotations`.
        scales as scales: Tensor<'a, M>,
        /// `[N, 4]`: quaternions w, x, y, z.
        rotations as rotations: Tensor<'a, M>,
        /// `[N, 6]`: xx, xy, xz, yy, yz, zz; instead of `scales` and `rotations`.
        covariances as covariances: Tensor<'a, M>,
        /// `[N, channels]` or `[C, N, channels]`: 1 to 512 channels, used as they are.
        colors as colors: Tensor<'a, M>,
        /// `[N, K, 3]`, K at least `(sh_degree + 1)²`: coefficients of spherical harmonics,
        /// instead of `colors`: `max(0, 0.5 + sum)`.
        sh as sh: Tensor<'a, M>,
        /// `[N, 1, 3]`: the first coefficients; `sh` is then `[N, K - 1, 3]`.
        sh_dc as sh_dc: Tensor<'a, M>,
    }
}

impl<'a, M: Memory> Scene<'a, M> {
    /// An empty scene, seen in images of this size.
    pub fn new(width: usize, height: usize) -> Self {
        let pixels = |size| i32::try_from(size).unwrap_or(i32::MAX);
        Self { size: [pixels(width), pixels(height)], ..Self::default() }
    }

    /// Tangents of half the fields of view, which a `projection` needs.
    pub fn tan_fov(mut self, x: f32, y: f32) -> Self {
        self.tan_fov = [x, y];
        self
    }

    flags! {
        /// Compensates opacities for the screen-space filter.
        antialias: GSC_RASTER_ANTIALIAS,
        /// Promises that every Gaussian lies between the planes; one that does not is an error.
        prefiltered: GSC_RASTER_PREFILTERED,
        /// `view`, `projection` and the gradient with respect to `view` are row-major.
        view_row_major: GSC_RASTER_VIEW_ROW_MAJOR,
        /// Colour and its gradient are `[C, H, W, channels]`.
        pixel_last: GSC_RASTER_PIXEL_LAST,
        /// Computes what the original 3DGS rasterizer computes, for scenes trained with it.
        compat_3dgs: GSC_RASTER_COMPAT_3DGS,
        /// With `compat_3dgs` and `antialias`, the opacity factor of the Mip-Splatting rasterizer.
        compat_mip: GSC_RASTER_COMPAT_MIP,
        /// Makes gradients bitwise reproducible on CUDA devices, as everything else always is.
        deterministic: GSC_RASTER_DETERMINISTIC,
        /// Scales are logarithms, as training and PLY files store them; gradients are with respect
        /// to these.
        log_scales: GSC_RASTER_LOG_SCALES,
        /// Opacities are logits, as training and PLY files store them; gradients are with respect
        /// to these.
        logit_opacities: GSC_RASTER_LOGIT_OPACITIES,
        /// No backward follows [`project`](Self::project) and [`blend`](Self::blend), which then
        /// take less memory; [`rasterize`](Self::rasterize) knows that.
        forward_only: GSC_RASTER_FORWARD_ONLY,
    }

    /// Rasterizes, and keeps nothing for gradients.
    pub fn rasterize<Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        outputs: Outputs<'_, M>,
    ) -> Result<()> {
        self.run_forward(&queue.begin("Scene::rasterize")?, &outputs, None)
    }

    /// Rasterizes, and keeps what [`backward`](Self::backward) needs.
    pub fn forward<Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        outputs: Outputs<'_, M>,
    ) -> Result<Saved> {
        let start = queue.begin("Scene::forward")?;
        let mut raw = ptr::null_mut();
        self.run_forward(&start, &outputs, Some(&mut raw))?;
        let raw = NonNull::new(raw)
            .ok_or_else(|| start.error(ErrorKind::Internal, "there is no saved state"))?;
        Ok(Saved { context: Arc::clone(start.inner), raw, scope: start.scope })
    }

    fn run_forward(
        &self,
        start: &Start<'_>,
        outputs: &Outputs<'_, M>,
        saved: Option<&mut *mut sys::gsc_raster_saved>,
    ) -> Result<()> {
        let views = Views::new();
        let mut args = self.args(&views);
        if saved.is_none() {
            args.flags |= sys::GSC_RASTER_FORWARD_ONLY;
        }
        let outputs = outputs.descriptor(&views);
        let saved = saved.map_or(ptr::null_mut(), ptr::from_mut);
        start.call(|api, context, stream| {
            // SAFETY: descriptors and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_rasterize)(context, &args, &outputs, saved, stream) }
        })
    }

    /// Gradients of a loss, from its derivatives with respect to the outputs.  The scene must be the
    /// one that `saved` belongs to.
    pub fn backward<Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        saved: &Saved,
        gradients: Gradients<'_, M>,
    ) -> Result<()> {
        let start = queue.begin("Scene::backward")?;
        start.refuse_unfinished(saved.scope)?;
        if !Arc::ptr_eq(&saved.context, start.inner) {
            return Err(start.error(ErrorKind::State, "saved belongs to another context"));
        }
        let views = Views::new();
        let mut args = self.args(&views);
        args.flags |= gradients.flags;
        let grads = gradients.descriptor(&views);
        start.call(|api, context, stream| {
            let saved = saved.raw.as_ptr();
            // SAFETY: as for forward; the state belongs to this context.
            unsafe { (api.gsc_rasterize_backward)(context, &args, saved, &grads, stream) }
        })
    }

    /// `visible`, `[C, N]` of `bool` or `u8`: whether each mean lies between the planes.  Reads only
    /// `view`, `means` and the planes of the scene.
    pub fn mark_visible<'v, Q: Queue<Memory = M>>(
        &self,
        queue: &Q,
        visible: impl Into<TensorMut<'v, M>>,
    ) -> Result<()>
    where
        M: 'v,
    {
        let visible = Some(visible.into());
        let views = Views::new();
        let args = self.args(&views);
        let visible = views.of(&visible);
        queue.begin("Scene::mark_visible")?.call(|api, context, stream| {
            // SAFETY: as for forward.
            unsafe { (api.gsc_mark_visible)(context, &args, visible, stream) }
        })
    }

    pub(crate) fn args<'v>(&'v self, views: &Views<'v>) -> sys::gsc_raster_args {
        sys::gsc_raster_args {
            flags: self.flags,
            width: self.size[0],
            height: self.size[1],
            tan_fovx: self.tan_fov[0],
            tan_fovy: self.tan_fov[1],
            ..self.descriptor(views)
        }
    }
}

/// What [`Scene::forward`] keeps for [`Scene::backward`], in the context's memory.
///
/// It may be kept, sent to another thread, and used for any number of gradients.
#[derive(Debug)]
pub struct Saved {
    context: Arc<Inner>,
    raw: NonNull<sys::gsc_raster_saved>,
    /// The scope that made it.
    scope: Option<u64>,
}

// SAFETY: nothing changes it but its drop, and functions may be called from any thread.
unsafe impl Send for Saved {}
// SAFETY: the same.
unsafe impl Sync for Saved {}

impl Drop for Saved {
    fn drop(&mut self) {
        self.context.free_saved(self.raw);
    }
}
