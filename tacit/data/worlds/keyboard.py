"""The keyboard world: chat messages of as many users as you like, made when they are asked for.

Every user has a style of spelling and punctuation, three topics they return to, and favourites: the friends they write
to, the places they meet at, the dishes they cook. A user is a pure function of (seed, user number), so half a million
of them cost nothing, and the sentences of one user are independent draws given that user.

Every favourite is itself a draw from the public distribution of its slot, and no sentence draws from one set of
favourites twice. Averaged over users the favourites therefore vanish exactly, and the best next-word prediction that
sees the current sentence alone can be computed: see `KeyboardWorld.best_possible`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tacit.data.ragged import offsets_of, rows_and_places
from tacit.data.users import FIRST_WORD, OOV, RESERVED, Examples, Names, names_of_numbers
from tacit.data.worlds import randomness
from tacit.data.worlds.definition import CLOSER, CORE, END, OPENER, STYLE_SHARES, STYLES
from tacit.data.worlds.grammar import english
from tacit.data.worlds.next_word_distribution import NextWordDistribution, Tally
from tacit.errors import RecipeError

# The spread of the number of sentences a user wrote: exp of a normal with this standard deviation.
_SIZE_SPREAD = 0.6
# Favourites of a slot, and topics of a user, by how often each is taken; and the chance that a sentence keeps to them.
_FAVOURITES = np.array([0.4, 0.3, 0.2, 0.1])
_OWN_TOPICS = np.array([0.5, 0.3, 0.2])
_TOPIC_LOYALTY = 0.7

# What a draw is for: the first number in its name, under the key of the user, the sentence or the place in a sentence.
_STYLE, _SIZE, _SENTENCE, _PLACE, _OWN, _LOYAL, _TOPIC, _LINE, _OPENER, _CLOSER, _FAVOURITE, _FILLER, _SPELLING = range(
    13
)


@dataclass(frozen=True)
class _Tables:
    """The grammar's chances, ready to be drawn from."""

    opener: randomness.Choices  # by style
    topic: randomness.Choices  # one
    line: randomness.Choices  # by topic
    closer: randomness.Choices  # by kind, then style
    filler: randomness.Choices  # by slot
    spelling: randomness.Choices  # by lexeme, then style
    style: randomness.Choices  # one
    own_topic: randomness.Choices  # one
    favourite: randomness.Choices  # one


@cache
def _tables() -> _Tables:
    grammar = english()

    def of_stage(stage: int) -> NDArray[np.float64]:
        return grammar.line_shares[grammar.line_stage == stage]

    styles = range(len(STYLES))
    spellings = np.split(grammar.spelling_shares, grammar.spelling_at[1:-1])
    return _Tables(
        opener=randomness.Choices([of_stage(OPENER)[:, style] for style in styles]),
        topic=randomness.Choices([grammar.topic_shares]),
        line=randomness.Choices(
            [grammar.topic_line_shares[grammar.line_topic == topic] for topic in range(len(grammar.topics))]
        ),
        closer=randomness.Choices([of_stage(kind)[:, style] for kind in range(CLOSER, END) for style in styles]),
        filler=randomness.Choices(np.split(grammar.filler_shares, grammar.slot_at[1:-1])),
        spelling=randomness.Choices([shares[:, style] for shares in spellings for style in styles]),
        style=randomness.Choices([STYLE_SHARES]),
        own_topic=randomness.Choices([_OWN_TOPICS]),
        favourite=randomness.Choices([_FAVOURITES]),
    )


class KeyboardWorld:
    """`Users` who chat. `words[i]` is the word with id i; ids 0 to 3 are reserved, rarer words than the last become OOV.

    The vocabulary is the `vocabulary_size` most frequent words by the grammar's own expected counts (all of them if
    None): public, and the same in every world. `tokens_per_user` is the mean; users differ, and none writes more
    than `most_sentences` sentences or fewer than one.

    >>> import tacit
    >>> world = tacit.KeyboardWorld(seed=1, users=500_000)
    >>> world.sentences(499_999)[1]
    'oh can you add tom to the group'
    """

    def __init__(
        self,
        seed: int,
        users: int,
        vocabulary_size: int | None = 2000,
        tokens_per_user: float = 250.0,
        most_sentences: int = 400,
    ) -> None:
        grammar = english()
        full = FIRST_WORD + len(grammar.words)
        if users < 1:
            raise RecipeError(f"Expected users ≥ 1 in the keyboard world, got {users}.")
        if vocabulary_size is not None and not FIRST_WORD < vocabulary_size <= full:
            raise RecipeError(
                f"Expected vocabulary_size from {FIRST_WORD + 1} to {full} in the keyboard world, got {vocabulary_size}."
            )
        if not tokens_per_user > 0 or most_sentences < 1:
            raise RecipeError(
                "Expected tokens_per_user > 0 and most_sentences ≥ 1 in the keyboard world, "
                f"got {tokens_per_user} and {most_sentences}."
            )
        self.words: tuple[str, ...] = (RESERVED + grammar.words)[: vocabulary_size or full]
        self.seed = seed
        self._settings = (vocabulary_size, tokens_per_user, most_sentences)
        self._users = users
        self._grammar = grammar
        self._tables = _tables()
        self._key = randomness.name(0, seed % 2**64)
        self._mean_sentences = tokens_per_user / float(grammar.word_shares.sum())
        self._most_sentences = most_sentences
        ids = FIRST_WORD + np.arange(len(grammar.words))
        self._ids = np.where(ids < len(self.words), ids, OOV).astype(np.int32)
        self._stage_lines = [np.flatnonzero(grammar.line_stage == stage) for stage in range(END)]

    def with_more(self, users: int) -> KeyboardWorld:
        """The same world with so many more users, whose numbers follow those of these."""
        return KeyboardWorld(self.seed, self._users + users, *self._settings)

    def __len__(self) -> int:
        return self._users

    def names(self, users: NDArray[np.int64]) -> Names:
        """The numbers of these users: a user of a world is no person."""
        return names_of_numbers(users)

    def gather(self, users: NDArray[np.int64]) -> Examples:
        """The sentences of these users, as word ids."""
        words, example_offsets, user_offsets = self._write(np.asarray(users, dtype=np.int64))
        return Examples(self._ids[words], example_offsets, user_offsets)

    def styles(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """The style each of these users writes in: its place in `definition.STYLES`."""
        return self._styles(randomness.name(self._key, np.asarray(users, dtype=np.int64)))

    def sentences(self, user: int) -> list[str]:
        """What this user wrote, to read; every word is spelled out whatever the vocabulary."""
        words, offsets, _ = self._write(np.array([user]))
        written = self._grammar.words
        lines = [" ".join(written[word] for word in words[start:stop]) for start, stop in itertools.pairwise(offsets)]
        for mark in ".,!?":
            lines = [line.replace(f" {mark}", mark) for line in lines]
        return lines

    def best_possible(
        self,
        users: NDArray[np.int64],
        *,
        knowing_user: bool = False,
        count_end: bool = False,
        most_sentences: int | None = None,
    ) -> dict[str, float]:
        """What no next-word model can be expected to beat on these users' sentences (or the first `most_sentences`).

        The predictor knows the grammar and sees the current sentence from its start, in this world's vocabulary. It does
        not know whose sentence it is, unless `knowing_user`: then it also knows the user's style, topics and favourites.
        Returned: "top1" and "top3", the expected share of words that are its first, or among its first three, guesses,
        OOV words counted as mistakes; "entropy_bits", its expected surprise at a word; "unigram_top1", the share of the
        single most frequent word; "oov", the share of OOV words; and "words", how many predictions were averaged.
        Sentence ends are not counted, neither as targets nor as guesses, unless `count_end`. OOV is never a guess. So this is
        the keyboard's ranking among words, and no model does better by the papers' metric either.
        """
        users = np.asarray(users, dtype=np.int64)
        if knowing_user:
            parts = [(np.array([user]), self.next_word_distribution(int(user))) for user in users]
        else:
            parts = [(users, self.next_word_distribution())]
        total = Tally()
        for some, oracle in parts:
            examples = self.gather(some)
            allowed = None if most_sentences is None else most_sentences - total.sentences
            total = total + oracle.tally(examples, count_end=count_end, most_sentences=allowed)
        return total.summary()

    def next_word_distribution(self, user: int | None = None) -> NextWordDistribution:
        """The true next-word distribution for a sentence of this user or, without one, of a user drawn at random."""
        if user is None:
            return NextWordDistribution(self._grammar, self._ids, len(self.words))
        grammar, tables = self._grammar, self._tables
        key = randomness.name(self._key, user)
        topics = (1 - _TOPIC_LOYALTY) * grammar.topic_shares
        own = tables.topic.draw(np.zeros(3, np.int64), randomness.uniform(key, _OWN, np.arange(3)))
        np.add.at(topics, own, _TOPIC_LOYALTY * _OWN_TOPICS)
        line_shares = grammar.line_shares.copy()
        core = grammar.line_stage == CORE
        line_shares[core] = (topics[grammar.line_topic] * grammar.topic_line_shares)[core, None]
        slots = np.arange(len(grammar.slots))
        slot_of_filler = np.repeat(slots, np.diff(grammar.slot_at))
        fillers = grammar.filler_shares * (1 - grammar.slot_personal[slot_of_filler])
        for place, share in enumerate(_FAVOURITES):
            own = tables.filler.draw(slots, randomness.uniform(key, _FAVOURITE, grammar.slot_base, place))
            np.add.at(fillers, own, share * grammar.slot_personal)
        style = np.zeros(len(STYLES))
        style[tables.style.draw(np.zeros(1, np.int64), randomness.uniform(key, [_STYLE]))] = 1.0
        return NextWordDistribution(
            grammar, self._ids, len(self.words), styles=style, line_shares=line_shares, filler_shares=fillers
        )

    def sentence_counts(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many sentences each of these users wrote."""
        return self._sizes(randomness.name(self._key, users))

    def _sizes(self, user_keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        size = np.exp(_SIZE_SPREAD * randomness.normal(user_keys, _SIZE) - _SIZE_SPREAD**2 / 2)
        return np.clip(np.rint(self._mean_sentences * size), 1, self._most_sentences).astype(np.int64)

    def _write(self, users: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The words of all sentences of these users, the sentences' offsets in them, the users' offsets in those."""
        grammar = self._grammar
        user_keys = randomness.name(self._key, users)
        styles = self._styles(user_keys)
        counts = self._sizes(user_keys)
        writer, sentence = rows_and_places(counts)
        keys = randomness.name(user_keys[writer], _SENTENCE, sentence)
        style = styles[writer]
        lines = self._lines(keys, user_keys[writer], style)  # [sentences, 3]: opener, core, closer

        line_length = np.diff(grammar.line_at)
        row, place = rows_and_places(line_length[lines.ravel()])
        items = grammar.line_items[grammar.line_at[lines.ravel()[row]] + place]
        owner = row // 3
        filler = self._fillers(items, owner, keys, user_keys[writer])
        lengths = np.where(items >= 0, 1, grammar.filler_at[filler + 1] - grammar.filler_at[filler])
        source, place = rows_and_places(lengths)
        lexemes = np.where(
            items[source] >= 0, items[source], grammar.filler_lexemes[grammar.filler_at[filler[source]] + place]
        )
        owner = owner[source]
        words = self._spell(lexemes, owner, keys, style)
        return words, offsets_of(np.bincount(owner, minlength=len(keys))), offsets_of(counts)

    def _styles(self, user_keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        zeros = np.zeros(len(user_keys), np.int64)
        return self._tables.style.draw(zeros, randomness.uniform(user_keys, _STYLE))

    def _lines(
        self, keys: NDArray[np.uint64], user_keys: NDArray[np.uint64], style: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        grammar, tables = self._grammar, self._tables
        zeros = np.zeros(len(keys), np.int64)
        own_place = tables.own_topic.draw(zeros, randomness.uniform(keys, _OWN))
        loyal = randomness.uniform(keys, _LOYAL) < _TOPIC_LOYALTY
        # A topic of one's own is named by the user and its place, so all their sentences draw the same one.
        topic_draw = np.where(loyal, randomness.uniform(user_keys, _OWN, own_place), randomness.uniform(keys, _TOPIC))
        topic = tables.topic.draw(zeros, topic_draw)
        core = self._stage_lines[CORE][tables.line.draw(topic, randomness.uniform(keys, _LINE))]
        opener = self._stage_lines[OPENER][
            tables.opener.draw(style, randomness.uniform(keys, _OPENER)) - tables.opener.starts[style]
        ]
        kind = grammar.line_next[core] - CLOSER
        which = kind * len(STYLES) + style
        place = tables.closer.draw(which, randomness.uniform(keys, _CLOSER)) - tables.closer.starts[which]
        closer = np.array([lines[0] for lines in self._stage_lines[CLOSER:]])[kind] + place
        return np.stack([opener, core, closer], axis=1)

    def _fillers(
        self,
        items: NDArray[np.int64],
        owner: NDArray[np.int64],
        keys: NDArray[np.uint64],
        user_keys: NDArray[np.uint64],
    ) -> NDArray[np.int64]:
        """The filler of each item that is a slot (0, unused, for a word)."""
        grammar, tables = self._grammar, self._tables
        at = np.flatnonzero(items < 0)
        slot = -1 - items[at]
        fresh = randomness.name(keys[owner[at]], _PLACE, at - np.searchsorted(owner, owner[at]))
        own_place = tables.favourite.draw(np.zeros(len(at), np.int64), randomness.uniform(fresh, _OWN))
        personal = randomness.uniform(fresh, _LOYAL) < grammar.slot_personal[slot]
        favourite = randomness.uniform(user_keys[owner[at]], _FAVOURITE, grammar.slot_base[slot], own_place)
        chosen = np.zeros(len(items), np.int64)
        chosen[at] = tables.filler.draw(slot, np.where(personal, favourite, randomness.uniform(fresh, _FILLER)))
        return chosen

    def _spell(
        self,
        lexemes: NDArray[np.int64],
        owner: NDArray[np.int64],
        keys: NDArray[np.uint64],
        style: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        grammar = self._grammar
        spelling = grammar.spelling_at[lexemes]
        at = np.flatnonzero(np.diff(grammar.spelling_at)[lexemes] > 1)
        place = at - np.searchsorted(owner, owner[at])
        which = lexemes[at] * len(STYLES) + style[owner[at]]
        draws = self._tables.spelling.draw(which, randomness.uniform(keys[owner[at]], _SPELLING, place))
        spelling[at] += draws - self._tables.spelling.starts[which]
        return grammar.spelling_words[spelling]
