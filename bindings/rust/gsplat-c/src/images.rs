//! SSIM and image losses.

use crate::builder::{Views, setters, values};
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
pub struct Ssim<'a, M: Memory = Host> {
    window: Window,
    image: Option<Tensor<'a, M>>,
    target: Option<Tensor<'a, M>>,
    map: Option<TensorMut<'a, M>>,
    mean: Option<TensorMut<'a, M>>,
    grad_map: Option<Tensor<'a, M>>,
    grad_mean: Option<Tensor<'a, M>>,
    grad_image: Option<TensorMut<'a, M>>,
    grad_target: Option<TensorMut<'a, M>>,
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

    setters! {
        /// Written by [`run`](Self::run): the map, with the image's shape, or without its border if
        /// only windows inside the image count.
        map: TensorMut<'a, M>,
        /// Written by [`run`](Self::run): the mean, a scalar or `[1]`.
        mean: TensorMut<'a, M>,
        /// Read by [`backward`](Self::backward): the derivative with respect to the map.
        grad_map: Tensor<'a, M>,
        /// Read by [`backward`](Self::backward), instead: the derivative with respect to the mean.
        grad_mean: Tensor<'a, M>,
        /// Written by [`backward`](Self::backward): the gradient with respect to the image.
        grad_image: TensorMut<'a, M>,
        /// Written by [`backward`](Self::backward): the gradient with respect to the target.
        grad_target: TensorMut<'a, M>,
    }

    /// Computes the similarity.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        self.call("Ssim::run", &queue.begin()?, |api| api.gsc_ssim_forward)
    }

    /// Computes its gradients.
    pub fn backward<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        self.call("Ssim::backward", &queue.begin()?, |api| api.gsc_ssim_backward)
    }

    fn call(
        &self,
        name: &str,
        start: &Start<'_>,
        function: fn(&sys::Api) -> Function,
    ) -> Result<()> {
        let views = Views::new();
        let args = sys::gsc_ssim_args {
            flags: self.window.flags(),
            window: self.window.size,
            sigma: self.window.sigma,
            c1: self.window.c1,
            c2: self.window.c2,
            image: views.of(&self.image),
            target: views.of(&self.target),
            map: views.of(&self.map),
            mean: views.of(&self.mean),
            grad_map: views.of(&self.grad_map),
            grad_mean: views.of(&self.grad_mean),
            grad_image: views.of(&self.grad_image),
            grad_target: views.of(&self.grad_target),
            ..Default::default()
        };
        start.inner.call(name, |api, context| {
            // SAFETY: descriptor and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { function(api)(context, &args, start.stream) }
        })
    }
}

type Function = unsafe extern "C" fn(
    *mut sys::gsc_context,
    *const sys::gsc_ssim_args,
    *mut std::ffi::c_void,
) -> sys::gsc_status;

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
pub struct ImageLoss<'a, M: Memory = Host> {
    window: Window,
    l1: f32,
    l2: f32,
    ssim: f32,
    grad_loss: f32,
    image: Option<Tensor<'a, M>>,
    target: Option<Tensor<'a, M>>,
    mask: Option<Tensor<'a, M>>,
    loss: Option<TensorMut<'a, M>>,
    parts: Option<TensorMut<'a, M>>,
    grad_image: Option<TensorMut<'a, M>>,
}

impl<'a, M: Memory> ImageLoss<'a, M> {
    /// The loss of an image, `[B, C, H, W]`, and a target with the same shape, which may be `u8`, read
    /// as value / 255.  All weights start at 0.
    pub fn new(image: impl Into<Tensor<'a, M>>, target: impl Into<Tensor<'a, M>>) -> Self {
        let (image, target) = (Some(image.into()), Some(target.into()));
        Self { image, target, ..Self::default() }
    }

    values! {
        /// The window of SSIM.
        window: Window,
        /// Weight of the mean absolute difference; 0.8 in 3DGS training.
        l1: f32,
        /// Weight of the mean squared difference.
        l2: f32,
        /// Weight of 1 - SSIM; 0.2 in 3DGS training.
        ssim: f32,
        /// The upstream gradient, which scales the result; 0: 1.
        grad_loss: f32,
    }

    setters! {
        /// `[B, H, W]` or `[H, W]` of `f32`, `bool` or `u8`.
        mask: Tensor<'a, M>,
        /// The loss, a scalar or `[1]`.
        loss: TensorMut<'a, M>,
        /// `[3]`: mean absolute and mean squared difference, mean SSIM.
        parts: TensorMut<'a, M>,
        /// The gradient with respect to the image, with its shape.
        grad_image: TensorMut<'a, M>,
    }

    /// Computes the requested results.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        let start = queue.begin()?;
        let views = Views::new();
        let args = sys::gsc_image_loss_args {
            flags: self.window.flags(),
            window: self.window.size,
            sigma: self.window.sigma,
            c1: self.window.c1,
            c2: self.window.c2,
            l1_weight: self.l1,
            l2_weight: self.l2,
            ssim_weight: self.ssim,
            grad_scale: self.grad_loss,
            image: views.of(&self.image),
            target: views.of(&self.target),
            mask: views.of(&self.mask),
            loss: views.of(&self.loss),
            parts: views.of(&self.parts),
            grad_image: views.of(&self.grad_image),
            ..Default::default()
        };
        start.inner.call("ImageLoss::run", |api, context| {
            // SAFETY: descriptor and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_image_loss)(context, &args, start.stream) }
        })
    }
}
