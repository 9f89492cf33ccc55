"""The results of a run: as text, as a line of a JSON file, and as a plot.

A run is {"when", "device", .., "tables"}, see facts() of gpu.py, and a table {"name",
"sizes", "stages", "works"}: stages as stages.rows() makes them, works a list of {"work",
"library", "ms", "row_ms", "mb"}.
"""

import json
from pathlib import Path

OURS = "gsplat_c"
SIZES = {"n": "Gaussians", "v": "visible", "m": "pairs", "a": "blended", "c": "points",
         "e": "values", "u": "floats"}


def cell(value, form):
    return "-" if value is None else format(value, form)


def lines(header, rows):
    """Text in columns: the first left-aligned, the others right-aligned."""
    grid = [header, *rows]
    widths = [max(len(row[column]) for row in grid) for column in range(len(header))]
    return ["  ".join(text.ljust(width) if column == 0 else text.rjust(width)
                      for column, (text, width) in enumerate(zip(row, widths))).rstrip()
            for row in grid]


def earlier_ms(earlier, table, work):
    """The value in the last earlier run on this kind of device, or None."""
    for run in reversed(earlier):
        for other in run["tables"]:
            for found in other["works"] if other["name"] == table["name"] else ():
                if (found["work"], found["library"]) == (work["work"], work["library"]):
                    return found["ms"]
    return None


def table_text(table, earlier=()):
    """earlier: runs on the same device, oldest first."""
    sizes = ", ".join(f"{table['sizes'][letter]:,} {name}" for letter, name in SIZES.items()
                      if table["sizes"].get(letter))
    text = [f"{table['name']}: {sizes}" if sizes else table["name"]]
    if table["stages"]:
        text += lines(("stage", "ms", "floor ms", "ratio"),
                      [(row["stage"], cell(row["ms"], ".4f"), cell(row["floor_ms"], ".4f"),
                        cell(row["ratio"], ".1f")) for row in [*table["stages"], total(table)]])
    elif table["sizes"]:
        text.append("no stages: torch's profiler saw no kernels")
    if table["works"]:
        text += lines(
            ("work", "library", "ms", "back to back", "before", "MB"),
            [(work["work"], work["library"], cell(work["ms"], ".3f"),
              cell(work.get("row_ms"), ".3f"), cell(earlier_ms(earlier, table, work), ".3f"),
              cell(work.get("mb"), ".1f")) for work in table["works"]])
    return "\n".join(text) + "\n"


def total(table):
    ms = sum(row["ms"] for row in table["stages"])
    floor = sum(row["floor_ms"] or 0.0 for row in table["stages"])
    return {"stage": "sum", "ms": ms, "floor_ms": floor or None,
            "ratio": ms / floor if floor else None}


def read(path):
    """The runs of a JSON file, oldest first; empty without a file."""
    path = Path(path)
    if not path.exists():
        return []
    runs = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            runs.append(json.loads(line))
        except ValueError as error:
            raise SystemExit(f"{path}: line {number} is no JSON: {error}") from None
    return runs


def append(path, run):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")


def same_device(runs, device):
    return [run for run in runs if run["device"] == device]


def history(runs):
    """{table: {work: [ms or None of each run]}} of this library."""
    found = {}
    for index, run in enumerate(runs):
        for table in run["tables"]:
            for work in table["works"]:
                if work["library"] == OURS:
                    row = found.setdefault(table["name"], {}).setdefault(
                        work["work"], [None] * len(runs))
                    row[index] = work["ms"]
    return found


def plot(path, runs):
    """Plots milliseconds over the runs, one panel per table.  Returns an error message or None."""
    try:
        import matplotlib
    except ImportError:
        return "no plot: matplotlib is not installed"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    tables = history(runs)
    if not tables:
        return "no plot: the runs have no results"
    figure, axes = pyplot.subplots(len(tables), 1, squeeze=False, sharex=True,
                                   figsize=(10, 2.6 * len(tables)))
    for axis, (name, works) in zip(axes[:, 0], tables.items()):
        for work, values in works.items():
            known = [(index, value) for index, value in enumerate(values) if value is not None]
            axis.plot(*zip(*known), marker="o", markersize=3, label=work)
        axis.set(title=name, ylabel="ms", yscale="log")
        axis.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    axes[-1, 0].set_xticks(range(len(runs)), [run["when"] for run in runs], rotation=45,
                           ha="right", fontsize="small")
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)
    return None
