"""What a person says about Ray: where it runs, how many workers there are, and into how many pieces a round is cut."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tacit.errors import RecipeError

# Enough pieces for eight workers to be evenly busy.
PIECES = 16
# How long a worker may take for one piece, compilation included, before it is given up.
GIVE_UP_S = 600.0
# The engine that trains users in this process.
BuiltIn = Literal["built-in"]
BUILT_IN: BuiltIn = "built-in"


@dataclass(frozen=True, kw_only=True)
class Ray:
    """Train on Ray: `tacit.train(..., engine=tacit.Ray())`.

    - `address` is that of a running cluster, `"auto"` or `"host:port"`. Without it, Ray is started on this machine for the run,
      and stopped with it.
    - `workers` is how many processes train users; without it, as many as the cluster has room for.
    - `gpus_per_worker` is how many GPUs each of them holds. With 0 a worker has one CPU core.
    - `pieces` is into how many pieces a round is cut, at most. It decides how sums are rounded, so a seeded run repeats itself
      only with the same number. Choose about three times as many as there will be workers.
    - A worker that needs longer than `give_up_s` seconds for a piece is stopped, and another one gets the piece.

    >>> import tacit
    >>> tacit.Ray(workers=2).pieces
    16
    """

    address: str | None = None
    workers: int | None = None
    gpus_per_worker: float = 0.0
    pieces: int = PIECES
    give_up_s: float = GIVE_UP_S

    def __post_init__(self) -> None:
        for name in ("workers", "pieces"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise RecipeError(f"Expected {name} to be a whole number of at least 1, got {value!r}.")
        gpus = self.gpus_per_worker
        if not math.isfinite(gpus) or gpus < 0 or (gpus > 1 and gpus != int(gpus)):
            raise RecipeError(
                f"Expected gpus_per_worker to be a share of one GPU or a whole number of them, got {gpus!r}."
            )
        if not self.give_up_s > 0:
            raise RecipeError(f"Expected give_up_s > 0, got {self.give_up_s!r}.")
        if self.address is not None and self.address.startswith("ray://"):
            raise RecipeError(
                f"Expected an address such as auto or host:port, got {self.address}: a Ray client cannot share memory with "
                "the cluster.",
                hint="Run the command on a machine of the cluster, for example with `ray job submit`.",
            )


def ray_of(engine: Ray | BuiltIn | None) -> Ray | None:
    """What is asked of Ray; None for the built-in engine, which is chosen by its name or by nothing."""
    return engine if isinstance(engine, Ray) else None
