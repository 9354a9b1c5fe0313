"""Runs of models of your own in another process: a function that builds what `tacit.train` was called with.

A run folder holds arrays and settings, and no code. So that a command can load a model of your own, or go on with its run, a
module registers a function that builds the same objects again (`tacit --import MODULE ...`). As with mechanisms of your own,
Tacit imports nothing because a folder names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tacit.errors import RunError
from tacit.runs.folder import RunFolder

Build = TypeVar("Build", bound=Callable[[], Mapping[str, Any]])

# What such a function may return: the arguments of `tacit.resume` that are objects.
OBJECTS = ("model", "task", "users", "held_out", "work", "server", "batches", "trainable", "canaries")
# How many held-out users a run is measured on, where it was not said.
HELD_OUT = 200
# What to do where nothing was registered.
HOW = (
    "In Python: tacit.open_run(path, model=..., task=...). For a command: tacit --import MODULE ..., where MODULE calls "
    "tacit.register_objects."
)

_builders: dict[str, Callable[[], Mapping[str, Any]]] = {}
_built: dict[str, dict[str, Any]] = {}


def register_objects(build: Build) -> Build:
    """Register a function that builds the objects of a run of your own, so that commands and other processes can use the run.

    `build()` returns arguments of `tacit.train` by name: `model` and `task` to predict, export and compare; also `users`,
    `work`, `server`, and whatever else was passed of `held_out`, `batches`, `trainable` and `canaries`, to resume and to audit.
    It is called when a run with a model of the same class is opened, and once. The objects must be those that the run was begun
    with: a folder knows the model before the first round by its digest, and the users by their store or their key.

    >>> import jax.numpy as jnp, tacit
    >>> @tacit.register_objects
    ... def mine():
    ...     return {"model": {"w": jnp.zeros(3)}, "task": lambda model, batch: (jnp.sum(model["w"]), 1)}
    >>> sorted(mine())
    ['model', 'task']
    """
    name = f"{build.__module__}:{build.__qualname__}"
    _builders[name] = build
    _built.pop(name, None)  # a module that is loaded again replaces what it registered before
    return build


def objects_of(folder: RunFolder) -> dict[str, Any]:
    """What a registered function builds for this run of `tacit.train`; empty where none builds a model of its class.

    If several do, the one whose model before the first round is the run's.
    """
    from tacit.training.calls import digest_of
    from tacit.training.sources import name_of

    wanted = folder.recipe()["model"]
    found = [each for each in map(_objects, _builders) if name_of(each["model"]) == wanted["class"]]
    if len(found) > 1:
        found = [each for each in found if digest_of(each["model"]) == wanted["sha256"]] or found
    return found[0] if found else {}


def require_known(objects: Mapping[str, Any], where: str) -> None:
    """RunError for an object that no run takes."""
    unknown = next((name for name in objects if name not in OBJECTS), None)
    if unknown is not None:
        raise RunError(f"Expected objects among {', '.join(OBJECTS)} from {where}, got {unknown!r}.")


def _objects(name: str) -> dict[str, Any]:
    if name not in _built:
        from tacit.learning.trainable import same_leaves

        found = _builders[name]()
        if not isinstance(found, Mapping) or "model" not in found:
            raise RunError(f"Expected a dictionary with a model from {name}, got {type(found).__name__}.")
        require_known(found, name)
        _built[name] = {**found, "model": same_leaves(found["model"])}
    return _built[name]
