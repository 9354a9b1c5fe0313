"""Which leaves of a model are trained. All others are frozen: they are not clipped, noised, counted, stepped or sent.

A filter says which. It is one of:

    None                    every array of floating-point numbers
    predicate(path, leaf)   the path reads like ``layers.0.weight``
    predicate(leaf)         as in Equinox, for example ``eqx.is_inexact_array``
    a pytree of booleans    with the model's structure, or a prefix of it

A predicate sees shapes and dtypes, never values: which leaves are trained cannot depend on data, and stays the same in every
round. Integers, functions and other leaves that are not floating-point arrays are frozen whatever the filter says.

A model is split into two pytrees of its own structure, with None in place of the leaves that the other one has; `join` puts
them together again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tacit.errors import RecipeError

Model = Any
Filter = Any  # None, a predicate, or a pytree of booleans
Predicate = Callable[[str, Any], bool]


@dataclass(frozen=True)
class Trainable:
    """A filter that can be hashed. `trainable_of` makes one."""

    predicate: Predicate | None = None
    booleans: tuple[bool, ...] = ()
    structure: Any = None

    def split(self, model: Model) -> tuple[Any, Any]:
        """(the leaves that are trained, the frozen rest). RecipeError if nothing is trained."""
        leaves, structure = jax.tree.flatten(model)
        chosen = self._chosen(model)
        if not any(chosen):
            arrays = sum(map(_is_inexact, leaves))
            raise RecipeError(
                f"Nothing would be trained: {arrays} of the model's {len(leaves)} leaves are arrays of floating-point numbers, "
                "and trainable selects none of these."
            )
        pairs = list(zip(leaves, chosen, strict=True))
        trained = [leaf if on else None for leaf, on in pairs]
        frozen = [None if on else leaf for leaf, on in pairs]
        return jax.tree.unflatten(structure, trained), jax.tree.unflatten(structure, frozen)

    def trained(self, model: Model) -> Any:
        """The leaves that are trained."""
        return self.split(model)[0]

    def _chosen(self, model: Model) -> list[bool]:
        """Whether each leaf is trained."""
        paths, _ = jax.tree_util.tree_flatten_with_path(model)
        numeric = [_is_inexact(leaf) for _, leaf in paths]
        asked = self._asked(paths, numeric) if self.structure is None else self._as_listed(model)
        chosen = [number and on for number, on in zip(numeric, asked, strict=True)]
        for (path, leaf), on in zip(paths, chosen, strict=True):
            if on and not jnp.issubdtype(leaf.dtype, jnp.floating):
                raise RecipeError(f"Expected real numbers in the trained leaf {_name(path)}, got {leaf.dtype}.")
        return chosen

    def _asked(self, paths: list[tuple[Any, Any]], numeric: list[bool]) -> list[bool]:
        """What the predicate answers for each numeric leaf; inside a trace, where leaves have no values."""
        if self.predicate is None:
            return numeric
        predicate, answers = self.predicate, dict[int, bool]()

        def ask(leaves: dict[int, Any]) -> None:
            answers.update({place: bool(predicate(_name(paths[place][0]), leaf)) for place, leaf in leaves.items()})

        try:
            jax.eval_shape(ask, {place: paths[place][1] for place, number in enumerate(numeric) if number})
        except jax.errors.JAXTypeError as error:
            raise RecipeError(
                "The filter in trainable looks at the values of a leaf: it may look at path, shape and dtype alone."
            ) from error
        return [answers.get(place, False) for place in range(len(paths))]

    def _as_listed(self, model: Model) -> list[bool]:
        """The pytree of booleans, spread over the leaves below each of them."""
        listed = jax.tree.unflatten(self.structure, self.booleans)
        try:
            spread = jax.tree.map(lambda on, below: jax.tree.map(lambda _: on, below), listed, model)
        except ValueError as error:
            raise RecipeError(
                "The pytree of booleans in trainable has neither the model's structure nor a prefix of it."
            ) from error
        return jax.tree.leaves(spread)


EVERYTHING = Trainable()


def trainable_of(given: Filter) -> Trainable:
    """The filter in one form. RecipeError if it is none of those that this module lists."""
    if given is None:
        return EVERYTHING
    if isinstance(given, Trainable):
        return given
    leaves, structure = jax.tree.flatten(given)
    if leaves and all(isinstance(leaf, bool) for leaf in leaves):
        return Trainable(booleans=tuple(leaves), structure=structure)
    if len(leaves) == 1 and leaves[0] is given and callable(given):
        return Trainable(predicate=_with_path(given))
    raise RecipeError(
        f"Expected trainable to be a predicate on (path, leaf) or a pytree of booleans, got {type(given).__name__}."
    )


def join(trained: Any, frozen: Any) -> Model:
    """The model that was split."""
    return eqx.combine(trained, frozen)


def same_leaves(model: Model) -> Model:
    """The model in containers of its own, so that a dict which somebody changes is not the one that is trained."""
    return jax.tree.map(lambda leaf: leaf, model)


def place(model: Model, device: jax.Device) -> Model:
    """The model with its arrays on this device."""
    arrays, others = eqx.partition(model, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), others)


def _with_path(predicate: Callable[..., bool]) -> Predicate:
    needed = [each for each in inspect.signature(predicate).parameters.values() if each.default is each.empty]
    return predicate if len(needed) != 1 else _OfLeaf(predicate)


@dataclass(frozen=True)
class _OfLeaf:
    """A predicate on a leaf alone."""

    predicate: Callable[[Any], bool]

    def __call__(self, path: str, leaf: Any) -> bool:
        return self.predicate(leaf)


def _is_inexact(leaf: Any) -> bool:
    return eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
