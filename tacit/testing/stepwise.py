"""What every model that reads word by word promises (`tacit.learning.stepwise.Stepwise`), as tests to inherit.

Evaluations read many users' texts side by side, copy states and go back to them. That is only sound if a row's state belongs to
that row alone and if reading changes nothing but what it returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.users import BOS, FIRST_WORD
from tacit.learning.stepwise import State, Stepwise, select


class StepwiseContract:
    """Inherit in a class whose name begins with Test, and define `model`.

    `forgets_sentences` is False for a model that remembers a user's earlier sentences.
    """

    forgets_sentences = True
    #: How far two log probabilities of the same text may be apart, by rounding.
    tolerance = 1e-5

    def model(self) -> Stepwise:
        """The model, with at least two words in its vocabulary."""
        raise NotImplementedError("Define model(self) in the class that inherits StepwiseContract.")

    def test_it_gives_every_id_a_probability(self) -> None:
        """[rows, vocabulary] log probabilities in float32, which sum to one; before the first token too."""
        model = self.model()
        state = _read(model, _rows(model.vocabulary))
        for known in (model.read(model.begin(2), np.array([BOS, BOS])), state):
            found = model.log_probabilities(known)
            assert found.dtype == np.float32
            assert found.shape == (len(known[0]), model.vocabulary)
            assert not np.isnan(found).any()
            np.testing.assert_allclose(np.exp(found.astype(np.float64)).sum(axis=1), 1, atol=self.tolerance)

    def test_the_first_axis_of_a_state_is_the_row(self) -> None:
        """A state is a tuple of arrays, so that rows can be taken out of it."""
        model = self.model()
        state = model.begin(3)
        for after in (state, model.read(state, np.array([BOS, BOS, BOS]))):
            assert isinstance(after, tuple)
            assert after
            assert all(isinstance(each, np.ndarray) and len(each) == 3 for each in after)

    def test_a_row_depends_on_its_own_text_alone(self) -> None:
        """Beside others, in another order, taken twice, or alone."""
        model = self.model()
        rows = _rows(model.vocabulary)
        together = _read(model, rows)
        expected = model.log_probabilities(together)
        for number, row in enumerate(rows):
            self._assert_close(model.log_probabilities(_read(model, row[None]))[0], expected[number])
        order = np.array([2, 0, 2])
        self._assert_close(model.log_probabilities(select(together, order)), expected[order])
        many = np.repeat(rows, 7, axis=0)
        self._assert_close(model.log_probabilities(_read(model, many)), np.repeat(expected, 7, axis=0))

    def test_a_copied_state_goes_on_like_its_original(self) -> None:
        """As an evaluation does that looks several words ahead."""
        model = self.model()
        rows = _rows(model.vocabulary)
        twice = select(_read(model, rows), np.array([1, 1]))
        other = FIRST_WORD + 1 if rows[0, -1] == FIRST_WORD else FIRST_WORD
        ahead = model.log_probabilities(model.read(twice, np.array([rows[0, -1], other])))
        for place, word in enumerate((rows[0, -1], other)):
            alone = model.log_probabilities(_read(model, np.append(rows[1], word)[None]))
            self._assert_close(ahead[place], alone[0])

    def test_reading_changes_nothing_but_what_it_returns(self) -> None:
        """The state, the tokens and the model stay as they are."""
        model = self.model()
        state, tokens = _read(model, _rows(model.vocabulary)), np.array([BOS, FIRST_WORD, FIRST_WORD + 1])
        before = [each.copy() for each in (*state, tokens)]
        answers = [(model.log_probabilities(state), *model.read(state, tokens)) for _ in range(2)]
        for found, expected in zip((*state, tokens), before, strict=True):
            np.testing.assert_array_equal(found, expected)
        for one, other in zip(*answers, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_a_bos_begins_a_sentence(self) -> None:
        """What came before it is another sentence, which only a model with a history of its user remembers."""
        model = self.model()
        rows = _rows(model.vocabulary)
        with_before, alone = _read(model, rows[::-1, 1:]), model.begin(len(rows))
        differences = []
        for tokens in rows.T:
            with_before, alone = model.read(with_before, tokens), model.read(alone, tokens)
            found, expected = (np.exp(model.log_probabilities(state)) for state in (with_before, alone))
            differences.append(np.abs(found - expected).max())
        assert (max(differences) <= self.tolerance) == self.forgets_sentences

    def _assert_close(self, found: Any, expected: Any) -> None:
        np.testing.assert_allclose(np.exp(found), np.exp(expected), atol=self.tolerance, rtol=self.tolerance)


def _rows(vocabulary: int) -> NDArray[np.int64]:
    """Three texts of five tokens: two sentences of four words each, and between them two shorter sentences."""
    assert vocabulary >= FIRST_WORD + 2, "the model needs at least two words"
    rows = np.random.default_rng(0).integers(FIRST_WORD, vocabulary, (3, 5))
    rows[:, 0] = rows[1, 2] = BOS
    return rows


def _read(model: Stepwise, rows: NDArray[np.int64]) -> State:
    """The state after reading rows [rows, tokens]."""
    state = model.begin(len(rows))
    for tokens in rows.T:
        state = model.read(state, tokens)
    return state
