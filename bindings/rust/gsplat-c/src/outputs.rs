//! What the rasterizer writes: images, values for each Gaussian, gradients.

use crate::builder::{Views, flags, setters};
use crate::tensor::{Host, Memory};
use crate::{Tensor, TensorMut};
use gsplat_c_sys as sys;

/// Where the images and the values for each Gaussian go.  Only what is given is computed.
#[derive(Debug, Default)]
#[must_use = "outputs are filled by Scene::rasterize or Scene::forward"]
pub struct Outputs<'a, M: Memory = Host> {
    color: Option<TensorMut<'a, M>>,
    alpha: Option<TensorMut<'a, M>>,
    depth: Option<TensorMut<'a, M>>,
    inv_depth: Option<TensorMut<'a, M>>,
    median_depth: Option<TensorMut<'a, M>>,
    radii: Option<TensorMut<'a, M>>,
    means2d: Option<TensorMut<'a, M>>,
    depths: Option<TensorMut<'a, M>>,
    conics: Option<TensorMut<'a, M>>,
    opacities: Option<TensorMut<'a, M>>,
    touched: Option<TensorMut<'a, M>>,
    weight_sum: Option<TensorMut<'a, M>>,
    weight_count: Option<TensorMut<'a, M>>,
    weight_blend: Option<TensorMut<'a, M>>,
    weight_distance: Option<TensorMut<'a, M>>,
}

impl<'a, M: Memory> Outputs<'a, M> {
    /// The colour, `[C, channels, H, W]`, or `[C, H, W, channels]` for a
    /// [`pixel_last`](crate::Scene::pixel_last) scene.
    pub fn new(color: impl Into<TensorMut<'a, M>>) -> Self {
        Self { color: Some(color.into()), ..Self::default() }
    }

    setters! {
        /// `[C, H, W]`: the opacity of each pixel, 1 - T.
        alpha: TensorMut<'a, M>,
        /// `[C, H, W]`: sum of z α T; divide by alpha for the mean depth.
        depth: TensorMut<'a, M>,
        /// `[C, H, W]`: sum of α T / z.
        inv_depth: TensorMut<'a, M>,
        /// `[C, H, W]`: z of the splat that takes the transmittance across 0.5.
        median_depth: TensorMut<'a, M>,
        /// `i32`, `[C, N]`: the larger half-extent in pixels, rounded up; or `[C, N, 2]`.
        radii: TensorMut<'a, M>,
        /// `[C, N, 2]`: the projected centres, in pixels.
        means2d: TensorMut<'a, M>,
        /// `[C, N]`: z of the centres in the camera's space.
        depths: TensorMut<'a, M>,
        /// `[C, N, 3]`: inverse 2D covariances xx, xy, yy.
        conics: TensorMut<'a, M>,
        /// `[C, N]`: after antialiasing.
        opacities: TensorMut<'a, M>,
        /// `i32`, `[C, N]`: pixels where T is above 0.5 after blending it.
        touched: TensorMut<'a, M>,
        /// `[C, N]`: sum of the scene's `pixel_weights` over the pixels it is blended into.
        weight_sum: TensorMut<'a, M>,
        /// `i32`, `[C, N]`: the number of those pixels.
        weight_count: TensorMut<'a, M>,
        /// `[C, N]`: sum of α T over them.
        weight_blend: TensorMut<'a, M>,
        /// `[C, N]`: sum of their distances to its centre, in pixels.
        weight_distance: TensorMut<'a, M>,
    }

    pub(crate) fn descriptor<'v>(&'v self, views: &Views<'v>) -> sys::gsc_raster_outputs {
        sys::gsc_raster_outputs {
            color: views.of(&self.color),
            alpha: views.of(&self.alpha),
            depth: views.of(&self.depth),
            inv_depth: views.of(&self.inv_depth),
            median_depth: views.of(&self.median_depth),
            radii: views.of(&self.radii),
            means2d: views.of(&self.means2d),
            depths: views.of(&self.depths),
            conics: views.of(&self.conics),
            opacities: views.of(&self.opacities),
            touched: views.of(&self.touched),
            weight_sum: views.of(&self.weight_sum),
            weight_count: views.of(&self.weight_count),
            weight_blend: views.of(&self.weight_blend),
            weight_distance: views.of(&self.weight_distance),
            ..Default::default()
        }
    }
}

/// Gradients of a loss: with respect to the outputs, which are given, and with respect to the scene,
/// which are computed.
#[derive(Debug, Default)]
#[must_use = "gradients are filled by Scene::backward"]
pub struct Gradients<'a, M: Memory = Host> {
    pub(crate) flags: u32,
    grad_color: Option<Tensor<'a, M>>,
    grad_alpha: Option<Tensor<'a, M>>,
    grad_depth: Option<Tensor<'a, M>>,
    grad_inv_depth: Option<Tensor<'a, M>>,
    means: Option<TensorMut<'a, M>>,
    opacities: Option<TensorMut<'a, M>>,
    scales: Option<TensorMut<'a, M>>,
    rotations: Option<TensorMut<'a, M>>,
    covariances: Option<TensorMut<'a, M>>,
    colors: Option<TensorMut<'a, M>>,
    sh: Option<TensorMut<'a, M>>,
    sh_dc: Option<TensorMut<'a, M>>,
    means2d: Option<TensorMut<'a, M>>,
    means2d_abs: Option<TensorMut<'a, M>>,
    view: Option<TensorMut<'a, M>>,
    position: Option<TensorMut<'a, M>>,
    background: Option<TensorMut<'a, M>>,
}

impl<'a, M: Memory> Gradients<'a, M> {
    /// No gradients yet.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// In: with respect to the colour, with its shape.
        grad_color: Tensor<'a, M>,
        /// In: with respect to alpha.
        grad_alpha: Tensor<'a, M>,
        /// In: with respect to depth.
        grad_depth: Tensor<'a, M>,
        /// In: with respect to inverse depth.
        grad_inv_depth: Tensor<'a, M>,
        /// `[N, 3]`; like all gradients of Gaussians it is summed over cameras.
        means: TensorMut<'a, M>,
        /// `[N]` or `[N, 1]`.
        opacities: TensorMut<'a, M>,
        /// `[N, 3]`.
        scales: TensorMut<'a, M>,
        /// `[N, 4]`.
        rotations: TensorMut<'a, M>,
        /// `[N, 6]`.
        covariances: TensorMut<'a, M>,
        /// Shaped as the scene's.
        colors: TensorMut<'a, M>,
        /// Shaped as the scene's.
        sh: TensorMut<'a, M>,
        /// `[N, 1, 3]`.
        sh_dc: TensorMut<'a, M>,
        /// `[C, N, 2]` or `[C, N, 3]` (the third is 0): with respect to the projected centre.
        means2d: TensorMut<'a, M>,
        /// The same, summing absolute values over pixels.
        means2d_abs: TensorMut<'a, M>,
        /// `[C, 4, 4]`, stored as the scene's; the last row is zero.
        view: TensorMut<'a, M>,
        /// `[C, 3]`; without a position in the scene, its part is in `view`.
        position: TensorMut<'a, M>,
        /// Shaped as the scene's.
        background: TensorMut<'a, M>,
    }

    flags! {
        /// Adds to the gradients instead of overwriting them.
        accumulate: GSC_RASTER_GRAD_ADD,
        /// Gradients of `means2d` in units of half the image, as 3DGS training expects.
        half_images: GSC_RASTER_GRAD2D_NDC,
    }

    pub(crate) fn descriptor<'v>(&'v self, views: &Views<'v>) -> sys::gsc_raster_grads {
        sys::gsc_raster_grads {
            color: views.of(&self.grad_color),
            alpha: views.of(&self.grad_alpha),
            depth: views.of(&self.grad_depth),
            inv_depth: views.of(&self.grad_inv_depth),
            means: views.of(&self.means),
            opacities: views.of(&self.opacities),
            scales: views.of(&self.scales),
            rotations: views.of(&self.rotations),
            covariances: views.of(&self.covariances),
            colors: views.of(&self.colors),
            sh: views.of(&self.sh),
            sh_dc: views.of(&self.sh_dc),
            means2d: views.of(&self.means2d),
            means2d_abs: views.of(&self.means2d_abs),
            view: views.of(&self.view),
            position: views.of(&self.position),
            background: views.of(&self.background),
            ..Default::default()
        }
    }
}
