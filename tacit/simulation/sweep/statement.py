"""What a sweep costs the people whose data it reads: one statement, from the runs' own ledgers and the stores' odometers.

**A fixed list of cases.** All cases were settled before the first of them released anything (`sweep.json`), and no run sees
what another one released. Their releases are then one mechanism, settled beforehand, and ε is that of all their planned rounds,
composed as one (`accounting.composition`). Cases that have not begun count in full. So the statement holds whatever made
somebody stop: which cases are run, and in which order, may depend on what was released, because what is published is a function
of what all cases would have released. It stays the same while the sweep runs, apart from rounds that are cut off and run again,
which count in addition.

**A list that grew.** Cases that were added later may have been chosen by looking at the others. Then everything goes through
the odometer's bound for adaptively chosen runs (`accounting.adaptive`).

**Which runs count.** For a store: every run that its odometer lists and whose folder is, or was, in the sweep's folder: a case
that was begun, deleted and begun again counts twice, or makes the total unknown. Discoveries of words that cases make for
themselves are among them. If the odometer lists other runs on the same people, what all of them cost together is stated too.

A world has made-up users: nobody pays. Somebody in several stores pays for all of them, and that total is stated as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.numbers import finite_or_none
from tacit.privacy.record.ledger import Ledger
from tacit.privacy.record.reasons import Reason, in_words, reasons_as_json
from tacit.privacy.statement.wording import counted, round_up
from tacit.runs.evidence import evidence_of
from tacit.runs.finding import is_run
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import Entry, runs_of
from tacit.runs.store_cost import Added, Listed, added_up, look_up
from tacit.simulation.sweep.folder import SettledCase, SweepFolder


@dataclass(frozen=True)
class PeoplesCost:
    """What a sweep costs the people of one store, or of all stores together.

    `people` says who they are. `runs` is how many runs it is the cost of, and `to_come` how many of these have not begun.
    `others` is how many other runs their odometer lists, and `with_others` what all cost together. Nobody pays if `made_up`.
    """

    people: str
    cost: Added
    runs: int
    to_come: int
    adaptive: bool
    made_up: bool = False
    others: int = 0
    with_others: Added | None = None

    @property
    def epsilon(self) -> float:
        """Infinite where nothing can be claimed."""
        return _epsilon(self.cost)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why epsilon is infinite or unknown."""
        return _reasons(self.cost)

    def sentences(self) -> list[str]:
        """The statement."""
        if self.made_up:
            return [
                f"{self.people}: its users are made up, so nobody pays. Real people would pay {_figure(self.cost)}."
            ]
        said = f"{self.people}: the sweep costs any one of its people {_figure(self.cost)}."
        found = [f"{said} {self._which()}"] if math.isfinite(self.epsilon) else [said]
        if self.with_others is not None:
            other = counted(self.others, "other run")
            found.append(
                f"{self.people}: with the {other} that the store's odometer lists, {_figure(self.with_others)}. This bound "
                "holds for runs that were chosen by looking at earlier ones."
            )
        return found

    def _which(self) -> str:
        begun = (
            ""
            if not self.to_come
            else f", {self.to_come:,} of which {'has' if self.to_come == 1 else 'have'} not begun"
        )
        runs = f"It is that of all planned rounds of {counted(self.runs, 'run')}{begun}"
        if self.adaptive:
            return f"{runs}, by a bound that holds although cases or rounds were added after others had begun."
        return f"{runs}, composed as one, because all cases were settled before the first began."

    def as_dict(self) -> dict[str, Any]:
        """For JSON: an infinite or unknown epsilon is null, and its reasons say why."""
        total = self.cost.total
        more = None
        if self.with_others is not None:
            more = {"runs": self.others, **_facts(self.with_others)}
        return {
            "people": self.people,
            "made_up": self.made_up,
            "runs": self.runs,
            "to_come": self.to_come,
            "adaptive": self.adaptive,
            **_facts(self.cost),
            "assumptions": [] if total is None else list(total.assumptions),
            "with_other_runs": more,
        }


def statement_of(sweep: SweepFolder) -> list[PeoplesCost]:
    """What the sweep costs, for each store or world that its cases read, and for people in several stores."""
    groups: dict[str, list[SettledCase]] = {}
    for case in sweep.cases:
        groups.setdefault(_users_of(case), []).append(case)
    found = [_of_store(sweep, cases) if cases[0].store else _of_world(sweep, cases) for cases in groups.values()]
    stores = [each for each in found if not each.cost_of.made_up]
    if len(stores) > 1:
        found.append(_together(sweep, stores))
    return [each.cost_of for each in found]


@dataclass(frozen=True)
class _Found:
    """A cost, with the runs that it is that of."""

    cost_of: PeoplesCost
    listed: list[Listed]
    planned: list[Ledger]


def _of_store(sweep: SweepFolder, cases: Sequence[SettledCase]) -> _Found:
    ids, planned, unlisted = {}, [], []
    for case in cases:
        folder = _begun(sweep, case)
        if folder is None:
            planned.append(_planned(sweep, case))
        else:
            ids[folder.run_id] = folder
    ours: list[Listed] = []
    others: list[Listed] = []
    stores = {case.store.resolve() for case in cases if case.store is not None}
    known: set[str] = set()
    for store in sorted(stores):
        for run_id, entries in _entries(store):
            if run_id in known:
                continue
            known.add(run_id)
            (ours if run_id in ids or _was_in(sweep, entries) else others).append(look_up(store, entries))
    for run_id, folder in ids.items():
        if run_id not in known:  # the list was restored, or is another store's
            entry = Entry(run_id, str(folder.path), folder.created, claims_privacy=True)
            unlisted.append(Listed(entry, problem="the store's odometer does not list it"))
    ours += unlisted
    counting = [each for each in others if each.evidence is not None or each.problem is not None]
    name = " and ".join(str(case) for case in sorted({str(case.recipe.data.store) for case in cases}))
    adaptive = _adaptive(sweep, ours)
    cost = added_up(ours, planned=planned, adaptive=adaptive)
    begun = sum(each.evidence is not None or each.problem is not None for each in ours)
    return _Found(
        PeoplesCost(
            name,
            cost,
            begun + len(planned),
            len(planned),
            adaptive,
            others=len(counting),
            with_others=added_up([*ours, *others], planned=planned, adaptive=True) if counting else None,
        ),
        ours,
        planned,
    )


def _of_world(sweep: SweepFolder, cases: Sequence[SettledCase]) -> _Found:
    listed, planned = [], []
    for case in cases:
        folder = _begun(sweep, case)
        if folder is None:
            planned.append(_planned(sweep, case))
            continue
        entry = Entry(folder.run_id, str(folder.path), folder.created, claims_privacy=True)
        try:
            listed.append(Listed(entry, evidence=evidence_of(folder.path)))
        except TacitError as error:
            listed.append(Listed(entry, problem=error.sentence.rstrip(".")))
    data = cases[0].opened.data
    name = f"{str(data.world).capitalize()} world of {data.users or 0:,} users"
    adaptive = _adaptive(sweep, listed)
    cost = added_up(listed, planned=planned, adaptive=adaptive)
    return _Found(PeoplesCost(name, cost, len(cases), len(planned), adaptive, made_up=True), listed, planned)


def _together(sweep: SweepFolder, stores: Sequence[_Found]) -> _Found:
    listed = [each for store in stores for each in store.listed]
    planned = [each for store in stores for each in store.planned]
    adaptive = _adaptive(sweep, listed)
    cost = added_up(listed, planned=planned, adaptive=adaptive)
    runs, to_come = (sum(getattr(each.cost_of, name) for each in stores) for name in ("runs", "to_come"))
    return _Found(PeoplesCost("Somebody in all of these stores", cost, runs, to_come, adaptive), listed, planned)


def _users_of(case: SettledCase) -> str:
    data = case.opened.data
    return data.store or json.dumps([data.name, data.users], sort_keys=True)


def _begun(sweep: SweepFolder, case: SettledCase) -> RunFolder | None:
    """The folder of this case's run, if it has a ledger."""
    path = sweep.run_path(case)
    if not is_run(path):
        return None
    folder = RunFolder.open(path)
    return folder if folder.begun else None


def _planned(sweep: SweepFolder, case: SettledCase) -> Ledger:
    return Ledger.of_planned(sweep.run_path(case) / "ledger.jsonl", case.opened)


def _entries(store: Path) -> Iterable[tuple[str, list[Entry]]]:
    return runs_of(store).items() if store.is_dir() else ()


def _was_in(sweep: SweepFolder, entries: Sequence[Entry]) -> bool:
    return any(str(Path(entry.path).parent) in sweep.places for entry in entries)


def _adaptive(sweep: SweepFolder, listed: Iterable[Listed]) -> bool:
    """Whether cases were added to the sweep after it had begun, or rounds to a run after it had finished."""
    extended = (each.evidence.ledger.opened.extended_from for each in listed if each.evidence is not None)
    return sweep.adaptive or any(extended)


def _epsilon(cost: Added) -> float:
    if cost.reasons:
        return math.inf
    return 0.0 if cost.total is None else cost.total.epsilon


def _reasons(cost: Added) -> tuple[Reason, ...]:
    return cost.reasons or (() if cost.total is None else cost.total.reasons_not_private)


def _figure(cost: Added) -> str:
    epsilon = _epsilon(cost)
    if cost.reasons:
        return f"an unknown epsilon, so nothing can be claimed: {in_words(cost.reasons)}"
    if cost.total is None:
        return "nothing"
    if math.isinf(epsilon):
        return f"an infinite epsilon, because {in_words(_reasons(cost))}"
    return f"ε = {round_up(epsilon)} at δ = {cost.total.delta:g}"


def _facts(cost: Added) -> dict[str, Any]:
    total, unknown = cost.total, bool(cost.reasons)
    return {
        "epsilon": finite_or_none(_epsilon(cost)),
        "delta": None if total is None or unknown else total.delta,
        "rho": None if total is None or unknown else finite_or_none(total.rho),
        "adjacency": None if total is None or unknown else total.adjacency,
        "accountant": None if total is None or unknown else total.accountant,
        **reasons_as_json(_reasons(cost)),
    }
