"""The formulas again, in plain numpy and float64, as slow as they are short."""

import numpy as np


def rotation_matrix(quaternion):
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])


def splat_2d(mean, covariance, view, intrinsics, blur=0.3):
    """(centre in pixels, 2D covariance, z) of a Gaussian; view is row-major [4, 4]."""
    fx, fy, cx, cy = intrinsics
    x, y, z = view[:3, :3] @ mean + view[:3, 3]
    jacobian = np.array([[fx / z, 0, -fx * x / z**2], [0, fy / z, -fy * y / z**2]])
    transform = jacobian @ view[:3, :3]
    return (np.array([fx * x / z + cx, fy * y / z + cy]),
            transform @ covariance @ transform.T + blur * np.eye(2), z)


def covariances_of(scales, rotations):
    result = []
    for scale, quaternion in zip(scales, rotations):
        axes = rotation_matrix(quaternion) * scale
        result.append(axes @ axes.T)
    return np.array(result)


def render(means, covariances, opacities, colors, view, intrinsics, width, height,
           background=None):
    """{color [channels, H, W], alpha, depth, inv_depth, median_depth} of one camera."""
    channels = colors.shape[1]
    color = np.zeros((channels, height, width))
    alpha, depth, inv_depth, median = np.zeros((4, height, width))
    transmittance = np.ones((height, width))
    done = np.zeros((height, width), bool)
    splats = [splat_2d(m, c, view, intrinsics) for m, c in zip(means, covariances)]
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    for index in np.argsort([z for _, _, z in splats], kind="stable"):
        centre, covariance, z = splats[index]
        inverse = np.linalg.inv(covariance)
        dx, dy = x - centre[0], y - centre[1]
        q = inverse[0, 0] * dx * dx + 2 * inverse[0, 1] * dx * dy + inverse[1, 1] * dy * dy
        a = np.minimum(0.99, opacities[index] * np.exp(-q / 2))
        a = np.where((a < 1 / 255) | done, 0, a)
        done |= (a > 0) & (transmittance * (1 - a) < 1e-4)
        a = np.where(done, 0, a)
        weight = a * transmittance
        color += colors[index][:, None, None] * weight
        alpha += weight
        depth += z * weight
        inv_depth += weight / z
        after = transmittance * (1 - a)
        median = np.where((transmittance > 0.5) & (after <= 0.5), z, median)
        transmittance = after
    if background is not None:
        color += np.asarray(background)[:, None, None] * transmittance
    return {"color": color, "alpha": alpha, "depth": depth, "inv_depth": inv_depth,
            "median_depth": median}


def knn(points, queries, k, exclude_self):
    """(indices, squared distances) by sorting all distances."""
    distances = ((queries[:, None, :] - points[None, :, :]) ** 2).sum(-1)
    if exclude_self:
        np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, 1)


def gaussian_window(size=11, sigma=1.5):
    x = np.arange(size) - size // 2
    w = np.exp(-(x**2) / (2 * sigma**2))
    return w / w.sum()


def blur(image, window):
    """Separable correlation with zeros outside, over the last two axes."""
    half = len(window) // 2
    for axis in (-1, -2):
        pads = [(0, 0)] * image.ndim
        pads[axis] = (half, half)
        padded = np.pad(image, pads)
        length = image.shape[axis]
        image = sum(weight * np.take(padded, range(i, i + length), axis)
                    for i, weight in enumerate(window))
    return image


def ssim_map(image, target, window=None, c1=0.01**2, c2=0.03**2, valid=False):
    window = gaussian_window() if window is None else window
    mx, my = blur(image, window), blur(target, window)
    vx = blur(image * image, window) - mx * mx
    vy = blur(target * target, window) - my * my
    cov = blur(image * target, window) - mx * my
    result = ((2 * mx * my + c1) * (2 * cov + c2)) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    inset = len(window) // 2
    return result[..., inset:-inset, inset:-inset] if valid and inset else result


def adam(p, g, m, v, lr, beta1=0.9, beta2=0.999, epsilon=1e-8, decay=0.0, step=0,
         decoupled=False):
    """(parameter, first moment, second moment) after a step."""
    if not decoupled:
        g = g + decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    b1, b2 = (1 - beta1**step, 1 - beta2**step) if step else (1, 1)
    shrink = lr * decay * p if decoupled else 0
    return p - shrink - lr * (m / b1) / (np.sqrt(v / b2) + epsilon), m, v


def numeric_gradient(function, x, step=1e-4):
    """Central differences of a scalar function by every element of a float64 array."""
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        saved = x[index]
        x[index] = saved + step
        above = function(x)
        x[index] = saved - step
        below = function(x)
        x[index] = saved
        result[index] = (above - below) / (2 * step)
    return result
