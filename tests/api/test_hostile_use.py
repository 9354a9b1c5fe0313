"""Innocent-looking use of the library that would make a stated epsilon false, or show something private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacit
from tacit.data.users import Examples, all_names
from tacit.data.views import Capped, Reshuffled, Subset, View, split_users
from tacit.data.vocabulary import vocabulary_of_words
from tacit.errors import DataError, PrivacyError
from tacit.models.word_lm import WordLMConfig, build
from tacit.privacy.noise.randomness import Randomness
from tacit.privacy.record.reasons import Why
from tacit.runs.odometer import heads_of
from tacit.simulation.cohorts import CohortStream
from tacit.training.calls import digest_of, setup_of_call
from tacit.training.sources import data_of, words_of

WORDS = [f"w{i}" for i in range(20)]
KEY = bytes([3]) * 32
CHECK_IN = tacit.PrivacyPlan(
    population=50,
    cohort=10,
    clip_norm=0.5,
    noise_multiplier=1.5,
    delta=1e-4,
    sampling="check_in",
    min_separation=1,
    max_participation=2,
)


def texts(count: int) -> dict[str, list[str]]:
    return {f"u{i}": [f"w{i % 20} w{(i + 1) % 20}"] for i in range(count)}


def people(count: int = 60, *, backwards: bool = False, vocabulary: Any = WORDS) -> tacit.MemoryUsers:
    told = texts(count)
    order = reversed(told) if backwards else told
    return tacit.users({each: told[each] for each in order}, vocabulary=vocabulary, held_out=0.1, key=KEY)


def model() -> dict[str, jax.Array]:
    return {"table": jnp.zeros((24, 24))}


def loss(model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits, target = model["table"][tokens[:, :-1]], tokens[:, 1:]
    mask = (target > 1).astype(jnp.float32)
    own = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
    return jnp.sum((jax.nn.logsumexp(logits, -1) - own) * mask), jnp.sum(mask)


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "work": tacit.FedSGD(batch_size=2),
        "privacy": CHECK_IN,
        "server": optax.sgd(1.0),
        "rounds": 3,
        "gate_audit": False,
        **changes,
    }


def reasons(users: Any, held_out: Any) -> set[str]:
    setup = setup_of_call(model(), loss, users, name="run", held_out=held_out, **settings())
    return {reason.code for reason in setup.reasons_not_private}


def test_a_view_does_not_hide_that_the_vocabulary_was_counted_on_the_users() -> None:
    counted = vocabulary_of_words(WORDS, provenance="counted on the users", place=str)
    assert not counted.is_public
    users = people(vocabulary=counted)
    train, aside = split_users(users)
    assert Why.COUNTED_VOCABULARY in reasons(users, 200)
    assert Why.COUNTED_VOCABULARY in reasons(train, aside)
    assert Why.COUNTED_VOCABULARY in reasons(Capped(train, tokens=5), aside)


def test_a_view_keeps_the_words() -> None:
    users = people()
    train, _ = split_users(users)
    assert words_of(Capped(train, tokens=5)) == users.words
    assert data_of(train) == data_of(users)


def test_users_whose_examples_are_dealt_out_claim_nothing() -> None:
    train, aside = split_users(people())
    assert Why.MIXED_USERS in reasons(Reshuffled(train, 50, seed=1), aside)
    assert Why.MIXED_USERS in reasons(Capped(Reshuffled(train, 50, seed=1), tokens=5), aside)


class MyWorld(tacit.KeyboardWorld):
    """Chat of real people, in the shape of a world."""


class Merged(View):
    """A world, to which somebody adds the chat of real people."""


@pytest.mark.parametrize("users", [MyWorld(1, 50), Merged(tacit.KeyboardWorld(1, 50))])
def test_only_tacits_own_world_has_no_people_in_it(users: Any) -> None:
    found = data_of(users)
    assert (found.world, found.users) == (None, None)
    assert data_of(Subset(tacit.KeyboardWorld(1, 50), np.arange(10))).world == "keyboard"


def test_nobody_who_is_trained_on_is_measured_on() -> None:
    users, (train, aside) = people(), split_users(people())
    for measured in (users, people(), aside, Subset(users, np.arange(5))):
        with pytest.raises(DataError, match="users who are not trained on"):
            reasons(users, measured)
    assert not reasons(train, aside)
    assert not reasons(users, tacit.users(texts(9), vocabulary=WORDS))


def begun(out: Path, users: Any, **changes: Any) -> None:
    for _ in tacit.rounds(model(), loss, users, **settings(**changes), out=out):
        break


def test_a_run_goes_on_with_the_same_users_in_the_same_order(tmp_path: Path) -> None:
    begun(tmp_path / "run", people())
    ledger = (tmp_path / "run" / "ledger.jsonl").read_bytes()
    objects = {name: settings()[name] for name in ("work", "server")}
    others = tacit.users({"stranger": ["w1"]}, vocabulary=WORDS)
    for users, held_out in ((people(backwards=True), 200), (people(70), 200), (people(), others)):
        with pytest.raises(PrivacyError, match="other users, or with the same users in another order"):
            tacit.resume(tmp_path / "run", model(), loss, users, held_out=held_out, **objects)
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == ledger
    assert (tmp_path / "run" / "private" / "users.sha256").stat().st_mode & 0o077 == 0
    assert math.isfinite(tacit.resume(tmp_path / "run", model(), loss, people(), **objects).cost().epsilon)


def test_the_odometer_knows_a_round_before_its_model_is_shown(tmp_path: Path) -> None:
    people().save(tmp_path / "store")
    store = tacit.open_store(tmp_path / "store")
    with tacit.rounds(model(), loss, store, **settings(), out=tmp_path / "run") as steps:
        for step in steps:
            heads = heads_of(tmp_path / "store")[steps.run.run_id]
            lines = (tmp_path / "run" / "ledger.jsonl").read_bytes().count(b"\n")
            assert heads[-1].length == lines, step.number


def test_what_is_done_to_a_shown_model_does_not_reach_the_run(tmp_path: Path) -> None:
    start = model()
    steps = tacit.rounds(start, loss, people(), **settings(), out=tmp_path / "run")
    start["table"] = jnp.full((24, 24), 7.0)
    for step in steps:
        assert float(jnp.abs(step.model["table"]).max()) < 5
        step.model["table"] = jnp.full((24, 24), 7.0)
    assert float(jnp.abs(steps.run.model["table"]).max()) < 5


@dataclass
class Neighbourly:
    """Users whose gather also brings somebody who was not asked for."""

    users: Any

    def __len__(self) -> int:
        return len(self.users)

    def names(self, users: Any) -> Any:
        return self.users.names(users)

    def gather(self, users: Any) -> Examples:
        return self.users.gather(np.append(users, 0))  # type: ignore[no-any-return]


class Lowercased:
    """A view of one's own that calls what it stands on by another name, or holds several."""

    def __init__(self, *sources: Any) -> None:
        if len(sources) == 1:
            self.inner = sources[0]
        else:
            self.sources = list(sources)

    def __len__(self) -> int:
        return len(self.inner)

    def names(self, users: Any) -> Any:
        return self.inner.names(users)

    def gather(self, users: Any) -> Any:
        return self.inner.gather(users)


def test_the_odometer_is_found_under_a_view_of_ones_own(tmp_path: Path) -> None:
    people().save(tmp_path / "store")
    tacit.users(texts(9), vocabulary=WORDS).save(tmp_path / "other")
    store, other = tacit.open_store(tmp_path / "store"), tacit.open_store(tmp_path / "other")
    train, aside = split_users(store)
    setup = setup_of_call(model(), loss, Lowercased(train), name="run", held_out=aside, **settings())
    assert setup.store == tmp_path / "store"
    assert setup.dataset.description.name == data_of(store).name
    assert data_of(Lowercased(store, people())).store == store.store_id
    with pytest.raises(DataError, match="users of one store"):
        data_of(Lowercased(store, other))


def test_nobody_counts_who_was_not_drawn(tmp_path: Path) -> None:
    train, aside = split_users(people())
    with pytest.raises(DataError, match=r"Neighbourly\.gather did not return"):
        tacit.train(model(), loss, Neighbourly(train), held_out=aside, **settings(), out=tmp_path / "run")


def test_a_models_digest_does_not_depend_on_where_its_functions_lie() -> None:
    def made() -> eqx.nn.MLP:
        return eqx.nn.MLP(2, 2, 3, 1, activation=lambda x: x, key=jax.random.key(0))

    assert digest_of(made()) == digest_of(made())
    assert digest_of(made()) != digest_of(eqx.nn.MLP(2, 2, 3, 1, activation=lambda x: x, key=jax.random.key(1)))


class Reused:
    """A sampler that returns the same array in every round."""

    def __init__(self) -> None:
        self.chosen = np.zeros(1, np.int64)

    def sample(self, draws: Any) -> Any:
        self.chosen[0] += 1
        return self.chosen

    def remember(self, users: Any) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {}


def test_who_took_part_is_recorded_as_it_was_drawn() -> None:
    stream = CohortStream(Reused(), Randomness.fresh(), all_names(people()), lambda users: iter(()), start=0, stop=2)
    try:
        assert [cohort.users.tolist() for cohort in list(stream)] == [[1], [2]]
    finally:
        stream.close()


def _on_the_host(model: Any, tokens: jax.Array) -> jax.Array:
    kind = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.pure_callback(lambda seen: np.float32(seen.sum()), kind, tokens, vmap_method="sequential")


def _printed(model: Any, tokens: jax.Array) -> jax.Array:
    jax.debug.print("{}", tokens)
    return jnp.float32(1)


@jax.custom_batching.custom_vmap
def _shared(seen: jax.Array) -> jax.Array:
    return seen


@_shared.def_vmap
def _over_all(size: int, batched: Any, seen: jax.Array) -> tuple[jax.Array, bool]:
    return seen + seen.sum(), True


def _mixed(model: Any, tokens: jax.Array) -> jax.Array:
    return _shared(tokens.sum().astype(jnp.float32))


@pytest.mark.parametrize("also", [_on_the_host, _printed, _mixed])
def test_a_loss_that_can_see_other_users_is_refused(also: Any, tmp_path: Path) -> None:
    def leaking(model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        total, count = loss(model, tokens)
        return total * jax.lax.stop_gradient(also(model, tokens)), count

    with pytest.raises(PrivacyError, match="can keep or show what other users hold"):
        tacit.train(model(), leaking, people(), **settings(), out=tmp_path / "run")


def test_a_loss_that_can_see_other_users_is_refused_with_a_model_of_tacits_own(tmp_path: Path) -> None:
    def leaking(model: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        total, count = tacit.NextWord().loss_sum(model, tokens)
        return total * jax.lax.stop_gradient(_on_the_host(model, tokens)), count

    own = build(WordLMConfig(vocabulary=40, embedding=2, units=2, projection=2), key=jax.random.key(1))
    with pytest.raises(PrivacyError, match="can keep or show what other users hold"):
        tacit.train(own, leaking, people(), **settings(), out=tmp_path / "run")
