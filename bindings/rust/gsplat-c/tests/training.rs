//! Training steps and the rasterizer's steps, bit for bit what the whole calls compute.

use gsplat_c::{
    Adam, AdamGroup, Buffers, Context, Device, ErrorKind, FrameInfo, Gradients, ImageLoss, Knn,
    Outputs, Parameter, Scene, Tensor, TensorMut, TrainStep,
};

const IDENTITY: [[f32; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
const SIZE: [usize; 3] = [3, 24, 32];
const FLOATS: usize = 3 * 24 * 32;
const MEANS: [[f32; 3]; 3] = [[0.0, 0.0, 4.0], [0.5, -0.3, 5.0], [-0.4, 0.2, 3.0]];
const LOG_SCALES: [[f32; 3]; 3] = [[-1.2, -1.6, -2.3]; 3];
const LOGITS: [f32; 3] = [1.4, 0.0, 2.2];

fn cpu() -> Context {
    Context::builder(Device::Cpu).threads(2).build().unwrap()
}

/// Everything but scales and opacities.
fn unfinished() -> Scene<'static> {
    Scene::new(SIZE[2], SIZE[1])
        .view(&IDENTITY)
        .intrinsics(&[30.0f32, 30.0, 16.0, 12.0])
        .means(&MEANS)
        .rotations(&[[1.0f32, 0.2, 0.0, 0.1]; 3])
        .colors(&[[1.0f32, 0.5, 0.0], [0.0, 1.0, 0.2], [0.1, 0.3, 1.0]])
}

fn stored() -> Scene<'static> {
    unfinished().scales(&LOG_SCALES).log_scales().opacities(&LOGITS).logit_opacities()
}

fn image(values: &mut [f32]) -> TensorMut<'_> {
    TensorMut::new(values, SIZE).unwrap()
}

#[test]
fn stored_values_are_activated() {
    let scales = LOG_SCALES.map(|row| row.map(f32::exp));
    let opacities = LOGITS.map(|logit| 1.0 / (1.0 + (-logit).exp()));
    let active = unfinished().scales(&scales).opacities(&opacities);
    let [mut ours, mut theirs] = [vec![f32::NAN; FLOATS], vec![f32::NAN; FLOATS]];
    stored().rasterize(&cpu(), Outputs::new(image(&mut ours))).unwrap();
    active.rasterize(&cpu(), Outputs::new(image(&mut theirs))).unwrap();
    assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-6));
    assert!(ours.iter().any(|&value| value > 0.5));
}

/// Scales, opacities and their moments after a step, and the loss before it.
#[derive(Debug, PartialEq)]
struct Trained([[[f32; 3]; 3]; 3], [[f32; 3]; 3], f32);

fn four_calls(target: &[f32]) -> Trained {
    let context = cpu();
    let [mut color, mut grad_color] = [vec![0.0; FLOATS], vec![0.0; FLOATS]];
    let saved = stored().forward(&context, Outputs::new(image(&mut color))).unwrap();
    let mut loss = 0.0f32;
    let batch = [1, SIZE[0], SIZE[1], SIZE[2]];
    let drawn = Tensor::new(&color, batch).unwrap();
    ImageLoss::new(drawn, Tensor::new(target, batch).unwrap())
        .l1(0.8)
        .ssim(0.2)
        .loss(&mut loss)
        .grad_image(TensorMut::new(&mut grad_color, batch).unwrap())
        .run(&context)
        .unwrap();
    let (mut grad_scales, mut grad_opacities) = ([[0.0f32; 3]; 3], [0.0f32; 3]);
    let gradients = Gradients::new()
        .grad_color(Tensor::new(&grad_color, SIZE).unwrap())
        .scales(&mut grad_scales)
        .opacities(&mut grad_opacities);
    stored().backward(&context, &saved, gradients).unwrap();
    let mut s = [LOG_SCALES, [[0.0; 3]; 3], [[0.0; 3]; 3]];
    let mut o = [LOGITS, [0.0; 3], [0.0; 3]];
    let ([p, m, v], [q, n, w]) = (&mut s, &mut o);
    Adam::new()
        .group(AdamGroup::new(p, &grad_scales, m, v).lr(0.1).step(1))
        .group(AdamGroup::new(q, &grad_opacities, n, w).lr(0.2).step(1))
        .run(&context)
        .unwrap();
    Trained(s, o, loss)
}

/// One call, with buffers of its own if there are any.
fn one_call(target: &[f32], buffers: Option<Buffers<'_>>) -> (Trained, FrameInfo) {
    let mut s = [LOG_SCALES, [[0.0; 3]; 3], [[0.0; 3]; 3]];
    let mut o = [LOGITS, [0.0; 3], [0.0; 3]];
    let ([p, m, v], [q, n, w]) = (&mut s, &mut o);
    let (mut loss, mut info) = (0.0f32, FrameInfo::default());
    let (mut radii, mut means2d) = ([-1i32; 3], [[0.0f32; 2]; 3]);
    let wanted = ImageLoss::of_color(Tensor::new(target, SIZE).unwrap());
    let scene = unfinished().log_scales().logit_opacities();
    let mut step = TrainStep::new(scene, wanted.l1(0.8).ssim(0.2).loss(&mut loss))
        .train(Parameter::Scales, AdamGroup::trained(p, m, v).lr(0.1).step(1))
        .train(Parameter::Opacities, AdamGroup::trained(q, n, w).lr(0.2).step(1))
        .outputs(Outputs::default().radii(&mut radii))
        .gradients(Gradients::new().means2d(&mut means2d))
        .info(&mut info);
    if let Some(buffers) = buffers {
        step = step.buffers(buffers);
    }
    step.run(&cpu()).unwrap();
    assert!(radii.iter().all(|&radius| radius > 0));
    assert!(means2d.as_flattened().iter().all(|&value| value != 0.0));
    (Trained(s, o, loss), info)
}

/// Bytes that begin at an aligned address.
struct Bytes(Vec<u8>, usize);

impl Bytes {
    fn new(count: usize) -> Self {
        Self(vec![0; count + 255], count)
    }

    fn tensor(&mut self) -> TensorMut<'_> {
        let start = self.0.as_ptr().align_offset(256);
        (&mut self.0[start..start + self.1]).into()
    }
}

#[test]
fn a_training_step_is_four_calls() {
    let target: Vec<f32> = (0..FLOATS).map(|i| (i % 7) as f32 / 7.0).collect();
    let expected = four_calls(&target);
    let (trained, info) = one_call(&target, None);
    assert_eq!(trained, expected);
    assert!(trained.0[0] != LOG_SCALES && trained.1[0] != LOGITS && trained.2 > 0.0);
    let scratch = info.forward_scratch_bytes().max(info.backward_scratch_bytes());
    let [mut state, mut intersections, mut scratch] =
        [info.state_bytes(), info.intersections_bytes(), scratch].map(Bytes::new);
    let buffers = Buffers::new()
        .state(state.tensor())
        .intersections(intersections.tensor())
        .scratch(scratch.tensor());
    assert_eq!(one_call(&target, Some(buffers)).0, expected);
}

#[test]
fn a_parameter_is_given_once() {
    let target = [0.0f32; FLOATS];
    let error = |scene: Scene<'static>| {
        let [mut p, mut m, mut v] = [LOGITS; 3];
        TrainStep::new(scene, ImageLoss::of_color(Tensor::new(&target, SIZE).unwrap()).l1(1.0))
            .train(Parameter::Opacities, AdamGroup::trained(&mut p, &mut m, &mut v))
            .run(&cpu())
            .unwrap_err()
    };
    let twice = error(stored());
    assert_eq!(twice.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        twice.to_string(),
        "TrainStep::run: opacities is given twice, expected one group or the scene's"
    );
    assert!(error(unfinished()).to_string().starts_with("TrainStep::run: "));
}

#[test]
fn steps_are_the_whole() {
    let context = cpu();
    let [mut whole, mut ours] = [vec![f32::NAN; FLOATS], vec![f32::NAN; FLOATS]];
    let saved = stored().forward(&context, Outputs::new(image(&mut whole))).unwrap();
    let grad_color: Vec<f32> = (0..FLOATS).map(|i| (i % 5) as f32 - 2.0).collect();
    let given = || Gradients::new().grad_color(Tensor::new(&grad_color, SIZE).unwrap());
    let [mut expected, mut grad_means] = [[[f32::NAN; 3]; 3]; 2];
    stored().backward(&context, &saved, given().means(&mut expected)).unwrap();

    let scene = stored();
    let mut info = scene.forecast(&context).unwrap();
    assert_eq!((info.intersections(), info.visible()), (0, 0)); // the CPU predicts nothing
    let mut state = Bytes::new(info.state_bytes());
    let mut outputs = Outputs::new(image(&mut ours));
    let mut buffers = Buffers::new().state(state.tensor());
    scene.project(&context, &mut buffers, &mut outputs, Some(&mut info)).unwrap();
    assert!(info.visible() == 3 && info.intersections() >= 3);

    let mut counted = FrameInfo::of_counts(info.intersections(), info.visible());
    scene.sizes(&context, &mut counted).unwrap();
    assert_eq!(counted.intersections_bytes(), info.intersections_bytes());
    let mut intersections = Bytes::new(info.intersections_bytes());
    let mut buffers = buffers.intersections(intersections.tensor());
    scene.blend(&context, &mut buffers, &mut outputs, &info, None).unwrap();
    scene.backward_in(&context, &mut buffers, &info, given().means(&mut grad_means)).unwrap();
    drop(outputs);
    assert_eq!((ours, grad_means), (whole.clone(), expected));

    let mut again = vec![f32::NAN; FLOATS];
    let mut outputs = Outputs::new(image(&mut again));
    scene.project_blend(&context, &mut buffers, &mut outputs, &mut info).unwrap();
    assert_eq!(again, whole);

    let mut short = Bytes::new(0);
    let mut outputs = Outputs::new(image(&mut again));
    let mut buffers = Buffers::new().state(short.tensor());
    let error = scene.project(&context, &mut buffers, &mut outputs, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BufferTooSmall);
}

#[test]
fn neighbours_in_memory_of_the_caller() {
    let [mut ours, mut expected] = [[0.0f32; 3]; 2];
    Knn::new(&MEANS).k(2).mean2(&mut expected).run(&cpu()).unwrap();
    let search = Knn::new(&MEANS).k(2).mean2(&mut ours);
    let mut scratch = Bytes::new(search.scratch_bytes(&cpu()).unwrap());
    assert!(scratch.1 > 0);
    search.scratch(scratch.tensor()).run(&cpu()).unwrap();
    assert_eq!(ours, expected);
}
