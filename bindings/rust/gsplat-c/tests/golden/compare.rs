//! How far results may be from recordings.

use crate::case::Array;

/// Pixels, or Gaussians whose sums have one, on the other side of a threshold.
const FLIPS: usize = 3;

/// Relative L2 distance; infinite if a number was not written.
pub fn relative(got: &Array, wanted: &Array) -> f64 {
    distance(&squares(got, wanted), wanted)
}

/// The same without the worst elements, a few that flipped at a threshold: each by at most a
/// fiftieth of the largest value.
pub fn without_flips(got: &Array, wanted: &Array, tolerance: f64) -> f64 {
    let mut squares = squares(got, wanted);
    let largest = wanted.values.iter().fold(0.0f64, |most, &v| most.max(f64::from(v).abs()));
    for _ in 0..FLIPS {
        let worst = (0..squares.len()).max_by(|&a, &b| squares[a].total_cmp(&squares[b]));
        let Some(worst) = worst else { break };
        if distance(&squares, wanted) <= tolerance || squares[worst] > (0.02 * largest).powi(2) {
            break;
        }
        squares[worst] = 0.0;
    }
    distance(&squares, wanted)
}

/// Whether counts are the same, or off by at most 2 in a few places.
pub fn counts_agree(got: &Array, wanted: &Array) -> bool {
    let squares = squares(got, wanted);
    squares.iter().filter(|&&s| s > 0.0).count() <= FLIPS && squares.iter().all(|&s| s <= 4.0)
}

fn squares(got: &Array, wanted: &Array) -> Vec<f64> {
    assert_eq!(got.shape, wanted.shape);
    let pairs = got.values.iter().zip(&wanted.values);
    pairs
        .map(|(&g, &w)| (f64::from(g) - f64::from(w)).powi(2))
        .map(|square| if square.is_nan() { f64::INFINITY } else { square })
        .collect()
}

fn distance(squares: &[f64], wanted: &Array) -> f64 {
    let norm2: f64 = wanted.values.iter().map(|&v| f64::from(v).powi(2)).sum();
    (squares.iter().sum::<f64>() / (norm2 + 1e-60)).sqrt()
}
