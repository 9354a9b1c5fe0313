"""What is told of an error in a worker: a mistake in one sentence, or a bug with its traceback."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tacit.errors import StoreError, TacitError, WorkerError

if TYPE_CHECKING:
    from tacit.simulation.ray.worker import About


def mistake_in(error: BaseException) -> TacitError | None:
    """The mistake that a worker has told, if it is one of Tacit's own."""
    for each in itertools.chain([error], [getattr(error, "cause", None)]):
        if isinstance(each, TacitError):
            return each
    return None


def of_the_users(error: Any, about: About) -> BaseException:
    """What to raise for an error of a worker that gets the users: what is wrong with them there, or as for the work."""
    found, cause = mistake_in(error), getattr(error, "cause", None)
    if found is not None:
        return WorkerError(
            f"The worker {about.host} cannot read the users: {found.sentence}",
            hint="Every machine with a worker needs the same store, or shards of it, under the same path."
            if isinstance(found, StoreError)
            else None,
        )
    return _of_a_module(error, about) if isinstance(cause, ImportError | AttributeError) else of_the_work(error, about)


def of_the_work(error: Any, about: About) -> BaseException:
    """What to raise for an error inside the work: the mistake itself, or that memory ran out, or the traceback as it is."""
    found = mistake_in(error)
    if found is not None:
        return found
    if "RESOURCE_EXHAUSTED" in str(error) or isinstance(getattr(error, "cause", None), MemoryError):
        return WorkerError(
            f"The worker {about.host} has too little memory for {about.backend} work on a chunk of users.",
            hint="Lower engine.chunk, then resume the run.",
        )
    if "ModuleNotFoundError" in str(error):
        return _of_a_module(error, about)
    return error if isinstance(error, BaseException) else RuntimeError(str(error))


def _of_a_module(error: Any, about: About) -> WorkerError:
    return WorkerError(
        f"The worker {about.host} cannot import what the users or the work are made of: {_last_line(error)}.",
        hint="Install the modules of your own code on every machine.",
    )


def _last_line(error: BaseException) -> str:
    """The last line of a worker's traceback: what went wrong, as Python says it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip().rstrip(".")
