//! The spacing of a point cloud, by the nearest neighbours of every point:
//!
//! ```text
//! cargo run --release --example neighbours -- [POINTS.ply]
//! ```
//!
//! Without a file it takes points on a spiral.

#[path = "support/ply.rs"]
mod ply;

use gsplat_c::{Context, Device, Knn};
use std::error::Error;
use std::time::Instant;

const K: usize = 3;

fn spiral() -> Vec<[f32; 3]> {
    let point = |i: usize| {
        let angle = i as f32 * 0.01;
        [angle * angle.cos(), angle * angle.sin(), 0.1 * angle]
    };
    (0..20_000).map(point).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let points = match std::env::args().nth(1) {
        Some(path) => ply::Ply::open(path)?.columns(["x", "y", "z"])?,
        None => spiral(),
    };
    let mut indices = vec![[0i32; K]; points.len()];
    let mut distances2 = vec![[0.0f32; K]; points.len()];
    let context = Context::new(Device::Cpu)?;
    let start = Instant::now();
    Knn::new(&points)
        .k(K as i32)
        .indices(&mut indices)
        .distances2(&mut distances2)
        .run(&context)?;
    println!("{} points, {K} neighbours each, in {:.1?}", points.len(), start.elapsed());

    let mut nearest: Vec<(f32, usize)> =
        distances2.iter().enumerate().map(|(i, row)| (row[0].sqrt(), i)).collect();
    nearest.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(&(closest, _)), Some(&(farthest, loner))) = (nearest.first(), nearest.last()) else {
        return Ok(());
    };
    println!("nearest neighbour: {closest:.2e} at least, {farthest:.2e} at most");
    println!("half of the points have one within {:.2e}", nearest[nearest.len() / 2].0);
    println!("the loneliest is {loner}; its neighbours are {:?}", indices[loner]);
    Ok(())
}
