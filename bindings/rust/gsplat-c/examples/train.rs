//! Fits Gaussians to a picture, on the CPU, by training steps.
//!
//! ```text
//! cargo run --release --example train -- [STEPS]
//! ```

use gsplat_c::{
    AdamGroup, Context, Device, ImageLoss, Parameter, Result, Scene, Tensor, TrainStep,
};

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
const IMAGE: [usize; 4] = [1, 3, HEIGHT, WIDTH];
const VIEW: [[f32; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
const INTRINSICS: [f32; 4] = [80.0, 80.0, WIDTH as f32 / 2.0, HEIGHT as f32 / 2.0];

/// What is learned; its moments look the same.
struct Gaussians {
    means: Vec<[f32; 3]>,
    log_scales: Vec<[f32; 3]>,
    rotations: Vec<[f32; 4]>,
    logit_opacities: Vec<f32>,
    colors: Vec<[f32; 3]>,
}

impl Gaussians {
    /// Grey ones on a grid before the camera.
    fn on_grid(columns: usize, rows: usize) -> Self {
        let place = |i: usize| {
            let along = |index: usize, count: usize| (index as f32 + 0.5) / count as f32 - 0.5;
            [4.8 * along(i % columns, columns), 3.2 * along(i / columns, rows), 4.0]
        };
        let count = columns * rows;
        Self {
            means: (0..count).map(place).collect(),
            log_scales: vec![[-2.3; 3]; count],
            rotations: vec![[1.0, 0.0, 0.0, 0.0]; count],
            logit_opacities: vec![0.85; count],
            colors: vec![[0.5; 3]; count],
        }
    }

    fn zeros(count: usize) -> Self {
        Self {
            means: vec![[0.0; 3]; count],
            log_scales: vec![[0.0; 3]; count],
            rotations: vec![[0.0; 4]; count],
            logit_opacities: vec![0.0; count],
            colors: vec![[0.0; 3]; count],
        }
    }
}

struct Trainer {
    context: Context,
    values: Gaussians,
    moments: [Gaussians; 2],
}

impl Trainer {
    fn new(context: Context, values: Gaussians) -> Self {
        let zeros = || Gaussians::zeros(values.means.len());
        let moments = [zeros(), zeros()];
        Self { context, values, moments }
    }

    /// One step towards the target; returns the loss before it.
    fn step(&mut self, target: &[f32], step: i32) -> Result<f32> {
        let (p, [m, v]) = (&mut self.values, &mut self.moments);
        macro_rules! group {
            ($name:ident, $lr:literal) => {
                AdamGroup::trained(&mut p.$name, &mut m.$name, &mut v.$name).lr($lr).step(step)
            };
        }
        let scene = Scene::new(WIDTH, HEIGHT)
            .view(&VIEW)
            .intrinsics(&INTRINSICS)
            .log_scales()
            .logit_opacities();
        let mut loss = 0.0f32;
        let wanted =
            ImageLoss::of_color(Tensor::new(target, IMAGE)?).l1(0.8).ssim(0.2).loss(&mut loss);
        TrainStep::new(scene, wanted)
            .train(Parameter::Means, group!(means, 5e-3))
            .train(Parameter::Scales, group!(log_scales, 2e-2))
            .train(Parameter::Rotations, group!(rotations, 1e-2))
            .train(Parameter::Opacities, group!(logit_opacities, 5e-2))
            .train(Parameter::Colors, group!(colors, 2e-2))
            .run(&self.context)?;
        Ok(loss)
    }
}

/// A disc before stripes.
fn picture() -> Vec<f32> {
    let color = |channel: usize, x: usize, y: usize| {
        let (dx, dy) = (x as f32 - 48.0, y as f32 - 32.0);
        if dx * dx + dy * dy < 400.0 {
            [0.9, 0.6, 0.1][channel]
        } else if (x + y) / 12 % 2 == 0 {
            [0.1, 0.3, 0.7][channel]
        } else {
            [0.8, 0.85, 0.9][channel]
        }
    };
    (0..3 * HEIGHT * WIDTH)
        .map(|i| color(i / (HEIGHT * WIDTH), i % WIDTH, i / WIDTH % HEIGHT))
        .collect()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let steps: i32 = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    let target = picture();
    let mut trainer = Trainer::new(Context::new(Device::Cpu)?, Gaussians::on_grid(24, 16));
    for step in 1..=steps {
        let loss = trainer.step(&target, step)?;
        if step == 1 || step % 50 == 0 {
            println!("step {step}: loss {loss:.4}");
        }
    }
    Ok(())
}
