"""Which kernels make up a stage, and the minimum time of a stage.

A floor is the larger of the bytes that must go through device memory over the bandwidth of
a copy, and the arithmetic that must be done over the rate of a matrix product, both
measured on the device at hand.  Both are formulas of

    n    Gaussians               k  SH coefficients of each (3 floats)
    v    visible Gaussians       m  intersections of tiles and Gaussians
    p    pixels                  a  samples: Gaussians blended into a pixel
    e    values of an image      q  values of a mask
    u    floats that Adam steps  r  rows whose visibility it reads
    c    points                  w  taps of SSIM's window

and count what is read or written once, however often caches serve it again.  A frame has
3 channels and its outputs are colour and radii; backward writes dense gradients.
"""


class Stage:
    """name; kernels without gsc_; formulas of bytes and floating-point operations."""

    def __init__(self, name, kernels, bytes_="0", flops="0"):
        self.name, self.kernels = name, tuple(kernels.split())
        self.bytes, self.flops = bytes_, flops

    def floor_ms(self, sizes, machine):
        """sizes: {letter: number}; machine: {"copy_bytes_s": .., "flop_s": ..}."""
        moved, done = (_value(formula, sizes) for formula in (self.bytes, self.flops))
        return 1e3 * max(moved / machine["copy_bytes_s"], done / machine["flop_s"])


def _value(formula, sizes):
    return eval(formula, {"__builtins__": {}}, {**dict.fromkeys("nkvmpaequrcw", 0), **sizes})


STAGES = (
    Stage("camera", "begin write"),
    # The means of all Gaussians, the other geometry of visible ones; radii.
    Stage("project", "project mark_visible", "(12 + 4) * n + 32 * v"),
    # Geometry and SH in, a record with its depth, place and clamped channels (57 bytes) out.
    Stage("records", "records", "(44 + 12 * k + 57) * v", "400 * v"),
    # Keys and positions of 4 bytes: read for the digits' counts, then three passes of 9
    # bits, the first of which makes the positions.  With more than 65536 tiles their keys
    # are sorted by the same kernel.
    Stage("depth sort", "sort", "(4 + 3 * 16 - 4) * v"),
    # Records in depth order in; keys of 2 bytes and values of 4 out, and the keys again.
    Stage("tile lists", "emit find_tiles order_tiles count_tiles sum_tiles plan_bands",
          "(4 + 48) * v + (6 + 2) * m"),
    # Keys of 2 bytes, values of 4: the counts, then two passes.
    Stage("tile sort", "sort16", "(2 + 2 * 12) * m"),
    # Lists and records in; colour, transmittance and last entry out.  25 operations per sample.
    Stage("blend", "blend blend_depths blend_details blend_many blend_many_details",
          "48 * v + 4 * m + 20 * p", "25 * a"),
    Stage("statistics", "weight_scale finish_statistics", "8 * n"),
    # Sums of 12 floats per visible Gaussian, initialised to zero.
    Stage("clear sums", "clear_sums", "48 * v"),
    # Blend's memory, read, and sums that are added to.  45 operations per sample.
    Stage("blend backward", "blend_backward blend_backward_depths blend_backward_absolute "
          "blend_backward_largest blend_backward_fixed blend_backward_all_largest "
          "blend_backward_all_fixed blend_backward_many blend_backward_many_largest "
          "blend_backward_many_fixed", "(48 + 96) * v + 4 * m + 20 * p", "45 * a"),
    Stage("finish sums", "finish_sums finish_colors"),
    # Geometry, SH and sums of the visible in; gradients of all and of the 2D means out.
    Stage("project backward", "project_backward",
          "(44 + 12 * k + 48) * v + (44 + 12 * k + 8) * n"),
    # Parameters and both moments of the visible in and out, and sums in; no gradient.
    Stage("project backward + Adam", "project_backward_step", "(24 * (11 + 3 * k) + 48) * v"),
    Stage("camera gradients", "camera_grad background_grad"),
    # 4 fields, 2 directions, w taps, 2 operations, and 40 to make a value of them.
    Stage("SSIM value", "ssim", "8 * e", "(4 * 2 * w * 2 + 40) * e"),
    # 3 fields more on the way back; two images in, a gradient out.
    Stage("SSIM gradient", "ssim_grad", "12 * e", "(7 * 2 * w * 2 + 75) * e"),
    Stage("SSIM, other windows", "ssim_any", "12 * e", "(4 * 2 * w * 2 + 40) * e"),
    Stage("loss without SSIM", "image_points", "12 * e"),
    Stage("loss sums", "mask_sums mask_total image_total", "4 * q"),
    # Parameter, gradient and both moments in, all but the gradient out.
    Stage("Adam", "adam adam_rows", "(16 + 12) * u + r"),
    # Bounds; keys of 8 bytes with positions of 4; points gathered to float4 leaves.
    Stage("kNN tree", "knn_bounds knn_cells knn_keys knn_leaves knn_boxes",
          "(12 + 12 + 12 + 4 + 12 + 16) * c"),
    # 63 bits are seven passes of 9.
    Stage("kNN sort", "sort64", "(8 + 7 * 24) * c"),
    Stage("kNN clusters", "knn_find_clusters knn_order_clusters", "8 * c"),
    # Leaves in, one value of each point out; bound by instructions, not by this.
    Stage("kNN search", "knn_3 knn_8 knn_any", "(16 + 4) * c"),
)

FILLS, COPIES, OTHERS = "fills", "copies", "other kernels"


def stage_of(name):
    """The name of the stage of a kernel or copy as the profiler names it."""
    if name.startswith("Memset"):
        return FILLS
    if name.startswith("Memcpy"):
        return COPIES
    kernel = name[len("gsc_"):] if name.startswith("gsc_") else None
    return next((stage.name for stage in STAGES if kernel in stage.kernels), OTHERS)


def rows(kernels_ms, sizes, machine):
    """Stages that ran, in order: [{"stage", "ms", "floor_ms", "ratio"}], floors None where a
    stage has none.  kernels_ms: {profiler's name: milliseconds of one call}."""
    spent = {}
    for name, ms in kernels_ms.items():
        stage = stage_of(name)
        spent[stage] = spent.get(stage, 0.0) + ms
    floors = {stage.name: stage.floor_ms(sizes, machine) for stage in STAGES}
    result = []
    for name in [*floors, FILLS, COPIES, OTHERS]:
        if name in spent:
            floor = floors.get(name) or None
            result.append({"stage": name, "ms": spent[name], "floor_ms": floor,
                           "ratio": spent[name] / floor if floor else None})
    return result
