"""Tacit's own tasks and work keep the contracts that it exports for others'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacit.learning.next_word import NextWord
from tacit.learning.tasks import LossTask, Task, TrainedPart, as_task
from tacit.learning.trainable import trainable_of
from tacit.learning.work import FedAvg, FedSGD, Work
from tacit.models import char_lm, classifier, lora, transformer, word_lm
from tacit.testing.work import TaskContract, WorkContract
from tests.support.implementations import covered, implementations

ROWS = np.array([[1, 4, 5, 2, 0, 0], [1, 6, 6, 7, 3, 2], [1, 2, 0, 0, 0, 0]], np.int32)
SHAPE = transformer.TransformerConfig(vocabulary=8, width=4, heads=1, layers=1, hidden=4)


class OfRows(TaskContract):
    implementation = NextWord

    def task(self) -> Any:
        return NextWord()

    def batch(self) -> Any:
        return ROWS

    def empty(self) -> Any:
        return np.zeros_like(ROWS)


class TestNextWord(OfRows):
    def model(self) -> Any:
        config = word_lm.WordLMConfig(vocabulary=8, embedding=3, units=4, projection=3, output_bias=True)
        return word_lm.build(config, key=jax.random.key(1))


class TestNextWordOfATransformer(OfRows):
    def model(self) -> Any:
        return transformer.build(SHAPE, key=jax.random.key(1))


class TestNextWordOfAdapters(OfRows):
    def model(self) -> Any:
        return lora.add_adapters(transformer.build(SHAPE, key=jax.random.key(1)), 2, key=jax.random.key(2))


class TestNextSymbol(OfRows):
    implementation = char_lm.NextSymbol

    def task(self) -> Any:
        return char_lm.NextSymbol()

    def model(self) -> Any:
        config = char_lm.CharLMConfig(layers=1, embedding=3, units=4, projection=3)
        return char_lm.build(config, key=jax.random.key(1))


class TestClassify(TaskContract):
    implementation = classifier.Classify

    def task(self) -> Any:
        return classifier.Classify()

    def model(self) -> Any:
        return classifier.build(classifier.preset("small", 10), key=jax.random.key(1))

    def batch(self) -> Any:
        images = np.random.default_rng(0).integers(0, 256, (2, 28, 28)).astype(np.uint8)
        return {"images": images, "labels": np.int32([3, 0]), "mask": np.float32([1, 0])}

    def empty(self) -> Any:
        return jax.tree.map(np.zeros_like, self.batch())


class TestLossTask(OfRows):
    """A loss function as a task: the same loss as `NextWord`, differentiated automatically."""

    implementation = LossTask

    def task(self) -> Any:
        return as_task(NextWord().loss_sum)

    def model(self) -> Any:
        return TestNextWord().model()


class TestTrainedPart(OfRows):
    """The adapters of a transformer, whose other leaves are frozen."""

    implementation = TrainedPart

    def task(self) -> Any:
        return TrainedPart(NextWord(), self.split()[1])

    def model(self) -> Any:
        return self.split()[0]

    def split(self) -> Any:
        whole = TestNextWordOfAdapters().model()
        return trainable_of(whole.trainable).split(whole)


class TestFedAvg(WorkContract):
    implementation = FedAvg

    def work(self) -> Any:
        return FedAvg(epochs=2, learning_rate=0.1)


class TestFedAvgOfOneEpoch(WorkContract):
    implementation = FedAvg

    def work(self) -> Any:
        return FedAvg(learning_rate=0.1)


class TestFedAvgThatClipsEveryStep(WorkContract):
    implementation = FedAvg

    def work(self) -> Any:
        return FedAvg(epochs=2, learning_rate=1.0, clip_every_step=True)


class TestFedAvgWithAPenaltyOnTheUpdate(WorkContract):
    implementation = FedAvg

    def work(self) -> Any:
        return FedAvg(epochs=2, learning_rate=0.1, update_penalty=1.0)


class TestFedSGD(WorkContract):
    implementation = FedSGD

    def work(self) -> Any:
        return FedSGD(learning_rate=0.1)


class TestFedAvgOfAdapters(WorkContract):
    implementation = FedAvg

    def work(self) -> Any:
        return FedAvg(epochs=2, batch_size=3, learning_rate=0.5)

    def task(self) -> Any:
        return NextWord()

    def model(self) -> Any:
        return TestNextWordOfAdapters().model()

    def trainable(self) -> Any:
        return self.model().trainable

    def batches(self) -> Any:
        return np.stack([ROWS, ROWS[::-1]])


def test_no_task_and_no_work_is_forgotten() -> None:
    assert covered(globals(), TaskContract) == implementations(Task)
    assert covered(globals(), WorkContract) == implementations(Work)


@dataclass(frozen=True)
class Broken:
    """Work that does one thing wrong."""

    fault: str
    batch_size: int = 8

    def update(self, task: Any, model: Any, batches: Any, steps: jax.Array, clip_norm: Any) -> Any:
        update = FedSGD(learning_rate=0.1).update(task, model, batches, steps, clip_norm)
        if self.fault == "steps":
            return jax.tree.map(lambda leaf: leaf * steps.astype(jnp.float32), update)
        if self.fault == "noise":
            return jax.tree.map(lambda leaf: leaf + jnp.float32(1), update)
        if self.fault == "shape":
            return {**update, "slope": update["slope"][:1]}
        if self.fault == "structure":
            return {**update, "shift": update["slope"]}
        if self.fault == "infinite":
            return jax.tree.map(lambda leaf: leaf / jnp.float32(0), update)
        return jax.tree.map(jnp.zeros_like, update)


PROMISES = [name for name in dir(WorkContract) if name.startswith("test_")]


@pytest.mark.parametrize("fault", ["steps", "noise", "shape", "structure", "infinite", "nothing"])
def test_the_contract_finds_work_that_breaks_it(fault: str) -> None:
    class TestBroken(WorkContract):
        def work(self) -> Any:
            return Broken(fault)

    broken = 0
    for promise in PROMISES:
        try:
            getattr(TestBroken(), promise)()
        except Exception:
            broken += 1
    assert broken >= 1


@pytest.mark.parametrize("fault", ["halved", "nan"])
def test_the_contract_finds_a_task_that_breaks_it(fault: str) -> None:
    class Wrong(NextWord):
        def sgd_step(self, model: Any, tokens: Any, learning_rate: float) -> Any:
            if fault == "halved":
                return super().sgd_step(model, tokens, learning_rate / 2)
            none = jnp.sum(tokens) == 0
            stepped = super().sgd_step(model, tokens, learning_rate)
            return jax.tree.map(lambda leaf: jnp.where(none, jnp.nan, leaf), stepped)

    class TestWrong(TestNextWord):
        def task(self) -> Any:
            return Wrong()

    promise = {
        "halved": "test_a_step_is_plain_sgd_on_the_mean_loss",
        "nan": "test_an_empty_batch_asks_for_nothing_and_changes_nothing",
    }[fault]
    with pytest.raises(AssertionError):
        getattr(TestWrong(), promise)()
