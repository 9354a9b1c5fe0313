"""The same seeds give the models that they gave before: a few numbers of each were recorded, and are compared.

Machines round float32 sums differently, so each model is reduced to projections on fixed directions and compared with a
tolerance. `python -m tests.simulation.test_recorded_models` prints the projections, with a digest that is exact on one machine;
run it before and after a change that must not change any model.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.recipe.training import Recipe
from tacit.simulation.training import start_run
from tests.support.run_arrays import final_arrays
from tests.support.tiny_recipe import tiny

RECORDED = Path(__file__).with_name("recorded_models.json")
CHECK_IN = {"sampling": "check_in", "min_separation": 3, "cohort": 12, "noise_multiplier": 4.0}
ADAPTIVE = {"count_noise": 4.0}
CASES: dict[str, dict[str, dict[str, Any]]] = {
    "gaussian": {},
    "fixed_size": {"privacy": {"sampling": "fixed"}},
    "per_layer_weighted": {
        "privacy": {"clipping": "per_layer", "example_cap": 20, "estimator": "clipped", "total_weight": 300}
    },
    "adaptive": {"privacy": {"adaptive": ADAPTIVE}},
    "tree": {"privacy": {**CHECK_IN, "mechanism": "tree"}},
    "blt": {"privacy": {**CHECK_IN, "mechanism": "blt"}},
    "banded": {"privacy": {**CHECK_IN, "mechanism": "banded"}},
    "secure": {"privacy": {**CHECK_IN, "mechanism": "gaussian", "secagg": {"bits": 20}}},
    "fedsgd": {"work": {"kind": "fedsgd", "learning_rate": 1.0}, "server": {"optimizer": "nesterov"}},
    "no_privacy": {"privacy": {"mechanism": "none", "noise_multiplier": 0.0, "clip_norm": None}},
}


def recipe_of(case: str) -> Recipe:
    sections = CASES[case]
    return tiny(**{**sections, "run": {"seed": 7, "rounds": 4, **sections.get("run", {})}})


def trained(case: str, out: Path) -> dict[str, np.ndarray]:
    start_run(recipe_of(case), out, tacit.Callback())
    return {name: array for name, array in final_arrays(out).items() if name.startswith("model")}


def projections(arrays: dict[str, np.ndarray]) -> list[float]:
    """The model along eight fixed directions of length one."""
    flat = np.concatenate([arrays[name].ravel().astype(np.float64) for name in sorted(arrays)])
    directions = np.random.default_rng(0).standard_normal((8, flat.size))
    return [float(each) for each in directions @ flat / np.sqrt(flat.size)]


def digest(arrays: dict[str, np.ndarray]) -> str:
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


@pytest.mark.parametrize("case", CASES)
def test_a_seeded_run_gives_the_recorded_model(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    recorded = json.loads(RECORDED.read_text())[case]
    np.testing.assert_allclose(projections(trained(case, tmp_path / "run")), recorded, atol=2e-4)


def main() -> None:
    found = {}
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            arrays = trained(case, Path(folder) / "run")
        found[case] = projections(arrays)
        print(case, digest(arrays), file=sys.stderr)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
