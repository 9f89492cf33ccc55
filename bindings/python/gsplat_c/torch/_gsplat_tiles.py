"""gsplat's meta dictionary, with the tile lists that the library itself does not make."""

from __future__ import annotations

import torch

_LISTS = ("tiles_per_gauss", "isect_ids", "flatten_ids", "isect_offsets")


class Meta(dict):
    """A dictionary; tiles_per_gauss, isect_ids, flatten_ids and isect_offsets are computed
    when one of them is first read by ``meta[key]``, and are then items like the others."""

    batch = ()  # the batch dimensions

    def __missing__(self, key):
        if key not in _LISTS:
            raise KeyError(key)
        self.update(_tile_lists(self))
        return self[key]


@torch.no_grad()
def _tile_lists(meta):
    """What of gsplat's isect_tiles and isect_offset_encode follows from projected boxes.

    Every pair of a Gaussian and a tile that its box of radii touches, by image, tile and
    depth: isect_ids int64 has those three from the highest bit down (depth as the bits of
    a float32), flatten_ids int32 the Gaussian's row, isect_offsets int32 where a tile begins.
    """
    radii, depths = meta["radii"], meta["depths"]
    device, lead = radii.device, radii.shape[:-1]
    grid = torch.tensor([meta["tile_width"], meta["tile_height"]], device=device)
    tiles = meta["tile_width"] * meta["tile_height"]
    images = meta["n_batches"] * meta["n_cameras"]
    radii, depths = radii.reshape(-1, 2), depths.reshape(-1)
    means2d, rows = meta["means2d"].detach().reshape(-1, 2), torch.arange(len(radii), device=device)
    if meta["camera_ids"] is None:
        image = rows // max(lead[-1], 1)
    else:
        image = meta["batch_ids"] * meta["n_cameras"] + meta["camera_ids"]

    size, zero = meta["tile_size"], torch.zeros_like(grid)
    low = ((means2d - radii) / size).floor().long().clamp(zero, grid)
    high = ((means2d + radii) / size).ceil().long().clamp(zero, grid)
    counts = (high - low).prod(-1) * (radii > 0).all(-1)

    row = torch.repeat_interleave(rows, counts)
    within = torch.arange(len(row), device=device) - (counts.cumsum(0) - counts)[row]
    width = (high - low)[row, 0]
    tile = (low[row, 1] + within // width) * meta["tile_width"] + low[row, 0] + within % width
    depth = depths.float().contiguous().view(torch.int32)[row].long()
    keys = image[row] << (32 + tiles.bit_length()) | tile << 32 | depth
    keys, order = torch.sort(keys, stable=True)
    bins = (image[row] * tiles + tile)[order]
    offsets = torch.searchsorted(bins, torch.arange(images * tiles, device=device))
    batch = meta.batch
    return {
        "tiles_per_gauss": counts.int().view(lead),
        "isect_ids": keys,
        "flatten_ids": row[order].int(),
        "isect_offsets": offsets.int().view(*batch, meta["n_cameras"], meta["tile_height"],
                                            meta["tile_width"]),
    }
