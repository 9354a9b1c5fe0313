"""A ledger that was edited and hashed again is not believed: not by its recipe, not by its checkpoints, not by its store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.runs.callbacks import Callback
from tacit.simulation.training import start_run
from tests.support.commands import Tacit
from tests.support.forging import Records, forge, forge_checkpoints, forge_recipe, in_every_intent
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY
from tests.support.tiny_recipe import tiny

COMMANDS = ("account run run", "account compose run", "guarantee run", "report run --share", "runs show run")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind on a world: fresh noise, correlated noise, secure sums, adaptive clipping."""
    folder = tmp_path_factory.mktemp("honest")
    check_in = {"sampling": "check_in", "min_separation": 2, "max_participation": 2}
    kinds: dict[str, dict[str, Any]] = {
        "gaussian": {"noise_multiplier": 2.0},
        "fixed": {"noise_multiplier": 2.0, "sampling": "fixed", "population": 400},
        "blt": {"noise_multiplier": 2.0, "mechanism": "blt", **check_in},
        "adaptive": {"noise_multiplier": 2.0, "adaptive": {"count_noise": 5.0}},
        "secagg": {"noise_multiplier": 2.0, **check_in, "secagg": {}},
        "seeded": {"noise_multiplier": 2.0},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for name, privacy in kinds.items():
            run = {"rounds": 4, "seed": 5} if name == "seeded" else {"rounds": 4}
            start_run(tiny(privacy=privacy, run=run), folder / name, Callback())
    return folder


@pytest.fixture
def run(honest: Path, here: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of an honest run, to be forged."""
    kind = getattr(request, "param", "gaussian")
    shutil.copytree(honest / kind, here / "run")
    return here / "run"


def refused(tacit: Tacit, *, said: str) -> None:
    """Every command that states an epsilon refuses in the same way; nothing is exported either."""
    for command in COMMANDS:
        assert said in tacit(*command.split()).refusal(4), command
    assert tacit("export", "run", "--safetensors", "m.safetensors").refusal(4)


@pytest.mark.parametrize("run", ["gaussian", "fixed", "blt", "adaptive", "secagg", "seeded"], indirect=True)
def test_honest_runs_are_believed(tacit: Tacit, run: Path) -> None:
    for command in (*COMMANDS, "export run --safetensors m.safetensors"):
        answer = tacit(*command.split())
        assert answer.code == 0, answer.err
    forge(run, lambda records: None)  # what the forger writes is what was there
    assert tacit("account", "run", "run").code == 0


def everywhere(name: str, value: Any) -> Callable[[Records], None]:
    """The plan's noise multiplier in the first record and in every intent."""

    def edit(records: Records) -> None:
        records[0]["plan"][name] = value
        in_every_intent(lambda intent: intent["blocks"]["update"].update({name: value}))(records)

    return edit


def plan(**changes: Any) -> Callable[[Records], None]:
    return lambda records: records[0]["plan"].update(changes)


def first(**changes: Any) -> Callable[[Records], None]:
    return lambda records: records[0].update(changes)


def without_last_rounds(records: Records) -> None:
    """The last two rounds and all that tells of them."""
    records[:] = [
        each
        for each in records
        if not (each["kind"] == "intent" and each["round"] >= 2)
        and not (each["kind"] == "committed" and each["rounds_done"] > 2)
        and each["kind"] != "closed"
    ]


def bound_of_nothing(intent: dict[str, Any]) -> None:
    intent["blocks"]["update"]["bound"] = 0.001


EDITS: dict[str, tuple[str, Callable[[Records], Any], str]] = {
    "z everywhere": ("gaussian", everywhere("noise_multiplier", 40.0), "privacy.noise_multiplier is 2.0"),
    "z of the plan": ("gaussian", plan(noise_multiplier=40.0), "privacy.noise_multiplier is 2.0"),
    "z of the intents": (
        "gaussian",
        in_every_intent(lambda intent: intent["blocks"]["update"].update(noise_multiplier=40.0)),
        "got other noise than the plan says",
    ),
    "z of one intent": (
        "gaussian",
        lambda records: records[2]["blocks"]["update"].update(noise_multiplier=40.0),
        "got other noise than the plan says",
    ),
    "clip": ("gaussian", plan(clip_norm=0.1), "privacy.clip_norm is 0.3"),
    "bounds of the intents": ("gaussian", in_every_intent(bound_of_nothing), "was clipped at another norm"),
    "bounds of secure sums": ("secagg", in_every_intent(bound_of_nothing), "was clipped at another norm"),
    "cohort": ("gaussian", plan(cohort=1.0), "privacy.cohort is 12.0"),
    "population": ("gaussian", plan(population=40_000), "privacy.population is 400"),
    "population beside the plan": ("gaussian", first(population=40_000), "population"),
    "delta": ("gaussian", plan(delta=1e-3), "privacy.delta is 0.0001"),
    "sampling": (
        "fixed",
        lambda records: (
            plan(sampling="poisson")(records),
            first(adjacency="add or remove one user")(records),
            in_every_intent(lambda intent: intent.update(sampling={"kind": "poisson", "probability": 0.03}))(records),
        ),
        "privacy.sampling is 'fixed'",
    ),
    "probability of the intents": (
        "gaussian",
        in_every_intent(lambda intent: intent["sampling"].update(probability=1e-4)),
        "was sampled otherwise than the plan says",
    ),
    "most participations of the intents": (
        "blt",
        in_every_intent(lambda intent: intent["sampling"].update(max_participation=1)),
        "was sampled otherwise than the plan says",
    ),
    "a restart that was not": (
        "blt",
        lambda records: records[2].update(restart=True),
        "restarts its noise otherwise than the plan says",
    ),
    "coefficients of the strategy": (
        "blt",
        lambda records: records[0]["strategy"].update(omega=[0.0 for _ in records[0]["strategy"]["omega"]]),
        "was not saved under the ledger's first record",
    ),
    "no strategy": ("blt", first(strategy={}), "how the noise of the mechanism 'blt' is correlated"),
    "mechanism": ("blt", first(mechanism="gaussian", strategy={}), "mechanism"),
    "adjacency": ("fixed", first(adjacency="add or remove one user"), "adjacency"),
    "unit": ("gaussian", first(unit="example"), "unit"),
    "denominator": (
        "gaussian",
        in_every_intent(lambda intent: intent.update(denominator=1.0)),
        "was divided by something other than the plan's denominator",
    ),
    "adaptive bits": (
        "adaptive",
        in_every_intent(lambda intent: intent["blocks"]["within"].update(noise_multiplier=400.0)),
        "got other noise than the plan says",
    ),
    "a block left out": (
        "adaptive",
        in_every_intent(lambda intent: intent["blocks"].pop("within")),
        "got other noise than the plan says",
    ),
    "the seed": ("seeded", first(seeded=False, reasons_not_private=[]), "seed"),
    "the reasons": ("seeded", first(reasons_not_private=[]), "seed"),
    "another reason": (
        "seeded",
        first(reasons_not_private=[{"code": "of-a-later-version", "detail": "seeded", "run": ""}]),
        "run.seed in recipe.toml forbids to claim privacy, and the ledger does not name it",
    ),
    "numbers of a release": (
        "gaussian",
        lambda records: records[0]["release"].update(coordinates=1),
        "was not saved under the ledger's first record",
    ),
    "the last rounds": ("gaussian", without_last_rounds, "after 4 rounds, but its ledger knows of 2"),
    "another checkpoint": (
        "gaussian",
        lambda records: records[-2].update(checkpoint="ab" * 32),
        "is not one that the ledger names",
    ),
    "one round more than planned": (
        "gaussian",
        lambda records: records.insert(-1, {**records[4], "round": 4}) or records[-1].update(round=5),
        "4 rounds",
    ),
}


@pytest.mark.parametrize(("run", "edit", "said"), EDITS.values(), ids=EDITS.keys(), indirect=["run"])
def test_an_edit_is_caught(tacit: Tacit, run: Path, edit: Callable[[Records], Any], said: str) -> None:
    forge(run, edit)
    refused(tacit, said=said)


def test_a_recipe_that_was_edited_too_is_caught_by_the_checkpoints(tacit: Tacit, run: Path) -> None:
    forge_recipe(run, "noise_multiplier = 2.0", "noise_multiplier = 40.0")
    refused(tacit, said="privacy.noise_multiplier is 40.0")
    forge(run, everywhere("noise_multiplier", 40.0))
    refused(tacit, said="was not saved under the ledger's first record")


def test_a_recipe_alone_is_caught_by_its_digest(tacit: Tacit, run: Path) -> None:
    path = run / "recipe.toml"
    path.write_text(path.read_text().replace("noise_multiplier = 2.0", "noise_multiplier = 40.0"))
    refused(tacit, said="recipe.toml is not the one that the ledger names")
    forge(run, lambda records: records[0].update(recipe="ab" * 32))
    refused(tacit, said="recipe.toml is not the one that the ledger names")


def test_a_forged_checkpoint_alone_is_damaged_or_not_named(tacit: Tacit, run: Path) -> None:
    """The forger edits the first record and binds the checkpoints to it, but forgets what the ledger names."""
    forge(run, lambda records: records[0]["release"].update(coordinates=1))
    forge_checkpoints(run)
    assert tacit("account", "run", "run").code == 0  # all digests fit: without a signature nobody can tell
    forge(run, lambda records: records[0]["release"].update(coordinates=2))
    refused(tacit, said="was not saved under the ledger's first record")


def test_where_everything_was_forged_the_store_knows(tacit: Tacit, here: Path) -> None:
    """Recipe, ledger and checkpoints agree on z = 40; the store's odometer has the heads of another ledger."""
    words = Vocabulary(tuple(f"w{i}" for i in range(50)), word_list("test"))
    sentences = [[[4 + (user + word) % 50 for word in range(5)]] * 4 for user in range(64)]
    save_users(ListUsers(sentences), here / "store", source="test", vocabulary=words, key=KEY)
    privacy = {"population": 60, "cohort": 20, "delta": 1e-5, "noise_multiplier": 2.0}
    recipe = tiny(privacy=privacy, data={"world": None, "store": "store", "held_out": 4})
    start_run(recipe, here / "run", Callback())
    assert tacit("account", "run", "run").code == 0
    forge_recipe(here / "run", "noise_multiplier = 2.0", "noise_multiplier = 40.0")
    forge(here / "run", everywhere("noise_multiplier", 40.0))
    forge_checkpoints(here / "run")
    for command in ("run", "compose"):
        assert "is not the one that the odometer" in tacit("account", command, "run").refusal(4)
    assert tacit("account", "odometer", "store", "--json").object["epsilon"] is None
