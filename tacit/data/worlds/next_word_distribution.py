"""The keyboard world's true next-word distribution, by the forward algorithm.

A hypothesis is a place in the grammar where the sentence so far may have led (the next item of a line, or the next word
of a filler), with one weight for each style the writer may have. A word read keeps the hypotheses that could have
written it and moves them on; the next word's distribution is what the remaining ones would write. Many sentences
advance together, so a step is a handful of array operations.

All of this works on the ids of a vocabulary: a rare word is read as OOV, which could be any word outside the vocabulary, so
the result is the best that any model with that vocabulary can predict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import rows_and_places
from tacit.data.users import EOS, FIRST_WORD, OOV, Examples
from tacit.data.worlds.definition import CORE, END, OPENER, STYLE_SHARES, STYLES
from tacit.data.worlds.grammar import Grammar

# Sentences that advance together; enough to keep array operations busy, few enough for [sentences, words] to stay small.
_BATCH = 256


@dataclass(frozen=True)
class Tally:
    """Sums over predictions, from which the expected accuracies follow.

    `top1` and `top3` are what a keyboard shows: the guesses are words. They are also the best possible by the papers' metric,
    because a guess of oov is a mistake there, and so is one of eos.
    """

    sentences: int = 0
    words: int = 0  # targets counted, as they were written
    mass: float = 0.0  # the same, as expected by the predictor
    top1: float = 0.0
    top3: float = 0.0
    surprise: float = 0.0
    unigram: float = 0.0
    oov: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Tally)))

    def summary(self) -> dict[str, float]:
        """The sums as shares of the expected number of targets."""
        return {
            "top1": self.top1 / self.mass,
            "top3": self.top3 / self.mass,
            "entropy_bits": self.surprise / self.mass,
            "unigram_top1": self.unigram / self.mass,
            "oov": self.oov / self.mass,
            "words": self.words,
        }


@dataclass(frozen=True)
class _Beliefs:
    """Hypotheses of many sentences: `node` is what comes next, `back` where a filler returns to, `weight` by style."""

    sentence: NDArray[np.int64]
    node: NDArray[np.int64]
    back: NDArray[np.int64]
    weight: NDArray[np.float64]  # [hypotheses, styles]

    def only(self, which: NDArray[np.generic]) -> _Beliefs:
        return _Beliefs(self.sentence[which], self.node[which], self.back[which], self.weight[which])


class NextWordDistribution:
    """The next word's distribution given the words of the sentence so far, as ids of a vocabulary of `size` entries.

    `ids` maps the grammar's words to the vocabulary. Without `styles`, `line_shares` and `filler_shares` the writer is
    drawn at random from the population; with them, it is the writer with these chances.
    """

    def __init__(
        self,
        grammar: Grammar,
        ids: NDArray[np.int32],
        size: int,
        *,
        styles: NDArray[np.float64] = STYLE_SHARES,
        line_shares: NDArray[np.float64] | None = None,
        filler_shares: NDArray[np.float64] | None = None,
    ) -> None:
        self._size = size
        self._styles = styles
        self._line_shares = grammar.line_shares if line_shares is None else line_shares
        shares = grammar.filler_shares if filler_shares is None else filler_shares
        self._lay_out_nodes(grammar)
        self._index_spellings(grammar, ids)
        self._index_fillers(grammar, shares)
        self._index_lines(grammar)
        self.unigram = int(np.argmax(np.bincount(ids, grammar.word_shares)[FIRST_WORD:])) + FIRST_WORD

    def _lay_out_nodes(self, grammar: Grammar) -> None:
        """Nodes: the items of each line and, after its last, the stage that follows; then the words of each filler.

        A node is a word (`_lexeme` ≥ 0) or a source (`_source` ≥ 0): a slot, or a stage numbered after the slots.
        """
        lengths = np.diff(grammar.line_at) + 1
        self._line_first = np.cumsum(lengths) - lengths
        line, place = rows_and_places(lengths)
        last = place == lengths[line] - 1
        items = np.zeros(len(line), np.int64)
        items[~last] = grammar.line_items
        slots = len(grammar.slots)
        self._slots = slots
        self._source = np.where(last, slots + grammar.line_next[line], np.where(items < 0, -1 - items, -1))
        self._lexeme = np.where(self._source < 0, items, -1)
        self._filler_first = len(line) + grammar.filler_at[:-1]
        words_in_filler = np.diff(grammar.filler_at)
        filler, place = rows_and_places(words_in_filler)
        self._returns = np.concatenate([np.zeros(len(line), bool), place == words_in_filler[filler] - 1])
        self._source = np.concatenate([self._source, np.full(len(filler), -1)])
        self._lexeme = np.concatenate([self._lexeme, grammar.filler_lexemes])
        self._single = words_in_filler == 1

    def _index_spellings(self, grammar: Grammar, ids: NDArray[np.int32]) -> None:
        """[lexemes, most variants] ids and [.., styles] chances; absent variants have chance 0."""
        variants = np.diff(grammar.spelling_at)
        lexeme, place = rows_and_places(variants)
        self._variant_id = np.full((len(variants), variants.max()), -1)
        self._variant_id[lexeme, place] = ids[grammar.spelling_words]
        self._variant_share = np.zeros((*self._variant_id.shape, len(STYLES)))
        self._variant_share[lexeme, place] = grammar.spelling_shares

    def _index_fillers(self, grammar: Grammar, shares: NDArray[np.float64]) -> None:
        """By (slot, id): the nodes that follow the id when it is a filler's first word, and the chances of getting there.

        Fillers of one word leave nothing to follow, so all that share a slot and an id are one entry (node −1).
        """
        slot, _ = rows_and_places(np.diff(grammar.slot_at))
        filler = np.repeat(np.arange(len(slot)), self._variant_id.shape[1])
        first = self._lexeme[self._filler_first]
        identity = self._variant_id[first].ravel()
        chance = (shares[:, None, None] * self._variant_share[first]).reshape(len(filler), -1)
        keep = chance.any(axis=1)
        filler, identity, chance = filler[keep], identity[keep], chance[keep]
        key = slot[filler] * self._size + identity
        follow = np.where(self._single[filler], -1, self._filler_first[filler] + 1)
        # One sort groups equal (key, follow) pairs and leaves the keys in order.
        unique, group = np.unique(key * (len(self._lexeme) + 1) + follow + 1, return_inverse=True)
        self._filler_chance = np.zeros((len(unique), len(STYLES)))
        np.add.at(self._filler_chance, group, chance)
        self._filler_key, self._filler_follow = np.divmod(unique, len(self._lexeme) + 1)
        self._filler_follow -= 1
        self._emission = np.zeros((self._slots + END + 1, len(STYLES), self._size))
        for style in range(len(STYLES)):
            np.add.at(self._emission[:, style], (slot[filler], identity), chance[:, style])

    def _index_lines(self, grammar: Grammar) -> None:
        """By (stage, id): the lines that can begin with the id. Also what each stage writes first, as emissions."""
        stage_row = self._slots + grammar.line_stage
        first = self._line_first
        empty = np.diff(grammar.line_at) == 0
        self._no_opener = self._line_shares[empty & (grammar.line_stage == OPENER)].sum(axis=0)
        self._emission[self._slots + END, :, EOS] = 1.0
        keys, lines = [], []
        for line in np.flatnonzero(~empty & self._line_shares.any(axis=1)):
            shares = self._line_shares[line]
            lexeme, source = self._lexeme[first[line]], self._source[first[line]]
            if source < 0:
                begins = np.unique(self._variant_id[lexeme][self._variant_id[lexeme] >= 0])
                for identity, chance in zip(self._variant_id[lexeme], self._variant_share[lexeme], strict=True):
                    if identity >= 0:
                        self._emission[stage_row[line], :, identity] += shares * chance
            else:
                begins = np.flatnonzero(self._emission[source].any(axis=0))
                self._emission[stage_row[line]] += shares[:, None] * self._emission[source]
            keys.append(stage_row[line] * self._size + begins)
            lines.append(np.full(len(begins), line))
        order = np.argsort(np.concatenate(keys), kind="stable")
        self._begin_key, self._begin_line = np.concatenate(keys)[order], np.concatenate(lines)[order]
        for line in np.flatnonzero(empty & (grammar.line_stage > CORE)):
            self._emission[stage_row[line], :, EOS] += self._line_shares[line]
        # Most sources write alike in every style; their weights can be added up before the product with the emissions.
        self._styleless = np.flatnonzero((self._emission == self._emission[:, :1]).all(axis=(1, 2)))

    def distributions(self, sentence: NDArray[np.integer]) -> NDArray[np.float64]:
        """[words + 1, vocabulary]: row i is the distribution of what follows the first i words, sentence end included.

        After words that nobody in this world could have written, rows are zero.
        """
        steps = self._steps(np.asarray(sentence, np.int64)[None, :], np.array([len(sentence)]))
        return np.concatenate(list(steps))

    def tally(self, examples: Examples, *, count_end: bool = False, most_sentences: int | None = None) -> Tally:
        """The predictor's expected results along these sentences (the first `most_sentences` of them)."""
        lengths = np.diff(examples.example_offsets)[:most_sentences]
        total = Tally()
        # Sentences of like length share a batch, so that its last steps are not for one long sentence alone.
        order = np.argsort(lengths, kind="stable")
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            padded = np.full((len(batch), max(1, lengths[batch].max())), OOV, np.int64)
            row, place = rows_and_places(lengths[batch])
            padded[row, place] = examples.items[examples.example_offsets[batch[row]] + place]
            total = total + Tally(sentences=len(batch), words=int(lengths[batch].sum()) + count_end * len(batch))
            for rows in self._steps(padded, lengths[batch]):
                total = total + self._expect(rows, count_end)
        return total

    def _expect(self, rows: NDArray[np.float64], count_end: bool) -> Tally:
        """Expected results of one prediction in each row: the guesses are the most probable of what counts as right."""
        guesses = rows.copy()
        guesses[:, OOV] = 0.0
        if not count_end:
            guesses[:, EOS] = 0.0
        best = -np.partition(-guesses, 2, axis=1)[:, :3]
        targets = rows if count_end else np.delete(rows, EOS, axis=1)
        possible = targets[targets > 0]
        return Tally(
            mass=float(targets.sum()),
            top1=float(best.max(axis=1).sum()),
            top3=float(best.sum()),
            surprise=float(-(possible * np.log2(possible)).sum()),
            unigram=float(rows[:, self.unigram].sum()),
            oov=float(rows[:, OOV].sum()),
        )

    def _steps(self, words: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
        """For each position, the [sentences, vocabulary] distributions of the sentences that reach it."""
        every = np.arange(len(words))
        beliefs = _Beliefs(
            np.concatenate([every, every]),
            np.repeat([-1 - OPENER, -1 - CORE], len(words)),
            np.zeros(2 * len(words), np.int64),
            np.repeat([self._styles, self._styles * self._no_opener], len(words), axis=0),
        )
        for position in range(words.shape[1] + 1):
            reached = lengths >= position
            if position > 0:
                beliefs = self._read(beliefs, words[:, position - 1], len(words), reached)
            # Sentences that have ended leave no hypotheses and take no room.
            renumbered = np.cumsum(reached) - 1
            yield self._predict(replace(beliefs, sentence=renumbered[beliefs.sentence]), int(reached.sum()))

    def _sources(self, beliefs: _Beliefs) -> NDArray[np.int64]:
        """Each hypothesis's source (−1 for a word). Before the first word, nodes −1 − stage stand for whole stages."""
        return np.where(beliefs.node < 0, self._slots - 1 - beliefs.node, self._source[beliefs.node])

    def _predict(self, beliefs: _Beliefs, sentences: int) -> NDArray[np.float64]:
        source = self._sources(beliefs)
        from_source = source >= 0
        some = beliefs.only(from_source)
        rows = len(self._emission)
        cell = some.sentence * rows + source[from_source]
        mixture = np.stack([np.bincount(cell, weight, sentences * rows) for weight in some.weight.T], axis=1)
        mixture = mixture.reshape(sentences, rows, -1)
        mixture[:, self._styleless, 0] = mixture[:, self._styleless].sum(axis=2)
        mixture[:, self._styleless, 1:] = 0.0
        mixture = mixture.reshape(sentences, -1)
        used = np.flatnonzero(mixture.any(axis=0))
        result = mixture[:, used] @ self._emission.reshape(rows * len(STYLES), -1)[used]
        words = beliefs.only(~from_source)
        lexeme = self._lexeme[words.node]
        chance = np.einsum("hs,hvs->hv", words.weight, self._variant_share[lexeme])
        written = chance > 0
        cell = (words.sentence[:, None] * self._size + self._variant_id[lexeme])[written]
        result += np.bincount(cell, chance[written], sentences * self._size).reshape(sentences, -1)
        return result / np.maximum(result.sum(axis=1, keepdims=True), 1e-300)

    def _read(self, beliefs: _Beliefs, words: NDArray[np.int64], sentences: int, active: NDArray[np.bool_]) -> _Beliefs:
        """The hypotheses after each active sentence's next word."""
        beliefs = self._enter_lines(beliefs.only(active[beliefs.sentence]), words)
        source = self._source[beliefs.node]
        literal, slot = beliefs.only(source < 0), beliefs.only(source >= 0)
        lexeme = self._lexeme[literal.node]
        match = self._variant_id[lexeme] == words[literal.sentence][:, None]
        weight = literal.weight * np.einsum("hv,hvs->hs", match, self._variant_share[lexeme])
        ends = self._returns[literal.node]
        after_word = _Beliefs(literal.sentence, np.where(ends, literal.back, literal.node + 1), literal.back, weight)

        key = source[source >= 0] * self._size + words[slot.sentence]
        row, entry = _join(self._filler_key, key)
        follow = self._filler_follow[entry]
        after_slot = _Beliefs(
            slot.sentence[row],
            np.where(follow < 0, slot.node[row] + 1, follow),
            slot.node[row] + 1,
            slot.weight[row] * self._filler_chance[entry],
        )
        moved = _both(after_word, after_slot)
        moved = moved.only(np.flatnonzero(moved.weight.any(axis=1)))
        # Weights are kept near 1 however long the sentence.
        total = np.bincount(moved.sentence, moved.weight.sum(axis=1), sentences)
        return _Beliefs(moved.sentence, moved.node, moved.back, moved.weight / total[moved.sentence][:, None])

    def _enter_lines(self, beliefs: _Beliefs, words: NDArray[np.int64]) -> _Beliefs:
        """A hypothesis at a stage becomes one at the first item of each line that the next word can begin."""
        source = self._sources(beliefs)
        stage = source >= self._slots
        some = beliefs.only(stage)
        row, entry = _join(self._begin_key, source[stage] * self._size + words[some.sentence])
        line = self._begin_line[entry]
        entered = _Beliefs(
            some.sentence[row],
            self._line_first[line],
            np.zeros(len(row), np.int64),
            some.weight[row] * self._line_shares[line],
        )
        return _both(beliefs.only(~stage), entered)


def _join(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs (i, j) with wanted[i] = keys[j], for sorted `keys`."""
    start, stop = np.searchsorted(keys, wanted, side="left"), np.searchsorted(keys, wanted, side="right")
    row, place = rows_and_places(stop - start)
    return row, start[row] + place


def _both(one: _Beliefs, other: _Beliefs) -> _Beliefs:
    return _Beliefs(*(np.concatenate([getattr(one, f.name), getattr(other, f.name)]) for f in fields(_Beliefs)))
