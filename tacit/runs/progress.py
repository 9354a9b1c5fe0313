"""Progress of a run on stderr: what it will cost, then a bar on a terminal, a line for each evaluation elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from tacit.privacy.statement.wording import epsilon_text
from tacit.runs.callbacks import Callback, RunEnd, RunEstimate, RunStart, WorkersReport
from tacit.runs.estimates import estimate_in_words
from tacit.runs.metrics import EPSILON_SO_FAR

if TYPE_CHECKING:
    from rich.console import Console

Describe = Callable[[Mapping[str, Any]], str]


def headline_metric(metrics: Mapping[str, Any]) -> str:
    """The metric to show: top-1 accuracy, or else the first number that the task measures.

    >>> headline_metric({"perplexity": 88.12, "top1": 0.2461})
    'top-1 24.6%'
    >>> headline_metric({"measured_on": "held-out users", "loss": 0.69314})
    'loss 0.6931'
    """
    if isinstance(metrics.get("top1"), float):
        return f"top-1 {metrics['top1']:.1%}"
    for name, value in metrics.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and name != EPSILON_SO_FAR:
            return f"{name} {value:.4g}"
    return "evaluated"


def workers_in_words(report: WorkersReport) -> str:
    """How the workers do, in a few words.

    >>> from tacit.runs.callbacks import WorkersReport
    >>> workers_in_words(WorkersReport(2, 1, ("node-7:4021",)))
    '2 workers (1 lost so far; slow: node-7:4021)'
    """
    notes = [f"{report.lost} lost so far"] if report.lost else []
    if report.slow:
        more = f" and {len(report.slow) - 1} more" if len(report.slow) > 1 else ""
        notes.append(f"slow: {report.slow[0]}{more}")
    workers = "1 worker" if report.workers == 1 else f"{report.workers:,} workers"
    return f"{workers} ({'; '.join(notes)})" if notes else workers


class Progress(Callback):
    """Shows how a run goes: a bar on a terminal, a line for each evaluation in a log file.

    `describe` says in a few words what an evaluation found. `bar`: whether to draw one (None: if stderr is a terminal).
    `name_runs`: each line begins with the name of its run, for several runs in a row. `console` is where it is shown, stderr
    unless it is given. `estimate`: say before the first round what the run will cost; this takes a few seconds. As a context
    manager it shows that something happens before the run begins, and cleans up at the end.

    >>> import sys, tacit
    >>> from rich.console import Console
    >>> progress = tacit.Progress(console=Console(file=sys.stdout))
    >>> progress.on_pretraining(50, 100, 3.25)
    pre-training step 50/100: loss 3.250
    >>> progress.on_evaluation(4, {"top1": 0.25, "epsilon_if_planned_to_end_here": 1.2301})
    round 4: top-1 25.0%, ε if planned to end here 1.24
    """

    def __init__(
        self,
        *,
        describe: Describe = headline_metric,
        bar: bool | None = None,
        name_runs: bool = False,
        console: Console | None = None,
        estimate: bool = False,
    ) -> None:
        self.wants_estimate = estimate
        self._describe, self._bar, self._name_runs, self._console = describe, bar, name_runs, console
        self._display: _Bar | _Lines | None = None

    def on_warning(self, sentence: str) -> None:
        self._open().warning(sentence)

    def on_pretraining(self, step: int, steps: int, loss: float) -> None:
        self._open().pretraining(step, steps, loss)

    def on_estimate(self, estimate: RunEstimate) -> None:
        self._open().estimate(estimate)

    def on_start(self, run: RunStart) -> None:
        self._open().start(run)

    def on_round(self, round: int, rounds: int) -> None:
        self._open().round(round)

    def on_workers(self, report: WorkersReport) -> None:
        self._open().workers(report)

    def on_evaluation(self, round: int, metrics: Mapping[str, Any]) -> None:
        self._open().evaluation(round, self._describe(metrics), epsilon_text(metrics.get(EPSILON_SO_FAR)))

    def on_end(self, end: RunEnd) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar from the terminal; the next call draws a new one."""
        display, self._display = self._display, None
        if display is not None:
            display.close()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> _Bar | _Lines:
        if self._display is None:
            from rich.console import Console

            console = self._console or Console(stderr=True)
            drawn = console.is_terminal if self._bar is None else self._bar
            self._display = _Bar(console) if drawn else _Lines(console, self._name_runs)
        return self._display


class _Bar:
    """Shows the round, a metric, the cost if the run had been planned to end here, users per second, and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Drawn

        self.drawn = Drawn(
            SpinnerColumn(),
            TextColumn("{task.description}{task.fields[place]}"),
            BarColumn(bar_width=24),
            TextColumn("[bold]{task.fields[seen]}[/]"),
            TextColumn("ε if planned to end here [bold]{task.fields[epsilon]}[/]"),
            TextColumn("{task.fields[speed]} users/s{task.fields[workers]}"),
            TimeRemainingColumn(),
            console=console,
        )
        shown: dict[str, Any] = {"place": "", "seen": "–", "epsilon": "–", "speed": "–", "workers": ""}
        self._task = self.drawn.add_task("setting up", total=None, **shown)
        self._rounds, self._speed = 0, _Speed()
        self.drawn.start()

    def warning(self, sentence: str) -> None:
        _print(self.drawn.console, f"Warning: {sentence}")

    def estimate(self, estimate: RunEstimate) -> None:
        _print(self.drawn.console, estimate_in_words(estimate))

    def pretraining(self, step: int, steps: int, loss: float) -> None:
        self._to("pre-training step", step, steps)

    def start(self, run: RunStart) -> None:
        self._rounds, self._speed = run.rounds, _Speed(float(run.plan["cohort"]))
        self.drawn.reset(self._task, total=run.rounds)
        self._to("round", run.rounds_done, run.rounds)

    def round(self, round: int) -> None:
        if not self._speed.measures:
            self.drawn.reset(self._task, completed=round)  # the time left is estimated from here on
        self._speed.round(round)
        self._to("round", round, self._rounds, speed=self._speed.text or "–")

    def workers(self, report: WorkersReport) -> None:
        from rich.markup import escape

        self.drawn.update(self._task, workers=escape(f" by {workers_in_words(report)}"))

    def evaluation(self, round: int, seen: str, epsilon: str) -> None:
        from rich.markup import escape

        self._speed.evaluation(round)
        self.drawn.update(self._task, seen=escape(seen), epsilon=epsilon)

    def close(self) -> None:
        self.drawn.stop()

    def _to(self, what: str, done: int, total: int, **fields: Any) -> None:
        place = f" {done}/{total}"
        self.drawn.update(self._task, description=what, completed=done, total=total, place=place, **fields)


# Rounds are told so many late, and all at once before an evaluation: the time between two of them may be nothing.
LATE = 2


class _Speed:
    """How many users are trained a second. Compilation, and rounds from before a resume, are left out.

    It counts from an evaluation on, where it is known which rounds are done; until then from the first round that is told.
    """

    def __init__(self, cohort: float = 0.0) -> None:
        # The expected number of users, not the realised one, which only the owner may know.
        self._cohort, self.text = cohort, ""
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None
        self._exact = False

    @property
    def measures(self) -> bool:
        """Whether a first round has been seen."""
        return self._first is not None

    def round(self, round: int) -> None:
        """So many rounds are done, and perhaps `LATE` more."""
        self._last = (round, time.monotonic())
        if self._first is None:
            self._first = self._last
        self._measure(least=LATE + 1)

    def evaluation(self, round: int) -> None:
        """The model after so many rounds was measured, and no further round has begun."""
        if self._exact:
            self._measure(least=1)
        elif round:
            self._first, self._exact, self.text = (round, time.monotonic()), True, ""

    def _measure(self, *, least: int) -> None:
        if self._first is None or self._last is None:
            return
        done, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        if done >= least and seconds > 0:
            self.text = f"{done * self._cohort / seconds:,.0f}"


class _Lines:
    """For a log file: a line for each evaluation, with the speed where workers train the users; nothing is drawn over."""

    def __init__(self, console: Console, name_runs: bool) -> None:
        self._console, self._name_runs = console, name_runs
        self._name, self._of = "", ""
        self._tenths = 0  # of pre-training that have a line
        self._workers: WorkersReport | None = None
        self._speed = _Speed()

    def warning(self, sentence: str) -> None:
        _print(self._console, f"Warning: {sentence}")

    def estimate(self, estimate: RunEstimate) -> None:
        _print(self._console, estimate_in_words(estimate))

    def pretraining(self, step: int, steps: int, loss: float) -> None:
        if 10 * step // steps > self._tenths:
            self._tenths = 10 * step // steps
            _print(self._console, f"pre-training step {step}/{steps}: loss {loss:.3f}")

    def start(self, run: RunStart) -> None:
        self._name, self._of = f"{run.name}, " if self._name_runs else "", f"/{run.rounds}"
        self._speed = _Speed(float(run.plan["cohort"]))

    def round(self, round: int) -> None:
        self._speed.round(round)

    def workers(self, report: WorkersReport) -> None:
        """A line when workers came or were lost, or others are slow."""
        if report != self._workers:
            self._workers = report
            _print(self._console, f"{self._name}{workers_in_words(report)}")

    def evaluation(self, round: int, seen: str, epsilon: str) -> None:
        self._speed.evaluation(round)
        speed = f", {self._speed.text} users/s" if self._workers is not None and self._speed.text else ""
        _print(self._console, f"{self._name}round {round}{self._of}: {seen}, ε if planned to end here {epsilon}{speed}")

    def close(self) -> None:
        pass


def _print(console: Console, line: str) -> None:
    console.print(line, highlight=False, soft_wrap=True, markup=False)
