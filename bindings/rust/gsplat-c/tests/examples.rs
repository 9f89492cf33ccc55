//! The examples run, and do what they say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs an example, which cargo builds beside the tests.
fn example(name: &str, arguments: &[&Path]) -> Result<String, String> {
    let folder = std::env::current_exe().unwrap().parent().unwrap().join("../examples");
    let output = Command::new(folder.join(name)).args(arguments).output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

/// A file for one test.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Two Gaussians side by side, red and blue, as 3DGS writes them.
fn write_scene(path: &Path) {
    let properties = "x y z f_dc_0 f_dc_1 f_dc_2 f_rest_0 f_rest_1 f_rest_2 f_rest_3 f_rest_4 \
                      f_rest_5 f_rest_6 f_rest_7 f_rest_8 opacity scale_0 scale_1 scale_2 rot_0 \
                      rot_1 rot_2 rot_3";
    let mut header = "ply\nformat binary_little_endian 1.0\nelement vertex 2\n".to_owned();
    for name in properties.split_whitespace() {
        header += &format!("property float {name}\n");
    }
    let gaussian = |x: f32, [red, green, blue]: [f32; 3]| {
        let mut row = vec![x, 0.0, 0.0, red, green, blue];
        row.extend([0.0; 9]);
        row.extend([6.0, -1.2, -1.2, -1.2, 1.0, 0.0, 0.0, 0.0]);
        row
    };
    let rows = [gaussian(-1.0, [1.6, -1.7, -1.7]), gaussian(1.0, [-1.7, -1.7, 1.6])];
    let mut data = (header + "end_header\n").into_bytes();
    data.extend(rows.iter().flatten().flat_map(|value| value.to_le_bytes()));
    fs::write(path, data).unwrap();
}

#[test]
fn a_scene_becomes_a_picture() {
    let (scene, picture) = (file("two.ply"), file("two.png"));
    write_scene(&scene);
    let (width, height) = (Path::new("80"), Path::new("60"));
    let said = example("render_ply", &[&scene, &picture, width, height]).unwrap();
    assert!(said.ends_with("2 Gaussians, 80 x 60 pixels\n"), "{said}");
    let image = image::open(&picture).unwrap().to_rgb8();
    assert_eq!(image.dimensions(), (80, 60));
    let row = |x: u32| image.get_pixel(x, 30).0;
    let reddest = (0..80).max_by_key(|&x| row(x)[0]).unwrap();
    let bluest = (0..80).max_by_key(|&x| row(x)[2]).unwrap();
    assert!(reddest < 35 && bluest > 45, "red at {reddest}, blue at {bluest}");
    assert!(row(reddest)[0] > 200 && row(reddest)[2] < 60, "{:?}", row(reddest));
    assert_eq!(image.get_pixel(0, 0).0, [0, 0, 0]);
}

#[test]
fn what_is_no_scene_is_an_error() {
    let scene = file("not.ply");
    fs::write(&scene, "ply\nformat ascii 1.0\nend_header\n").unwrap();
    let said = example("render_ply", &[&scene, &file("not.png")]).unwrap_err();
    assert!(said.contains("cannot read 'format ascii 1.0'"), "{said}");
}

#[test]
fn training_lowers_the_loss() {
    let said = example("train", &[Path::new("100")]).unwrap();
    let losses: Vec<f32> =
        said.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(losses.len(), 3, "{said}");
    assert!(losses[2] < 0.15 * losses[0], "{said}");
}

#[test]
fn neighbours_of_a_spiral() {
    let said = example("neighbours", &[]).unwrap();
    assert!(said.starts_with("20000 points, 3 neighbours each"), "{said}");
    assert!(said.ends_with("the loneliest is 19999; its neighbours are [19998, 19997, 19996]\n"));
}
