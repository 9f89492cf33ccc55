//! Fits Gaussians to a picture, on the CPU: forward, loss, backward, Adam.
//!
//! ```text
//! cargo run --release --example train -- [STEPS]
//! ```

use gsplat_c::{
    Adam, AdamGroup, Context, Device, Gradients, ImageLoss, Outputs, Result, Scene, Tensor,
    TensorMut,
};

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
const IMAGE: [usize; 4] = [1, 3, HEIGHT, WIDTH];
const VIEW: [[f32; 4]; 4] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
const INTRINSICS: [f32; 4] = [80.0, 80.0, WIDTH as f32 / 2.0, HEIGHT as f32 / 2.0];

/// What is learned; its gradient and its moments look the same.
struct Gaussians {
    means: Vec<[f32; 3]>,
    scales: Vec<[f32; 3]>,
    rotations: Vec<[f32; 4]>,
    opacities: Vec<f32>,
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
            scales: vec![[0.1; 3]; count],
            rotations: vec![[1.0, 0.0, 0.0, 0.0]; count],
            opacities: vec![0.7; count],
            colors: vec![[0.5; 3]; count],
        }
    }

    fn zeros(count: usize) -> Self {
        Self {
            means: vec![[0.0; 3]; count],
            scales: vec![[0.0; 3]; count],
            rotations: vec![[0.0; 4]; count],
            opacities: vec![0.0; count],
            colors: vec![[0.0; 3]; count],
        }
    }

    fn scene(&self) -> Scene<'_> {
        Scene::new(WIDTH, HEIGHT)
            .view(&VIEW)
            .intrinsics(&INTRINSICS)
            .means(&self.means)
            .scales(&self.scales)
            .rotations(&self.rotations)
            .opacities(&self.opacities)
            .colors(&self.colors)
    }

    fn as_gradients(&mut self) -> Gradients<'_> {
        Gradients::new()
            .means(&mut self.means)
            .scales(&mut self.scales)
            .rotations(&mut self.rotations)
            .opacities(&mut self.opacities)
            .colors(&mut self.colors)
    }
}

struct Trainer {
    context: Context,
    values: Gaussians,
    gradient: Gaussians,
    moments: [Gaussians; 2],
    image: Vec<f32>,
    grad_image: Vec<f32>,
}

impl Trainer {
    fn new(context: Context, values: Gaussians) -> Self {
        let zeros = || Gaussians::zeros(values.means.len());
        let [gradient, first, second] = [zeros(), zeros(), zeros()];
        let image = vec![0.0; 3 * HEIGHT * WIDTH];
        let grad_image = image.clone();
        Self { context, values, gradient, moments: [first, second], image, grad_image }
    }

    /// One step towards the target; returns the loss before it.
    fn step(&mut self, target: &[f32], step: i32) -> Result<f32> {
        let scene = self.values.scene();
        let outputs = Outputs::new(TensorMut::new(&mut self.image, IMAGE)?);
        let saved = scene.forward(&self.context, outputs)?;

        let mut loss = 0.0f32;
        ImageLoss::new(Tensor::new(&self.image, IMAGE)?, Tensor::new(target, IMAGE)?)
            .l1(0.8)
            .ssim(0.2)
            .loss(&mut loss)
            .grad_image(TensorMut::new(&mut self.grad_image, IMAGE)?)
            .run(&self.context)?;

        let grad_image = Tensor::new(&self.grad_image, IMAGE)?;
        let gradients = self.gradient.as_gradients().grad_color(grad_image);
        scene.backward(&self.context, &saved, gradients)?;
        self.adam(step)?;
        Ok(loss)
    }

    fn adam(&mut self, step: i32) -> Result<()> {
        let (p, g, [m, v]) = (&mut self.values, &self.gradient, &mut self.moments);
        macro_rules! group {
            ($name:ident, $lr:literal) => {
                AdamGroup::new(&mut p.$name, &g.$name, &mut m.$name, &mut v.$name)
                    .lr($lr)
                    .step(step)
            };
        }
        Adam::new()
            .group(group!(means, 5e-3))
            .group(group!(scales, 2e-3))
            .group(group!(rotations, 1e-2))
            .group(group!(opacities, 1e-2))
            .group(group!(colors, 2e-2))
            .run(&self.context)?;
        p.scales.as_flattened_mut().iter_mut().for_each(|scale| *scale = scale.max(0.005));
        p.opacities.iter_mut().for_each(|opacity| *opacity = opacity.clamp(0.01, 0.99));
        Ok(())
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
