"""Prints what a build folder's library and command contain, as CycloneDX.

    python3 tools/sbom.py BUILD_FOLDER
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEVICE_COMPILERS = {
    "nvidia-cuda-nvrtc-cu12": "libnvrtc.so",
    "nvidia-nvfatbin-cu12": "libnvfatbin.so",
}
LICENCES = {"libcjson": "MIT", "libpng": "libpng-2.0", "zlib": "Zlib"}


def component(name, version, kind="library", **more):
    return {"type": kind, "name": name, "version": version, **more}


def from_pypi(name):
    """A package that tests/requirements-cuda.txt pins."""
    text = (ROOT / "tests/requirements-cuda.txt").read_text()
    version, hashes = re.search(rf"^{name}==(\S+)(.*)", text, re.M).groups()
    return component(
        name, version, purl=f"pkg:pypi/{name}@{version}",
        licenses=[{"license": {"name": "NVIDIA CUDA Toolkit EULA"}}],
        hashes=[{"alg": "SHA-256", "content": digest}
                for digest in re.findall(r"sha256:(\w+)", hashes)])


def describe(build):
    facts = json.loads(subprocess.run(
        ["meson", "introspect", "--projectinfo", "--dependencies", build], check=True,
        capture_output=True, text=True).stdout)
    rules = (build / "build.ninja").read_text()
    components = [component(found["name"], found["version"],
                            licenses=[{"license": {"id": LICENCES[found["name"]]}}])
                  for found in facts["dependencies"] if found["name"] in LICENCES]
    if "libcudart_static.a" in rules:
        components.append(from_pypi("nvidia-cuda-runtime-cu12"))
    compiler = re.search(r'COMPILER "(.*) (.*)"', (build / "build_config.h").read_text()).groups()
    tools = [component(*compiler, "application")]
    tools += [from_pypi(name) for name, file in DEVICE_COMPILERS.items() if file in rules]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": component("gsplat-c", facts["projectinfo"]["version"],
                                   licenses=[{"license": {"id": "MIT"}}]),
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": tools},
        },
        "components": sorted(components, key=lambda part: part["name"]),
    }


if __name__ == "__main__":
    print(json.dumps(describe(Path(sys.argv[1])), indent=2))
