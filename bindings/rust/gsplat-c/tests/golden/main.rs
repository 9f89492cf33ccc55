//! What other implementations returned, through the safe interface on the CPU: outputs within
//! 1e-4, gradients within 1e-3.  The folder's README describes the recordings; without the
//! folder nothing is compared.

mod case;
mod compare;
mod raster;

use case::{Array, Arrays, Case};
use compare::{counts_agree, relative, without_flips};
use gsplat_c::{Context, Device, Knn, Outputs, Saved, Scene, Ssim, Window};
use raster::{INTEGERS, given, wanted, with_output};
use std::path::Path;

const RASTERIZERS: [&str; 8] =
    ["inria_", "AA_", "ACC_", "taming_", "WD_", "WP_", "ASH_", "gsplat_"];
const OUTPUT_TOLERANCE: f64 = 1e-4;
const GRADIENT_TOLERANCE: f64 = 1e-3;

/// Checks every case of these kinds; what fails is told of all of them.
fn every_case(prefixes: &[&str], check: impl Fn(&Case, &mut Vec<String>)) {
    let Some(folder) = case::folder() else {
        eprintln!("skipped: no golden data; GSPLAT_C_GOLDEN names its folder");
        return;
    };
    let names = case::names(&folder, prefixes);
    let minimum = if prefixes.len() > 1 { 12 } else { 3 };
    assert!(names.len() >= minimum, "{} cases in {}", names.len(), folder.display());
    let mut failures = Vec::new();
    for name in &names {
        check(&Case::open(Path::new(&folder), name), &mut failures);
    }
    assert!(failures.is_empty(), "{} cases: {failures:#?}", names.len());
}

fn context() -> Context {
    Context::new(Device::Cpu).unwrap()
}

/// Renders the outputs that were recorded.
fn forward(context: &Context, scene: &Scene<'_>, recorded: &Arrays) -> (Arrays, Saved) {
    let mut got: Arrays = recorded.iter().map(|(&name, array)| (name, array.unwritten())).collect();
    let mut integers: Vec<Vec<i32>> =
        recorded.values().map(|array| vec![i32::MIN; array.values.len()]).collect();
    let mut color = got.remove("color").unwrap();
    let saved = {
        let mut outputs = Outputs::new(color.tensor_mut());
        for ((name, array), integers) in got.iter_mut().zip(&mut integers) {
            let tensor = if INTEGERS.contains(name) {
                let integers = &mut integers[..array.values.len()];
                gsplat_c::TensorMut::new(integers, &array.shape).unwrap()
            } else {
                array.tensor_mut()
            };
            outputs = with_output(outputs, name, tensor);
        }
        scene.forward(context, outputs).unwrap()
    };
    for ((name, array), integers) in got.iter_mut().zip(&integers) {
        if INTEGERS.contains(name) {
            array.values = integers[..array.values.len()].iter().map(|&i| i as f32).collect();
        }
    }
    got.insert("color", color);
    (got, saved)
}

/// How far an output is from what was recorded.
fn output_error(name: &str, got: &Array, recorded: &Array) -> f64 {
    match name {
        "radii" if got.values == recorded.values => 0.0,
        "radii" => f64::INFINITY,
        "touched" | "weight_count" if counts_agree(got, recorded) => 0.0,
        "touched" | "weight_count" => f64::INFINITY,
        "means2d" | "depths" | "conics" => relative(got, recorded),
        _ => without_flips(got, recorded, OUTPUT_TOLERANCE),
    }
}

#[test]
fn outputs() {
    let context = context();
    every_case(&RASTERIZERS, |case, failures| {
        let (inputs, recorded) = (case.inputs(), case.outputs());
        let (got, _) = forward(&context, &case.scene(&inputs), &recorded);
        for (name, array) in &recorded {
            let error = output_error(name, &got[name], array);
            if error > OUTPUT_TOLERANCE {
                failures.push(format!("{}: {name} is off by {error:.1e}", case.name));
            }
        }
    });
}

#[test]
fn gradients() {
    let context = context();
    every_case(&RASTERIZERS, |case, failures| {
        // These recordings lack whole groups of Gaussians.
        if ["ACC_tiny3", "ACC_saturated"].contains(&case.name.as_str()) {
            return;
        }
        let (mut inputs, recorded) = (case.inputs(), case.gradients());
        if case.name.starts_with("ACC_") {
            // They count the background twice.
            let background = inputs.get_mut("background").unwrap();
            background.values.iter_mut().for_each(|v| *v *= 2.0);
        }
        let scene = case.scene(&inputs);
        let color = Arrays::from([("color", case.outputs().remove("color").unwrap())]);
        let (_, saved) = forward(&context, &scene, &color);
        let mut got: Arrays =
            recorded.iter().map(|(&name, array)| (name, array.unwritten())).collect();
        let upstream = case.upstream();
        let mut gradients = wanted(given(&upstream), &mut got);
        if !case.name.starts_with("gsplat_") {
            gradients = gradients.half_images();
        }
        scene.backward(&context, &saved, gradients).unwrap();
        for (name, array) in &recorded {
            let error = relative(&got[name], array);
            if error > GRADIENT_TOLERANCE {
                failures.push(format!("{}: d {name} is off by {error:.1e}", case.name));
            }
        }
    });
}

#[test]
fn neighbours() {
    let context = context();
    every_case(&["simple_knn_"], |case, failures| {
        let recorded = case.array("out_meandist2");
        let mut got = recorded.unwritten();
        Knn::new(case.array("in_points").tensor()).mean2(got.tensor_mut()).run(&context).unwrap();
        let error = relative(&got, recorded);
        if error > 1e-6 {
            failures.push(format!("{}: off by {error:.1e}", case.name));
        }
    });
}

#[test]
fn similarity() {
    let context = context();
    every_case(&["fused_ssim_"], |case, failures| {
        let (image, target) = (case.array("in_img1"), case.array("in_img2"));
        let window = Window { inside_only: case.text("padding") == "valid", ..Default::default() };
        let ssim = || Ssim::new(image.tensor(), target.tensor()).window(window);
        let (mut mean, mut gradient) = (f32::NAN, image.unwritten());
        ssim().mean(&mut mean).run(&context).unwrap();
        ssim().grad_mean(&1.0f32).grad_image(gradient.tensor_mut()).backward(&context).unwrap();
        let off = (mean - case.array("out_value").values[0]).abs();
        // Recorded gradients of flat images are rounding noise.
        let flat = case.name.contains("flat");
        let error = if flat { 0.0 } else { relative(&gradient, case.array("grad_img1")) };
        if off.is_nan() || off > 1e-4 || error > 1e-5 {
            failures.push(format!("{}: off by {off:.1e}, gradient by {error:.1e}", case.name));
        }
    });
}
