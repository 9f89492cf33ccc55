//! 3D Gaussian splatting: a differentiable rasterizer, exact nearest neighbours, SSIM and image
//! losses, and Adam, on slices of the host and on memory of CUDA devices.  The safe interface of
//! the C library `libgsplat_c`.
//!
//! Operations are builders that borrow tensors and run on a [`Context`]:
//!
//! ```
//! use gsplat_c::{Context, Device, Gradients, Outputs, Scene, TensorMut};
//!
//! let context = Context::new(Device::Cpu)?;
//! let means = vec![[0.0f32, 0.0, 4.0], [0.5, 0.2, 5.0]];
//! let scene = Scene::new(64, 48)
//!     .view(&[[1.0f32, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
//!     .intrinsics(&[50.0f32, 50.0, 32.0, 24.0])
//!     .means(&means)
//!     .scales(&[[0.3f32; 3]; 2])
//!     .rotations(&[[1.0f32, 0.0, 0.0, 0.0]; 2])
//!     .opacities(&[0.9f32; 2])
//!     .colors(&[[1.0f32, 0.5, 0.0], [0.0, 0.5, 1.0]]);
//!
//! let mut image = vec![0.0f32; 3 * 48 * 64];
//! let saved = scene.forward(&context, Outputs::new(TensorMut::new(&mut image, [3, 48, 64])?))?;
//!
//! // A loss of half the sum of squares: its gradient with respect to the image is the image.
//! let mut grad_means = vec![[0.0f32; 3]; 2];
//! let gradients = Gradients::new()
//!     .grad_color(gsplat_c::Tensor::new(&image, [3, 48, 64])?)
//!     .means(&mut grad_means);
//! scene.backward(&context, &saved, gradients)?;
//! assert!(grad_means[0][2] < 0.0); // nearer is larger, and brighter
//! # Ok::<(), gsplat_c::Error>(())
//! ```
//!
//! | | |
//! |---|---|
//! | [`Scene`], [`Outputs`], [`Saved`], [`Gradients`] | the rasterizer, forward and backward |
//! | [`Knn`] | nearest neighbours |
//! | [`Ssim`], [`ImageLoss`] | structural similarity, and a loss of L1, L2 and SSIM |
//! | [`Adam`] | the optimizer |
//! | [`TrainStep`] | forward, loss, backward and Adam in one call |
//! | [`Buffers`], [`FrameInfo`] | the rasterizer in steps, with memory of your own |
//! | [`Tensor`], [`TensorMut`] | views of memory: slices, arrays, [`dlpack`] tensors, and by features those of `ndarray` and `cudarc` |
//!
//! # CUDA
//! Work on a CUDA device is queued on a stream and done later.  [`Context::scope`] is where
//! that is safe: it waits for the stream before anything that its operations use can end.
//!
//! # Features
//! - `link` (default): the library is linked, found by `GSPLAT_C_LIB_DIR` or pkg-config when
//!   the program is built.  Without it the library is opened when the first context is made.
//! - `bundled`: the library is compiled for the CPU, by gcc or clang, and linked statically.
//! - `ndarray`: arrays and views of [`ndarray`](https://docs.rs/ndarray) become tensors.
//! - `cudarc`: device memory and streams of [`cudarc`](https://docs.rs/cudarc) in scopes.
//!
//! # Threads
//! [`Context`], [`Saved`] and tensors of the host are `Send` and `Sync`: the library's functions
//! may be called from any thread, and calls that share a context are safe together if they write
//! different tensors, which unique borrows make sure of.  A [`Scope`] stays on its thread.

mod adam;
mod allocator;
mod builder;
mod context;
pub mod dlpack;
mod driver;
mod error;
mod images;
mod knn;
mod library;
mod outputs;
mod queue;
mod raster;
mod scope;
mod steps;
mod stream;
mod tensor;
mod train;

#[cfg(feature = "cudarc")]
mod cudarc;
#[cfg(feature = "ndarray")]
mod ndarray;

/// The examples of the workspace's README.
#[cfg(all(doctest, feature = "cudarc"))]
#[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", env!("CARGO_PKG_README")))]
mod readme {}

pub use adam::{Adam, AdamGroup};
pub use allocator::Allocator;
pub use context::{Context, ContextBuilder, Device, Limits, LogLevel};
pub use error::{Error, ErrorKind, Result};
pub use images::{ImageLoss, Ssim, Window};
pub use knn::Knn;
pub use library::Library;
pub use outputs::{Gradients, Outputs};
pub use queue::Queue;
pub use raster::{Saved, Scene};
pub use scope::{Buffer, Scope};
pub use steps::{Buffers, FrameInfo};
pub use stream::{DeviceMemory, DeviceMemoryMut, RawMemory, Stream};
pub use tensor::{
    CameraTensor, Element, Host, Item, MAX_DIMS, Memory, OnDevice, Tensor, TensorMut,
};
pub use train::{Parameter, TrainStep};
