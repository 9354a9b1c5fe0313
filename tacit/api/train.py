"""Train a model of one's own, or a recipe; go on with a run; hold the loop in one's own hands."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tacit.api.run import Run
from tacit.errors import RecipeError
from tacit.recipe.reading import find_recipe
from tacit.recipe.training import Recipe, load_recipe
from tacit.runs.callbacks import Callback, Callbacks
from tacit.runs.folder import RunFolder, by_name, next_folder

if TYPE_CHECKING:
    from tacit.training.setup import TrainingSetup


@dataclass(frozen=True)
class Round:
    """A round that is done: `number` rounds of `rounds` have been run, and this is the model after them."""

    number: int
    rounds: int
    model: Any


class Rounds:
    """The rounds of a run, one at a time. Leave the loop early and the run stops with a checkpoint, to be resumed.

    Iterate over it, or close it with `close` or a `with` block. `run` is the run; it is finished when the loop has ended.
    """

    def __init__(self, run: Run, states: Generator[Any, None, dict[str, Any]], rounds: int) -> None:
        self.run, self._states, self._rounds = run, states, rounds

    def __iter__(self) -> Iterator[Round]:
        try:
            for state in self._states:
                yield Round(state.round, self._rounds, state.model)
        finally:
            self._states.close()

    def close(self) -> None:
        """Stop the run after the last round, with a checkpoint."""
        self._states.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def train(
    model: Any = None,
    task: Any = None,
    users: Any = None,
    *,
    recipe: str | Path | Recipe | None = None,
    changes: Iterable[str] = (),
    out: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
    **settings: Any,
) -> Run:
    """Train a model on users under differential privacy, in a new run folder; returns the finished run.

    With `recipe` (a name, a file or a `Recipe`), everything comes from it, and `changes` of the form "section.key=value" are
    made to it first. Otherwise:

    - `model` is any pytree of arrays, `task` what it learns: a function loss(model, batch) -> (sum of losses, number of
      predictions), or a `Task`, which may have `metrics` and `scores` too.
    - `users` are `tacit.users(...)`, `tacit.open_store(...)`, a world, or anything with the `Users` protocol; `held_out` says
      how many of those whom they hold out are measured on, or is users of its own.
    - `work` is what each user computes, `privacy` the `PrivacyPlan`, `server` any optax transformation.
    - `rounds`, `evaluate_every` and `checkpoint_every` say how long and how often; `batches` how examples are cut, `trainable`
      which leaves of the model are trained; `seed` makes noise replayable, and the run not private; `canaries` is a
      `CanaryPlan` to plant among the users; `gate_audit=False` leaves out the audit of the gate.

    Ctrl-C stops after the round under way, with a checkpoint, and raises `StopRequested`; `resume` goes on from there.

    >>> import tacit
    >>> run = tacit.train(recipe="demo", changes=["run.rounds=2"], out="runs/two-rounds")  # doctest: +SKIP
    >>> run.cost().epsilon  # doctest: +SKIP
    """
    began = _begin(model, task, users, recipe, changes, out, callbacks, settings, catch_interrupt=True)
    for _ in began:
        pass
    return began.run


def rounds(
    model: Any = None,
    task: Any = None,
    users: Any = None,
    *,
    recipe: str | Path | Recipe | None = None,
    changes: Iterable[str] = (),
    out: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
    **settings: Any,
) -> Rounds:
    """What `train` does, with the loop in the caller's hands: an iterator over the rounds, with the same ledger around it.

    >>> import tacit
    >>> for step in tacit.rounds(recipe="demo", out="runs/mine"):  # doctest: +SKIP
    ...     if step.number == 10:
    ...         break  # the run stops with a checkpoint, and tacit.resume goes on from there
    """
    return _begin(model, task, users, recipe, changes, out, callbacks, settings, catch_interrupt=False)


def resume(
    path: str | Path,
    model: Any = None,
    task: Any = None,
    users: Any = None,
    *,
    recipe: Recipe | None = None,
    older_if_damaged: bool = False,
    callbacks: Iterable[Callback] = (),
    **settings: Any,
) -> Run:
    """Go on with a run that was stopped or killed, from its last checkpoint; returns the finished run.

    The rounds since the checkpoint run again with fresh noise, and count again. A run of one's own model needs the objects
    that it was begun with: model, task, users, work and server. `older_if_damaged` goes back one checkpoint if the newest is
    damaged. RunError for a run that has finished; PrivacyError if anything differs from what its ledger was begun with.

    >>> import tacit
    >>> run = tacit.resume("runs/two-rounds")  # doctest: +SKIP
    """
    from tacit.simulation.training import further_rounds_of, setup_to_resume
    from tacit.training.calls import resumed_call

    folder, callback = RunFolder.open(by_name(Path(path))), Callbacks(callbacks)
    if model is None:
        setup: TrainingSetup = setup_to_resume(folder, callback, recipe)
    else:
        setup = resumed_call(folder, model, task, users, **settings)
    states = further_rounds_of(setup, folder, callback, older_if_damaged=older_if_damaged, catch_interrupt=True)
    began = Rounds(_run_of(setup, folder), states, setup.schedule.rounds)
    for _ in began:
        pass
    return began.run


def _begin(
    model: Any,
    task: Any,
    users: Any,
    recipe: str | Path | Recipe | None,
    changes: Iterable[str],
    out: str | Path | None,
    callbacks: Iterable[Callback],
    settings: dict[str, Any],
    *,
    catch_interrupt: bool,
) -> Rounds:
    from tacit.simulation.training import first_rounds_of, setup_of_recipe
    from tacit.training.calls import setup_of_call

    callback = Callbacks(callbacks)
    if recipe is not None:
        if model is not None or task is not None or users is not None or settings:
            given = "a model" if model is not None else next(iter(settings), "a task or users")
            raise RecipeError(f"Expected either a recipe or a model, task and users, got a recipe and {given}.")
        followed = recipe if isinstance(recipe, Recipe) else load_recipe(find_recipe(str(recipe)), changes)
        where = next_folder(followed.name) if out is None else Path(out)
        setup: TrainingSetup = setup_of_recipe(followed, where)
    else:
        for name, value in (("model", model), ("task", task), ("users", users)):
            if value is None:
                raise RecipeError(f"Expected a {name}, or a recipe, got neither.")
        where = next_folder("run") if out is None else Path(out)
        setup = setup_of_call(model, task, users, name=where.name, **settings)
    folder, states = first_rounds_of(setup, where, callback, catch_interrupt=catch_interrupt)
    return Rounds(_run_of(setup, folder), states, setup.schedule.rounds)


def _run_of(setup: TrainingSetup, folder: RunFolder) -> Run:
    from tacit.training.calls import CallSetup

    return Run(folder, setup=setup if isinstance(setup, CallSetup) else None)
