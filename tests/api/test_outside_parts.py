"""A package from outside, which imports only public names, brings a model, a task with a metric, work, users, a batching, a
server optimizer and a callback of its own. Its contract suites pass, and it trains under differential privacy.

A mechanism, a strategy and a participation from outside are in tests/test_outside.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = '''
"""Parts of somebody else's."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tacit

SIZE = 20


def model():
    return {"table": 0.1 * jax.random.normal(jax.random.key(0), (SIZE, SIZE)), "name": None}


class Bigrams:
    """A task: a loss, a metric and scores."""

    def loss_sum(self, model, tokens):
        logits, target, mask = self._read(model, tokens)
        own = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
        return jnp.sum((jax.nn.logsumexp(logits, -1) - own) * mask), jnp.sum(mask)

    def metrics(self, model, tokens):
        logits, target, mask = self._read(model, tokens)
        return {"right": (jnp.sum((logits.argmax(-1) == target) * mask), jnp.sum(mask))}

    def scores(self, model, tokens):
        return model["table"][tokens]

    def _read(self, model, tokens):
        target = tokens[:, 1:]
        return self.scores(model, tokens[:, :-1]), target, (target > 1).astype(jnp.float32)


@dataclass(frozen=True)
class HalfStep:
    """Work: one step of SGD on the first batch, at half the rate."""

    batch_size: int = 2
    learning_rate: float = 1.0

    def update(self, task, model, batches, steps, clip_norm):
        first = jax.tree.map(lambda leaf: leaf[0], batches)
        moved = task.sgd_step(model, first, self.learning_rate / 2)
        return jax.tree.map(lambda new, old: jnp.where(steps > 0, new - old, jnp.zeros_like(old)), moved, model)


class Counting:
    """Users: user number n says n, n + 1, n + 2, ... twice."""

    def __init__(self, count):
        self.count = count
        self.words = ("<pad>", "<bos>", "<eos>", "<oov>", *(f"w{i}" for i in range(SIZE - 4)))

    def __len__(self):
        return self.count

    def names(self, numbers):
        numbers = np.asarray(numbers)
        return np.stack([np.full(len(numbers), 7), numbers], axis=1).astype(np.uint64)

    def gather(self, numbers):
        said = [4 + (n + np.arange(6)) % (SIZE - 4) for n in np.asarray(numbers) for _ in range(2)]
        items = np.concatenate([np.empty(0, np.int64), *said]).astype(np.uint16)
        return tacit.Examples(
            items, 6 * np.arange(len(said) + 1, dtype=np.int64), 2 * np.arange(len(numbers) + 1, dtype=np.int64)
        )


@dataclass(frozen=True)
class Whole:
    """A batching: one batch of two sentences."""

    batch_size: int = 2

    def lay_out(self, examples):
        return tacit.TextBatches("sentences", 8, 2, 1).lay_out(examples)


class Remember(tacit.Callback):
    def __init__(self):
        self.seen = []

    def on_evaluation(self, round, metrics):
        self.seen.append(metrics.get("right"))


optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.sgd(1.0))
'''

SUITES = """
import jax.numpy as jnp
import numpy as np

import parts
from tacit.testing import CallbackContract, TaskContract, UsersContract, WorkContract


class TestTask(TaskContract):
    def task(self):
        return parts.Bigrams()

    def model(self):
        return parts.model()

    def batch(self):
        return jnp.array([[1, 4, 5, 2], [1, 6, 2, 0]])

    def empty(self):
        return jnp.zeros((2, 4), jnp.int32)


class TestWork(WorkContract):
    def work(self):
        return parts.HalfStep()


class TestUsers(UsersContract):
    def users(self):
        return parts.Counting(9)


class TestCallback(CallbackContract):
    def build(self):
        return parts.Remember()
"""

TRAINS = """
import parts
import tacit

callback = parts.Remember()
run = tacit.train(
    parts.model(), parts.Bigrams(), parts.Counting(60), held_out=parts.Counting(5),
    work=parts.HalfStep(), batches=parts.Whole(),
    privacy=tacit.PrivacyPlan(population=60, cohort=30, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3),
    server=parts.optimizer, rounds=3, evaluate_every=1, out="run", callbacks=[callback],
)
assert len(callback.seen) == 3 and None not in callback.seen
assert 0 < run.cost().epsilon < 50
text = run.guarantee().as_markdown()
assert "parts:Whole" in text, text
assert "the users came from parts:Counting" in text or "The users came from parts:Counting" in text, text
assert [word for word, _ in run.predict("w3", 2)]
print("trained")
"""


@pytest.mark.process
def test_parts_from_outside_pass_their_contracts_and_train(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PACKAGE)
    (tmp_path / "test_parts.py").write_text(SUITES)
    (tmp_path / "trains.py").write_text(TRAINS)
    assert "tacit." not in PACKAGE.replace("import tacit", "").replace("tacit.Examples", "").replace(
        "tacit.TextBatches", ""
    ).replace("tacit.Callback", "")
    # Somebody else's process has JAX as it comes, without the strictness of these tests.
    usual = {name: value for name, value in os.environ.items() if name != "JAX_NUMPY_DTYPE_PROMOTION"}
    here = {**usual, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"}
    for command in (["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_parts.py"], ["trains.py"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=here, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "trained" in done.stdout
