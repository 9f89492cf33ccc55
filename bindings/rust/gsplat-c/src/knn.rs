//! Nearest neighbours.

use crate::builder::{Views, descriptor};
use crate::queue::Queue;
use crate::tensor::{Host, Memory};
use crate::{Result, Tensor, TensorMut};
use gsplat_c_sys as sys;

descriptor! {
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
    Knn<'a, M> => gsc_knn_args;
    fixed { points: Tensor<'a, M>, }
    values {
        /// The number of neighbours, 1 to 256; 0, the default: 3.
        k as k: i32,
    }
    tensors {
        /// `[M, 3]`: find the neighbours of these instead of the points.
        queries as queries: Tensor<'a, M>,
        /// `[M, k]` of `i32` or `i64`.
        indices as indices: TensorMut<'a, M>,
        /// `[M, k]`: squared distances.
        distances2 as distances2: TensorMut<'a, M>,
        /// `[M]`: their means.
        mean2 as mean2: TensorMut<'a, M>,
        /// `u8`, 256-byte aligned, of [`scratch_bytes`](Self::scratch_bytes); default: from the
        /// context.
        scratch as scratch: TensorMut<'a, M>,
    }
}

impl<'a, M: Memory> Knn<'a, M> {
    /// Neighbours of these points, `[N, 3]`, among themselves; a point is not its own neighbour.
    pub fn new(points: impl Into<Tensor<'a, M>>) -> Self {
        Self { points: Some(points.into()), ..Self::default() }
    }

    /// Runs the search.
    pub fn run<Q: Queue<Memory = M>>(self, queue: &Q) -> Result<()> {
        let views = Views::new();
        let args = self.descriptor(&views);
        queue.begin("Knn::run")?.call(|api, context, stream| {
            // SAFETY: descriptor and views live during the call; the memory behind them as
            // long as `M` says.
            unsafe { (api.gsc_knn)(context, &args, stream) }
        })
    }

    /// Bytes of `scratch` for this search.
    pub fn scratch_bytes<Q: Queue<Memory = M>>(&self, queue: &Q) -> Result<usize> {
        let views = Views::new();
        let args = self.descriptor(&views);
        let mut bytes = 0;
        queue.begin("Knn::scratch_bytes")?.call(|api, context, _| {
            // SAFETY: as above; the place for the result lives during the call.
            unsafe { (api.gsc_knn_scratch_bytes)(context, &args, &mut bytes) }
        })?;
        Ok(bytes)
    }
}
