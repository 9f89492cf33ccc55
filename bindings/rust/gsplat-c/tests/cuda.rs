//! A CUDA device through cudarc gives what the CPU gives.  Skipped where there is none.
#![cfg(feature = "cudarc")]

use cudarc::driver::{CudaContext, CudaStream};
use gsplat_c::{
    Context, Device, ErrorKind, Gradients, ImageLoss, Knn, Library, Memory, Outputs, Result, Scene,
    Stream, Tensor, TensorMut,
};
use std::sync::Arc;

/// A device and a stream of its own.
fn cuda() -> Option<Arc<CudaStream>> {
    let mock = std::env::var_os("GSC_CUDA_LIBRARY").is_some();
    if mock || Library::get().unwrap().cuda_devices().unwrap() == 0 {
        eprintln!("skipped: no CUDA device");
        return None;
    }
    Some(CudaContext::new(0).unwrap().new_stream().unwrap())
}

/// Numbers from `low` to `high`, the same every time.
fn numbers(seed: u32, count: usize, low: f32, high: f32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        low + (high - low) * (state >> 8) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

const N: usize = 500;
const SHAPE: [usize; 4] = [1, 3, 60, 80];
const FLOATS: usize = 3 * 60 * 80;
const VIEW: [[f32; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 5.0, 1.0]];

/// Means, scales, rotations, opacities, colours; and how many columns each has.
fn gaussians() -> [Vec<f32>; 5] {
    [
        numbers(1, 3 * N, -1.5, 1.5),
        numbers(2, 3 * N, 0.02, 0.2),
        numbers(3, 4 * N, -1.0, 1.0),
        numbers(4, N, 0.1, 1.0),
        numbers(5, 3 * N, 0.0, 1.0),
    ]
}
const COLUMNS: [usize; 5] = [3, 3, 4, 1, 3];

fn scene<M: Memory>(
    [means, scales, rotations, opacities, colors]: [Tensor<'_, M>; 5],
) -> Scene<'_, M> {
    Scene::new(SHAPE[3], SHAPE[2])
        .view(&VIEW)
        .intrinsics(&[70.0f32, 70.0, 40.0, 30.0])
        .means(means)
        .scales(scales)
        .rotations(rotations)
        .opacities(opacities)
        .colors(colors)
}

/// An image and the gradient by the means of a loss of it.
type Results = (Vec<f32>, Vec<f32>);

fn on_cpu() -> Result<Results> {
    let context = Context::new(Device::Cpu)?;
    let data = gaussians();
    let scene = scene([0, 1, 2, 3, 4].map(|i| Tensor::new(&data[i], [N, COLUMNS[i]]).unwrap()));
    let grey = vec![0.5f32; FLOATS];
    let mut image = vec![0.0f32; FLOATS];
    let mut grad_image = vec![0.0f32; FLOATS];
    let mut grad_means = vec![0.0f32; 3 * N];
    let saved = scene.forward(&context, Outputs::new(TensorMut::new(&mut image, SHAPE)?))?;
    ImageLoss::new(Tensor::new(&image, SHAPE)?, Tensor::new(&grey, SHAPE)?)
        .l2(1000.0)
        .grad_image(TensorMut::new(&mut grad_image, SHAPE)?)
        .run(&context)?;
    let gradients = Gradients::new()
        .grad_color(Tensor::new(&grad_image, SHAPE)?)
        .means(TensorMut::new(&mut grad_means, [N, 3])?);
    scene.backward(&context, &saved, gradients)?;
    Ok((image, grad_means))
}

/// The same in one scope.
fn on_cuda(stream: &Arc<CudaStream>) -> Result<Results> {
    let context = Context::new(Device::from(&**stream.context()))?;
    let data = gaussians().map(|values| stream.clone_htod(&values).unwrap());
    let grey = stream.clone_htod(&vec![0.5f32; FLOATS])?;
    let mut image = stream.alloc_zeros::<f32>(FLOATS)?;
    let mut grad_image = stream.alloc_zeros::<f32>(FLOATS)?;
    let mut grad_means = stream.alloc_zeros::<f32>(3 * N)?;
    context.scope(stream, |scope| {
        let scene = scene([0, 1, 2, 3, 4].map(|i| scope.read(&data[i], [N, COLUMNS[i]]).unwrap()));
        let mut image = scope.write(&mut image, SHAPE)?;
        let mut grad_image = scope.write(&mut grad_image, SHAPE)?;
        let mut grad_means = scope.write(&mut grad_means, [N, 3])?;
        let saved = scene.forward(scope, Outputs::new(&mut image))?;
        ImageLoss::new(&image, scope.read(&grey, SHAPE)?)
            .l2(1000.0)
            .grad_image(&mut grad_image)
            .run(scope)?;
        let gradients = Gradients::new().grad_color(&grad_image).means(&mut grad_means);
        scene.backward(scope, &saved, gradients)
    })?;
    Ok((stream.clone_dtoh(&image)?, stream.clone_dtoh(&grad_means)?))
}

/// Relative L2 distance.
fn distance(got: &[f32], wanted: &[f32]) -> f64 {
    let sum = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum();
    let (off, all): (f64, f64) =
        (sum(&mut got.iter().zip(wanted).map(|(g, w)| g - w)), sum(&mut wanted.iter().copied()));
    (off / all).sqrt()
}

#[test]
fn the_device_agrees_with_the_processor() {
    let Some(stream) = cuda() else { return };
    let (cpu, cuda) = (on_cpu().unwrap(), on_cuda(&stream).unwrap());
    let errors = (distance(&cuda.0, &cpu.0), distance(&cuda.1, &cpu.1));
    println!("image off by {:.1e}, gradient by {:.1e}", errors.0, errors.1);
    assert!(errors.0 < 1e-4 && errors.1 < 1e-3);
}

#[test]
fn neighbours_of_device_points_on_a_stream_cudarc_does_not_know() {
    let Some(stream) = cuda() else { return };
    let points = numbers(6, 3 * N, -1.0, 1.0);
    let (mut wanted, mut on_device) = (vec![0.0f32; N], stream.alloc_zeros::<f32>(N).unwrap());
    let cpu = Context::new(Device::Cpu).unwrap();
    let tensor = Tensor::new(&points, [N, 3]).unwrap();
    Knn::new(tensor).mean2(&mut wanted).run(&cpu).unwrap();
    let points = stream.clone_htod(&points).unwrap();
    let context = Context::new(Device::Cuda(0)).unwrap();
    context
        .scope(Stream::LEGACY, |scope| {
            let mut mean2 = scope.write(&mut on_device, [N])?;
            Knn::new(scope.read(&points, [N, 3])?).mean2(&mut mean2).run(scope)
        })
        .unwrap();
    assert!(distance(&stream.clone_dtoh(&on_device).unwrap(), &wanted) < 1e-6);
}

#[test]
fn a_stream_that_captures_is_refused() {
    use cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let Some(stream) = cuda() else { return };
    let context = Context::new(Device::Cuda(0)).unwrap();
    stream.begin_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let refused = context.scope(&stream, |_| Ok(()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}
