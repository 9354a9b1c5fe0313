"""Checks that a program is what its plan builds. Anything else makes epsilon infinite, with a reason, before the first round.

The accounting reads the plan: it knows the noise, the sampling and the bounds that `PrivacyPlan` builds, and cannot see what
somebody uses instead. A `Program` is an ordinary Python object, so anybody can make one whose mechanism adds no noise. So
everything on the users' side of a release is compared here with what the plan builds:

    plan         a `PrivacyPlan` itself, and the one in the ledger's first record
    mechanism    of the same class, with the same fields; its strategy is the one that the first record describes
    sampler      the plan's; or `OwnRate` around it for an audit's made-up users; or the check-ins of a simulated population
    users        Tacit's own engine with the same plan, whose gate clips and sums; batches are cut user by user
    start        no round done, no noise drawn, the server's and the clip's state as they are before the first round
    store        where the first record names a store, the run is entered into that store's odometer
    seed         none, unless the first record says so
    release      as many numbers, in as many arrays, as the first record says

Classes are compared by identity, because a subclass may do anything; for the same reason an instance with methods of its own
is not Tacit's. A mechanism, strategy or participation from outside comes into a run by its name in the plan, which builds it
from what is registered (`tacit.privacy.outside`). The accounting then asks it for its cost, which is its author's claim.

**What this does not look at.** The work, the task and the server's step may be anybody's: they run before the clip or after
the release, and the engine hands the work one user's batches and no more (that it is a pure function of them is assumed). The
users' data may be anybody's too: that one user's examples are one person's is assumed in every statement. So is that the model
which the run starts from holds nothing of these users, and that `evaluate` and `finish` read no user who is trained on. Code
that was replaced inside Tacit's own classes cannot be detected here; the audit of the gate measures what they do.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tacit.errors import TacitError
from tacit.learning.letter_sums import secure_letters
from tacit.learning.secure_sums import SecureSums
from tacit.privacy.accounting.claims import outside_objection
from tacit.privacy.noise.strategies import from_description
from tacit.privacy.plan import PrivacyPlan
from tacit.privacy.record.reasons import Reason, Why, distinct
from tacit.privacy.record.records import Opened
from tacit.runs.opening import release_size

if TYPE_CHECKING:
    from tacit.runs.program import Program

# For each class of program that Tacit can prove, a function that says what is wrong with the program's users.
ENGINES: dict[type, Callable[[Any], list[Reason]]] = {}


def with_reasons(program: Program) -> Opened:
    """The ledger's first record, with a reason for everything in the program that did not come from its plan."""
    found = distinct((*program.opened.reasons_not_private, *reasons_of(program)))
    return dataclasses.replace(program.opened, reasons_not_private=found)


def reasons_of(program: Program) -> list[Reason]:
    """What in the program is not what its plan builds; empty for every program of Tacit's own."""
    plan, opened = program.plan, program.opened
    if type(program) not in ENGINES or has_own_methods(program):
        return [Reason(Why.FOREIGN_PROGRAM)]
    if type(plan) is not PrivacyPlan or has_own_methods(plan):
        return [Reason(Why.FOREIGN_PLAN)]
    found = []
    if opened.plan != plan.model_dump(mode="json") or (opened.mechanism, opened.population, opened.adjacency) != (
        plan.mechanism,
        plan.population,
        plan.adjacency,
    ):
        found.append(Reason(Why.UNDESCRIBED_PLAN))
    if opened.outside != plan.outside:
        found.append(Reason(Why.UNDESCRIBED_OUTSIDE))
    if (objection := outside_objection(opened)) is not None:
        found.append(objection)
    if not _is_the_plans_mechanism(program):
        found.append(Reason(Why.FOREIGN_MECHANISM))
    if program.seed is not None and Reason(Why.SEEDED) not in opened.reasons_not_private:
        found.append(Reason(Why.SEEDED))
    if opened.data.store is not None and program.store is None:
        found.append(Reason(Why.NOT_LISTED))
    if not _starts_fresh(program):
        found.append(Reason(Why.NOT_FRESH))
    return found + ENGINES[type(program)](program)


def is_the_plans_secure_sum(secure: SecureSums | None, program: Program) -> bool:
    """Whether sums are made with the constants that the plan gives, as the first record describes them."""
    if secure is None:
        return program.plan.secagg is None and program.opened.secure_sum is None
    letters, dimension = program.opened.letters, secure.encoding.dimension
    made = SecureSums.of_plan(program.plan, dimension)
    if letters is not None:
        made, _ = secure_letters(program.plan, dimension, program.schedule.rounds, letters.shown_delta / 2)
    return type(secure) is SecureSums and secure == made and program.opened.secure_sum == secure.record()


def size_objections(learned: Any, program: Program) -> list[Reason]:
    """A reason if the first record has another size of a release; `learned` is the subtree that users update."""
    fits = program.opened.release == release_size(learned, program.plan)
    return [] if fits else [Reason(Why.UNDESCRIBED_RELEASE)]


def _is_the_plans_mechanism(program: Program) -> bool:
    described = program.opened.strategy
    try:
        strategy = from_description(described) if described else None
        built = program.plan.build_mechanism(program.schedule.rounds, strategy)
    except TacitError:
        return False
    return same(program.mechanism, built)


def _starts_fresh(program: Program) -> bool:
    start, noise = program.start, program.start.noise
    drawn = int(noise["round"]) if isinstance(noise, dict) and "round" in noise else 0
    kept = (start.server, start.clipping)
    fresh = (program.server.init(start.model), program.plan.build_clipping().init())
    return start.round == 0 and drawn == 0 and _same_arrays(kept, fresh)


def _same_arrays(one: Any, other: Any) -> bool:
    """Whether two pytrees have the same shape and equal arrays."""
    structures: list[Any] = [jax.tree.structure(each) for each in (one, other)]
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=False)
    return structures[0] == structures[1] and all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def same(one: Any, other: Any) -> bool:
    """Whether two objects are of one class, with equal fields and no methods of their own."""
    if type(one) is not type(other) or has_own_methods(one):
        return False
    names = vars(one).keys() | vars(other).keys()  # includes values that were computed and cached
    return all(hasattr(each, name) for each in (one, other) for name in names) and all(
        _equal(getattr(one, name), getattr(other, name)) for name in names
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def has_own_methods(value: Any) -> bool:
    """Whether an attribute of the instance hides a method or property of its class."""
    if not hasattr(value, "__dict__"):
        return False
    of_class = {name: inspect.getattr_static(type(value), name, None) for name in vars(value)}
    return any(inspect.isfunction(each) or isinstance(each, property) for each in of_class.values())
