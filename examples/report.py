"""What the examples show: a progress bar, pictures side by side, curves."""

import sys
import time

import numpy as np


class Progress:
    """One line, updated in place on a terminal, printed ten times elsewhere."""

    def __init__(self, steps):
        self.steps, self.since = steps, time.monotonic()
        self.tenth = 0
        self.terminal = sys.stderr.isatty()

    def seconds(self):
        return time.monotonic() - self.since

    def show(self, step, text):
        """step: number of finished steps; text: shown beside it."""
        last, tenth = step >= self.steps, 10 * step // self.steps
        if not self.terminal and not last and tenth == self.tenth:
            return
        self.tenth = tenth
        done = 30 * step // self.steps
        line = (f"[{'#' * done}{'.' * (30 - done)}] {step}/{self.steps}  {text}  "
                f"{self.seconds():.0f} s")
        print(f"\r{line}\033[K" if self.terminal else line,
              end="" if self.terminal and not last else "\n", file=sys.stderr, flush=True)


def side_by_side(*images, gap=4):
    """[3, H, W] images in one row, with white between them."""
    space = np.ones((3, images[0].shape[1], gap), np.float32)
    parts = [images[0]]
    for image in images[1:]:
        parts += [space, image]
    return np.concatenate(parts, axis=2)


def write_curves(folder, names, rows):
    """Writes curves.csv, and curves.png if matplotlib is installed; returns the paths.

    names: of the columns, the first is the x axis; rows: one tuple per point.
    """
    paths = [folder / "curves.csv"]
    lines = [",".join(names), *(",".join(f"{value:.6g}" for value in row) for row in rows)]
    paths[0].write_text("\n".join(lines) + "\n")
    try:
        import matplotlib
    except ImportError:
        return paths
    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = list(zip(*rows))
    figure, axes = pyplot.subplots(1, len(names) - 1, figsize=(5 * (len(names) - 1), 3.5))
    for axis, name, values in zip(np.atleast_1d(axes), names[1:], columns[1:]):
        axis.plot(columns[0], values)
        axis.set(xlabel=names[0], title=name)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    paths.append(folder / "curves.png")
    figure.savefig(paths[-1], dpi=110)
    pyplot.close(figure)
    return paths
