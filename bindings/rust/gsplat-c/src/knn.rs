//! Nearest neighbours.

use crate::builder::{Views, setters, values};
use crate::queue::Queue;
use crate::tensor::{Host, Memory};
use crate::{Result, Tensor, TensorMut};
use gsplat_c_sys as sys;

/// Exact Euclidean neighbours, nearest first, equal distances in index order.
///
/// With fewer than k other points, missing indices are -1 and their distances infinite; the mean
/// is over those that exist.  A point with a non-finite coordinate has no neighbours and is not a
/// neighbour of any point.
///
/// ```
/// use gsplat_c::{Context, Device, Knn};
///
/// let points = [[0.0f32, 0.0, 0.0], [1.0, 0.0, 0.0], [5.0, 0.0, 0.0]];
/// let (mut indices, mut distances2) = ([[0i32; 1]; 3], [[0.0f32; 1]; 3]);
/// Knn::new(&points)
///     .k(1)
///     .indices(&mut indices)
///     .distances2(&mut distances2)
///     .run(&Context::new(Device::Cpu)?)?;
/// assert_eq!(indices, [[1], [0], [1]]);
/// assert_eq!(distances2, [[1.0], [1.0], [16.0]]);
/// # Ok::<(), gsplat_c::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "nothing is searched until it runs"]
pub struct Knn<'a, M: Memory = Host> {
    k: i32,
    points: Option<Tensor<'a, M>>,
    queries: Option<Tensor<'a, M>>,
    indices: Option<TensorMut<'a, M>>,
    distances2: Option<TensorMut<'a, M>>,
    mean2: Option<TensorMut<'a, M>>,
}

impl<'a, M: Memory> Knn<'a, M> {
    /// Neighbours of these points, `[N, 3]`, among themselves; a point is not its own neighbour.
    pub fn new(points: impl Into<Tensor<'a, M>>) -> Self {
        Self { points: Some(points.into()), ..Self::default() }
    }

    values! {
        /// The number of neighbours, 1 to 256; 0, the default: 3.
        k: i32,
    }

    setters! {
        /// `[M, 3]`: find the neighbours of these instead of the points.
        queries: Tensor<'a, M>,
        /// `[M, k]` of `i32` or `i64`.
        indices: TensorMut<'a, M>,
        /// `[M, k]`: squared distances.
        distances2: TensorMut<'a, M>,
        /// `[M]`: their means.
        mean2: TensorMut<'a, M>,
    }

    /// Runs the search.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        let start = queue.begin()?;
        let views = Views::new();
        let args = sys::gsc_knn_args {
            k: self.k,
            points: views.of(&self.points),
            queries: views.of(&self.queries),
            indices: views.of(&self.indices),
            distances2: views.of(&self.distances2),
            mean2: views.of(&self.mean2),
            ..Default::default()
        };
        start.inner.call("Knn::run", |api, context| {
            // SAFETY: descriptor and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_knn)(context, &args, start.stream) }
        })
    }
}
