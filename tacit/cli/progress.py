"""How training goes, while it goes: a bar on a terminal, a line for each evaluation elsewhere. Always on stderr."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from tacit.privacy.statement.wording import round_up
from tacit.recipe.training import Recipe
from tacit.runs.metrics import EPSILON_SO_FAR

if TYPE_CHECKING:
    from tacit.runs.journal import Observer


@contextmanager
def watching(recipe: Recipe, console: Console) -> Iterator[Observer]:
    """Whom the run may tell how it goes."""
    if not console.is_terminal:
        yield Lines(console, recipe.run.rounds, lambda record: f"top-1 {record['top1']:.1%}")
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description} {task.completed}/{task.total}"),
        BarColumn(bar_width=24),
        TextColumn("top-1 [bold]{task.fields[top1]}[/]"),
        TextColumn("ε if planned to end here [bold]{task.fields[epsilon]}[/]"),
        TextColumn("{task.fields[speed]} users/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield _Bar(progress, recipe.run.rounds, recipe.privacy.cohort)


def epsilon_text(epsilon: float | None) -> str:
    """Two decimals, rounded up: a bound stays one. Infinity (None in JSON) as its sign."""
    return round_up(math.inf if epsilon is None else epsilon)


class _Bar:
    """Round, accuracy, what the rounds so far would cost if they were all, users a second, time left."""

    def __init__(self, progress: Progress, rounds: int, cohort: float) -> None:
        self._progress, self._rounds, self._cohort = progress, rounds, cohort
        self._task = progress.add_task("round", total=rounds, top1="–", epsilon="–", speed="–")
        self._first: tuple[int, float] | None = None

    def round_done(self, round: int) -> None:
        now = time.monotonic()
        if self._first is None:
            # Compilation, and the rounds of a run that is resumed, say nothing about the time that is left.
            self._first = (round, now)
            self._progress.reset(self._task, completed=round)
            return
        done, seconds = round - self._first[0], now - self._first[1]
        # Expected users, not realised ones: how many took part is the owner's secret.
        speed = f"{done * self._cohort / seconds:,.0f}" if seconds > 0 else "–"
        self._progress.update(self._task, completed=round, speed=speed)

    def warned(self, sentence: str) -> None:
        self._progress.console.print(f"Warning: {sentence}", highlight=False, soft_wrap=True, markup=False)

    def pretrained(self, done: int, total: int, loss: float) -> None:
        if done < total:
            self._progress.update(self._task, description="pre-training step", completed=done, total=total)
        else:
            self._progress.reset(self._task, description="round", total=self._rounds)

    def evaluated(self, record: Mapping[str, Any]) -> None:
        self._progress.update(self._task, top1=f"{record['top1']:.1%}", epsilon=epsilon_text(record[EPSILON_SO_FAR]))


class Lines:
    """For a log file: a line for each evaluation, nothing is drawn over. `seen` says what an evaluation found."""

    def __init__(
        self, console: Console, rounds: int, seen: Callable[[Mapping[str, Any]], str], *, stage: str | None = None
    ) -> None:
        self._console, self._rounds, self._seen = console, rounds, seen
        self._stage = "" if stage is None else f"{stage}, "
        self._tenths = 0  # of pre-training, told so far

    def warned(self, sentence: str) -> None:
        self._console.print(f"Warning: {sentence}", highlight=False, soft_wrap=True, markup=False)

    def pretrained(self, done: int, total: int, loss: float) -> None:
        if 10 * done // total > self._tenths:
            self._tenths = 10 * done // total
            self._console.print(f"pre-training step {done}/{total}: loss {loss:.3f}", highlight=False, soft_wrap=True)

    def round_done(self, round: int) -> None:
        pass

    def evaluated(self, record: Mapping[str, Any]) -> None:
        self._console.print(
            f"{self._stage}round {record['round']}/{self._rounds}: {self._seen(record)}, "
            f"ε if planned to end here {epsilon_text(record[EPSILON_SO_FAR])}",
            highlight=False,
            soft_wrap=True,
        )
