"""The arguments of a call of `tacit.train`, checked before anything is built: a wrong type is refused in one sentence."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from tacit.data.canaries.plan import CanaryPlan
from tacit.errors import RecipeError
from tacit.learning.averaging import Averaging
from tacit.privacy.plan import PrivacyPlan
from tacit.recipe.engine import BUILT_IN, Ray
from tacit.runs.witness import Witness


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """The value as an int; RecipeError unless it is a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise RecipeError(f"Expected {name} to be a whole number of at least {least}, got {value!r}.")
    return int(value)


def require_users(name: str, users: Any) -> None:
    """RecipeError unless this looks like users: they have a length, and their examples can be gathered."""
    if isinstance(users, type) or not (hasattr(users, "__len__") and callable(getattr(users, "gather", None))):
        raise RecipeError(
            f"Expected {name} to be users, got {_shown(users)}.",
            hint="tacit.users(...) makes users of a dictionary or of rows, tacit.open_store(path) opens those on disk.",
        )


def require_plan(privacy: Any) -> None:
    """RecipeError unless this is a plan."""
    if not isinstance(privacy, PrivacyPlan):
        raise RecipeError(
            f"Expected privacy to be a tacit.PrivacyPlan, got {_shown(privacy)}.",
            hint="tacit.calibrate(epsilon=..., rounds=..., ...) finds the plan for an epsilon.",
        )


def require_types(
    users: Any,
    *,
    held_out: Any,
    work: Any,
    privacy: Any,
    server: Any,
    batches: Any,
    seed: Any,
    canaries: Any,
    average: Any = None,
    engine: Any = None,
    witness: Any = None,
) -> None:
    """RecipeError names the first argument that is not of the kind that `tacit.train` takes."""
    require_users("users", users)
    if not isinstance(held_out, Integral):
        if held_out is None or isinstance(held_out, float):
            raise RecipeError(
                f"Expected held_out to be a number of users, or users of their own, got {held_out!r}.",
                hint="The share that is held out is an argument of tacit.users(..., held_out=0.1).",
            )
        require_users("held_out", held_out)
    if isinstance(work, type) or not (callable(getattr(work, "update", None)) and hasattr(work, "batch_size")):
        raise RecipeError(f"Expected work with update(...) and batch_size, such as tacit.FedAvg(), got {_shown(work)}.")
    require_plan(privacy)
    if isinstance(server, type) or not (hasattr(server, "init") and hasattr(server, "update")):
        raise RecipeError(
            f"Expected server to be an optax transformation, such as optax.sgd(1.0), got {_shown(server)}."
        )
    if batches is not None and not (hasattr(batches, "batch_size") and hasattr(batches, "lay_out")):
        raise RecipeError(f"Expected batches to be tacit.TextBatches(...) or the like, got {_shown(batches)}.")
    if seed is not None:
        whole_number("seed", seed, least=0)
    if average is not None and not isinstance(average, Averaging):
        raise RecipeError(
            f"Expected average to be tacit.LastAverage(...) or tacit.ExponentialAverage(...), got {_shown(average)}."
        )
    if canaries is not None and not isinstance(canaries, CanaryPlan):
        raise RecipeError(f"Expected canaries to be a plan of tacit.canaries(...), got {_shown(canaries)}.")
    if witness is not None and not isinstance(witness, Witness):
        raise RecipeError(f"Expected witness to be tacit.Witness(...), got {_shown(witness)}.")
    require_engine(engine)


def require_engine(engine: Any) -> None:
    """RecipeError unless this is an engine that can be chosen, or None."""
    if engine is not None and engine != BUILT_IN and not isinstance(engine, Ray):
        raise RecipeError(f"Expected engine to be tacit.Ray(...) or 'built-in', got {_shown(engine)}.")


def _shown(value: Any) -> str:
    """A short value as it is written, and of any other the class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    plain = value is None or isinstance(value, str | int | float)
    return repr(value) if plain and len(repr(value)) < 60 else f"an object of the class {type(value).__name__}"
