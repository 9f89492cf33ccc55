//! Recorded cases: `CASE.json` describes the arrays in `CASE.bin`.

use gsplat_c::{Tensor, TensorMut};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// `$GSPLAT_C_GOLDEN`, or `../shared/golden` beside the repository, or its small cases.
pub fn folder() -> Option<PathBuf> {
    if let Some(chosen) = env::var_os("GSPLAT_C_GOLDEN") {
        return Some(chosen.into());
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folders = ["../shared/golden", "tests/golden"];
    folders.iter().map(|folder| repository.join(folder)).find(|folder| folder.is_dir())
}

/// The names of the cases that begin with one of the prefixes, sorted.
pub fn names(folder: &Path, prefixes: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().ok()?;
            Some(name.strip_suffix(".json")?.to_owned())
        })
        .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    names.sort();
    names
}

/// An array of numbers.
#[derive(Clone, Debug)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

impl Array {
    pub fn new(shape: &[usize], values: Vec<f32>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        Self { shape: shape.to_vec(), values }
    }

    /// NaN everywhere, for what has to be written.
    pub fn unwritten(&self) -> Self {
        Self::new(&self.shape, vec![f32::NAN; self.values.len()])
    }

    pub fn tensor(&self) -> Tensor<'_> {
        Tensor::new(&self.values, &self.shape).unwrap()
    }

    pub fn tensor_mut(&mut self) -> TensorMut<'_> {
        TensorMut::new(&mut self.values, &self.shape).unwrap()
    }

    pub fn reshaped(&self, shape: &[usize]) -> Self {
        Self::new(shape, self.values.clone())
    }

    /// Columns of the last dimension.
    pub fn columns(&self, range: std::ops::Range<usize>) -> Self {
        let all = *self.shape.last().unwrap();
        let rows = self.values.chunks(all).flat_map(|row| row[range.clone()].to_vec());
        let mut shape = self.shape.clone();
        *shape.last_mut().unwrap() = range.len();
        Self::new(&shape, rows.collect())
    }

    /// Without the last dimension, of which one column is taken.
    pub fn column(&self, index: usize) -> Self {
        let column = self.columns(index..index + 1);
        column.reshaped(&self.shape[..self.shape.len() - 1])
    }

    pub fn map(&self, other: &Self, f: impl Fn(f32, f32) -> f32) -> Self {
        assert_eq!(self.shape, other.shape);
        let values = self.values.iter().zip(&other.values).map(|(&a, &b)| f(a, b));
        Self::new(&self.shape, values.collect())
    }
}

/// By the names of the crate.
pub type Arrays = BTreeMap<&'static str, Array>;

/// One recording.
pub struct Case {
    pub name: String,
    manifest: Value,
    arrays: BTreeMap<String, Array>,
}

impl Case {
    pub fn open(folder: &Path, name: &str) -> Self {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let manifest: Value = serde_json::from_str(&text).unwrap();
        let data = fs::read(folder.join(format!("{name}.bin"))).unwrap();
        let arrays = manifest["arrays"].as_object().unwrap();
        let arrays = arrays.iter().map(|(key, item)| (key.clone(), read(item, &data))).collect();
        Self { name: name.into(), manifest, arrays }
    }

    pub fn has(&self, key: &str) -> bool {
        self.arrays.contains_key(key)
    }

    pub fn array(&self, key: &str) -> &Array {
        self.arrays.get(key).unwrap_or_else(|| panic!("{} has no {key}", self.name))
    }

    pub fn number(&self, key: &str) -> f32 {
        self.manifest[key].as_f64().unwrap_or(0.0) as f32
    }

    pub fn size(&self, key: &str) -> usize {
        usize::try_from(self.manifest[key].as_u64().unwrap()).unwrap()
    }

    pub fn flag(&self, key: &str) -> bool {
        self.manifest[key].as_bool().unwrap_or(false)
    }

    pub fn text(&self, key: &str) -> &str {
        self.manifest[key].as_str().unwrap_or("")
    }

    /// Those of the arrays that the case has, by other names.
    pub fn renamed(&self, names: &[(&'static str, &str)]) -> Arrays {
        let present = names.iter().filter(|(_, key)| self.has(key));
        present.map(|&(name, key)| (name, self.array(key).clone())).collect()
    }
}

/// An array of a manifest; integers are small enough for `f32`.
fn read(item: &Value, data: &[u8]) -> Array {
    let shape: Vec<usize> =
        item["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
    let begin = item["offset"].as_u64().unwrap() as usize;
    let bytes = &data[begin..begin + 4 * shape.iter().product::<usize>()];
    let words = bytes.chunks_exact(4).map(|word| <[u8; 4]>::try_from(word).unwrap());
    let values = match item["dtype"].as_str().unwrap() {
        "float32" => words.map(f32::from_le_bytes).collect(),
        "int32" => words.map(|word| i32::from_le_bytes(word) as f32).collect(),
        other => panic!("an array of {other}"),
    };
    Array::new(&shape, values)
}
