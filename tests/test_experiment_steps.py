"""The steps that record what is missing: each can be started by one command, and is what it says it is."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.data.build import save_users
from tacit.data.vocabulary import Vocabulary, word_list
from tacit.recipe.training import Recipe, parse_recipe
from tacit.simulation.training import setup_of_recipe
from tests.support.list_users import ListUsers
from tests.support.store_keys import KEY

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
PEOPLE = 1_200
# What makes a step's recipe fit the tiny store, and one round.
SMALL = {
    "data": {"held_out": 20, "tokens_per_user": 20},
    "privacy": {"population": 1_000},
    "model": {"embedding": 8, "units": 8, "projection": 8},
    "run": {"rounds": 1, "evaluate_every": 1, "evaluate_words": 100, "checkpoint_every": 1},
    "engine": {"precision": "float32", "chunk": 50},
}


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scripts find each other beside themselves."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(EXPERIMENTS) in str(getattr(sys.modules[name], "__file__", "")):
            sys.modules.pop(name)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve hundred users with two sentences each."""
    folder = tmp_path_factory.mktemp("stores") / "tiny"
    words = Vocabulary(tuple(f"w{i}" for i in range(40)), word_list("test"))
    sentences = [[[4 + (user + word) % 40 for word in range(5)]] * 2 for user in range(PEOPLE)]
    save_users(ListUsers(sentences), folder, source="test", vocabulary=words, key=KEY)
    return folder


def fitted(recipe: Recipe, store: Path) -> Recipe:
    """The recipe on the tiny store, for one round of at most sixty people."""
    tree = recipe.model_dump(mode="json", exclude_none=True)
    for section, changes in SMALL.items():
        tree[section] = {**tree.get(section, {}), **changes}
    tree["data"]["store"] = str(store)
    tree["privacy"]["cohort"] = min(tree["privacy"]["cohort"], 60)
    tree["privacy"].pop("clip_schedule", None)  # its rounds are later than the only one
    for key, value in (("min_separation", 2), ("restarts", []), ("max_participation", 1), ("total_weight", 900.0)):
        if tree["privacy"].get(key):
            tree["privacy"][key] = value
    tree.pop("scale", None)
    tree.pop("pretrain", None)
    return parse_recipe(tree)


def cases(*modules: str) -> list[Any]:
    return [case for module in modules for case in importlib.import_module(module).CASES]


def test_every_script_of_a_step_is_there_and_takes_its_arguments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from steps import STEPS

    for step in STEPS.values():
        for name, *words in step.scripts:
            script = importlib.import_module(name.removesuffix(".py"))
            everything = getattr(script, "CASES", [])
            only = words[words.index("--only") + 1] if "--only" in words and everything else ""
            assert not everything or any(case.name.startswith(only) for case in everything), name
    assert sum(step.minutes for step in STEPS.values()) < 300


def test_the_noise_of_dp_fedavgs_runs_is_what_their_names_say() -> None:
    made = cases("dp_fedavg_paper")
    assert len({case.name for case in made}) == len(made) == 31
    for case in made:
        recipe = case.load()
        assert recipe.model.preset == "dp-fedavg"
        assert recipe.server.optimizer == "sgd"
        sigma = case.name.partition("sigma ")[2].split(",")[0]
        plan = recipe.privacy
        if sigma and plan.clip_norm is not None:
            assert plan.noise_multiplier * plan.clip_norm / plan.cohort == pytest.approx(float(sigma))
        elif "later" in case.name:  # Figure 8 keeps z, so σ falls with S
            assert plan.noise_multiplier * 20.0 / 100 == pytest.approx(0.012)
        else:
            assert plan.mechanism == "none"
        if ", S " in case.name:
            assert (
                plan.clip_norm == float(case.name.partition(", S ")[2].split(",")[0].split()[0]) or "later" in case.name
            )


def test_productions_runs_have_its_noise_on_the_mean_and_its_26_rows() -> None:
    import production

    assert len(cases("production")) == 24  # the setting of Table 1 is a row of each of the three tables
    for case in production.CASES:
        plan = case.load().privacy
        assert plan.noise_multiplier * plan.clip_norm / plan.cohort == pytest.approx(3.2e-5)
        assert plan.cohort == 500
        assert 4 < production.VARIANTS[case.name][1] < 25


def test_memorizations_sizes_are_regimes_of_their_own(tmp_path: Path) -> None:
    import memorization

    from tacit.audit.regimes import recipe_for
    from tacit.recipe.training import load_recipe

    base = load_recipe(EXPERIMENTS / memorization.RECIPES["sizes"])
    made = memorization.sizes()
    assert len({regime.name for regime in made}) == len(made) == 28
    recipes = {regime.name: recipe_for(base, regime, tmp_path / "plan.json") for regime in made}
    settled = recipes["FedAvg of 500 users, 1,500 rounds, by user"]
    assert (settled.server.optimizer, settled.server.learning_rate, settled.work.learning_rate) == (
        "nesterov",
        0.5,
        0.25,
    )
    assert (settled.run.rounds, settled.privacy.cohort, settled.privacy.clip_norm) == (1_500, 500, None)
    assert recipes["FedAvg + Adam of 500 users, IID"].server.optimizer == "adam"
    assert recipes["adam of 32 records, by user"].work.learning_rate == 1e-4
    for users in (200, 500, 1_000, 2_000):
        recipe = recipes[f"FedAvg of {users:,} users, 12 passes, IID"]
        assert recipe.data.iid
        assert recipe.privacy.cohort * recipe.run.rounds == pytest.approx(12 * 8_849, rel=0.01)
    often = load_recipe(EXPERIMENTS / "memorization_production.toml", list(memorization.CHANGES["production_as_often"]))
    assert often.paper["canaries"]["device_rate"] * often.run.rounds == 1_150
    assert often.privacy.noise_multiplier * often.privacy.clip_norm / often.privacy.cohort == pytest.approx(3.2e-5)


def test_the_inspections_of_a_step_have_valid_recipes() -> None:
    import inspection_images
    import inspection_text

    from tacit.recipe.image_inspection import load_image_inspection
    from tacit.recipe.text_inspection import TEXT, load_text_inspection

    assert len(inspection_images.VARIANTS) == 8
    for name, changes in inspection_images.VARIANTS.items():
        recipe = load_image_inspection(inspection_images.SETTINGS, changes)
        assert recipe.gan.privacy.noise_multiplier == 0.01  # Table 9
        assert recipe.counts_sound_users == ("bug" in name and "example" not in name)
        sides = [recipe.gan.of_side(side).privacy for side in ("low", "high")]
        assert [plan.cohort for plan in sides] == [10, 10]
        assert recipe.data.classes == (62 if name.startswith("letters") else 10)
    for corpus, (_, changes) in inspection_text.CORPORA.items():
        assert inspection_text.primary_recipe(corpus, []).privacy.clip_norm
        recipe = load_text_inspection(TEXT, changes)
        assert (recipe.model.preset == "paper") == (corpus == "scotus_paper")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["dp_fedavg_paper", "production", "pretraining"])
def test_every_run_of_a_step_can_be_built(module: str, store: Path, tmp_path: Path) -> None:
    for case in cases(module):
        recipe = fitted(case.load(), store)
        assert setup_of_recipe(recipe, tmp_path / "run").dataset.people > 1_000, case.name


@pytest.mark.slow
def test_a_round_of_a_step_leaves_a_line_that_its_report_reads(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import production
    from grid import Case, main

    monkeypatch.setattr(Case, "load", lambda self, more=(): fitted(load(self, more), store))
    results = tmp_path / "production" / "results.jsonl"
    arguments = ["--only", "table 8, S 2", "--runs", str(tmp_path / "runs"), "--results", str(results)]
    main(None, production.CASES, results, production.report, arguments, record=production.record)
    assert capsys.readouterr().out.endswith("all done\n")
    last = json.loads(results.read_text().splitlines()[-1])
    assert last["finished"]
    assert last["head_words"]["100"]
    main(None, production.CASES, results, production.report, ["--report", "--results", str(results)])
    assert re.search(r"\| table 8, S 2 \| \d+\.\d\d% \| 23.45% \|", capsys.readouterr().out)
    assert (tmp_path / "production" / "figure_1.png").stat().st_size > 1_000


def test_the_report_on_the_papers_own_model_has_the_papers_accuracy_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import dp_fedavg_paper

    line = {"rounds": 1_500, "metrics": {"papers_top1": 0.2}}
    dp_fedavg_paper.report({"table 2, sigma 0.003, S 15": line, "figure 6, 10 a round": line, "cut off": {}}, tmp_path)
    printed = capsys.readouterr().out
    assert "| table 2, sigma 0.003, S 15 | 1500 | 20.00% | 17.49% |" in printed
    assert "| figure 6, 10 a round | 1500 | 20.00% |  |" in printed


def load(case: Any, more: Any) -> Recipe:
    """As `grid.Case.load` does."""
    from tacit.recipe.training import load_recipe

    return load_recipe(case.recipe, [*case.changes, *more])


def test_a_step_stops_at_its_time_and_says_whether_all_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import steps

    (tmp_path / "done.py").write_text("import sys; print(sys.argv[1:]); print('all done')")
    (tmp_path / "not_yet.py").write_text("print('not all done; run again to go on')")
    (tmp_path / "fails.py").write_text("print('all done'); raise SystemExit(2)")
    monkeypatch.setattr(steps, "HERE", tmp_path)
    outcomes = {
        ("done.py", "done.py"): True,
        ("done.py", "not_yet.py"): False,
        ("not_yet.py", "done.py"): False,
        ("fails.py",): False,
    }
    for scripts, done in outcomes.items():
        step = steps.Step("a test", 1, tuple((name,) for name in scripts))
        assert steps.run(step, 5.0, ["--set", "a.b=1"]) is done
    assert not steps.run(steps.Step("a test", 1, (("done.py",),)), 0.0, [])
    assert "'--set', 'a.b=1'" in capsys.readouterr().out


def test_every_store_that_a_step_needs_is_made_by_prepare(tmp_path: Path) -> None:
    import steps

    made = steps.stores(tmp_path)
    assert all(words[0] == "data" and words[-2:] == ["--out", str(path)] for path, words in made.items())
    needed = set()
    for name in ("dp_fedavg_paper", "production", "memorization", "pretraining", "inspection_images"):
        needed |= set(re.findall(r"stores/\w+", (EXPERIMENTS / f"{name}.toml").read_text()))
    for case in cases("dp_fedavg_paper", "pretraining"):
        needed |= set(re.findall(r"stores/\w+", " ".join(case.changes)))
    assert needed <= {str(path) for path in made}


def test_what_is_made_in_turn_is_made_once_and_begun_only_in_time(tmp_path: Path) -> None:
    from grid import in_turn, read_results

    for name in ("results.json", "results.jsonl"):
        path, made = tmp_path / name, list[str]()

        def make(case: str, made: list[str] = made) -> dict[str, Any]:
            made.append(case)
            return {"of": case}

        assert not in_turn(["a", "b"], path, make, 0.0)
        assert in_turn(["a", "b"], path, make, 1.0)
        assert in_turn(["a", "b"], path, make, 1.0)
        assert made == ["a", "b"]
        assert [record["of"] for record in read_results(path).values()] == ["a", "b"]


def test_two_experiments_never_make_different_stores_under_one_name() -> None:
    """Each leaves a store as it is that is there already, so one would train on the other's words."""
    corpora, steps = importlib.import_module("corpora"), importlib.import_module("steps")
    made = [path for corpus in corpora.CORPORA.values() for path in (corpus.store, corpus.public_store)]
    assert not set(made) & set(steps.stores(Path("data")))
    assert len(set(made)) == len(made)


def test_recipes_on_one_store_agree_on_how_many_people_it_has() -> None:
    """A recipe that states more people than there are is refused when its run begins."""
    trees = [tomllib.loads(path.read_text()) for path in EXPERIMENTS.glob("*.toml")]
    on_it = [tree for tree in trees if tree.get("data", {}).get("store") == "stores/scotus"]
    assert len(on_it) > 3
    assert len({(tree["data"]["held_out"], tree["privacy"]["population"]) for tree in on_it}) == 1
