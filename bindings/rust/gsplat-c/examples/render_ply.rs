//! Renders a trained scene to a PNG file, on the CPU:
//!
//! ```text
//! cargo run --release --example render_ply -- point_cloud.ply view.png [WIDTH HEIGHT]
//! ```
//!
//! The camera looks at the broad side of the scene, from where all of it is seen.

#[path = "support/ply.rs"]
mod ply;

use gsplat_c::{Context, Device, Outputs, Scene, Tensor, TensorMut};
use image::{Rgb, RgbImage};
use ply::{Gaussians, Ply};
use std::env;
use std::error::Error;

/// Low and high end of the points along an axis, without the outermost, which fly about.
fn range(means: &[[f32; 3]], axis: usize) -> (f32, f32) {
    let mut sorted: Vec<f32> = means.iter().map(|mean| mean[axis]).collect();
    sorted.sort_by(f32::total_cmp);
    let outermost = sorted.len() / 40;
    (sorted[outermost], sorted[sorted.len() - 1 - outermost])
}

/// Where the camera stands, as a matrix that takes the world to it, column by column.
fn view(means: &[[f32; 3]], tan_half_fov: f32) -> [[f32; 4]; 4] {
    let ranges = [0, 1, 2].map(|axis| range(means, axis));
    let [x, y, z] = ranges.map(|(low, high)| (low + high) / 2.0);
    let [wide, high, deep] = ranges.map(|(low, high)| (high - low) / 2.0);
    let radius = wide.max(high).max(deep);
    let distance = radius * (1.0 + 1.1 / tan_half_fov);
    let down = [0.0, 1.0, 0.0, 0.0];
    if wide < deep {
        [[0.0, 0.0, 1.0, 0.0], down, [-1.0, 0.0, 0.0, 0.0], [z, -y, distance - x, 1.0]]
    } else {
        [[1.0, 0.0, 0.0, 0.0], down, [0.0, 0.0, 1.0, 0.0], [-x, -y, distance - z, 1.0]]
    }
}

fn render(scene: &Gaussians, width: usize, height: usize) -> gsplat_c::Result<RgbImage> {
    let focal = 1.2 * width.min(height) as f32;
    let view = view(&scene.means, width.min(height) as f32 / 2.0 / focal);
    let intrinsics = [focal, focal, width as f32 / 2.0, height as f32 / 2.0];
    let coefficients = (scene.sh_degree + 1).pow(2);
    let mut pixels = vec![0.0f32; height * width * 3];

    Scene::new(width, height)
        .view(&view)
        .intrinsics(&intrinsics)
        .means(&scene.means)
        .scales(&scene.scales)
        .rotations(&scene.rotations)
        .opacities(&scene.opacities)
        .sh(Tensor::new(&scene.sh, [scene.means.len(), coefficients, 3])?)
        .sh_degree(scene.sh_degree as i32)
        .pixel_last()
        .rasterize(
            &Context::new(Device::Cpu)?,
            Outputs::new(TensorMut::new(&mut pixels, [height, width, 3])?),
        )?;

    Ok(RgbImage::from_fn(width as u32, height as u32, |x, y| {
        let first = (y as usize * width + x as usize) * 3;
        let byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0).round() as u8;
        Rgb([byte(pixels[first]), byte(pixels[first + 1]), byte(pixels[first + 2])])
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (scene, picture, size) = match &arguments[..] {
        [scene, picture] => (scene, picture, (1280, 720)),
        [scene, picture, width, height] => (scene, picture, (width.parse()?, height.parse()?)),
        _ => return Err("usage: render_ply SCENE.ply PICTURE.png [WIDTH HEIGHT]".into()),
    };
    let scene = Ply::open(scene)?.gaussians()?;
    if scene.means.is_empty() {
        return Err("the file has no Gaussians".into());
    }
    render(&scene, size.0, size.1)?.save(picture)?;
    println!("{picture}: {} Gaussians, {} x {} pixels", scene.means.len(), size.0, size.1);
    Ok(())
}
