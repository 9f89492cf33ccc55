//! Recordings of rasterizers, by the names and in the conventions of the crate.

use crate::case::{Array, Arrays, Case};
use gsplat_c::{Gradients, Outputs, Scene, TensorMut};

impl Case {
    /// Whether gsplat recorded it, rather than a variant of the original rasterizer.
    fn is_gsplat(&self) -> bool {
        self.text("op") == "gsplat.rasterization"
    }

    /// gsplat appends depth to the colour, as it is or divided by alpha.
    fn has_depth(&self) -> bool {
        matches!(self.text("render_mode"), "RGB+D" | "RGB+ED")
    }

    fn depth_is_mean(&self) -> bool {
        self.text("render_mode") == "RGB+ED"
    }

    fn image_size(&self) -> [usize; 2] {
        let [height, width] =
            if self.is_gsplat() { ["height", "width"] } else { ["image_height", "image_width"] };
        [self.size(height), self.size(width)]
    }

    /// Images of one channel are recorded with a dimension for it, or without.
    fn pixels(&self, key: &str) -> Array {
        self.array(key).reshaped(&self.image_size())
    }

    pub fn inputs(&self) -> Arrays {
        if !self.is_gsplat() {
            return self.renamed(&[
                ("view", "in_viewmatrix"),
                ("projection", "in_projmatrix"),
                ("position", "in_campos"),
                ("background", "in_bg"),
                ("pixel_weights", "in_pixel_weights"),
                ("means", "in_means3D"),
                ("opacities", "in_opacities"),
                ("scales", "in_scales"),
                ("rotations", "in_rotations"),
                ("covariances", "in_cov3D_precomp"),
                ("colors", "in_colors_precomp"),
                ("sh", "in_shs"),
                ("sh_dc", "in_dc"),
            ]);
        }
        let color = if self.array("in_colors").shape.len() == 3 { "sh" } else { "colors" };
        let mut inputs = self.renamed(&[
            ("view", "in_viewmats"),
            ("background", "in_backgrounds"),
            ("means", "in_means"),
            ("opacities", "in_opacities"),
            ("scales", "in_scales"),
            ("rotations", "in_quats"),
            (color, "in_colors"),
        ]);
        let matrices = self.array("in_Ks");
        let values = matrices.values.chunks(9).flat_map(|k| [k[0], k[4], k[2], k[5]]).collect();
        inputs.insert("intrinsics", Array::new(&[matrices.shape[0], 4], values));
        inputs
    }

    pub fn scene<'a>(&self, inputs: &'a Arrays) -> Scene<'a> {
        let [height, width] = self.image_size();
        let mut scene = Scene::new(width, height);
        scene = if self.is_gsplat() {
            scene
                .view_row_major()
                .pixel_last()
                .near_plane(self.number("near_plane"))
                .far_plane(self.number("far_plane"))
                .radius_clip(self.number("radius_clip"))
                .blur(self.number("eps2d"))
        } else {
            scene
                .compat_3dgs()
                .tan_fov(self.number("tanfovx"), self.number("tanfovy"))
                .scale_modifier(self.number("scale_modifier"))
                .median_default(if self.text("variant") == "WD" { 15.0 } else { 0.0 })
        };
        if self.flag("antialiasing") || self.text("rasterize_mode") == "antialiased" {
            scene = scene.antialias();
        }
        if inputs.contains_key("sh") {
            scene = scene.sh_degree(self.number("sh_degree") as i32);
        }
        for (&name, array) in inputs {
            let tensor = array.tensor();
            scene = match name {
                "view" => scene.view(tensor),
                "projection" => scene.projection(tensor),
                "intrinsics" => scene.intrinsics(tensor),
                "position" => scene.position(tensor),
                "background" => scene.background(tensor),
                "pixel_weights" => scene.pixel_weights(tensor),
                "means" => scene.means(tensor),
                "opacities" => scene.opacities(tensor),
                "scales" => scene.scales(tensor),
                "rotations" => scene.rotations(tensor),
                "covariances" => scene.covariances(tensor),
                "colors" => scene.colors(tensor),
                "sh" => scene.sh(tensor),
                "sh_dc" => scene.sh_dc(tensor),
                other => panic!("no input is called {other}"),
            };
        }
        scene
    }

    pub fn outputs(&self) -> Arrays {
        if self.is_gsplat() { self.gsplat_outputs() } else { self.compat_outputs() }
    }

    fn compat_outputs(&self) -> Arrays {
        let mut outputs = self.renamed(&[
            ("color", "out_color"),
            ("radii", "out_radii"),
            ("touched", "out_n_touched"),
            ("means2d", "out_centers"),
            ("depths", "out_depths"),
            ("weight_sum", "out_accum_weights"),
            ("weight_count", "out_accum_count"),
            ("weight_blend", "out_accum_blend"),
            ("weight_distance", "out_accum_dist"),
        ]);
        let variant = self.text("variant");
        let depth = if variant == "WD" { "median_depth" } else { "depth" };
        let alpha = if variant == "WP" { "out_opacity" } else { "out_alpha" };
        for (name, key) in [(depth, "out_depth"), ("alpha", alpha), ("inv_depth", "out_invdepth")] {
            if self.has(key) {
                outputs.insert(name, self.pixels(key));
            }
        }
        outputs
    }

    fn gsplat_outputs(&self) -> Arrays {
        let image = self.array("out_render_colors");
        let alpha = self.array("out_render_alphas").column(0);
        let channels = image.shape[3] - usize::from(self.has_depth());
        // What is recorded of culled Gaussians is garbage.
        let seen = self.array("out_radii").column(0);
        let where_seen = |array: &Array| {
            let row = array.values.len() / seen.values.len();
            let values = array.values.iter().enumerate();
            let values = values.map(|(i, &v)| if seen.values[i / row] > 0.0 { v } else { 0.0 });
            Array::new(&array.shape, values.collect())
        };
        let mut outputs = Arrays::from([
            ("color", image.columns(0..channels)),
            ("radii", self.array("out_radii").clone()),
            ("means2d", where_seen(self.array("out_means2d"))),
            ("depths", where_seen(self.array("out_depths"))),
            ("conics", where_seen(self.array("out_conics"))),
        ]);
        if self.has_depth() {
            let depth = image.column(channels);
            let sum = if self.depth_is_mean() { depth.map(&alpha, |d, a| d * a) } else { depth };
            outputs.insert("depth", sum);
        }
        outputs.insert("alpha", alpha);
        outputs
    }

    /// Derivatives of the recorded loss by the outputs.
    pub fn upstream(&self) -> Arrays {
        if self.is_gsplat() {
            return self.gsplat_upstream();
        }
        let mut given = self.renamed(&[("color", "in_grad_color")]);
        for (name, key) in [
            ("alpha", "in_grad_alpha"),
            ("depth", "in_grad_depth"),
            ("inv_depth", "in_grad_invdepth"),
        ] {
            if self.has(key) {
                given.insert(name, self.pixels(key));
            }
        }
        given
    }

    fn gsplat_upstream(&self) -> Arrays {
        let given = self.array("in_grad_render_colors");
        let channels = given.shape[3] - usize::from(self.has_depth());
        let mut grad_alpha = self.array("in_grad_render_alphas").column(0);
        let mut upstream = Arrays::from([("color", given.columns(0..channels))]);
        if self.has_depth() {
            let mut grad_depth = given.column(channels);
            if self.depth_is_mean() {
                let recorded = self.gsplat_outputs();
                let (alpha, depth) = (&recorded["alpha"], &recorded["depth"]);
                let divided = |value: f32, by: f32| if by > 0.0 { value / by } else { 0.0 };
                let mean = depth.map(alpha, divided);
                grad_depth = grad_depth.map(alpha, divided);
                grad_alpha = grad_alpha.map(&grad_depth.map(&mean, |g, m| g * m), |a, b| a - b);
            }
            upstream.insert("depth", grad_depth);
        }
        upstream.insert("alpha", grad_alpha);
        upstream
    }

    /// Gradients of the recorded loss; those of `means2d` in half images.
    pub fn gradients(&self) -> Arrays {
        if self.is_gsplat() {
            let color = if self.array("grad_colors").shape.len() == 3 { "sh" } else { "colors" };
            return self.renamed(&[
                ("means", "grad_means"),
                ("opacities", "grad_opacities"),
                ("scales", "grad_scales"),
                ("rotations", "grad_quats"),
                ("view", "grad_viewmats"),
                (color, "grad_colors"),
            ]);
        }
        let mut gradients = self.renamed(&[
            ("means", "grad_means3D"),
            ("opacities", "grad_opacities"),
            ("scales", "grad_scales"),
            ("rotations", "grad_rotations"),
            ("covariances", "grad_cov3D_precomp"),
            ("colors", "grad_colors_precomp"),
            ("sh", "grad_shs"),
            ("sh_dc", "grad_dc"),
        ]);
        if self.has("grad_means2D") {
            gradients.insert("means2d", self.array("grad_means2D").columns(0..2));
        }
        gradients
    }
}

/// Names of outputs that are integers.
pub const INTEGERS: [&str; 3] = ["radii", "touched", "weight_count"];

/// One output more.
pub fn with_output<'a>(outputs: Outputs<'a>, name: &str, to: TensorMut<'a>) -> Outputs<'a> {
    match name {
        "alpha" => outputs.alpha(to),
        "depth" => outputs.depth(to),
        "inv_depth" => outputs.inv_depth(to),
        "median_depth" => outputs.median_depth(to),
        "radii" => outputs.radii(to),
        "means2d" => outputs.means2d(to),
        "depths" => outputs.depths(to),
        "conics" => outputs.conics(to),
        "touched" => outputs.touched(to),
        "weight_sum" => outputs.weight_sum(to),
        "weight_count" => outputs.weight_count(to),
        "weight_blend" => outputs.weight_blend(to),
        "weight_distance" => outputs.weight_distance(to),
        other => panic!("no output is called {other}"),
    }
}

/// Everything given.
pub fn given<'a>(upstream: &'a Arrays) -> Gradients<'a> {
    upstream.iter().fold(Gradients::new(), |gradients, (&name, array)| match name {
        "color" => gradients.grad_color(array.tensor()),
        "alpha" => gradients.grad_alpha(array.tensor()),
        "depth" => gradients.grad_depth(array.tensor()),
        "inv_depth" => gradients.grad_inv_depth(array.tensor()),
        other => panic!("no image is called {other}"),
    })
}

/// Everything wanted.
pub fn wanted<'a>(gradients: Gradients<'a>, arrays: &'a mut Arrays) -> Gradients<'a> {
    arrays.iter_mut().fold(gradients, |gradients, (&name, array)| {
        let to = array.tensor_mut();
        match name {
            "means" => gradients.means(to),
            "opacities" => gradients.opacities(to),
            "scales" => gradients.scales(to),
            "rotations" => gradients.rotations(to),
            "covariances" => gradients.covariances(to),
            "colors" => gradients.colors(to),
            "sh" => gradients.sh(to),
            "sh_dc" => gradients.sh_dc(to),
            "means2d" => gradients.means2d(to),
            "view" => gradients.view(to),
            other => panic!("no gradient is called {other}"),
        }
    })
}
