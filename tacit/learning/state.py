"""A training state as named arrays, for checkpoints, and back.

Public arrays (model, server optimizer, clip) and arrays that are as secret as the noise (the mechanism's state) are kept apart.
What is called "model" is the run's result, which readers of a checkpoint use. If the run averages its models, that is the
average, and "last" is the model that users go on from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tacit.errors import RunError
from tacit.learning.loop import TrainingState

Arrays = dict[str, np.ndarray]


def to_arrays(state: TrainingState) -> tuple[Arrays, Arrays]:
    """(public, private) arrays by name."""
    public = {"model": state.result, "server": state.server, "clipping": state.clipping}
    if state.average is not None:
        public |= {"last": state.model, "average": state.average}
    return {k: v for name, tree in public.items() for k, v in _named(name, tree).items()}, _named("noise", state.noise)


def from_arrays(
    template: TrainingState, round: int, public: Mapping[str, Any], private: Mapping[str, Any]
) -> TrainingState:
    """The state these arrays came from; `template` is a fresh state of the same recipe."""
    average = template.average
    return replace(
        template,
        round=round,
        model=_filled("model" if average is None else "last", template.model, public),
        average=None if average is None else _filled("average", average.empty(template.model, round), public),
        server=_filled("server", template.server, public),
        clipping=_filled("clipping", template.clipping, public),
        noise=_filled("noise", template.noise, private),
    )


def model_arrays(model: Any) -> Arrays:
    """The model alone, as `load_model` reads it."""
    return _named("model", model)


def load_model(template: Any, arrays: Mapping[str, Any]) -> Any:
    """The model alone."""
    return _filled("model", template, arrays)


def _leaves(prefix: str, tree: Any) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(prefix + jax.tree_util.keystr(path), leaf) for path, leaf in paths]


def _named(prefix: str, tree: Any) -> Arrays:
    """The arrays of a pytree. Other leaves, such as functions, belong to the program and are not saved."""
    return {name: np.asarray(leaf) for name, leaf in _leaves(prefix, tree) if eqx.is_array(leaf)}


def _filled(prefix: str, template: Any, arrays: Mapping[str, Any]) -> Any:
    leaves = []
    for name, leaf in _leaves(prefix, template):
        if not eqx.is_array(leaf):
            leaves.append(leaf)
            continue
        if name not in arrays or arrays[name].shape != leaf.shape:
            raise RunError(f"The checkpoint does not fit the model: {name} is missing or has another shape.")
        with jax.enable_x64(True):  # the noise's state has 64 bits
            leaves.append(jax.numpy.asarray(arrays[name], leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(template), leaves)
