//! What the rasterizer writes: images, values for each Gaussian, gradients.

use crate::builder::{Views, descriptor, flags};
use crate::tensor::{Host, Memory};
use crate::{Tensor, TensorMut};
use gsplat_c_sys as sys;

descriptor! {
    /// Where the images and the values for each Gaussian go.  Only what is given is computed.
    #[derive(Debug, Default)]
    #[must_use = "outputs are filled by Scene::rasterize or Scene::forward"]
    Outputs<'a, M> => gsc_raster_outputs;
    tensors {
        /// `[C, channels, H, W]`, or `[C, H, W, channels]` for a [`pixel_last`](crate::Scene::pixel_last)
        /// scene.
        color as color: TensorMut<'a, M>,
        /// `[C, H, W]`: the opacity of each pixel, 1 - T.
        alpha as alpha: TensorMut<'a, M>,
        /// `[C, H, W]`: sum of z α T; divide by alpha for the mean depth.
        depth as depth: TensorMut<'a, M>,
        /// `[C, H, W]`: sum of α T / z.
        inv_depth as inv_depth: TensorMut<'a, M>,
        /// `[C, H, W]`: z of the splat that takes the transmittance across 0.5.
        median_depth as median_depth: TensorMut<'a, M>,
        /// `i32`, `[C, N]`: the larger half-extent in pixels, rounded up; or `[C, N, 2]`.
        radii as radii: TensorMut<'a, M>,
        /// `[C, N, 2]`: the projected centres, in pixels.
        means2d as means2d: TensorMut<'a, M>,
        /// `[C, N]`: z of the centres in the camera's space.
        depths as depths: TensorMut<'a, M>,
        /// `[C, N, 3]`: inverse 2D covariances xx, xy, yy.
        conics as conics: TensorMut<'a, M>,
        /// `[C, N]`: after antialiasing.
        opacities as opacities: TensorMut<'a, M>,
        /// `i32`, `[C, N]`: pixels where T is above 0.5 after blending it.
        touched as touched: TensorMut<'a, M>,
        /// `[C, N]`: sum of the scene's `pixel_weights` over the pixels it is blended into.
        weight_sum as weight_sum: TensorMut<'a, M>,
        /// `i32`, `[C, N]`: the number of those pixels.
        weight_count as weight_count: TensorMut<'a, M>,
        /// `[C, N]`: sum of α T over them.
        weight_blend as weight_blend: TensorMut<'a, M>,
        /// `[C, N]`: sum of their distances to its centre, in pixels.
        weight_distance as weight_distance: TensorMut<'a, M>,
    }
}

impl<'a, M: Memory> Outputs<'a, M> {
    /// The colour, `[C, channels, H, W]`, or `[C, H, W, channels]` for a
    /// [`pixel_last`](crate::Scene::pixel_last) scene.
    pub fn new(color: impl Into<TensorMut<'a, M>>) -> Self {
        Self { color: Some(color.into()), ..Self::default() }
    }
}

descriptor! {
    /// Gradients of a loss: with respect to the outputs, which are given, and with respect to the scene,
    /// which are computed.
    #[derive(Debug, Default)]
    #[must_use = "gradients are filled by Scene::backward"]
    Gradients<'a, M> => gsc_raster_grads;
    more { flags: u32, }
    tensors {
        /// In: with respect to the colour, with its shape.
        grad_color as color: Tensor<'a, M>,
        /// In: with respect to alpha.
        grad_alpha as alpha: Tensor<'a, M>,
        /// In: with respect to depth.
        grad_depth as depth: Tensor<'a, M>,
        /// In: with respect to inverse depth.
        grad_inv_depth as inv_depth: Tensor<'a, M>,
        /// `[N, 3]`; like all gradients of Gaussians it is summed over cameras.
        means as means: TensorMut<'a, M>,
        /// `[N]` or `[N, 1]`.
        opacities as opacities: TensorMut<'a, M>,
        /// `[N, 3]`.
        scales as scales: TensorMut<'a, M>,
        /// `[N, 4]`.
        rotations as rotations: TensorMut<'a, M>,
        /// `[N, 6]`.
        covariances as covariances: TensorMut<'a, M>,
        /// Shaped as the scene's.
        colors as colors: TensorMut<'a, M>,
        /// Shaped as the scene's.
        sh as sh: TensorMut<'a, M>,
        /// `[N, 1, 3]`.
        sh_dc as sh_dc: TensorMut<'a, M>,
        /// `[C, N, 2]` or `[C, N, 3]` (the third is 0): with respect to the projected centre.
        means2d as means2d: TensorMut<'a, M>,
        /// The same, summing absolute values over pixels.
        means2d_abs as means2d_abs: TensorMut<'a, M>,
        /// `[C, 4, 4]`, stored as the scene's; the last row is zero.
        view as view: TensorMut<'a, M>,
        /// `[C, 3]`; without a position in the scene, its part is in `view`.
        position as position: TensorMut<'a, M>,
        /// Shaped as the scene's.
        background as background: TensorMut<'a, M>,
    }
}

impl<'a, M: Memory> Gradients<'a, M> {
    /// No gradients yet.
    pub fn new() -> Self {
        Self::default()
    }

    flags! {
        /// Adds to the gradients instead of overwriting them.
        accumulate: GSC_RASTER_GRAD_ADD,
        /// Gradients of `means2d` in units of half the image, as 3DGS training expects.
        half_images: GSC_RASTER_GRAD2D_NDC,
    }
}
