"""The grids of experiments/: every recipe is valid, results survive a cut, and a tiny run leaves the line that it promises."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tacit.plotting import load_pyplot

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
TINY = [
    "data.users=300",
    "data.held_out=20",
    "data.tokens_per_user=40",
    "privacy.population=300",
    "privacy.cohort=4",
    "privacy.min_separation=1",
    "privacy.delta=1e-4",
    "run.rounds=2",
    "run.evaluate_every=1",
    "run.evaluate_words=200",
    "engine.chunk=4",
    "engine.precision=float32",
]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """`grid` and `cohort_size`, which find each other beside themselves."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    import cohort_size
    import grid

    yield grid, cohort_size
    for name in ("grid", "cohort_size"):
        sys.modules.pop(name, None)


def test_runs_of_one_pair_have_the_same_noise_on_the_mean(modules: tuple[Any, Any]):
    _, cohort_size = modules
    cohorts: dict[tuple[str, str], set[float]] = defaultdict(set)
    for case in cohort_size.CASES:
        plan = case.load().privacy
        assert (plan.mechanism == "none") == (plan.noise_multiplier == 0)
        on_the_mean = f"{plan.noise_multiplier * plan.clip_norm / plan.cohort:.2g}"
        cohorts[case.recipe.stem, on_the_mean].add(plan.cohort)
    compared = [sorted(sizes) for sizes in cohorts.values() if max(sizes) > 500]
    assert sorted(compared) == [[100, 1250]] * 2 + [[500, 6500]] * 3
    names = [case.name for case in cohort_size.CASES]
    assert len(set(names)) == len(names)


def test_tree_and_blt_cost_the_same_at_scale_with_a_fixed_clip(modules: tuple[Any, Any]):
    import pretraining

    from tacit.privacy.planning.scaling import scaled_up

    costs, names = {}, [case.name for case in pretraining.CASES]
    for case in pretraining.CASES:
        recipe = case.load()
        plan = scaled_up(recipe.privacy, recipe.scale)
        strategy = plan.build_strategy(recipe.run.rounds)
        squared = strategy.sensitivity(recipe.run.rounds, plan.gap, plan.max_participation, plan.restarts).squared
        costs[case.name] = squared / (2 * plan.noise_multiplier**2)
        assert recipe.run.seed == int(case.name[-1])
    assert len(set(names)) == 12
    assert costs["tree-fixed-s1"] == pytest.approx(0.2653, abs=1e-3)
    assert costs["blt-fixed-s1"] == pytest.approx(costs["tree-fixed-s1"], rel=1e-3)
    sys.modules.pop("pretraining", None)


def test_the_last_line_of_a_name_counts_and_a_cut_line_does_not(modules: tuple[Any, Any], tmp_path: Path):
    grid, _ = modules
    path = tmp_path / "results.jsonl"
    assert grid.read_results(path) == {}
    grid.add_line(path, {"name": "a", "finished": False})
    grid.add_line(path, {"name": "b", "finished": False})
    grid.add_line(path, {"name": "a", "finished": True})
    with path.open("a") as file:
        file.write('{"name": "b", "fini')
    assert grid.read_results(path) == {"a": {"name": "a", "finished": True}, "b": {"name": "b", "finished": False}}


@pytest.mark.slow
def test_a_tiny_run_leaves_its_curve_and_its_guarantee_and_is_not_repeated(
    modules: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    grid, cohort_size = modules
    results, changes = tmp_path / "results.jsonl", [word for change in TINY for word in ("--set", change)]
    arguments = ["--only", "world-500-z7", "--runs", str(tmp_path / "runs"), "--results", str(results), *changes]
    grid.main(None, cohort_size.CASES, results, lambda *_: None, arguments)
    assert "world-500-z7-r1: round 2, top-1" in capsys.readouterr().out
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["finished"] for line in lines] == [False, False, True]
    assert [len(line["curve"]) for line in lines] == [1, 2, 2]
    last = grid.read_results(results)["world-500-z7-r1"]
    assert (last["cohort"], last["noise_multiplier"], last["mechanism"]) == (4, 7.0, "tree")
    assert 0 < last["privacy"]["epsilon"] < 10
    assert last["clips"] == [[0, 2.0], [1, 2.0]]
    grid.main(None, cohort_size.CASES, results, lambda *_: None, arguments)
    assert len(results.read_text().splitlines()) == 3
    assert capsys.readouterr().out == "all done\n"


def test_every_variant_has_a_folder_of_its_own(modules: tuple[Any, Any]):
    import dp_fedavg
    import gboard
    import secagg

    for script in (dp_fedavg, gboard, secagg):
        folders = [case.folder for case in script.CASES]
        assert len({name.casefold() for name in folders}) == len(folders)
        assert not any(" " in name or "," in name for name in folders)
    assert [case.folder for case in gboard.CASES if case.label.startswith("world, strict, tree")] == [
        "world_strict_tree",
        "world_strict_tree_again",
        "world_strict_tree_once_more",
    ]
    for script in (dp_fedavg, secagg):
        assert all(case.load().run.rounds > 0 for case in script.CASES)
    fresh = next(case for case in gboard.CASES if case.label == "world, fresh noise, check-in").load(["run.rounds=20"])
    assert fresh.privacy.mechanism == "gaussian"
    assert fresh.privacy.noise_multiplier > 0.1
    for name in ("dp_fedavg", "gboard", "secagg"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_results_of_one_object_get_a_record_that_the_report_can_read(
    modules: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    grid, _ = modules
    import secagg

    changes = [word for change in TINY if "min_separation" not in change for word in ("--set", change)]
    results = tmp_path / "results.json"
    results.write_text('{"keyboard, other": {}}')
    arguments = ["--only", "keyboard, server noise, 12", "--runs", str(tmp_path / "runs"), "--results", str(results)]
    grid.main(None, secagg.CASES, results, lambda *_: None, [*arguments, *changes], record=secagg.record)
    found = json.loads(results.read_text())
    assert list(found) == ["keyboard, other", "keyboard, server noise, 12 bits"]
    assert found["keyboard, server noise, 12 bits"]["secagg"]["bits"] == 12
    assert "| server noise, 12 bits | " in secagg.report(found)
    results.unlink()  # the run is there still, and its record is made again
    grid.main(None, secagg.CASES, results, lambda *_: None, [*arguments, *changes], record=secagg.record)
    assert list(json.loads(results.read_text())) == ["keyboard, server noise, 12 bits"]
    assert capsys.readouterr().out.endswith("all done\n")
    sys.modules.pop("secagg", None)


def test_a_name_that_is_no_case_is_refused(
    modules: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    grid, cohort_size = modules
    with pytest.raises(SystemExit):
        grid.main(None, cohort_size.CASES, tmp_path / "results.jsonl", lambda *_: None, ["--only", "nobody"])
    assert "no case begins with nobody" in capsys.readouterr().err


def test_the_report_prints_each_run_and_draws_the_curves(
    modules: tuple[Any, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    grid, cohort_size = modules
    from figures import cohort_size_report

    path = tmp_path / "results.jsonl"
    for name, cohort, z in (("scotus-100-z0.08-s1", 100, 0.08), ("scotus-1250-z1-s1", 1250, 1.0)):
        line = {"name": name, "cohort": cohort, "noise_multiplier": z, "clip_norm": 0.8, "curve": [[50, 0.2, 300.0]]}
        grid.add_line(path, line)
    grid.main(None, cohort_size.CASES, path, cohort_size_report, ["--report"])
    printed = capsys.readouterr().out
    assert "| scotus-100-z0.08-s1 | 100 | 0.08 | 0.00064 | 50 | 20.00% | ∞ |" in printed
    assert "| scotus-1250-z1-s1 | 1,250 | 1 | 0.00064 | 50 | 20.00% | ∞ |" in printed
    assert (tmp_path / "curves.png").stat().st_size > 1_000
    sys.modules.pop("figures", None)


def test_the_report_on_pretraining_says_when_the_target_was_reached(
    modules: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    from figures import pretraining_report

    at_scale = {"privacy": {"epsilon": 5.25, "rho": 0.2653}}
    curves = {
        "fixed": [[25, 0.1, 90.0], [50, 0.2, 80.0]],
        "adaptive": [[25, 0.1, 90.0]],
        "pretrained": [[25, 0.2, 80.0]],
    }
    results = {
        f"tree-{kind}-s1": {"curve": curve, "clips": [[0, 0.2], [1, 1.6]], "clip_norm": 0.2, "at_scale": at_scale}
        for kind, curve in curves.items()
    }
    results["tree-adaptive-s1"] |= {"clips": None, "at_scale": None}
    before = load_pyplot().get_fignums()
    pretraining_report(results, tmp_path)
    assert load_pyplot().get_fignums() == before
    printed = capsys.readouterr().out
    assert "| tree-fixed-s1 | 20.00% | 50 | 1.6 | 0.265 | 5.250 |" in printed
    assert "| tree-adaptive-s1 | 10.00% | not reached | 0.2 | ∞ | ∞ |" in printed
    assert "| tree-pretrained-s1 | 20.00% | 25 | 1.6 | 0.265 | 5.250 |" in printed
    assert (tmp_path / "curves.png").stat().st_size > 1_000
    sys.modules.pop("figures", None)


def test_every_run_of_the_real_people_has_a_valid_recipe(modules: tuple[Any, Any]):
    import corpora
    import real_epsilon

    from tacit.recipe.training import load_recipe

    names = [case.name for case in real_epsilon.CASES]
    assert len(set(names)) == len(names) == 20
    for case in real_epsilon.CASES:
        recipe, corpus = load_recipe(case.recipe, list(case.changes)), corpora.CORPORA[case.name.split("-")[0]]
        assert recipe.data.store == str(corpus.store)
        assert recipe.pretrain is not None
        assert recipe.pretrain.store == str(corpus.public_store)
        assert not set(corpus.files) & set(corpus.public)  # nobody's private text is called public
        assert (recipe.privacy.mechanism == "none") == (case.epsilon is None)
        assert (recipe.pretrain.reuse is None) == case.name.endswith("eps4")
    for name in ("corpora", "real_epsilon"):
        sys.modules.pop(name, None)


def test_the_runs_of_the_keyboard_cost_at_scale_what_their_page_says(modules: tuple[Any, Any]):
    import keyboard

    from tacit.privacy.planning.scaling import scaled_up

    names = [case.name for case in keyboard.CASES]
    assert len(set(names)) == len(names) == 12
    for case in keyboard.CASES:
        recipe = case.load()
        assert recipe.run.seed is None
        if "fedavg" in case.name and "dp_" not in case.name:
            assert recipe.privacy.mechanism == "none"
            continue
        plan = scaled_up(recipe.privacy, recipe.scale)
        assert plan.cohort == keyboard.DEVICES_A_ROUND
        if plan.mechanism == "blt":
            squared = plan.build_strategy(recipe.run.rounds).sensitivity(
                recipe.run.rounds, plan.gap, plan.max_participation, plan.restarts
            )
            assert squared.squared / (2 * plan.noise_multiplier**2) == pytest.approx(0.08331, rel=1e-3)
        else:
            assert plan.noise_multiplier == pytest.approx(0.7363)
    for name in ("keyboard", "corpora", "real_epsilon"):
        sys.modules.pop(name, None)


def test_the_report_on_real_people_draws_the_public_models_beside_the_private_ones(
    modules: tuple[Any, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    grid, _ = modules
    from figures import _ngrams, real_epsilon_report

    results = {
        f"scotus-{name}": {
            "metrics": {"top1": accuracy + 0.01, "papers_top1": accuracy},
            "privacy": {"epsilon": epsilon},
            "curve": [[0, 0.134, 90.0], [60, accuracy, 80.0]],
            "rounds": 60,
            "noise_multiplier": 4.6,
        }
        for name, epsilon, accuracy in (("eps1", 0.99, 0.18), ("eps8", 7.96, 0.22), ("no-noise", None, 0.24))
    }
    for order, public in ((3, 0.11), (5, 0.12)):
        line = {"name": "scotus", "counted_on": "public", "order": order, "papers_top1": public}
        grid.add_line(tmp_path / "ngrams.jsonl", line)
    assert _ngrams(tmp_path / "ngrams.jsonl") == {"scotus": {("public", 3): 0.11, ("public", 5): 0.12}}
    before = load_pyplot().get_fignums()
    real_epsilon_report(results | {"irc-eps8": {"curve": []}}, tmp_path)
    assert load_pyplot().get_fignums() == before
    printed = capsys.readouterr().out
    assert "| scotus-eps1 | 0.99 | 60 | 4.600 | 19.00% | 18.00% | 13.40% |" in printed
    assert "| scotus-no-noise | ∞ | 60 | 4.600 | 25.00% | 24.00% | 13.40% |" in printed
    assert "irc" not in printed
    for drawn in ("epsilon.png", "scotus.png"):
        assert (tmp_path / drawn).stat().st_size > 1_000
    sys.modules.pop("figures", None)


def test_the_table_of_averages_shows_what_each_adds_to_the_last_model(modules: tuple[Any, Any], tmp_path: Path):
    grid, _ = modules
    import averaging
    import page_tables

    for seed, last in ((1, 0.2), (2, 0.3)):
        found = {name: {"top1": last + 0.001 * place * seed} for place, name in enumerate(averaging.AVERAGES)}
        line = {"name": f"seed {seed}", "noise": 2.0, "schedule": "constant", "epsilon": 0.021, "metrics": found}
        grid.add_line(tmp_path / "averaging" / "results.jsonl", line)
    table = page_tables.averages(tmp_path)
    assert "| 2 | 0.03 | constant | 25.00% | +0.15 (+0.10 to +0.20) | +0.30" in table
    for name in ("averaging", "page_tables", "papers_recorded"):
        sys.modules.pop(name, None)
