//! Scopes, on the mock CUDA driver of the C tests: device memory is host memory, kernels do
//! nothing, and it records calls.  `GSC_CUDA_LIBRARY` names it; without it these tests are skipped.

use gsplat_c::dlpack::Managed;
use gsplat_c::{
    AdamGroup, Context, Device, ErrorKind, Gradients, ImageLoss, Knn, LogLevel, Outputs, Parameter,
    RawMemory, Saved, Scene, Scope, Stream, TrainStep,
};
use gsplat_c_sys::dl::SharedLibrary;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::{env, ptr, thread};

type ValueFunction = unsafe extern "C" fn(*const c_char) -> i64;

/// The mock driver, for one test at a time: the process has one.
struct Mock {
    value_of: ValueFunction,
    _alone: MutexGuard<'static, ()>,
}

impl Mock {
    fn get() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = env::var_os("GSC_CUDA_LIBRARY") else {
            eprintln!("skipped: GSC_CUDA_LIBRARY does not name the mock driver");
            return None;
        };
        let path = CString::new(path.into_encoded_bytes()).unwrap();
        // SAFETY: the mock driver.
        let library = unsafe { SharedLibrary::open(&path) }.unwrap();
        let value_of = library.symbol(c"mock_driver_value").expect("not the mock driver");
        // SAFETY: `mock_driver_value_function` of `tests/gpu_host/mock_driver.h`.
        let value_of =
            unsafe { std::mem::transmute::<ptr::NonNull<c_void>, ValueFunction>(value_of) };
        if Context::new(Device::Cuda(0)).is_err_and(|e| e.kind() == ErrorKind::Unsupported) {
            eprintln!("skipped: the library was built without CUDA");
            return None;
        }
        Some(Self { value_of, _alone: alone })
    }

    fn context(&self) -> Context {
        Context::new(Device::Cuda(1)).unwrap()
    }

    /// What the driver has recorded so far.
    fn value(&self, name: &CStr) -> i64 {
        // SAFETY: a string.
        let value = unsafe { (self.value_of)(name.as_ptr()) };
        assert!(value >= 0, "no value is called {name:?}");
        value
    }

    fn waits(&self) -> i64 {
        self.value(c"synchronisations")
    }

    /// Runs with a variable that the driver reads at every call.
    fn with<R>(&self, name: &str, value: &str, run: impl FnOnce() -> R) -> R {
        // SAFETY: one test at a time, and its calls run on this thread.
        unsafe { env::set_var(name, value) };
        let result = run();
        // SAFETY: the same.
        unsafe { env::remove_var(name) };
        result
    }
}

/// What a stream of the driver could be.
fn stream(number: usize) -> Stream<'static> {
    // SAFETY: the mock driver takes any.
    unsafe { Stream::from_raw(ptr::without_provenance_mut(number)) }
}

/// "Device memory" of the mock driver.
fn memory<T: gsplat_c::Element>(data: &mut Vec<T>) -> RawMemory<T> {
    // SAFETY: tests drop the vector after the memory, and let it alone meanwhile.
    unsafe { RawMemory::new(data.as_mut_ptr(), data.len(), Device::Cuda(1)) }
}

#[test]
fn operations_are_queued_on_the_stream_and_waited_for() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let (mut points, mut mean2) = (vec![0.0f32; 3000], vec![0.0f32; 1000]);
    let (points, mut mean2) = (memory(&mut points), memory(&mut mean2));
    let (waits, launches) = (mock.waits(), mock.value(c"launches"));
    context
        .scope(stream(77), |scope| {
            assert_eq!(scope.stream().as_raw().addr(), 77);
            let points = scope.read(&points, [1000, 3])?;
            let mut mean2 = scope.write(&mut mean2, [1000])?;
            Knn::new(points).mean2(&mut mean2).run(scope)?;
            Knn::new(points).mean2(&mut mean2).run(scope)?;
            assert_eq!(mock.waits(), waits, "the calls do not wait");
            Ok(())
        })
        .unwrap();
    assert_eq!(mock.waits(), waits + 1);
    assert!(mock.value(c"launches") > launches);
    assert_eq!(mock.value(c"launch_stream"), 77);
}

#[test]
fn a_scope_waits_when_it_panics_and_when_it_fails() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let waits = mock.waits();
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        context.scope(Stream::LEGACY, |_| -> gsplat_c::Result<()> { panic!("on purpose") })
    }));
    assert!(panicked.is_err());
    assert_eq!(mock.waits(), waits + 1);
    let mut data = vec![0.0f32; 3];
    let data = memory(&mut data);
    let failed = context.scope(Stream::LEGACY, |scope| {
        scope.read(&data, [7])?;
        Ok(())
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(mock.waits(), waits + 2);
}

#[test]
fn a_failure_to_wait_is_told() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let result = mock.with("MOCK_DRIVER_FAIL", "cuStreamSynchronize=700", || {
        context.scope(Stream::LEGACY, |_| Ok(()))
    });
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.cuda_code()), (ErrorKind::Cuda, Some(700)));
    assert_eq!(error.to_string(), "Context::scope: cuStreamSynchronize failed with 700");
}

#[test]
fn nothing_is_recorded_into_a_graph() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let capturing = |run: &mut dyn FnMut() -> gsplat_c::Result<()>| {
        mock.with("MOCK_DRIVER_CAPTURING", "1", run).unwrap_err().kind()
    };
    assert_eq!(
        capturing(&mut || context.scope(Stream::LEGACY, |_| Ok(()))),
        ErrorKind::Unsupported
    );
    // The capture begins inside the scope.
    let mut points = vec![0.0f32; 30];
    let points = memory(&mut points);
    context
        .scope(Stream::LEGACY, |scope| {
            let points = scope.read(&points, [10, 3])?;
            let launches = mock.value(c"launches");
            let run = || Knn::new(points).run(scope).unwrap_err();
            let error = mock.with("MOCK_DRIVER_CAPTURING", "1", run);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(mock.value(c"launches"), launches);
            Ok(())
        })
        .unwrap();
}

const IDENTITY: [[f32; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];

/// 100 Gaussians and their image in "device memory".
struct Frame([RawMemory<f32>; 7]);

impl Frame {
    fn vectors() -> [Vec<f32>; 7] {
        [300, 300, 400, 100, 300, 768, 300].map(|floats| vec![0.0; floats])
    }

    fn new(vectors: &mut [Vec<f32>; 7]) -> Self {
        Self(vectors.each_mut().map(memory))
    }

    /// Renders, and makes gradients of a state if there is one.
    fn run<'scope>(
        &'scope mut self,
        scope: &'scope Scope<'scope, '_>,
        saved: Option<&Saved>,
    ) -> gsplat_c::Result<Saved> {
        let [means, scales, rotations, opacities, colors, image, grad_means] = &mut self.0;
        let mut image = scope.write(image, [3, 16, 16])?;
        let mut grad_means = scope.write(grad_means, [100, 3])?;
        let scene = Scene::new(16, 16)
            .view(&IDENTITY) // on the host
            .intrinsics(&[9.0f32, 9.0, 8.0, 8.0])
            .means(scope.read(means, [100, 3])?)
            .scales(scope.read(scales, [100, 3])?)
            .rotations(scope.read(rotations, [100, 4])?)
            .opacities(scope.read(opacities, [100])?)
            .colors(scope.read(colors, [100, 3])?);
        if let Some(saved) = saved {
            let gradients = Gradients::new().grad_color(&image).means(&mut grad_means);
            scene.backward(scope, saved, gradients)?;
        }
        scene.forward(scope, Outputs::new(&mut image))
    }
}

#[test]
fn a_state_is_of_use_after_its_scope() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let (mut first, mut second) = (Frame::vectors(), Frame::vectors());
    let (mut first, mut second) = (Frame::new(&mut first), Frame::new(&mut second));
    let saved = context.scope(stream(5), |scope| first.run(scope, None)).unwrap();
    let launches = mock.value(c"launches");
    context.scope(stream(6), |scope| second.run(scope, Some(&saved))).unwrap();
    assert!(mock.value(c"launches") > launches);
}

#[test]
fn a_state_of_an_open_scope_is_for_that_scope() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let mut vectors = [Frame::vectors(), Frame::vectors(), Frame::vectors()];
    let [mut first, mut second, mut third] = vectors.each_mut().map(Frame::new);
    context
        .scope(stream(5), |outer| {
            let saved = first.run(outer, None)?;
            let inner = context.scope(stream(6), |inner| second.run(inner, Some(&saved)));
            let error = inner.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::State);
            assert_eq!(
                error.to_string(),
                "Scene::backward: saved belongs to a scope that has not ended"
            );
            third.run(outer, Some(&saved)).map(drop)
        })
        .unwrap();
}

#[test]
fn a_state_that_is_dropped_in_a_scope_is_freed_after_it() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let blocks = || mock.value(c"blocks");
    let before = blocks();
    let mut vectors = Frame::vectors();
    let mut frame = Frame::new(&mut vectors);
    context
        .scope(stream(5), |scope| {
            let saved = frame.run(scope, None)?;
            let held = blocks();
            assert!(held > before);
            drop(saved);
            assert_eq!(blocks(), held, "the stream may still use it");
            Ok(())
        })
        .unwrap();
    assert_eq!(blocks(), before);
}

#[test]
fn a_scope_that_began_later_does_not_hold_a_dropped_state() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let blocks = || mock.value(c"blocks");
    let before = blocks();
    let mut vectors = Frame::vectors();
    let mut frame = Frame::new(&mut vectors);
    let (dropped, later) = (Barrier::new(2), Barrier::new(2));
    let over = Barrier::new(2);
    let after = thread::scope(|threads| {
        threads.spawn(|| {
            dropped.wait();
            let wait = |_: &Scope<'_, '_>| {
                later.wait();
                over.wait();
                Ok(())
            };
            context.scope(stream(6), wait).unwrap();
        });
        context
            .scope(stream(5), |scope| {
                drop(frame.run(scope, None)?);
                dropped.wait();
                later.wait();
                Ok(())
            })
            .unwrap();
        let after = blocks();
        over.wait();
        after
    });
    assert_eq!(after, before);
}

#[test]
fn a_training_step_is_queued() {
    let Some(mock) = Mock::get() else { return };
    let context = mock.context();
    let vector = |size| vec![0.0f32; size];
    let mut vectors = [3, 3, 4, 1, 3, 3, 3, 3 * 24 * 32, 1].map(vector);
    let [mut means, scales, rotations, opacities, colors, mut m, mut v, target, mut loss] =
        vectors.each_mut().map(memory);
    let launches = mock.value(c"launches");
    context
        .scope(stream(9), |scope| {
            let target = scope.read(&target, [3, 24, 32])?;
            let (mut p, mut m, mut v) = (
                scope.write(&mut means, [1, 3])?,
                scope.write(&mut m, [1, 3])?,
                scope.write(&mut v, [1, 3])?,
            );
            let mut loss = scope.write(&mut loss, [1])?;
            let scene = Scene::new(32, 24)
                .view(&[[1.0f32, 0.0, 0.0, 0.0]; 4])
                .intrinsics(&[30.0f32, 30.0, 16.0, 12.0])
                .scales(scope.read(&scales, [1, 3])?)
                .rotations(scope.read(&rotations, [1, 4])?)
                .opacities(scope.read(&opacities, [1])?)
                .colors(scope.read(&colors, [1, 3])?);
            TrainStep::new(scene, ImageLoss::of_color(target).l1(1.0).loss(&mut loss))
                .train(Parameter::Means, AdamGroup::trained(&mut p, &mut m, &mut v).lr(0.1))
                .run(scope)
        })
        .unwrap();
    assert!(mock.value(c"launches") > launches);
    assert_eq!(mock.value(c"launch_stream"), 9);
}

#[test]
fn a_context_gives_back_what_it_retained() {
    let Some(mock) = Mock::get() else { return };
    let retained = || mock.value(c"retained");
    let before = retained();
    let context = mock.context();
    assert!(retained() > before);
    drop(context);
    assert_eq!(retained(), before);
}

#[test]
fn memory_of_another_device_is_an_error() {
    let Some(mock) = Mock::get() else { return };
    let context = Context::new(Device::Cuda(0)).unwrap(); // the memory is of device 1
    let mut points = vec![0.0f32; 30];
    let points = memory(&mut points);
    let result = context.scope(Stream::LEGACY, |scope| {
        let points = scope.read(&points, [10, 3])?;
        Knn::new(points).run(scope)
    });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Device);
    // And tensors of the host are for contexts of the CPU.
    let host = vec![0.0f32; 30];
    let mut mean2 = vec![0.0f32; 10];
    let points = gsplat_c::Tensor::new(&host, [10, 3]).unwrap();
    let result = Knn::new(points).mean2(&mut mean2).run(&mock.context());
    assert_eq!(
        result.unwrap_err().to_string(),
        "Knn::run: queue is a context of Cuda(1), expected a scope: Context::scope"
    );
}

#[test]
fn dlpack_tensors_on_devices_are_imported() {
    let Some(mock) = Mock::get() else { return };
    let on_device = |floats: usize, shape: Vec<i64>| {
        let mut data = vec![0.0f32; floats];
        let pointer = data.as_mut_ptr();
        // SAFETY: the vector's elements, which are "device memory" to the mock driver.
        unsafe { Managed::from_owner(data, pointer, Device::Cuda(1), shape) }
    };
    let (points, mut mean2) = (on_device(30, vec![10, 3]), on_device(10, vec![10]));
    let launches = mock.value(c"launches");
    let context = mock.context();
    context
        .scope(Stream::PER_THREAD, |scope| {
            let points = scope.import(&points)?;
            let mut mean2 = scope.import_mut(&mut mean2)?;
            Knn::new(points).mean2(&mut mean2).run(scope)?;
            Ok(())
        })
        .unwrap();
    assert!(mock.value(c"launches") > launches);
    let on_host = Managed::from(vec![0.0f32; 3]);
    let refused = context.scope(Stream::LEGACY, |scope| scope.import(&on_host).map(|_| ()));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Device);
}

#[test]
fn listeners_are_told_after_the_call_and_may_call_the_library() {
    let Some(_mock) = Mock::get() else { return };
    let messages = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&messages);
    let context = Context::builder(Device::Cuda(0))
        .log(LogLevel::Info, move |level, message| {
            Context::new(Device::Cpu).unwrap();
            noted.lock().unwrap().push((level, message.to_owned()));
        })
        .build()
        .unwrap();
    let first = messages.lock().unwrap()[0].clone();
    assert_eq!(first.0, LogLevel::Info);
    assert!(first.1.starts_with("context_create: cuda:0"), "{}", first.1);
    drop(context);
    assert_eq!(Arc::strong_count(&messages), 1, "the listener went with its context");
}
