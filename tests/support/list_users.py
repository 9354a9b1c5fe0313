"""Users given as nested lists: the slow way to do everything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of
from tacit.data.users import Examples, Names, Users, names_of_numbers

Population = list[list[list[int]]]  # users, their sentences, their words


class ListUsers:
    """Users from lists of sentences of word numbers; able only to gather. As images, each sentence is one picture."""

    def __init__(self, users: list[list[Any]], *, images: bool = False) -> None:
        self.users = users
        self.images = images

    def __len__(self) -> int:
        return len(self.users)

    def names(self, users: NDArray[np.int64]) -> Names:
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        chosen = [self.users[u] for u in users]
        sentences = [sentence for user in chosen for sentence in user]
        user_offsets = offsets_of(np.array([len(user) for user in chosen], np.int64))
        if self.images:
            labels = np.array([sum(sentence) for sentence in sentences], np.int32)
            pictures = np.zeros((len(sentences), 28, 28), np.uint8) + labels.astype(np.uint8)[:, None, None]
            return Examples(pictures, np.arange(len(sentences) + 1, dtype=np.int64), user_offsets, labels)
        items = np.array([word for sentence in sentences for word in sentence], np.uint16)
        return Examples(items, offsets_of(np.array([len(s) for s in sentences], np.int64)), user_offsets)


def listed(users: Users, numbers: list[int] | None = None) -> Population:
    """The users' examples as nested lists."""
    wanted = np.array(range(len(users)) if numbers is None else numbers, np.int64)
    examples = users.gather(wanted)
    assert len(examples.user_offsets) == len(wanted) + 1
    assert examples.example_offsets[-1] == len(examples.items)
    return [
        [
            examples.items[examples.example_offsets[e] : examples.example_offsets[e + 1]].tolist()
            for e in range(examples.user_offsets[u], examples.user_offsets[u + 1])
        ]
        for u in range(len(wanted))
    ]
