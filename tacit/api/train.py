"""Train a model of your own, or a recipe; resume a run; run the training loop yourself, round by round."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tacit.api.own_objects import HELD_OUT, objects_of
from tacit.api.run import Run
from tacit.errors import RecipeError, RunError
from tacit.recipe.engine import ray_of
from tacit.recipe.reading import find_recipe
from tacit.recipe.target import at_epsilon
from tacit.recipe.training import Recipe, load_recipe, on_engine
from tacit.runs.callbacks import Callback, Callbacks
from tacit.runs.finding import by_name, next_folder, refuse_if_taken
from tacit.runs.folder import RunFolder

if TYPE_CHECKING:
    import optax

    from tacit.data.canaries.plan import CanaryPlan
    from tacit.data.users import Users
    from tacit.learning.averaging import Averaging
    from tacit.learning.batches import Batching
    from tacit.learning.trainable import Filter
    from tacit.learning.work import Work
    from tacit.privacy.plan import PrivacyPlan
    from tacit.recipe.engine import BuiltIn, Ray
    from tacit.runs.witness import Witness
    from tacit.training.setup import TrainingSetup


@dataclass(frozen=True)
class Round:
    """A round that is done: `number` rounds of `rounds` have been run, and this is the model after them.

    It is the model that users train from next, also in a run that averages; the average is `Run.model`.

    >>> import tacit
    >>> tacit.Round(number=3, rounds=10, model=None).number
    3
    """

    number: int
    rounds: int
    model: Any


class Rounds:
    """The rounds of a run, one at a time. Leave the loop early and the run stops with a checkpoint, to be resumed.

    Iterate over it. `close`, or the end of a `with` block, stops the run. `run` is the run; it has finished when the loop has
    ended by itself.

    >>> import tacit
    >>> with tacit.rounds(recipe="demo", out="runs/mine") as steps:  # doctest: +SKIP
    ...     for step in steps:
    ...         print(step.number)
    """

    def __init__(self, run: Run, states: Generator[Any, None, dict[str, Any]], rounds: int) -> None:
        self.run, self._states, self._rounds = run, states, rounds

    def __iter__(self) -> Iterator[Round]:
        from tacit.learning.trainable import same_leaves

        try:
            for state in self._states:
                yield Round(state.round, self._rounds, same_leaves(state.model))
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
    held_out: int | Users = HELD_OUT,
    work: Work | None = None,
    privacy: PrivacyPlan | None = None,
    server: optax.GradientTransformation | None = None,
    rounds: int | None = None,
    batches: Batching | None = None,
    trainable: Filter = None,
    average: Averaging | None = None,
    evaluate_every: int | None = None,
    checkpoint_every: int | None = None,
    seed: int | None = None,
    canaries: CanaryPlan | None = None,
    gate_audit: bool = True,
    engine: Ray | BuiltIn | None = None,
    witness: Witness | None = None,
    recipe: str | Path | Recipe | None = None,
    changes: Iterable[str] = (),
    epsilon: float | None = None,
    out: str | Path | None = None,
    callbacks: Iterable[Callback] = (),
) -> Run:
    """Train a model on users under differential privacy, in a new run folder; returns the finished run.

    - `model` is any pytree of arrays. `task` is what it learns: a function loss(model, batch) -> (sum of losses, number of
      predictions), or a `Task`, which may have `metrics` and `scores` too. `trainable` says which leaves are trained.
    - `users` are `tacit.users(...)`, `tacit.open_store(...)`, a world, or anything with the `Users` protocol. The model is
      measured on at most `held_out` of the users who are held out, or on the users that are passed as `held_out`. `batches`
      says how examples are cut into batches.
    - `work` is what each user computes, `privacy` is the plan, `server` is any optax transformation, `rounds` is how many
      rounds to train.
    - With `average`, the run's model is an average of the models after its rounds, `tacit.LastAverage(10)` or
      `tacit.ExponentialAverage(0.9)`. Users still train from the last model. It costs no privacy.
    - The model is measured every `evaluate_every` rounds (default: ten times in a run), and saved every `checkpoint_every`
      rounds (default: 10).
    - With `seed` the noise can be replayed, and the run is not private. `canaries` are planted among the users, and `Run.audit`
      looks for them. The gate is audited, unless `gate_audit` is False.
    - With `witness=tacit.Witness(...)` somebody else's server countersigns the head of the ledger, so that nobody can rewrite
      it unseen.
    - With `engine=tacit.Ray(...)` worker processes on Ray train the users, on this machine or on many. With "built-in" this
      process does, whatever the recipe says.
    - `out` is the run folder; without it, runs/run-1 or the next free number. `callbacks` are called as the run goes on.

    With `recipe` (a name, a file or a `Recipe`) everything but `engine`, `out` and `callbacks` comes from the recipe, after
    `changes` of the form "section.key=value" were made to it. With `epsilon`, its noise is the least with which the run costs
    at most that much. The command `tacit train` does the same.

    Ctrl-C stops the run after the current round, with a checkpoint, and raises `StopRequested`. `tacit.resume` goes on from
    there.

    >>> import tempfile, tacit
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = tacit.train(recipe="demo", changes=["run.rounds=1", "data.users=400", "privacy.population=400",
    ...         "privacy.cohort=10", "privacy.delta=1e-4", "data.held_out=2"], out=f"{folder}/run")
    ...     run.state, run.cost().delta
    ('finished', 0.0001)
    """
    given = {name: value for name, value in locals().items() if name in _SETTINGS}
    began = _begin(model, task, users, given, recipe, changes, epsilon, out, callbacks, catch_interrupt=True)
    for _ in began:
        pass
    return began.run


def rounds(model: Any = None, task: Any = None, users: Any = None, **settings: Any) -> Rounds:
    """What `train` does, as an iterator over the rounds: you run the loop, and the ledger is the same.

    Takes the arguments of `train`. Leaving the loop early stops the run with a checkpoint, and `resume` goes on from there.

    >>> import tempfile, tacit
    >>> small = ["run.rounds=3", "data.users=400", "privacy.population=400", "privacy.cohort=10", "privacy.delta=1e-4",
    ...     "data.held_out=2"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for step in tacit.rounds(recipe="demo", changes=small, out=f"{folder}/run"):
    ...         if step.number == 2:
    ...             break
    ...     tacit.open_run(f"{folder}/run").state
    'stopped'
    """
    outer = {
        name: settings.pop(name) for name in ("recipe", "changes", "epsilon", "out", "callbacks") if name in settings
    }
    unknown = next((name for name in settings if name not in _SETTINGS), None)
    if unknown is not None:
        raise RecipeError(f"Unknown argument {unknown}: tacit.rounds takes the arguments of tacit.train.")
    return _begin(
        model,
        task,
        users,
        settings,
        outer.get("recipe"),
        outer.get("changes", ()),
        outer.get("epsilon"),
        outer.get("out"),
        outer.get("callbacks", ()),
        catch_interrupt=False,
    )


def resume(
    path: str | Path,
    model: Any = None,
    task: Any = None,
    users: Any = None,
    *,
    held_out: int | Users = HELD_OUT,
    work: Work | None = None,
    server: optax.GradientTransformation | None = None,
    batches: Batching | None = None,
    trainable: Filter = None,
    canaries: CanaryPlan | None = None,
    recipe: Recipe | None = None,
    rounds: int | None = None,
    older_if_damaged: bool = False,
    engine: Ray | BuiltIn | None = None,
    callbacks: Iterable[Callback] = (),
) -> Run:
    """Go on with a run that was stopped or killed, from its last checkpoint; returns the finished run.

    With `rounds`, a run that has finished is extended to so many rounds in all. The ledger records it, and the guarantee then
    covers all rounds: epsilon is larger, and holds although the decision to go on was made by looking at the run. RunError for
    a run that cannot be extended: one with correlated noise, or whose users check in.

    The rounds since the checkpoint run again with fresh noise, and count again. A run that trains a model of your own needs
    the objects that it was begun with: model, task, users, work and server, passed here or registered (`register_objects`).
    Its plan, rounds, average and seed are in the folder. With `older_if_damaged`, the newest checkpoint that is not damaged is
    used. With `engine`, `tacit.Ray(...)` or "built-in", users are trained there from now on, wherever the run was begun.
    RunError for a run that has finished, without `rounds`; PrivacyError if anything differs from the first record of the
    ledger.

    >>> import tacit
    >>> run = tacit.resume("runs/mine")  # doctest: +SKIP
    """
    from tacit.runs.extension import extension_of
    from tacit.simulation.choice import use_accelerators
    from tacit.simulation.training import further_rounds_of, setup_to_resume
    from tacit.training.arguments import require_engine, whole_number
    from tacit.training.calls import CALLED, resumed_call

    require_engine(engine)
    objects = {"held_out": held_out, "batches": batches, "trainable": trainable, "canaries": canaries}
    folder, callback = RunFolder.open(by_name(Path(path))), Callbacks(callbacks)
    if rounds is not None:
        rounds = whole_number("rounds", rounds)
        extension_of(folder, rounds)  # raises before the model is built
    if model is None and CALLED in folder.recipe() and (built := objects_of(folder)):
        model, task, users, work, server = (built.get(name) for name in ("model", "task", "users", "work", "server"))
        objects |= {name: each for name, each in built.items() if name in objects}
    if model is None:
        if CALLED in folder.recipe():
            raise RunError(
                f"The run {folder.path} was begun with a model of your own, so it needs the same objects to go on.",
                hint=f"In Python: tacit.resume({str(path)!r}, model, task, users, work=..., server=...). For a command: tacit "
                "--import MODULE ..., where MODULE calls tacit.register_objects.",
            )
        setup: TrainingSetup = setup_to_resume(folder, callback, recipe, engine)
    else:
        _require("tacit.resume", task=task, users=users, work=work, server=server)
        use_accelerators(ray_of(engine))
        objects["engine"] = engine
        setup = resumed_call(folder, model, task, users, work=work, server=server, **objects)
    if rounds is not None:
        setup = setup.for_rounds(rounds)
    states = further_rounds_of(
        setup, folder, callback, older_if_damaged=older_if_damaged, catch_interrupt=True, extend=rounds is not None
    )
    began = Rounds(_run_of(setup, folder), states, setup.schedule.rounds)
    for _ in began:
        pass
    return began.run


def _begin(
    model: Any,
    task: Any,
    users: Any,
    settings: dict[str, Any],
    recipe: str | Path | Recipe | None,
    changes: Iterable[str],
    epsilon: float | None,
    out: str | Path | None,
    callbacks: Iterable[Callback],
    *,
    catch_interrupt: bool,
) -> Rounds:
    from tacit.simulation.choice import use_accelerators
    from tacit.simulation.training import first_rounds_of, setup_of_recipe
    from tacit.training.arguments import require_engine
    from tacit.training.calls import setup_of_call
    from tacit.training.datasets import reasons_of_data

    if recipe is not None:
        given = {"model": model, "task": task, "users": users, **settings}
        engine = given.pop("engine", None)
        require_engine(engine)
        if other := next(
            (name for name, value in given.items() if value is not None and value != _SETTINGS.get(name)), None
        ):
            raise RecipeError(f"Expected a recipe, or a model with its settings, got a recipe and {other}.")
        if isinstance(changes, str | Mapping):
            raise RecipeError(f'Expected changes to be a list such as ["run.rounds=20"], got {changes!r}.')
        followed = recipe if isinstance(recipe, Recipe) else load_recipe(find_recipe(str(recipe)), changes)
        if engine is not None:
            followed = on_engine(followed, engine)
        if epsilon is not None:
            followed = at_epsilon(followed, epsilon, reasons_of_data(followed)).recipe
        where = next_folder(followed.name) if out is None else Path(out)
        setup: TrainingSetup = setup_of_recipe(followed, where)
    else:
        if changes:
            raise RecipeError("The argument changes is for a recipe, and no recipe is given.")
        if epsilon is not None:
            raise RecipeError(
                "The argument epsilon is for a recipe, and no recipe is given.",
                hint="A plan for an epsilon: privacy=tacit.calibrate(epsilon=8, rounds=100, ...).",
            )
        needed = {name: settings.get(name) for name in ("work", "privacy", "server", "rounds")}
        _require("tacit.train", model=model, task=task, users=users, **needed)
        where = next_folder("run") if out is None else Path(out)
        refuse_if_taken(where)
        require_engine(settings.get("engine"))
        use_accelerators(ray_of(settings.get("engine")))
        setup = setup_of_call(model, task, users, name=where.name, **{**_SETTINGS, **settings})
    callback = Callbacks(callbacks)
    folder, states = first_rounds_of(setup, where, callback, catch_interrupt=catch_interrupt)
    return Rounds(_run_of(setup, folder), states, setup.schedule.rounds)


def _require(caller: str, **given: Any) -> None:
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise RecipeError(
            f"{caller} needs {', '.join(missing)} to train a model of your own.",
            hint='To train a recipe, name it: tacit.train(recipe="demo").' if "model" in missing else None,
        )


def _run_of(setup: TrainingSetup, folder: RunFolder) -> Run:
    from tacit.training.calls import CallSetup

    return Run(folder, setup=setup if isinstance(setup, CallSetup) else None)


# The settings of a call that trains a model of your own, with their default values.
_SETTINGS: dict[str, Any] = {
    "held_out": HELD_OUT,
    "work": None,
    "privacy": None,
    "server": None,
    "rounds": None,
    "batches": None,
    "trainable": None,
    "average": None,
    "evaluate_every": None,
    "checkpoint_every": None,
    "seed": None,
    "canaries": None,
    "gate_audit": True,
    "engine": None,
    "witness": None,
}
