"""A call of `tacit.train` without one user who was in no cohort writes the same public files and the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tacit
from tacit.privacy.participation.log import verified

WORDS = [f"w{i}" for i in range(30)]
PUBLIC = ("recipe.toml", "metrics.jsonl", "summary.json", "vocabulary.txt")


def said(without: str | None = None) -> dict[str, list[str]]:
    told = {f"u{i}": [" ".join(WORDS[(i + j + k) % 30] for k in range(5)) for j in range(3)] for i in range(90)}
    return {user: texts for user, texts in told.items() if user != without}


def loss(model: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits, target = model[tokens[:, :-1]], tokens[:, 1:]
    mask = (target > 1).astype(jnp.float32)
    own = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
    return jnp.sum((jax.nn.logsumexp(logits, -1) - own) * mask), jnp.sum(mask)


MODEL = 0.1 * np.random.default_rng(0).standard_normal((34, 34)).astype(np.float32)


def parts() -> dict[str, Any]:
    return {"work": tacit.FedAvg(batch_size=4), "server": optax.sgd(1.0)}


def trained(people: dict[str, list[str]], out: Path) -> tuple[tacit.Run, tacit.MemoryUsers]:
    users = tacit.users(people, vocabulary=WORDS, held_out=0.1, key=bytes([1]) * 32)
    run = tacit.train(
        jnp.asarray(MODEL),
        loss,
        users,
        **parts(),
        privacy=tacit.PrivacyPlan(population=100, cohort=12, clip_norm=0.5, noise_multiplier=1.0, delta=1e-3),
        rounds=3,
        evaluate_every=1,
        seed=5,
        out=out,
    )
    return run, users


def test_public_files_and_the_model_are_those_of_the_neighbour(tmp_path: Path) -> None:
    run, users = trained(said(), tmp_path / "with" / "run")
    absent = _in_no_cohort(run, users)
    other, fewer = trained(said(without=absent), tmp_path / "without" / "run")
    assert len(fewer) == len(users) - 1
    for name in PUBLIC:
        assert (run.path / name).read_bytes() == (other.path / name).read_bytes(), name
    np.testing.assert_array_equal(run.model, other.model)


def test_an_extended_run_and_the_one_of_the_neighbour(tmp_path: Path) -> None:
    """Somebody who is in no cohort of the extended run either is nowhere to be seen."""
    run, users = trained(said(), tmp_path / "with" / "run")
    run = tacit.resume(run.path, jnp.asarray(MODEL), loss, users, **parts(), rounds=4)
    assert (run.rounds_done, run.summary["rounds"]) == (4, 4)
    absent = _in_no_cohort(run, users)
    other, fewer = trained(said(without=absent), tmp_path / "without" / "run")
    other = tacit.resume(other.path, jnp.asarray(MODEL), loss, fewer, **parts(), rounds=4)
    for name in PUBLIC:
        assert (run.path / name).read_bytes() == (other.path / name).read_bytes(), name
    np.testing.assert_array_equal(run.model, other.model)


def _in_no_cohort(run: tacit.Run, users: tacit.MemoryUsers) -> str:
    train = np.delete(np.arange(len(users)), users.held_out_users())
    drawn = {int(user) for each in verified(run.folder.participation_path, run.ledger) for user in each.users}
    return f"u{train[next(number for number in range(len(train)) if number not in drawn)]}"
