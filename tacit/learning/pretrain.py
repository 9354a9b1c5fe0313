"""Pre-training: the model reads public text before the first round touches a user (Gboard, section 2.3).

The model keeps its own vocabulary: words of the public text that are not in it become unknown. Input and output
embeddings are both trained, whether they are one table or two; the paper found two easier to go on from.

A function of public data costs nothing. That the data is public, and holds nothing of the users who are trained on
afterwards, is an assumption, and is printed as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.rows import Layout, to_rows
from tacit.data.users import BOS, FIRST_WORD, OOV, PAD, Examples, Users, in_blocks
from tacit.data.views import View
from tacit.errors import DataError, DivergedError
from tacit.learning.central import Descent, first_steps, shuffled, train_central
from tacit.learning.tasks import Model

# Called with how far it is: steps done, steps in all, the mean loss on the batch read last.
OnProgress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class PretrainingSchedule:
    """How long to train: `epochs` over all rows, or `steps` batches; exactly one is given. `seed` shuffles the rows."""

    batch_size: int
    epochs: int | None = None
    steps: int | None = None
    seed: int = 1

    def steps_of(self, rows: int) -> int:
        """How many batches the schedule has."""
        return self.steps if self.steps is not None else (self.epochs or 1) * -(-rows // self.batch_size)

    def order(self, rows: int) -> Iterable[NDArray[np.int64]]:
        """The order of the rows: shuffled anew in each epoch."""
        steps = self.steps_of(rows)
        epochs = -(-steps // -(-rows // self.batch_size))
        return first_steps(shuffled(rows, epochs=epochs, seed=self.seed), steps, batch_size=self.batch_size)


class Reworded(View):
    """Users whose words are numbered as a model numbers them; a word it does not know is `OOV`."""

    def __init__(self, users: Users, words: Sequence[str], model_words: Sequence[str]) -> None:
        """`words[i]` is the word the users' number i stands for, `model_words[i]` the model's; the reserved ones agree."""
        super().__init__(users)
        known = {word: number for number, word in enumerate(model_words[FIRST_WORD:], FIRST_WORD)}
        numbers = [known.get(word, OOV) for word in words[FIRST_WORD:]]
        self._numbers = np.array([*range(FIRST_WORD), *numbers], np.int32)
        self.shared = sum(number != OOV for number in numbers)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The examples of these users, in the model's words."""
        own = self._users.gather(users)
        return Examples(self._numbers[own.items], own.example_offsets, own.user_offsets, own.labels)


def public_rows(users: Users, *, layout: Layout, length: int) -> NDArray[np.int32]:
    """All that these users wrote, laid out as rows [n, length + 1]; DataError if no known word is in it."""
    blocks = [np.empty((0, length + 1), np.int32)]
    for numbers in in_blocks(len(users)):
        examples = users.gather(numbers)
        everything = len(examples.items) + 2 * len(examples.example_offsets)  # no user has more rows than that
        blocks.append(to_rows(examples, layout=layout, length=length, max_rows=everything).tokens)
    rows = np.concatenate(blocks)
    if not (rows[:, 1:] >= FIRST_WORD).any():
        raise DataError("The public text has no word that the model knows.")
    return rows


def unknown_share(rows: NDArray[np.int32]) -> float:
    """The share of the words in these rows that the model does not know."""
    targets = rows[:, 1:]
    return float((targets == OOV).sum() / max((targets >= OOV).sum(), 1))


def predictions_in(rows: NDArray[np.int32]) -> int:
    """How many predictions these rows ask for."""
    targets = rows[:, 1:]
    return int(((targets != PAD) & (targets != BOS)).sum())


def pretrain(
    model: Model,
    rows: NDArray[np.int32],
    schedule: PretrainingSchedule,
    descent: Descent,
    *,
    on_progress: OnProgress | None = None,
) -> Model:
    """The model after central training on these rows; the same arguments give the same model."""
    total = schedule.steps_of(len(rows))
    try:
        return train_central(
            model,
            rows,
            schedule.order(len(rows)),
            descent,
            batch_size=schedule.batch_size,
            on_progress=None if on_progress is None else lambda done, loss: on_progress(done, total, loss),
        )
    except DivergedError as error:
        raise DivergedError(
            error.sentence.replace("Central training", "Pre-training"), hint="Lower pretrain.learning_rate."
        ) from None
