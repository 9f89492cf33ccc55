//! What the interface promises beyond numbers.

use gsplat_c::dlpack::Managed;
use gsplat_c::{
    Adam, AdamGroup, Allocator, Buffer, Context, Device, Error, ErrorKind, Gradients, ImageLoss,
    Knn, Library, Outputs, Saved, Scene, Tensor, TensorMut,
};
use std::alloc::{Layout, alloc, dealloc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const _: fn() = || {
    fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<Context>();
    send_and_sync::<Saved>();
    send_and_sync::<Error>();
    send_and_sync::<Library>();
    send_and_sync::<Managed>();
    send_and_sync::<Tensor<'_>>();
    send_and_sync::<TensorMut<'_>>();
    send_and_sync::<Scene<'_>>();
    send_and_sync::<Outputs<'_>>();
};

/// Compiles only if `T` is not `Send`: else there are two implementations to choose from.
macro_rules! not_send {
    ($kind:ty) => {
        const _: fn() = || {
            trait Ambiguous<A> {
                fn here() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            impl<T: ?Sized + Send> Ambiguous<u8> for T {}
            let _ = <$kind as Ambiguous<_>>::here;
        };
    };
}
not_send!(Buffer<'_>);
not_send!(gsplat_c::Scope<'_, '_>);

const IDENTITY: [[f32; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
const SIZE: [usize; 3] = [3, 24, 32];
const FLOATS: usize = 3 * 24 * 32;

fn cpu() -> Context {
    Context::builder(Device::Cpu).threads(2).build().unwrap()
}

/// A few Gaussians before the camera.
fn scene(means: &[[f32; 3]]) -> Scene<'_> {
    Scene::new(SIZE[2], SIZE[1])
        .view(&IDENTITY)
        .intrinsics(&[30.0f32, 30.0, 16.0, 12.0])
        .means(means)
        .scales(&[[0.3f32, 0.2, 0.1]; 3])
        .rotations(&[[1.0f32, 0.2, 0.0, 0.1]; 3])
        .opacities(&[0.8f32, 0.5, 0.9])
        .colors(&[[1.0f32, 0.5, 0.0], [0.0, 1.0, 0.2], [0.1, 0.3, 1.0]])
}
const MEANS: [[f32; 3]; 3] = [[0.0, 0.0, 4.0], [0.5, -0.3, 5.0], [-0.4, 0.2, 3.0]];

fn rendered(context: &Context) -> Vec<f32> {
    let mut image = vec![f32::NAN; FLOATS];
    let outputs = Outputs::new(TensorMut::new(&mut image, SIZE).unwrap());
    scene(&MEANS).rasterize(context, outputs).unwrap();
    image
}

#[test]
fn rendering_keeps_nothing_and_draws_the_same() {
    let context = cpu();
    let mut image = vec![f32::NAN; FLOATS];
    let outputs = Outputs::new(TensorMut::new(&mut image, SIZE).unwrap());
    scene(&MEANS).forward(&context, outputs).unwrap();
    assert_eq!(image, rendered(&context));
    assert!(image.iter().any(|&value| value > 0.5));
}

#[test]
fn the_library_tells_what_it_is() {
    let library = Library::get().unwrap();
    assert_eq!(library.abi_version().0, 1);
    assert_eq!(library.version(), env!("CARGO_PKG_VERSION"));
    assert!(library.build_info().starts_with('{'));
    let report = library.device_report(Device::Cpu).unwrap();
    assert!(report.starts_with('{') && report.ends_with('}'), "{report}");
    assert!(cpu().limits().unwrap().neighbours >= 256);
}

#[test]
fn a_library_can_be_opened() {
    let path = std::env::var("GSPLAT_C_LIB_DIR").unwrap_or_default() + "/libgsplat_c.so.1";
    if !std::path::Path::new(&path).exists() {
        return eprintln!("skipped: GSPLAT_C_LIB_DIR does not name a folder with the library");
    }
    // SAFETY: the library.
    let opened = unsafe { Library::open(&path) }.unwrap();
    let context = Context::builder(Device::Cpu).library(opened).build().unwrap();
    assert_eq!(rendered(&context), rendered(&cpu()));
}

#[test]
fn what_is_no_library_is_an_error() {
    // SAFETY: neither is opened.
    let (absent, other) =
        unsafe { (Library::open("/nowhere/libgsplat_c.so.1"), Library::open("libm.so.6")) };
    let absent = absent.unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::Library);
    assert!(absent.to_string().contains("/nowhere/libgsplat_c.so.1 cannot be used"), "{absent}");
    let other = other.unwrap_err().to_string();
    let reason = "libm.so.6 cannot be used: it has no gsplat_c_abi_version";
    assert_eq!(other, format!("Library::open: {reason}"));
}

#[test]
fn errors_are_of_their_kind() {
    let context = cpu();
    let mut image = vec![0.0f32; FLOATS];
    let mut kind = |change: fn(Scene<'static>) -> Scene<'static>| {
        let outputs = Outputs::new(TensorMut::new(&mut image, SIZE).unwrap());
        change(scene(&MEANS)).rasterize(&context, outputs).unwrap_err().kind()
    };
    assert_eq!(kind(|scene| scene.scales(&[[0.1f32; 4]; 3])), ErrorKind::Shape);
    assert_eq!(kind(|scene| scene.opacities(&[1i32; 3])), ErrorKind::DataType);
    assert_eq!(kind(|scene| scene.blur(f32::NAN)), ErrorKind::InvalidArgument);
    assert_eq!(kind(|scene| scene.covariances(&[[0.1f32; 6]; 3])), ErrorKind::InvalidArgument);
    assert_eq!(Context::new(Device::Cuda(1000)).unwrap_err().kind(), kind_without_device());
}

/// There is no driver here, or there are fewer devices.
fn kind_without_device() -> ErrorKind {
    match Library::get().unwrap().cuda_devices() {
        Ok(1..) => ErrorKind::NoDevice,
        _ => Context::new(Device::Cuda(0)).unwrap_err().kind(),
    }
}

#[test]
fn shapes_need_as_many_elements_as_there_are() {
    let error = Tensor::new(&[0.0f32; 12], [5, 3]).unwrap_err();
    assert_eq!(error.to_string(), "Tensor::new: shape is [5, 3], expected one of 12 elements");
    assert!(Tensor::new(&[0.0f32; 12], [usize::MAX, usize::MAX]).is_err());
    assert!(Tensor::new(&[0.0f32; 1], [1; 7]).is_err());
    assert_eq!(Tensor::from(&[[[0.0f32; 3]; 16]; 5]).shape(), [5, 16, 3]);
    assert_eq!(Tensor::from(&[[[0.0f32; 3]; 16]; 5]).strides(), [48, 3, 1]);
    assert_eq!(Tensor::from(&1.0f32).shape(), []);
    assert_eq!(Tensor::from(&Vec::<[f32; 3]>::new()).shape(), [0, 3]);
}

#[test]
fn saved_states_outlive_their_context_and_threads() {
    let context = cpu();
    let mut image = vec![0.0f32; FLOATS];
    let outputs = Outputs::new(TensorMut::new(&mut image, SIZE).unwrap());
    let saved = scene(&MEANS).forward(&context, outputs).unwrap();
    let gradient = |context: &Context| {
        let mut grad_means = [[f32::NAN; 3]; 3];
        let gradients =
            Gradients::new().grad_color(Tensor::new(&image, SIZE).unwrap()).means(&mut grad_means);
        scene(&MEANS).backward(context, &saved, gradients).map(|()| grad_means)
    };
    let first = gradient(&context).unwrap();
    assert!(first.as_flattened().iter().all(|v| v.is_finite() && *v != 0.0));
    let clone = context.clone();
    drop(context);
    let others: Vec<_> = thread::scope(|threads| {
        let running: Vec<_> = (0..4).map(|_| threads.spawn(|| gradient(&clone))).collect();
        running.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert_eq!(others, [first; 4]);
    assert_eq!(gradient(&cpu()).unwrap_err().kind(), ErrorKind::State);
    drop(clone); // the state holds the context now
    drop(saved);
}

/// The system's memory, and the bytes that are out.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

// SAFETY: the system's allocator.
unsafe impl Allocator for Counted {
    fn allocate(
        &self,
        bytes: usize,
        alignment: usize,
        device: Device,
        stream: *mut std::ffi::c_void,
    ) -> *mut std::ffi::c_void {
        assert!(device == Device::Cpu && stream.is_null() && alignment <= 256);
        self.0.fetch_add(bytes, Ordering::Relaxed);
        // SAFETY: a size above 0 and a power of two.
        unsafe { alloc(Layout::from_size_align(bytes.max(1), 256).unwrap()) }.cast()
    }

    fn free(&self, data: *mut std::ffi::c_void, bytes: usize, _: Device, _: *mut std::ffi::c_void) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
        // SAFETY: from above, with the same bytes.
        unsafe { dealloc(data.cast(), Layout::from_size_align(bytes.max(1), 256).unwrap()) }
    }
}

#[test]
fn memory_comes_from_the_allocator() {
    let counted = Counted::default();
    let context = Context::builder(Device::Cpu).allocator(counted.clone()).build().unwrap();
    let mut image = vec![0.0f32; FLOATS];
    let outputs = Outputs::new(TensorMut::new(&mut image, SIZE).unwrap());
    let saved = scene(&MEANS).forward(&context, outputs).unwrap();
    assert!(counted.0.load(Ordering::Relaxed) > 0);
    drop((saved, context));
    assert_eq!(counted.0.load(Ordering::Relaxed), 0);
}

#[test]
fn gradients_accumulate() {
    let context = cpu();
    let mut image = vec![0.0f32; FLOATS];
    let outputs = Outputs::new(TensorMut::new(&mut image, SIZE).unwrap());
    let saved = scene(&MEANS).forward(&context, outputs).unwrap();
    let mut grad_colors = [[0.0f32; 3]; 3];
    let run = |grad_colors: &mut [[f32; 3]; 3]| {
        let given = Gradients::new().grad_color(Tensor::new(&image, SIZE).unwrap());
        let gradients = given.colors(grad_colors).accumulate();
        scene(&MEANS).backward(&context, &saved, gradients).unwrap();
    };
    run(&mut grad_colors);
    let once = grad_colors;
    run(&mut grad_colors);
    assert_eq!(grad_colors, once.map(|row| row.map(|v| 2.0 * v)));
}

#[test]
fn means_between_the_planes_are_visible() {
    let mut visible = [true; 3];
    let scene = scene(&MEANS).near_plane(3.5).far_plane(4.5);
    scene.mark_visible(&cpu(), &mut visible).unwrap();
    assert_eq!(visible, [true, false, false]);
}

#[test]
fn hidden_rows_keep_their_parameters() {
    let (mut parameter, mut moment1, mut moment2) =
        ([[1.0f32; 2]; 3], [[0.0; 2]; 3], [[0.0; 2]; 3]);
    let gradient = [[0.5f32; 2]; 3];
    let group = AdamGroup::new(&mut parameter, &gradient, &mut moment1, &mut moment2);
    let adam = Adam::new().visible(&[true, false, true]).group(group.lr(0.1).step(1));
    adam.run(&cpu()).unwrap();
    assert_eq!(parameter[1], [1.0; 2]);
    assert!((parameter[0][0] - 0.9).abs() < 1e-6 && parameter[0] == parameter[2]);
}

#[test]
fn masks_weigh_the_loss() {
    let (image, target) = ([0.0f32, 1.0, 0.0, 0.0], [255u8, 255, 0, 0]);
    let mask = [[true, false], [true, true]];
    let shape = [1, 1, 2, 2];
    let (mut loss, mut parts) = (f32::NAN, [f32::NAN; 3]);
    let images = (Tensor::new(&image, shape).unwrap(), Tensor::new(&target, shape).unwrap());
    ImageLoss::new(images.0, images.1)
        .l1(3.0)
        .mask(&mask)
        .loss(&mut loss)
        .parts(&mut parts)
        .run(&cpu())
        .unwrap();
    assert!((loss - 1.0).abs() < 1e-6, "{loss}");
    assert!((parts[0] - 1.0 / 3.0).abs() < 1e-6 && (parts[1] - 1.0 / 3.0).abs() < 1e-6);
}

#[test]
fn a_scope_is_of_cuda_contexts() {
    let error = cpu().scope(gsplat_c::Stream::LEGACY, |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
}

mod dlpack {
    use super::*;
    use gsplat_c_sys as sys;

    struct Noted(Vec<f32>, Arc<AtomicUsize>);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn owners_are_dropped_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let mut noted = Noted(vec![1.0; 6], Arc::clone(&drops));
        let pointer = noted.0.as_mut_ptr();
        // SAFETY: the vector's elements, wherever it is moved to.
        let tensor = unsafe { Managed::from_owner(noted, pointer, Device::Cpu, vec![2, 3]) };
        let raw = tensor.into_raw();
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        // SAFETY: it was given away just now.
        let back = unsafe { Managed::from_raw(raw) }.unwrap();
        assert_eq!((back.shape(), back.device()), (&[2, 3][..], Some(Device::Cpu)));
        assert!(back.is_of::<f32>() && !back.is_of::<i32>() && !back.is_read_only());
        assert_eq!(back.tensor().unwrap().strides(), [3, 1]);
        drop(back);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn tensors_are_written_in_place() {
        let mut distances = Managed::from_vec(vec![0.0f32; 3], [3]).unwrap();
        let points = Managed::from(MEANS.to_vec());
        let knn = Knn::new(points.tensor().unwrap()).mean2(distances.tensor_mut().unwrap());
        knn.k(2).run(&cpu()).unwrap();
        let mut wanted = [0.0f32; 3];
        Knn::new(&MEANS).k(2).mean2(&mut wanted).run(&cpu()).unwrap();
        let raw = distances.into_raw();
        // SAFETY: given away just now; three elements.
        unsafe {
            let data = (*raw).dl_tensor.data.cast::<f32>();
            assert_eq!(std::slice::from_raw_parts(data, 3), wanted);
            drop(Managed::from_raw(raw));
        }
        assert!(wanted[0] > 0.0);
    }

    #[test]
    fn what_is_not_to_be_used_is_refused() {
        let raw = Managed::from(vec![0.0f32; 4]).into_raw();
        // SAFETY: given away just now.
        let mut read_only = unsafe {
            (*raw).flags |= sys::DLPACK_FLAG_BITMASK_READ_ONLY;
            Managed::from_raw(raw).unwrap()
        };
        assert!(read_only.tensor().is_ok());
        assert_eq!(read_only.tensor_mut().unwrap_err().kind(), ErrorKind::InvalidArgument);
        let raw = read_only.into_raw();
        // SAFETY: the same.
        let elsewhere = unsafe {
            (*raw).dl_tensor.device.device_type = sys::kDLCUDA;
            Managed::from_raw(raw).unwrap()
        };
        assert_eq!(elsewhere.device(), Some(Device::Cuda(0)));
        assert_eq!(elsewhere.tensor().unwrap_err().kind(), ErrorKind::Device);
        let raw = elsewhere.into_raw();
        // SAFETY: the same.
        let newer = unsafe {
            (*raw).version.major = 2;
            Managed::from_raw(raw)
        };
        assert_eq!(newer.unwrap_err().kind(), ErrorKind::Unsupported);
    }

    unsafe extern "C" fn delete(tensor: *mut sys::DLManagedTensor) {
        // SAFETY: made by `legacy`, deleted once.
        unsafe {
            let tensor = Box::from_raw(tensor);
            drop(Arc::from_raw(tensor.manager_ctx.cast::<AtomicUsize>().cast_const()));
        }
    }

    #[test]
    fn tensors_of_before_1_0_are_taken_and_passed_on() {
        let token = Arc::new(AtomicUsize::new(0));
        let mut points = MEANS;
        let mut shape = [3i64, 3];
        let legacy = sys::DLManagedTensor {
            dl_tensor: sys::DLTensor {
                data: points.as_mut_ptr().cast(),
                device: sys::DLDevice { device_type: sys::kDLCPU, device_id: 0 },
                ndim: 2,
                dtype: sys::DLDataType { code: sys::kDLFloat, bits: 32, lanes: 1 },
                shape: shape.as_mut_ptr(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
            manager_ctx: Arc::into_raw(Arc::clone(&token)).cast_mut().cast(),
            deleter: Some(delete),
        };
        // SAFETY: ours, and the points live longer.
        let tensor = unsafe { Managed::from_raw_legacy(Box::into_raw(Box::new(legacy))) }.unwrap();
        assert_eq!(tensor.tensor().unwrap().strides(), [3, 1]);
        // SAFETY: given away just now.
        let tensor = unsafe { Managed::from_raw(tensor.into_raw()) }.unwrap();
        let mut mean2 = [0.0f32; 3];
        Knn::new(tensor.tensor().unwrap()).mean2(&mut mean2).run(&cpu()).unwrap();
        assert!(mean2[0] > 0.0);
        assert_eq!(Arc::strong_count(&token), 2);
        drop(tensor);
        assert_eq!(Arc::strong_count(&token), 1);
    }
}

#[cfg(feature = "ndarray")]
mod arrays {
    use super::*;
    use ndarray::{Array, Array2, Array3, Axis, s};

    #[test]
    fn arrays_and_views_are_tensors() {
        let means = Array2::from_shape_fn((3, 3), |(i, j)| MEANS[i][j]);
        let view = Array2::<f32>::eye(4);
        let mut image = Array3::<f32>::from_elem(SIZE, f32::NAN);
        let scene = scene(&MEANS).means(&means).view(&view);
        scene.rasterize(&cpu(), Outputs::new(&mut image)).unwrap();
        assert_eq!(image.into_raw_vec_and_offset().0, rendered(&cpu()));
    }

    #[test]
    fn strides_are_kept() {
        // Images may have any strides: this one is stored pixel by pixel.
        let pixels = Array::from_shape_fn((1, 8, 9, 3), |(_, y, x, c)| (y * x + c) as f32 / 70.0);
        let image = pixels.view().permuted_axes([0, 3, 1, 2]);
        let dense = image.as_standard_layout().into_owned();
        let loss = |tensor: Tensor<'_>| {
            let mut loss = f32::NAN;
            let zero = Array::<f32, _>::zeros((1, 3, 8, 9));
            ImageLoss::new(tensor, &zero).l1(1.0).ssim(0.5).loss(&mut loss).run(&cpu()).unwrap();
            loss
        };
        assert_eq!(loss(image.into()), loss((&dense).into()));
        // Points must be dense: every second one is not.
        let points = Array2::<f32>::zeros((8, 3));
        let (mut mean2, halves) = (Array::<f32, _>::zeros(4), points.slice(s![..;2, ..]));
        let error = Knn::new(halves).mean2(&mut mean2).run(&cpu()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Layout);
        let reversed = points.slice(s![..;-1, ..]);
        assert_eq!(Tensor::from(reversed).strides(), [-3, 1]);
        let row = points.index_axis(Axis(0), 2);
        assert_eq!(Tensor::from(row).shape(), [3]);
    }
}
