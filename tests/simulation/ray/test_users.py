"""The engine on Ray, with workers in this process: what travels, what is merged, and that every kind of run goes through."""

from __future__ import annotations

import dataclasses
import pickle
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tacit.audit.plans import mixed_plan
from tacit.errors import PrivacyError, RunError
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.reasons import Reason, Why
from tacit.recipe.engine import Ray
from tacit.recipe.training import Recipe, parse_recipe
from tacit.runs.callbacks import Callback
from tacit.runs.driver import begin
from tacit.runs.folder import RunFolder
from tacit.runs.provenance import reasons_of
from tacit.simulation import training
from tacit.simulation.ray import users as ray_users
from tacit.simulation.ray.pool import RayPool
from tacit.simulation.ray.users import RayUsers
from tacit.simulation.ray.worker import About, Done, PieceTask
from tacit.simulation.training import program_of, resume_run, start_run
from tacit.training.datasets import open_dataset
from tacit.training.recipes import RecipeSetup
from tests.support.inline_pool import InlinePool, inline_program, run_inline
from tests.support.run_arrays import final_arrays
from tests.support.tiny_recipe import FTRL, tiny

SECURE = {
    "sampling": "check_in",
    "min_separation": 3,
    "max_participation": 2,
    "mechanism": "blt",
    "noise_multiplier": 4.0,
}
RUNS: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "clipped estimator": {"privacy": {"estimator": "clipped", "example_cap": 20.0, "total_weight": 150.0}},
    "adaptive clip": {"privacy": {"adaptive": {"quantile": 0.5}}},
    "per layer": {"privacy": {"clipping": "per_layer"}},
    "no clip": {"privacy": {"mechanism": "none", "noise_multiplier": 0.0, "clip_norm": 1e9}},
    "correlated noise": {"privacy": {**FTRL, "mechanism": "blt"}},
    "secure sums": {"privacy": {**SECURE, "secagg": {"bits": 26}}},
    "the whole protocol": {"privacy": {**SECURE, "secagg": {"bits": 26, "protocol": True}}},
}


def built_in(recipe: Recipe, out: Path) -> RunFolder:
    folder = RunFolder.create(out, recipe.to_toml())
    begin(program_of(RecipeSetup.build(recipe), folder), folder, Callback())
    return folder


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("sections", RUNS.values(), ids=RUNS)
def test_a_run_gives_the_built_in_engine_s_model_up_to_rounding(sections: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny(**sections, run={"seed": 3, "rounds": 3})
    here, there = (
        built_in(recipe, tmp_path / "a"),
        run_inline(recipe, tmp_path / "b", InlinePool(2, lambda done: done[::-1])),
    )
    one, other = final_arrays(here.path), final_arrays(there.path)
    assert one.keys() == other.keys()
    # Secure sums are rounded at random, by the index of a user in the round, which differs between the engines.
    tolerance = 2e-3 if "sec" in str(sections) else 1e-6
    for name in one:
        np.testing.assert_allclose(other[name], one[name], atol=tolerance, rtol=tolerance)
    assert (there.path / "ledger.jsonl").read_bytes().count(b'"kind":"intent"') == 3


def test_planted_canaries_are_trained_as_by_the_built_in_engine(tmp_path: Path) -> None:
    """Made-up users with phrases of their own, and people who have one spliced in."""
    data = {"users": 40, "vocabulary": 1200}
    words, sharers = open_dataset(tiny(data=data)).words, (2, 4, 8)
    plan = mixed_plan(
        words,
        {"world": "keyboard", "seed": 1},
        population=40,
        seed=11,
        devices=1,
        sharers=1,
        coins=6,
        copies=4,
        examples_per_device=6,
        expected_sharers=sharers,
    )
    plan.save(tmp_path / "canaries.json")
    tree = tiny(data=data, privacy={"population": 40, "cohort": 30}, run={"seed": 3, "rounds": 2})
    recipe = parse_recipe(
        {**tree.model_dump(mode="json", exclude_none=True), "audit": {"plan": str(tmp_path / "canaries.json")}}
    )
    here, there = built_in(recipe, tmp_path / "a"), run_inline(recipe, tmp_path / "b", InlinePool(2))
    one, other = final_arrays(here.path), final_arrays(there.path)
    for name in one:
        np.testing.assert_allclose(other[name], one[name], atol=1e-6, rtol=1e-6)
    planted = [read_ledger(folder.path / "ledger.jsonl").opened.planted for folder in (here, there)]
    assert planted[0] is not None
    assert planted[0] == planted[1]


@pytest.mark.parametrize("name", ["gaussian", "secure sums"])
def test_the_bytes_do_not_depend_on_how_many_workers_there_are(name: str, tmp_path: Path) -> None:
    recipe = tiny(**RUNS[name], run={"seed": 3, "rounds": 2})
    models = [
        final_arrays(run_inline(recipe, tmp_path / str(workers), InlinePool(workers, order)).path)
        for workers, order in (
            (1, lambda done: done),
            (2, lambda done: done[::-1]),
            (7, lambda done: done[1:] + done[:1]),
        )
    ]
    for other in models[1:]:
        for leaf in models[0]:
            np.testing.assert_array_equal(models[0][leaf], other[leaf])


def test_the_gate_is_audited_through_a_worker_s_gate(tmp_path: Path) -> None:
    """The audit's own test statistics find the plan's noise, and the canaries were admitted by a worker."""
    pool = InlinePool(2)
    folder = run_inline(tiny(run={"rounds": 6}), tmp_path / "run", pool)
    outcome = built_in(tiny(run={"rounds": 6}), tmp_path / "other")
    assert (folder.path / "gate_audit.json").exists() == (outcome.path / "gate_audit.json").exists()
    assert [type(pickle.loads(task).canaries).__name__ for task in pool.tasks][-1] == "Canaries"
    assert all(pickle.loads(task).canaries is None for task in pool.tasks[:-1])
    assert pickle.loads(pool.tasks[-1]).canaries.before is None  # what was seen of users stays here


def test_a_worker_sends_sums_and_never_one_user_s_update(tmp_path: Path) -> None:
    """Each result has one array of each shape of the model, in float64, and beside it one number a user."""
    pool, recipe = InlinePool(1), tiny(run={"rounds": 1})
    run_inline(recipe, tmp_path / "run", pool)
    shapes = [leaf.shape for leaf in jax.tree.leaves(RecipeSetup.build(recipe).learned)]
    assert len(pool.results) > 1
    for sent in pool.results:
        done: Done = pickle.loads(sent)
        assert {field.name for field in dataclasses.fields(done)} == {
            "number",
            "partial",
            "norms",
            "clipped",
            "seconds",
        }
        update, counts = done.partial
        assert [leaf.shape for leaf in jax.tree.leaves(update)] == shapes
        assert {np.asarray(leaf).dtype for leaf in jax.tree.leaves((update, counts))} == {np.dtype("float64")}
        assert counts.shape == (2,)
        assert done.norms.ndim == done.clipped.ndim == 1


@pytest.mark.parametrize("name", ["gaussian", "secure sums", "the whole protocol"])
def test_nothing_that_a_worker_gets_holds_the_key_of_the_noise_or_what_it_is_derived_from(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets: list[bytes] = []
    plain = Randomness.noise_key

    def watched(self: Randomness, **where: Any) -> Any:
        key = plain(self, **where)
        secrets.extend(bytes(value) for value in _bytes_in(self) + _bytes_in(key))
        return key

    monkeypatch.setattr(Randomness, "noise_key", watched)
    pool = InlinePool(1)
    run_inline(tiny(**RUNS[name], run={"rounds": 1}), tmp_path / "run", pool)
    assert secrets
    assert all((pool.sides, pool.models, pool.tasks, pool.measures))
    everything = (*pool.sides, *pool.models, *pool.tasks, *pool.measures)
    assert not [secret for secret in secrets for sent in everything if secret in sent]


def _bytes_in(value: Any) -> list[bytes]:
    """The secrets of an object: its fields that are 16 bytes or longer."""
    fields = vars(value) if hasattr(value, "__dict__") else {name: getattr(value, name) for name in value.__slots__}
    found = [each for each in fields.values() if isinstance(each, bytes) and len(each) >= 16]
    return found + [np.asarray(each).tobytes() for each in fields.values() if isinstance(each, np.ndarray | jax.Array)]


def test_a_worker_fetches_the_model_once_a_round(tmp_path: Path) -> None:
    """Whatever the number of its pieces; the audit's canaries are one more."""

    class Counted(InlinePool):
        fetched, rounds = 0, 0

        def do(self, tasks: Any, fetch: Any) -> Any:
            def counted() -> Any:
                self.fetched += 1
                return fetch()

            if not isinstance(tasks[0], PieceTask):
                return super().do(tasks, fetch)
            assert len(tasks) > 2
            self.rounds += 1
            return super().do(tasks, counted)

    pool = Counted(2)
    run_inline(tiny(run={"rounds": 2}), tmp_path / "run", pool)
    assert (pool.rounds, pool.fetched) == (2, 2 * 2)


def test_privacy_is_claimed_with_workers_of_ray_and_with_no_others(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", tiny().to_toml())
    foreign = Reason(Why.FOREIGN_ENGINE)
    assert reasons_of(inline_program(tiny(), folder, RayPool(Ray()))) == []
    assert reasons_of(inline_program(tiny(), folder, InlinePool())) == [foreign]

    class Other(RayPool):
        pass

    assert reasons_of(inline_program(tiny(), folder, Other(Ray()))) == [foreign]
    changed = inline_program(tiny(), folder, RayPool(Ray()))
    changed.users.collect = lambda *given: None  # type: ignore[method-assign]
    assert reasons_of(changed) == [foreign]
    loose = inline_program(tiny(), folder, RayPool(Ray()))
    loose.users.plan = tiny(privacy={"clip_norm": 3.0}).privacy
    assert reasons_of(loose) == [Reason(Why.ENGINE_OF_OTHER_PLAN)]


class WaitsForTheNextCohort(InlinePool):
    """Returns the first round's results only when the pieces of the second round have been cut."""

    def __init__(self, cohorts: list[int]) -> None:
        super().__init__()
        self.cohorts, self.waited = cohorts, False

    def do(self, *given: Any) -> Any:
        until = time.monotonic() + 20
        while not self.waited and len(self.cohorts) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.cohorts) >= 2
        self.waited = True
        return super().do(*given)


def test_the_next_cohort_is_cut_while_this_one_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cohorts: list[int] = []
    plain = RayUsers.prepare

    def watched(self: RayUsers, cohort: np.ndarray) -> Any:
        cohorts.append(len(cohort))
        return plain(self, cohort)

    monkeypatch.setattr(RayUsers, "prepare", watched)
    pool = WaitsForTheNextCohort(cohorts)
    run_inline(tiny(run={"rounds": 2, "evaluate_every": 2}), tmp_path / "run", pool)
    assert pool.waited


class Warned(Callback):
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def on_warning(self, sentence: str) -> None:
        self.sentences.append(sentence)


def test_more_workers_than_pieces_are_warned_of_when_a_run_begins_and_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces do not follow from the number of workers, or a seeded run would not give the same bytes with another number."""
    expected = "With engine.pieces = 2, a round keeps at most 2 of 3 workers busy: set it to about 9."
    monkeypatch.setattr(ray_users, "RayPool", lambda settings: InlinePool(3))
    monkeypatch.setattr(training, "use_accelerators", lambda ray: None)
    recipe = tiny(run={"rounds": 1}, engine={"kind": "ray", "pieces": 2})
    first, second, enough = Warned(), Warned(), Warned()
    start_run(recipe, tmp_path / "run", first)
    assert expected in first.sentences
    with pytest.raises(RunError, match="finished"):
        resume_run(tmp_path / "run", second)
    assert second.sentences == [expected]
    start_run(tiny(run={"rounds": 1}, engine={"kind": "ray", "pieces": 3}), tmp_path / "other", enough)
    assert not [each for each in enough.sentences if "pieces" in each]


@pytest.mark.parametrize(("gpus_per_worker", "chunk"), [(1.0, 32), (0.25, 8), (2.0, 32)])
def test_workers_that_share_a_gpu_share_its_memory(gpus_per_worker: float, chunk: int) -> None:
    """A large model, of which half of a GPU's memory has room for 35 users in lockstep."""

    class OfGpus(InlinePool):
        def open(self) -> list[About]:
            return [dataclasses.replace(each, backend="gpu", memory=40 << 30) for each in super().open()]

    setup = RecipeSetup.build(tiny(privacy={"cohort": 64, "sampling": "fixed"}))
    settings = Ray(pieces=1, gpus_per_worker=gpus_per_worker)
    engine = RayUsers(
        setup.dataset.train,
        setup.work,
        setup.plan,
        setup.batches,
        settings=settings,
        parameters=50_000_000,
        pool=OfGpus(),
    )
    engine.open()
    assert engine.chunk == chunk


def test_a_round_larger_than_rounding_is_proven_for_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.simulation import batched

    # Every piece is small enough, and the round is not.
    monkeypatch.setattr(batched, "MOST_USERS", batched.MOST_CANARIES + 8)
    with pytest.raises(PrivacyError, match="at most 8 users in a round"):
        run_inline(tiny(run={"rounds": 4}, privacy={"cohort": 20}), tmp_path / "run")
