"""A process of its own that damages a saved state on the device and runs on it: a fault
ends its CUDA context, and no other test's.

    python3 victim.py VARIANT PATTERN

prints one JSON object: what faulted first, if anything, and how many calls were made."""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "bindings" / "python")]
from scenes import camera, gaussians  # noqa: E402
from steps import Driver, Raw, Steps, message, register_raw  # noqa: E402

GUARD = 1 << 16
SLICES = 40
FAULTS = {700: "illegal address", 716: "misaligned address", 717: "address space",
          719: "launch failure", 702: "launch timeout"}


class Memory:
    """Device arrays between guards."""

    def __init__(self, driver):
        self.driver, self.blocks = driver, []

    def new(self, shape, dtype="float32", data=None):
        array = Raw(0, shape, dtype)
        size = array.bytes + (-array.bytes) % 256
        base = self.driver.allocate(size + 2 * GUARD)
        array.address = base + GUARD
        self.driver.upload(base, np.full(size + 2 * GUARD, 0xA5, np.uint8))
        if data is not None:
            self.write(array, data)
        self.blocks.append((base, size, array))
        return array

    def write(self, array, data):
        if data.nbytes:
            self.driver.upload(array.address, np.ascontiguousarray(data))

    def read(self, array, dtype=np.uint8):
        data = np.empty(array.bytes, np.uint8)
        self.driver.download(data, array.address)
        return data.view(dtype)

    def guarded(self):
        for base, size, array in self.blocks:
            for address in (base, array.address + size):
                guard = np.empty(GUARD, np.uint8)
                self.driver.download(guard, address)
                if (guard != 0xA5).any():
                    return False
        return True


def scene(variant, seed=1):
    count, channels = 700, 4 if variant == "channels" else 3
    args = {**gaussians(count, seed), **camera(150, 90, 2 if "cameras" in variant else 1)}
    rng = np.random.default_rng(seed)
    args["colors"] = rng.random((count, channels)).astype(np.float32)
    args["background"] = rng.random(channels).astype(np.float32)
    return args


class Victim:
    def __init__(self, driver, variant):
        register_raw()
        self.driver, self.memory = driver, Memory(driver)
        self.variant, new = variant, self.memory.new
        self.host = scene(variant)
        self.args = {k: new(v.shape, data=v) if isinstance(v, np.ndarray) else v
                     for k, v in self.host.items()}
        lead = (2,) if "cameras" in variant else ()
        channels = self.host["colors"].shape[1]
        image = (*lead, channels, self.host["height"], self.host["width"])
        self.color = new(image)
        self.steps = Steps(self.args, {"color": self.color}, stream=0)
        self.want("GSC_OK", self.steps.sizes())
        self.state = new((self.steps.info["state_bytes"],), "uint8")
        self.want("GSC_OK", self.steps.project(self.state))
        info = self.steps.info
        size = info["intersections_bytes"]
        if variant == "bands":
            size = max(size // 4, info["intersections_min_bytes"])
        elif variant == "cameras in one buffer":
            size -= 256
        self.lists = new((size,), "uint8")
        scratch = max(info["forward_scratch_bytes"], info["backward_scratch_bytes"])
        self.scratch = new((scratch,), "uint8")
        given = np.random.default_rng(9).standard_normal(image).astype(np.float32)
        self.grads = {"grad_color": new(image, data=given),
                      **{k: new(self.host[k].shape) for k in
                         ("means", "scales", "rotations", "opacities", "colors", "view",
                          "background")}}
        self.projected = self.memory.read(self.state)
        self.want("GSC_OK", self.render())
        self.saved = self.memory.read(self.state), self.memory.read(self.lists)
        self.want("GSC_OK", self.backward())
        self.expected = self.memory.read(self.grads["means"], np.float32)
        assert np.isfinite(self.expected).all()

    @staticmethod
    def want(expected, status):
        assert status == expected, (status, message())

    def render(self):
        return self.steps.render(self.state, self.lists, self.scratch)

    def backward(self):
        return self.steps.backward(self.state, self.lists, self.grads, self.scratch)

    def heal(self):
        self.memory.write(self.state, self.saved[0])
        self.memory.write(self.lists, self.saved[1])

    def is_well(self):
        """The undamaged state still gives the first gradients."""
        self.heal()
        self.want("GSC_OK", self.backward())
        means = self.memory.read(self.grads["means"], np.float32)
        return bool(np.linalg.norm(means - self.expected) <=
                    1e-4 * np.linalg.norm(self.expected))


def damaged(data, pattern, begin, end, other, rng):
    out = data.copy()
    words = out[begin:end - (end - begin) % 4].view(np.uint32)
    if pattern == "ones":
        out[begin:end] = 0xFF
    elif pattern == "zeros":
        out[begin:end] = 0
    elif pattern == "random":
        out[begin:end] = rng.integers(0, 256, end - begin)
    elif pattern == "shifted":  # still looks like an index, but of too much
        words += np.uint32(1_000_003)
    elif pattern == "bits":
        chosen = rng.integers(0, len(words), max(1, len(words) // 16))
        words[chosen] ^= np.uint32(1) << rng.integers(0, 32, len(chosen)).astype(np.uint32)
    elif pattern == "other":
        out[begin:end] = other[begin:end]
    return out


def attack(victim, pattern):
    """The first fault as text, or None; and how many calls."""
    rng = np.random.default_rng(5)
    other = Victim(victim.driver, victim.variant)
    other_state = np.roll(other.saved[0], 4096)
    targets = [("state", victim.state, victim.saved[0], victim.backward),
               ("lists", victim.lists, victim.saved[1], victim.backward),
               ("state before render", victim.state, victim.projected, victim.render)]
    calls, statuses = 0, {}
    for name, array, data, call in targets:
        edges = np.linspace(0, len(data), SLICES + 1).astype(int) // 8 * 8
        edges[-1] = len(data)
        for begin, end in [(0, len(data)), *zip(edges[:-1], edges[1:])]:
            if end - begin < 8:
                continue
            victim.heal()
            source = other_state if name != "lists" else data[::-1]
            victim.memory.write(array, damaged(data, pattern, begin, end, source, rng))
            status = call()
            calls += 1
            statuses[status] = statuses.get(status, 0) + 1
            result = victim.driver.library.cuCtxSynchronize()
            where = f"{name}, bytes {begin} to {end} of {len(data)}"
            if result or status not in ("GSC_OK", "GSC_ERROR_STATE", "GSC_ERROR_BUFFER_TOO_SMALL"):
                return f"{where}: {FAULTS.get(result, result)}, {status}", calls, statuses
            if not victim.memory.guarded():
                return f"{where}: wrote outside of its buffers", calls, statuses
    return None, calls, statuses


def main(variant, pattern):
    driver = Driver()
    driver.cuInit(ctypes.c_uint(0))
    primary = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(primary), ctypes.c_int(0))
    driver.set_current(primary.value)
    victim = Victim(driver, variant)
    fault, calls, statuses = attack(victim, pattern)
    well = fault is None and victim.is_well()
    print(json.dumps({"fault": fault, "calls": calls, "statuses": statuses, "well": well}),
          flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
