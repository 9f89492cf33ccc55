//! The PLY files that 3D Gaussian splatting writes.

use std::error::Error;
use std::fs;
use std::path::Path;

/// The vertices of a file: a row of floats each.
pub struct Ply {
    properties: Vec<String>,
    values: Vec<f32>,
}

/// Gaussians as the rasterizer takes them, N of each.
#[allow(dead_code)] // not every example draws
pub struct Gaussians {
    pub means: Vec<[f32; 3]>,
    pub scales: Vec<[f32; 3]>,
    pub rotations: Vec<[f32; 4]>,
    pub opacities: Vec<f32>,
    /// Coefficients of spherical harmonics, `[N, (degree + 1)², 3]`.
    pub sh: Vec<f32>,
    pub sh_degree: usize,
}

impl Ply {
    /// Reads a binary, little-endian file whose vertices consist of floats.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Box<dyn Error>> {
        let data = fs::read(path)?;
        let end = b"end_header\n";
        let begin = data.windows(end.len()).position(|window| window == end);
        let begin = begin.ok_or("no header of a PLY file")?;
        let header = std::str::from_utf8(&data[..begin])?;
        let mut properties = Vec::new();
        let mut count = 0;
        for line in header.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["ply"] | ["comment" | "obj_info", ..] => {}
                ["format", "binary_little_endian", "1.0"] => {}
                ["element", "vertex", number] => count = number.parse()?,
                ["property", "float" | "float32", name] => properties.push(name.to_owned()),
                _ => return Err(format!("cannot read '{line}'").into()),
            }
        }
        let bytes = &data[begin + end.len()..];
        let values: Vec<f32> = bytes
            .chunks_exact(4)
            .take(properties.len() * count)
            .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        if properties.is_empty() || values.len() != properties.len() * count {
            return Err(format!("the file ends before its {count} vertices do").into());
        }
        Ok(Self { properties, values })
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        let found = self.properties.iter().position(|property| property == name);
        found.ok_or_else(|| format!("the file has no property {name}"))
    }

    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.values.chunks(self.properties.len())
    }

    /// Some properties of every vertex.
    pub fn columns<const K: usize>(&self, names: [&str; K]) -> Result<Vec<[f32; K]>, String> {
        let mut columns = [0; K];
        for (column, name) in columns.iter_mut().zip(names) {
            *column = self.column(name)?;
        }
        Ok(self.rows().map(|row| columns.map(|column| row[column])).collect())
    }

    /// The centres, with activated scales and opacities.
    #[allow(dead_code)] // not every example draws
    pub fn gaussians(&self) -> Result<Gaussians, String> {
        let rest = self.properties.iter().filter(|name| name.starts_with("f_rest_")).count();
        let coefficients = 1 + rest / 3;
        let sh_degree = (coefficients as f64).sqrt() as usize - 1;
        let dc = self.columns(["f_dc_0", "f_dc_1", "f_dc_2"])?;
        let first = if rest > 0 { self.column("f_rest_0")? } else { 0 };
        let mut sh = Vec::with_capacity(dc.len() * coefficients * 3);
        for (row, dc) in self.rows().zip(&dc) {
            sh.extend(dc);
            // The file has one channel after the other.
            for i in 0..rest / 3 {
                sh.extend((0..3).map(|channel| row[first + channel * (rest / 3) + i]));
            }
        }
        let logits = self.columns(["opacity"])?;
        let logarithms = self.columns(["scale_0", "scale_1", "scale_2"])?;
        Ok(Gaussians {
            means: self.columns(["x", "y", "z"])?,
            scales: logarithms.into_iter().map(|row| row.map(f32::exp)).collect(),
            rotations: self.columns(["rot_0", "rot_1", "rot_2", "rot_3"])?,
            opacities: logits.into_iter().map(|[logit]| 1.0 / (1.0 + (-logit).exp())).collect(),
            sh,
            sh_degree,
        })
    }
}
