//! SSIM and image losses.

use crate::builder::{Views, descriptor, values};
use crate::queue::{Queue, Start};
use crate::tensor::{Host, Memory};
use crate::{Result, Tensor, TensorMut};
use gsplat_c_sys as sys;

/// The window and the constants of SSIM.
///
/// ```
/// use gsplat_c::Window;
///
/// let window = Window { size: 7, inside_only: true, ..Default::default() };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Side in pixels, odd, 1 to 33; 0: 11.
    pub size: i32,
    /// Standard deviation in pixels; 0: 1.5.
    pub sigma: f32,
    /// `(0.01 L)²` for a data range of L; 0: for L = 1.
    pub c1: f32,
    /// `(0.03 L)²`; 0: for L = 1.
    pub c2: f32,
    /// Average only over windows that lie inside the image.
    pub inside_only: bool,
}

impl Window {
    fn flags(self) -> u32 {
        if self.inside_only { sys::GSC_SSIM_VALID } else { 0 }
    }
}

descriptor! {
    /// Structural similarity (Wang et al. 2004) of images `[B, C, H, W]`, which may have any
    /// strides, and its gradients.
    ///
    /// ```
    /// use gsplat_c::{Context, Device, Ssim, Tensor};
    ///
    /// let context = Context::new(Device::Cpu)?;
    /// let image = Tensor::new(&[0.5f32; 32 * 32], [1, 1, 32, 32])?;
    /// let mut mean = 0.0f32;
    /// Ssim::new(image, image).mean(&mut mean).run(&context)?;
    /// assert!((mean - 1.0).abs() < 1e-6);
    /// # Ok::<(), gsplat_c::Error>(())
    /// ```
    #[derive(Debug, Default)]
    #[must_use = "nothing is computed until it runs"]
    Ssim<'a, M> => gsc_ssim_args;
    more { window: Window, }
    fixed {
        image: Tensor<'a, M>,
        target: Tensor<'a, M>,
    }
    tensors {
        /// Written by [`run`](Self::run): the map, with the image's shape, or without its border if
        /// only windows inside the image count.
        map as map: TensorMut<'a, M>,
        /// Written by [`run`](Self::run): the mean, a scalar or `[1]`.
        mean as mean: TensorMut<'a, M>,
        /// Read by [`backward`](Self::backward): the derivative with respect to the map.
        grad_map as grad_map: Tensor<'a, M>,
        /// Read by [`backward`](Self::backward), instead: the derivative with respect to the mean.
        grad_mean as grad_mean: Tensor<'a, M>,
        /// Written by [`backward`](Self::backward): the gradient with respect to the image.
        grad_image as grad_image: TensorMut<'a, M>,
        /// Written by [`backward`](Self::backward): the gradient with respect to the target.
        grad_target as grad_target: TensorMut<'a, M>,
    }
}

impl<'a, M: Memory> Ssim<'a, M> {
    /// SSIM of an image and a target with the same shape.
    pub fn new(image: impl Into<Tensor<'a, M>>, target: impl Into<Tensor<'a, M>>) -> Self {
        let (image, target) = (Some(image.into()), Some(target.into()));
        Self { image, target, ..Self::default() }
    }

    values! {
        /// The window.
        window: Window,
    }

    /// Computes the similarity.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        self.call(&queue.begin("Ssim::run")?, |api| api.gsc_ssim_forward)
    }

    /// Computes its gradients.
    pub fn backward<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        self.call(&queue.begin("Ssim::backward")?, |api| api.gsc_ssim_backward)
    }

    fn call(&self, start: &Start<'_>, function: fn(&sys::Api) -> Function) -> Result<()> {
        let views = Views::new();
        let args = sys::gsc_ssim_args {
            flags: self.window.flags(),
            window: self.window.size,
            sigma: self.window.sigma,
            c1: self.window.c1,
            c2: self.window.c2,
            ..self.descriptor(&views)
        };
        start.call(|api, context, stream| {
            // SAFETY: descriptor and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { function(api)(context, &args, stream) }
        })
    }
}

type Function = unsafe extern "C" fn(
    *mut sys::gsc_context,
    *const sys::gsc_ssim_args,
    *mut std::ffi::c_void,
) -> sys::gsc_status;

descriptor! {
    /// `l1 mean|x - y| + l2 mean(x - y)² + ssim (1 - mean SSIM)`, its parts and its gradient in one
    /// pass.  With a mask every mean is weighted by it; windows still see the whole image.
    ///
    /// ```
    /// use gsplat_c::{Context, Device, ImageLoss, Tensor, TensorMut};
    ///
    /// let context = Context::new(Device::Cpu)?;
    /// let (image, target) = ([0.25f32; 64], [0.75f32; 64]);
    /// let (mut loss, mut gradient) = (0.0f32, [0.0f32; 64]);
    /// ImageLoss::new(Tensor::new(&image, [1, 1, 8, 8])?, Tensor::new(&target, [1, 1, 8, 8])?)
    ///     .l1(1.0)
    ///     .loss(&mut loss)
    ///     .grad_image(TensorMut::new(&mut gradient, [1, 1, 8, 8])?)
    ///     .run(&context)?;
    /// assert_eq!(loss, 0.5);
    /// assert_eq!(gradient, [-1.0 / 64.0; 64]);
    /// # Ok::<(), gsplat_c::Error>(())
    /// ```
    #[derive(Debug, Default)]
    #[must_use = "nothing is computed until it runs"]
    ImageLoss<'a, M> => gsc_image_loss_args;
    more { window: Window, }
    fixed {
        image: Tensor<'a, M>,
        target: Tensor<'a, M>,
    }
    values {
        /// Weight of the mean absolute difference; 0.8 in 3DGS training.
        l1 as l1_weight: f32,
        /// Weight of the mean squared difference.
        l2 as l2_weight: f32,
        /// Weight of 1 - SSIM; 0.2 in 3DGS training.
        ssim as ssim_weight: f32,
        /// The derivative with respect to the loss, which scales the gradient; 0: 1.
        grad_loss as grad_scale: f32,
    }
    tensors {
        /// `[B, H, W]` or `[H, W]` of `f32`, `bool` or `u8`.
        mask as mask: Tensor<'a, M>,
        /// The loss, a scalar or `[1]`.
        loss as loss: TensorMut<'a, M>,
        /// `[3]`: mean absolute and mean squared difference, mean SSIM.
        parts as parts: TensorMut<'a, M>,
        /// The gradient with respect to the image, with its shape.
        grad_image as grad_image: TensorMut<'a, M>,
    }
}

impl<'a, M: Memory> ImageLoss<'a, M> {
    /// The loss of an image, `[B, C, H, W]`, and a target with the same shape, which may be `u8`, read
    /// as value / 255.  All weights start at 0.
    pub fn new(image: impl Into<Tensor<'a, M>>, target: impl Into<Tensor<'a, M>>) -> Self {
        let (image, target) = (Some(image.into()), Some(target.into()));
        Self { image, target, ..Self::default() }
    }

    /// The loss of the colour that a [`TrainStep`](crate::TrainStep) draws.
    pub fn of_color(target: impl Into<Tensor<'a, M>>) -> Self {
        Self { target: Some(target.into()), ..Self::default() }
    }

    values! {
        /// The window of SSIM.
        window: Window,
    }

    /// Computes the requested results.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        let views = Views::new();
        let args = self.args(&views);
        queue.begin("ImageLoss::run")?.call(|api, context, stream| {
            // SAFETY: descriptor and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_image_loss)(context, &args, stream) }
        })
    }

    pub(crate) fn args<'v>(&'v self, views: &Views<'v>) -> sys::gsc_image_loss_args {
        sys::gsc_image_loss_args {
            flags: self.window.flags(),
            window: self.window.size,
            sigma: self.window.sigma,
            c1: self.window.c1,
            c2: self.window.c2,
            ..self.descriptor(views)
        }
    }
}
