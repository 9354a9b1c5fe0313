"""Run a sweep, or open one: a grid of recipes side by side, one table, one picture, one statement of what all of it costs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from tacit.api.run import Run
from tacit.errors import RecipeError, RunError
from tacit.recipe.sweep import SweepCase, checked, grid_of, load_grid
from tacit.runs.finding import RUNS, is_run
from tacit.runs.folder import RunFolder
from tacit.simulation.sweep.cases import CaseResult, Costs, results_of
from tacit.simulation.sweep.folder import SettledCase, SweepFolder, is_sweep, refuse_if_taken
from tacit.simulation.sweep.picture import plot_sweep
from tacit.simulation.sweep.room import require_room_for
from tacit.simulation.sweep.running import Launcher, Processes, SweepCallback, run_cases
from tacit.simulation.sweep.statement import PeoplesCost, statement_of

if TYPE_CHECKING:
    from tacit.simulation.sweep.preparing import Prepared

Engine = Literal["processes", "ray"]


class Sweep:
    """A sweep on disk: its cases, where each of them is, and what all of them cost together.

    `tacit.sweep` and `tacit.open_sweep` return one. It is read again at every question, also while the sweep runs.

    >>> import tacit
    >>> sweep = tacit.open_sweep("runs/rates")  # doctest: +SKIP
    >>> [case.metrics["top1"] for case in sweep.results()]  # doctest: +SKIP
    """

    def __init__(self, folder: SweepFolder) -> None:
        self._folder = folder

    def __repr__(self) -> str:
        return f"<Sweep {self.path}: {len(self._folder.cases)} cases>"

    @property
    def path(self) -> Path:
        """The sweep's folder."""
        return self._folder.path

    @property
    def names(self) -> list[str]:
        """The names of the cases."""
        return [case.name for case in self._folder.cases]

    def results(self) -> list[CaseResult]:
        """Where each case is: its state, rounds and last metrics."""
        return results_of(self._folder)

    def epsilons(self) -> dict[str, float | None]:
        """What each case costs by itself, with all its planned rounds; None if that is infinite."""
        costs = Costs()
        return {case.name: costs.of(self._folder, case)[0] for case in self._folder.cases}

    def run(self, case: str) -> Run:
        """The run of this case; RunError if it has not begun."""
        if case not in self.names:
            raise RunError(f"The sweep {self.path} has no case {case!r}.")
        if not is_run(self.path / case):
            raise RunError(f"The case {case} of the sweep {self.path} has not begun.")
        return Run(RunFolder.open(self.path / case))

    def cost(self) -> list[PeoplesCost]:
        """What the sweep costs the people of each store that it reads, cases that have not begun included."""
        return statement_of(self._folder)

    def statement(self) -> str:
        """The cost in words."""
        return "\n".join(sentence for each in self.cost() for sentence in each.sentences())

    def plot(self, out: str | Path = "sweep.png") -> Path:
        """Draw what the cases reached, as .png or .svg; returns the path."""
        plot_sweep(self.results(), Path(out))
        return Path(out)


def sweep(
    grid: str | Path | dict[str, Any] | Iterable[SweepCase],
    *,
    out: str | Path | None = None,
    at_once: int | None = None,
    only: Sequence[str] = (),
    minutes: float | None = None,
    add: bool = False,
    modules: Sequence[str] = (),
    engine: Engine = "processes",
    address: str | None = None,
    gpus_per_run: float = 0.0,
    callback: SweepCallback | None = None,
) -> Sweep:
    """Run every case of a grid of recipes that is not done yet; returns the sweep.

    - `grid` is the file of a sweep, its content as nested dictionaries, or a list of `tacit.SweepCase`.
    - `out` is the folder of the runs; without it, runs/NAME. If there is a sweep, it goes on: finished runs are not repeated,
      unfinished ones are resumed, failed ones are tried again. Its cases must be the same. With `add` there may be new ones,
      and cases that are left out are not run; what they cost stays counted.
    - `at_once` runs go on at a time, each in a process of its own; these import `modules` first. `only` are beginnings of names
      of cases. After so many `minutes` no further run begins; with 0 none does, and the cases are only checked and settled.
    - With `engine="ray"` each run is a task of Ray, at `address` or on this machine, with `gpus_per_run` of a GPU or with one
      core, and as many go on as there is room for, or `at_once`.

    Every case is built before the first one runs, and a mistake in any of them is raised, with its name. A case that diverges
    or fails does not stop the others. Ctrl-C stops the runs after their round under way and raises `StopRequested`.

    >>> import tempfile, tacit
    >>> grid = {
    ...     "recipe": "demo",
    ...     "set": {"data": {"users": 400, "held_out": 2}, "run": {"rounds": 1},
    ...             "privacy": {"population": 400, "cohort": 10, "delta": 1e-4}},
    ...     "axes": {"privacy": {"clip_norm": [0.2, 0.4]}},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = tacit.sweep(grid, out=f"{folder}/sweep")
    ...     [(case.name, case.state) for case in done.results()]
    [('clip_norm=0.2', 'finished'), ('clip_norm=0.4', 'finished')]
    """
    where = Where(at_once, engine, address, gpus_per_run, tuple(modules))
    name, cases = cases_of(grid)
    place = RUNS / name if out is None else Path(out)
    new = unsettled(place, cases, add=add)
    with where.ready():
        settled = prepared(place, new, in_processes=where.in_processes).cases
        where.require_suitable(settled)
        folder = settle(place, settled)
        asked = {case.name for case in cases}
        chosen = [case for case in chosen_cases(folder, only) if case.name in asked]
        go_on(folder, chosen, where, minutes=minutes, callback=callback)
    return Sweep(folder)


@dataclass
class Where:
    """Where the runs of a sweep go on, and how many at a time; None: one in this process, or as many as Ray has room for."""

    at_once: int | None = None
    engine: Engine = "processes"
    address: str | None = None
    gpus_per_run: float = 0.0
    modules: tuple[str, ...] = ()
    _ray: Any = None

    def __post_init__(self) -> None:
        if self.at_once is not None and (type(self.at_once) is not int or self.at_once < 1):
            raise RecipeError(f"Expected at_once to be a whole number above 0, got {self.at_once!r}.")
        if self.engine not in get_args(Engine):
            raise RecipeError(f"Expected engine to be {' or '.join(get_args(Engine))}, got {self.engine!r}.")
        if self.engine != "ray" and (self.address is not None or self.gpus_per_run):
            raise RecipeError("Expected an address or a share of a GPU with the engine ray only.")
        share = self.gpus_per_run
        if not 0 <= share < math.inf or (share > 1 and share != int(share)):
            raise RecipeError(f"Expected a share of one GPU or a whole number of them for each run, got {share:g}.")

    @property
    def in_processes(self) -> bool:
        """Whether runs go on in other processes than this one."""
        return self.engine == "ray" or (self.at_once or 1) > 1

    @contextmanager
    def ready(self) -> Iterator[None]:
        """With Ray there, if it is needed: it starts before JAX does, because it forks. RecipeError without room for a run."""
        if self.engine != "ray":
            yield
            return
        from tacit.simulation.sweep.ray_tasks import connected, room

        with connected(self.address) as self._ray:
            if self.at_once is None:
                room(self._ray.cluster_resources(), self.gpus_per_run)
            yield

    def require_suitable(self, cases: Iterable[SettledCase]) -> None:
        """RecipeError if these cases cannot run there."""
        if self.engine == "ray":
            from tacit.simulation.sweep.ray_tasks import require_one_list

            require_one_list(cases, self._ray)

    def launcher(self, folder: SweepFolder, lock: int) -> Launcher | None:
        """What begins runs; None for runs in this process."""
        if self.engine == "ray":
            from tacit.simulation.sweep.ray_tasks import RayTasks

            return RayTasks(folder, self._ray, self.at_once, self.gpus_per_run, self.modules)
        at_once = self.at_once or 1
        return None if at_once == 1 else Processes(folder, at_once, self.modules, lock)


def go_on(
    folder: SweepFolder,
    chosen: Sequence[SettledCase],
    where: Where,
    *,
    minutes: float | None,
    callback: SweepCallback | None,
) -> None:
    """Run these cases, as far as they are not done; BudgetError if their people's budget does not suffice for all of them."""
    with folder.locked() as lock:
        folder = folder.here()
        require_room_for(folder, chosen)
        where.require_suitable(folder.cases)
        launcher = where.launcher(folder, lock)
        run_cases(folder, chosen, launcher=launcher, minutes=minutes, callback=callback or SweepCallback())


def open_sweep(path: str | Path) -> Sweep:
    """The sweep in this folder, or of this name in runs/.

    >>> import tacit
    >>> tacit.open_sweep("runs/rates").names  # doctest: +SKIP
    ['clip_norm=0.2', 'clip_norm=0.4']
    """
    folder = Path(path)
    return Sweep(SweepFolder.open(RUNS / folder if not folder.exists() and (RUNS / folder).exists() else folder))


def cases_of(grid: str | Path | dict[str, Any] | Iterable[SweepCase]) -> tuple[str, list[SweepCase]]:
    """The name of a grid, and its cases."""
    if isinstance(grid, str | Path):
        return load_grid(Path(grid))
    if isinstance(grid, dict):
        return grid_of(grid, Path())
    return "sweep", checked(grid)


def unsettled(place: Path, cases: Sequence[SweepCase], *, add: bool) -> list[SweepCase]:
    """Of these cases, those that the sweep in this folder does not have yet; RunError if they do not fit it."""
    if is_sweep(place):
        return SweepFolder.open(place).compared(cases, add=add)
    refuse_if_taken(place)
    return list(cases)


def prepared(place: Path, cases: Sequence[SweepCase], *, in_processes: bool = False, timed: bool = False) -> Prepared:
    """These cases built in advance, whose runs will lie in this folder."""
    if in_processes and "jax" not in sys.modules:  # the accelerator's memory is for the runs
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from tacit.simulation.sweep.preparing import prepare

    return prepare(cases, timed=timed, runs=place)


def with_new(folder: SweepFolder, new: Sequence[SettledCase]) -> SweepFolder:
    """The sweep with these cases, the first ones or further ones; nothing is written."""
    return folder.with_cases(new) if folder.cases else SweepFolder.planned(folder.path, new)


def settle(place: Path, new: Sequence[SettledCase]) -> SweepFolder:
    """The sweep in this folder, begun with these cases, or with these added."""
    if not is_sweep(place):
        return SweepFolder.create(place, new)
    folder = SweepFolder.open(place)
    if not new:
        return folder
    with folder.locked():
        folder = folder.with_cases(new)
        folder.write()
    return folder


def chosen_cases(folder: SweepFolder, only: Sequence[str]) -> list[SettledCase]:
    """The cases whose names begin with one of these, or all; RecipeError if a beginning is that of no case."""
    for beginning in only:
        if not any(case.name.startswith(beginning) for case in folder.cases):
            raise RecipeError(
                f"No case of the sweep begins with {beginning!r}.",
                hint=f"Its cases: {', '.join(case.name for case in folder.cases[:10])}{', ...' * (len(folder.cases) > 10)}.",
            )
    return [case for case in folder.cases if not only or case.name.startswith(tuple(only))]
