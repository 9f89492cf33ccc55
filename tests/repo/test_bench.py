"""The parts of bench/ that need no GPU: stages, lower bounds, output and plots."""

import ast
import re
import sys

import pytest
from test_kernels import listed_kernels

from support import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import gpu
import report
import stages

MACHINE = {"copy_bytes_s": 2e12, "flop_s": 5e13}
KERNELS = {
    "gsc_project": 0.03,
    "gsc_mark_visible": 0.01,
    "gsc_blend": 0.2,
    "Memset (Device)": 0.002,
    "Memcpy DtoH (Device -> Pinned)": 0.003,
    "void at::native::fill<float>(float)": 0.004,
}
SIZES = {"n": 1_000_000, "k": 16, "v": 300_000, "m": 1_500_000, "p": 2_073_600, "a": 100_000_000}


def run(when, ms, device="H100"):
    works = [{"work": "inference", "library": library, "ms": ms} for library in ("gsplat_c", "b")]
    table = {"name": "a:1:1080p", "sizes": SIZES, "works": works}
    table["stages"] = stages.rows(KERNELS, SIZES, MACHINE)
    return {"when": when, "device": device, "tables": [table]}


def test_every_kernel_has_one_stage():
    kernels = [kernel for stage in stages.STAGES for kernel in stage.kernels]
    assert sorted(kernels) == sorted(name for _, name, *_ in listed_kernels())
    for stage in stages.STAGES:
        for kernel in stage.kernels:
            assert stages.stage_of(f"gsc_{kernel}") == stage.name


def test_what_is_no_kernel_of_the_library():
    assert stages.stage_of("Memset (Device)") == stages.FILLS
    assert stages.stage_of("Memcpy DtoD (Device -> Device)") == stages.COPIES
    assert stages.stage_of("project") == stages.OTHERS
    assert stages.stage_of("gsc_unknown") == stages.OTHERS


def test_formulas_use_the_letters_that_are_explained():
    for stage in stages.STAGES:
        for formula in (stage.bytes, stage.flops):
            names = {node.id for node in ast.walk(ast.parse(formula)) if type(node) is ast.Name}
            assert names <= set("nkvmpaequrcw"), stage.name
            for name in names:
                assert re.search(rf"\b{name}  +\w", stages.__doc__), name


def test_floors():
    """Computed by hand, for 2 TB/s and 50 Tflop/s."""
    rows = {row["stage"]: row for row in stages.rows(KERNELS, SIZES, MACHINE)}
    assert list(rows) == ["project", "blend", stages.FILLS, stages.COPIES, stages.OTHERS]
    assert rows["project"]["ms"] == pytest.approx(0.04)
    assert rows["project"]["floor_ms"] == pytest.approx((16e6 + 32 * 3e5) / 2e9)
    # 61.9 MB would be 0.031 ms; 25 operations for each of 100 M pairs are more
    assert rows["blend"]["floor_ms"] == pytest.approx(0.05)
    assert rows["blend"]["ratio"] == pytest.approx(4)
    assert rows[stages.FILLS]["floor_ms"] is None and rows[stages.FILLS]["ratio"] is None
    adam = next(stage for stage in stages.STAGES if stage.name == "Adam")
    assert adam.floor_ms({"u": 59_000_000}, MACHINE) == pytest.approx(59 * 28e6 / 2e9)


def test_table():
    earlier = [run("1", 0.5), run("2", 0.4)]
    table = run("3", 0.25)["tables"][0]
    text = report.table_text(table, earlier)
    first, *lines = text.splitlines()
    assert first.startswith("a:1:1080p: 1,000,000 Gaussians, 300,000 visible, 1,500,000 pairs")
    cells = {line.split("  ")[0]: line.split()[-3:] for line in lines}
    assert cells["blend"] == ["0.2000", "0.0500", "4.0"]
    assert cells[stages.COPIES] == ["0.0030", "-", "-"]
    assert float(cells["sum"][0]) == pytest.approx(0.249)
    assert next(line for line in lines if "gsplat_c" in line).split() == [
        "inference", "gsplat_c", "0.250", "-", "0.400", "-"]  # fmt: skip
    assert "inference" not in report.table_text({**table, "works": []})
    assert "before" in text and "0.400" not in report.table_text(table)


def test_json(tmp_path):
    path = tmp_path / "runs.json"
    assert report.read(path) == []
    runs = [run("1", 0.5), run("2", 0.4, device="H200")]
    for one in runs:
        report.append(path, one)
    assert report.read(path) == runs
    assert report.same_device(runs, "H200") == runs[1:]
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(SystemExit, match="line 3 is no JSON"):
        report.read(path)


def test_history():
    later = run("2", 0.4)
    later["tables"][0]["works"].append({"work": "new", "library": "gsplat_c", "ms": 1.0})
    assert report.history([run("1", 0.5), later]) == {
        "a:1:1080p": {"inference": [0.5, 0.4], "new": [None, 1.0]}
    }


def test_plot(tmp_path):
    path = tmp_path / "runs.png"
    problem = report.plot(path, [run("1", 0.5), run("2", 0.4)])
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert problem == "no plot: matplotlib is not installed"
        assert not path.exists()
    else:
        assert problem is None and path.read_bytes().startswith(b"\x89PNG")
        assert report.plot(path, []) == "no plot: the runs have no results"


def test_arguments(capsys):
    args = gpu.arguments([], "scenes.py a.ply:c.json:0:1080p")
    assert args.scenes == "scenes.py" and args.trained == ["a.ply:c.json:0:1080p"]
    args = gpu.arguments(["--scenes", "b.py", "uniform:1:4k", "knn"], "scenes.py")
    assert args.scenes == "b.py" and args.what == ["uniform:1:4k", "knn"]
    for word, problem in (("sing", "sing: no DIST"), ("uniform:1:4k", "scenes need --scenes")):
        with pytest.raises(SystemExit):
            gpu.arguments([word])
        assert problem in capsys.readouterr().err
