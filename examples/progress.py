"""A progress bar for loops of known length."""

import sys
import time


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
