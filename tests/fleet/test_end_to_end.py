"""A real server and real devices on loopback end with the model that a simulation of the same cohorts ends with."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.errors import FleetError, ProtocolError, TacitError
from tacit.fleet.database.transactions import open_database
from tacit.fleet.device import account
from tacit.fleet.device.agent import Agent
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.enrolment import enrol
from tacit.fleet.device.home import Home
from tacit.fleet.rounds.evaluation import evaluated_model
from tacit.fleet.rounds.secure_aggregation import SecureAggregationRound
from tacit.fleet.rounds.task_compiler import LOSS_CAP
from tacit.fleet.server import enrolment
from tacit.fleet.server.serving import ServeSettings, serve
from tacit.fleet.wire.sealing import make_secret
from tacit.learning.loop import train
from tacit.learning.next_word import score_sums
from tacit.learning.prefix_tree import words_of
from tacit.learning.state import model_arrays
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.participation.log import verified
from tacit.privacy.record.ledger import read_ledger
from tacit.privacy.record.planned import CUT_OFF
from tacit.recipe.training import Recipe
from tacit.runs import checkpoints
from tacit.runs.cost import cohorts_for_owner, cost_of
from tacit.runs.folder import RunFolder
from tacit.runs.odometer import read as read_odometer
from tacit.simulation.cohorts import SimulatedCohort
from tacit.simulation.training import engine_of
from tacit.training.recipes import RecipeSetup
from tacit.training.trained import load_trained
from tests.support.fleet.crowd import fleet_recipe
from tests.support.fleet.worlds import sentences_of

# Every block of the gate: updates, weights, and the bits that the clip is learned from.
EVERYTHING = {
    "adaptive": {"quantile": 0.5},
    "example_cap": 12.0,
    "total_weight": 9.0,
    "estimator": "clipped",
}
SECURE = {"selection_s": 0.5, "stage_s": 20.0, "dropout": 0.4}


@contextmanager
def devices(homes: list[Path]) -> Iterator[None]:
    """Devices that come whenever they may, each in a thread of its own."""
    stopping = threading.Event()

    def live(folder: Path) -> None:
        with Home.open(folder) as home:
            connection = Connection(home)
            agent = Agent(home, connection)
            while not stopping.is_set():
                try:
                    wait = agent.step()
                except TacitError:
                    wait = 0.2
                stopping.wait(min(wait, 0.2))
            connection.close()

    threads = [threading.Thread(target=live, args=(folder,), daemon=True) for folder in homes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


@contextmanager
def served(settings: ServeSettings) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A server in a thread: its address, and a way to wait for its summary."""
    stopping, address, found = threading.Event(), threading.Event(), dict[str, Any]()

    def ready(at: str) -> None:
        found["address"] = at
        address.set()

    def run() -> None:
        try:
            found["summary"] = serve(settings, stopping=stopping, ready=ready)
        except BaseException as error:
            found["error"] = error
        finally:
            address.set()

    def wait() -> Any:
        thread.join()
        if "error" in found:
            raise found["error"]
        return found["summary"]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    address.wait()
    try:
        yield found.get("address", ""), wait
    finally:
        stopping.set()
        thread.join()


def alone(recipe: Recipe, out: Path) -> ServeSettings:
    """All roles in one process."""
    return ServeSettings(out=out, recipe=recipe, port=0, http=True)


def enrolled_homes(
    recipe: Recipe, server: str, out: Path, folder: Path, typed: Callable[[int], list[str]] | None = None
) -> list[Path]:
    """A device for each user of the world: number n is user n - 1, with the user's sentences or those that are `typed`."""
    setup, engine = RecipeSetup.build(recipe), open_database(f"sqlite:///{out}/fleet.db")
    token = enrolment.make_token(engine, uses=100, expires_at=time.time() + 600)
    homes = []
    for user in range(len(setup.dataset.train)):
        text, lines = folder / f"{user}.jsonl", sentences_of(setup, user) if typed is None else typed(user)
        text.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
        home = folder / f"home{user}"
        assert enrol(home, server=server, token=token, data=text).device == user + 1
        homes.append(home)
    engine.dispose()
    return homes


def require_receipts(homes: list[Path]) -> None:
    """Every contribution that devices sent has the server's receipt, if its answer came, and its task was in the log."""
    receipts = 0
    for home in homes:
        with Home.open(home) as opened:
            mine, memory = account.read(opened.account_path), opened.memory
        receipts += sum(each.receipt is not None for each in mine)
        assert len(mine) == memory.server.rounds
        assert not mine or len(memory.log.tasks) == 1
    assert receipts >= 8


class Nothing:
    def before(self, cohort: Any, norms: Any) -> None: ...

    def after(self, state: Any, diagnostics: Any) -> None: ...


def simulated(recipe: Recipe, run: Path) -> Any:
    """The model of the simulation in which those come who are in the run's record."""
    setup = RecipeSetup.build(recipe)
    engine = engine_of(setup)
    ledger = read_ledger(run / "ledger.jsonl")
    came = [
        SimulatedCohort(
            each.round,
            0,
            each.users - 1,
            Randomness.from_seed(0).noise_key(round=each.round, attempt=0),
            engine.prepare(each.users - 1),
            lambda purpose, each=each: bytes(31) + bytes([each.round]),
        )
        for each in verified(run / "private/participation.bin", ledger)
    ]
    return train(
        setup.start,
        participation=came,
        users=engine,
        clipping=recipe.privacy.build_clipping(),
        mechanism=setup.mechanism,
        server=setup.server,
        journal=Nothing(),
    ).result


def difference(one: Any, other: Any) -> float:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)


def test_devices_end_where_the_simulation_of_their_cohorts_ends(tmp_path: Path) -> None:
    recipe, out = fleet_recipe(run={"rounds": 2}, privacy=EVERYTHING), tmp_path / "server"
    with served(alone(recipe, out)) as (address, wait):
        homes = enrolled_homes(recipe, address, out, tmp_path)
        with devices(homes):
            summary = wait()
    assert summary is not None
    require_receipts(homes)
    model = load_trained(out / "run").model
    expected = simulated(recipe, out / "run")
    assert difference(model, RecipeSetup.build(recipe).start.model) > 1e-3
    assert difference(model, expected) < 1e-6
    (entry,) = read_odometer(out)  # what another recipe on the same devices would be composed with
    assert entry.path == str((out / "run").resolve())


@pytest.mark.process
def test_a_fleet_hands_on_the_average_of_its_models(tmp_path: Path) -> None:
    averaged, out = {"average": "last", "average_rounds": 2}, tmp_path / "server"
    recipe = fleet_recipe(run={"rounds": 3}, server=averaged)
    with served(alone(recipe, out)) as (address, wait), devices(enrolled_homes(recipe, address, out, tmp_path)):
        assert wait()["average"] == "the mean of the models after the last 2 rounds"
    model = load_trained(out / "run").model
    assert difference(model, simulated(recipe, out / "run")) < 1e-6
    assert difference(model, simulated(fleet_recipe(run={"rounds": 3}), out / "run")) > 1e-4


@pytest.mark.process
def test_secure_aggregation_differs_by_quantisation_alone(tmp_path: Path) -> None:
    out, plain = tmp_path / "server", fleet_recipe(run={"rounds": 2}, privacy=EVERYTHING)
    recipe = fleet_recipe(run={"rounds": 2}, privacy={**EVERYTHING, "secagg": {"bits": 24}}, fleet=SECURE)
    with served(alone(recipe, out)) as (address, wait), devices(enrolled_homes(recipe, address, out, tmp_path)):
        assert wait() is not None
    assert read_ledger(out / "run" / "ledger.jsonl").opened.fleet.secure_aggregation
    model = load_trained(out / "run").model
    assert difference(model, RecipeSetup.build(recipe).start.model) > 1e-3
    # A few steps of the encoding; a vector that is missing or wrong would differ by its whole length.
    assert difference(model, simulated(plain, out / "run")) < 1e-5


@pytest.mark.slow
def test_no_mask_is_removed_before_the_intent_is_on_disk_and_a_lost_round_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = {"mechanism": "discrete", "noise_multiplier": 0.5, "delta": 1e-3}
    secagg = {"bits": 24, "scheme": "device_noise"}
    recipe = fleet_recipe(run={"rounds": 1}, privacy={**noise, "secagg": secagg}, fleet=SECURE)
    out, seen = tmp_path / "server", list[int]()
    proceed, total = SecureAggregationRound.proceed, SecureAggregationRound.total

    def proceeds(self: SecureAggregationRound) -> None:
        seen.append(len(read_ledger(out / "run" / "ledger.jsonl").intents))
        proceed(self)

    def fails_once(self: SecureAggregationRound) -> Any:
        if len(seen) == 1:
            raise ProtocolError("A share was false.")
        return total(self)

    monkeypatch.setattr(SecureAggregationRound, "proceed", proceeds)
    monkeypatch.setattr(SecureAggregationRound, "total", fails_once)
    with served(alone(recipe, out)) as (address, wait):
        homes = enrolled_homes(recipe, address, out, tmp_path)
        with devices(homes):
            summary = wait()
    assert 0 < summary["privacy"]["epsilon"] < 100
    assert CUT_OFF in summary["privacy"]["assumptions"]
    folder = RunFolder.open(out / "run")
    owners = cost_of(folder, cohorts=cohorts_for_owner(folder, folder.ledger()))
    assert owners.stated.epsilon == owners.guarantee().epsilon == summary["privacy"]["epsilon"]
    assert owners.happened is not None
    # Both attempts are charged in full; the same devices may have been in both, as the promise leaves room for.
    assert owners.happened.epsilon <= owners.stated.epsilon * (1 + 1e-9)
    assert any("one person enrols one device" in each for each in summary["privacy"]["assumptions"])
    assert seen == [1, 2]  # each time, the attempt's own intent was there first
    ledger = read_ledger(out / "run" / "ledger.jsonl")
    assert [(intent.round, intent.attempt) for intent in ledger.intents] == [(0, 0), (0, 1)]
    lost, counted = (set(each.users) for each in verified(out / "run" / "private/participation.bin", ledger))
    assert len(lost) == len(counted) == 4
    for number, home in enumerate(homes, start=1):
        # Whoever was in both attempts has sent two reports, and counts both, though the server says that one came to nothing.
        with Home.open(home) as opened:
            assert opened.memory.server.rounds >= (number in lost) + (number in counted)


@pytest.mark.process
def test_roles_in_processes_of_their_own_reach_each_other(tmp_path: Path) -> None:
    recipe = fleet_recipe(run={"rounds": 1}, privacy={"secagg": {"bits": 24}}, fleet=SECURE)
    make_secret(tmp_path / "secret")
    selector, adds, coordinates = (
        ServeSettings(
            out=tmp_path / role,
            recipe=recipe,
            role=role,  # type: ignore[arg-type]
            database=f"sqlite:///{tmp_path}/fleet.db",
            secret=tmp_path / "secret",
            port=0,
            http=True,
        )
        for role in ("selector", "aggregator", "coordinator")
    )
    with (
        served(selector) as (address, _),
        served(adds),
        served(coordinates) as (_, wait),
        devices(enrolled_homes(recipe, address, tmp_path, tmp_path)),
    ):
        assert wait() is not None
    model = load_trained(tmp_path / "coordinator" / "run").model
    plain = simulated(fleet_recipe(run={"rounds": 1}), tmp_path / "coordinator" / "run")
    assert difference(model, plain) < 1e-5


@pytest.mark.process
def test_devices_measure_a_model_through_the_gate(tmp_path: Path) -> None:
    trained, out = fleet_recipe(), tmp_path / "server"
    run = RunFolder.create(tmp_path / "trained", trained.to_toml(), vocabulary=RecipeSetup.build(trained).dataset.words)
    model = RecipeSetup.build(trained).start.model
    checkpoints.save(run.checkpoints_path, 1, model_arrays(model), {})
    recipe = fleet_recipe(
        name="look", run={"rounds": 2}, privacy={"clip_norm": 1.0}, fleet={"evaluates": str(tmp_path / "trained")}
    )
    with served(alone(recipe, out)) as (address, wait), devices(enrolled_homes(recipe, address, out, tmp_path)):
        summary = wait()
    ledger = read_ledger(out / "run" / "ledger.jsonl")
    assert [intent.blocks["update"]["bound"] for intent in ledger.intents] == [1.0, 1.0]
    came = [user for each in verified(out / "run" / "private/participation.bin", ledger) for user in each.users - 1]
    assert len(set(came)) == 8
    setup = RecipeSetup.build(recipe)
    found = []
    for user in came:
        (chunk,) = engine_of(setup).prepare(np.array([user]))
        rows = np.concatenate(list(chunk.batches[0]))
        words, _, top1, *_, loss, predictions = np.asarray(score_sums(model, jnp.asarray(rows)))
        found.append((top1 / max(words, 1), min(loss / max(predictions, 1), LOSS_CAP)))
    top1, loss = np.mean(found, axis=0)
    assert summary["metrics"]["top1"] == pytest.approx(top1, rel=1e-4, abs=1e-6)
    assert summary["metrics"]["loss"] == pytest.approx(loss, rel=1e-4)
    assert any("one person enrols one device" in each for each in summary["privacy"]["assumptions"])
    other = RecipeSetup.build(fleet_recipe(model={"units": 6}))
    with pytest.raises(FleetError, match="to have the size of the run"):
        evaluated_model(other, tmp_path / "trained")


# Words with a q are left out: devices have one in place of words that the world's vocabulary lacks.
LETTERS = {"alphabet": "abcdefghijklmnoprstuvwxyz", "longest": 5, "coordinates": 32_768, "words_per_user": 2}


def words_by_letters(**changes: Any) -> Recipe:
    privacy = {"clip_norm": 1.0, "min_separation": 0, **changes.pop("privacy", {})}
    return fleet_recipe(name="words", letters=LETTERS, privacy=privacy, **changes)


@pytest.mark.process
def test_devices_find_words_letter_by_letter_as_a_simulation_of_their_cohorts_does(tmp_path: Path) -> None:
    recipe, out = words_by_letters(), tmp_path / "server"
    with served(alone(recipe, out)) as (address, wait), devices(enrolled_homes(fleet_recipe(), address, out, tmp_path)):
        summary = wait()
    found = json.loads((out / "run" / "totals.json").read_text())["found"]
    assert found == words_of(simulated(recipe, out / "run"), LETTERS["alphabet"])
    assert summary["found"] == len(found) > 0
    assert set((out / "run" / "vocabulary.txt").read_text().split("\n")[1:-1]) == set(found)
    assert read_ledger(out / "run" / "ledger.jsonl").opened.letters is not None


@pytest.mark.process
def test_secure_aggregation_finds_words_of_several_devices_and_the_ledger_says_what_that_cost(tmp_path: Path) -> None:
    privacy = {"mechanism": "gaussian", "noise_multiplier": 0.2, "delta": 1e-2, "secagg": {"bits": 24}}
    recipe, out = words_by_letters(privacy=privacy, fleet=SECURE), tmp_path / "server"

    def typed(user: int) -> list[str]:
        return ["tea"] if user else ["zebra"]

    with (
        served(alone(recipe, out)) as (address, wait),
        devices(enrolled_homes(fleet_recipe(), address, out, tmp_path, typed)),
    ):
        summary = wait()
    ledger = read_ledger(out / "run" / "ledger.jsonl")
    assert ledger.opened.fleet.secure_aggregation
    assert ledger.opened.reasons_not_private == ()
    assert set(json.loads((out / "run" / "totals.json").read_text())["found"]) == {"tea"}
    # Three rounds, and a device in all of them at most.
    assert summary["privacy"]["rho"] == pytest.approx(3 / (2 * 0.2**2))
