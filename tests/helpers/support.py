"""What the Python tests share."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **options):
    """Runs a command and returns its standard output; a failure shows all it said."""
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}{result.stderr}"
    return result.stdout


def map_nodes():
    """Symbols by version node, of the linker's version script."""
    text = (ROOT / "src/libgsplat_c.map").read_text()
    text = re.sub(r"/\*.*?\*/|#.*?$", "", text, flags=re.S | re.M)
    nodes = {}
    for name, body in re.findall(r"(\w[\w.]*)\s*\{(.*?)\}", text, flags=re.S):
        exported = re.search(r"global:(.*?)(?:local:|$)", body, flags=re.S)
        nodes[name] = set(re.findall(r"[^\s;]+", exported.group(1))) if exported else set()
    return nodes
