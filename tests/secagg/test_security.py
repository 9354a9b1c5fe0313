"""What the server sees says nothing beyond the sum, and does as soon as any one protection is taken away.

The first half replaces the cipher by ideal masks on a tiny modulus and enumerates every one of them: two inputs are
indistinguishable if and only if the multisets of the server's views are equal. The second half plays a malicious server.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tacit.errors import ProtocolError
from tacit.secagg import device, keys, masks, messages, server, shamir
from tacit.secagg.messages import Kind
from tacit.secagg.parameters import split_probability
from tests.support.secagg_attacks import forged, rebuilt, victim_seen
from tests.support.secagg_round import Round, replayable, session, whole_round

TRIO = session(devices=3, neighbours=2, threshold=2, minimum=2, dimension=1, bits=2)
# The masks of three devices: their own, and those of the pairs.
NAMES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
SELF = {0: (0, 0), 1: (1, 1), 2: (2, 2)}


@pytest.fixture
def ideal(monkeypatch):
    """Masks become what the returned table says, under the names above."""
    table: dict[tuple[int, int], int] = dict.fromkeys(NAMES, 0)
    derive = keys.derive

    def named(secret: bytes, context: bytes, use: bytes, first: int, second: int) -> bytes:
        return bytes([first, second]) * 16 if use.endswith(b"mask") else derive(secret, context, use, first, second)

    def add(total: masks.Words, mask: masks.Mask) -> None:
        value = np.uint32(table[mask.seed[0], mask.seed[1]])
        (np.subtract if mask.negative else np.add)(total, value, out=total)

    monkeypatch.setattr(keys, "derive", named)
    monkeypatch.setattr(masks, "_add_stream", add)
    return table


@pytest.fixture(scope="module")
def trio() -> Round:
    return whole_round(TRIO)


# What a device sends depends on its input and its three masks alone; each case is computed once, by the real stage.
_SENT: dict[tuple[int, ...], int] = {}


def vectors(done: Round, table: dict[tuple[int, int], int], inputs: tuple[int, ...]) -> tuple[int, ...]:
    """What the three devices really send, for these inputs and masks."""
    sent = []
    for index, value in enumerate(inputs):
        case = (index, value, *(table[name] for name in NAMES if index in name))
        if case not in _SENT:
            state, delivery = done.device_states[Kind.DELIVERY][index], done.sent[Kind.DELIVERY][index]
            message, _ = device.mask(state, delivery, np.array([value], np.uint32))
            _SENT[case] = int(masks.unpack(message[messages.witness_size(TRIO) :], 1, 2)[0])
        sent.append(_SENT[case])
    return tuple(sent)


def views(done, table, inputs, learned, *, without=(), second=None):
    """Every view of the server, counted over all masks: the vectors, and the masks it learns.

    `without`: masks that are missing. With `second`, another round under the same masks is seen as well.
    """
    counted: Counter = Counter()
    present = [name for name in NAMES if name not in without]
    for values in product(range(4), repeat=len(present)):
        table.clear()
        table.update(dict.fromkeys(without, 0))
        table.update(zip(present, values, strict=True))
        seen = vectors(done, table, inputs) + tuple(table[name] for name in learned)
        counted[seen + (vectors(done, table, second) if second is not None else ())] += 1
    return counted


# Device 2 is lost after its vector was on its way, the hardest honest case: the server holds its vector, its mask key (so the
# masks it shares) and the seeds of devices 0 and 1.
LATE = [SELF[0], SELF[1], (0, 2), (1, 2)]


def test_the_view_depends_on_the_included_inputs_by_their_sum_alone(ideal, trio):
    """(0, 0) and (1, 3) have the same sum modulo 4; the lost device's input does not matter at all."""
    base = views(trio, ideal, (0, 0, 0), LATE)
    assert views(trio, ideal, (1, 3, 0), LATE) == base
    assert views(trio, ideal, (2, 2, 1), LATE) == base
    assert views(trio, ideal, (0, 1, 0), LATE) != base  # another sum may be told apart


def test_without_losses_only_the_sum_shows(ideal, trio):
    everyone = [SELF[0], SELF[1], SELF[2]]
    base = views(trio, ideal, (0, 0, 1), everyone)
    for same_sum in ((1, 0, 0), (0, 1, 0), (2, 2, 1)):
        assert views(trio, ideal, same_sum, everyone) == base


def test_without_the_self_mask_a_late_device_is_seen(ideal, trio):
    learned = [(0, 2), (1, 2)]
    assert views(trio, ideal, (0, 0, 0), learned) == views(trio, ideal, (0, 0, 1), learned)
    bare = [SELF[2]]
    assert views(trio, ideal, (0, 0, 0), learned, without=bare) != views(trio, ideal, (0, 0, 1), learned, without=bare)


def test_without_pair_masks_everybody_is_seen(ideal, trio):
    learned, bare = [SELF[0], SELF[1], SELF[2]], NAMES[3:]
    assert views(trio, ideal, (0, 0, 0), learned, without=bare) != views(trio, ideal, (1, 3, 0), learned, without=bare)


def test_with_masks_used_twice_the_change_is_seen(ideal, trio):
    """Nothing is learned about any mask, and still two rounds under the same masks give the difference away."""
    assert views(trio, ideal, (0, 0, 0), []) == views(trio, ideal, (1, 3, 2), [])
    assert views(trio, ideal, (0, 0, 0), [], second=(0, 0, 0)) != views(trio, ideal, (0, 0, 0), [], second=(1, 3, 0))


def test_with_both_secrets_of_a_device_it_is_seen(ideal, trio):
    """What the consistency round prevents."""
    both = [*LATE, SELF[2]]
    assert views(trio, ideal, (0, 0, 0), both) != views(trio, ideal, (0, 0, 1), both)


def test_masks_differ_from_session_to_session_and_from_draw_to_draw():
    first = whole_round(session(), seed=1)
    other_session = whole_round(session(session_id=bytes(32)), seed=1)  # the same draws, and so the same keys
    other_draws = whole_round(session(), seed=2)
    key = first.device_states[Kind.DELIVERY][0].secrets.mask_key
    assert other_session.device_states[Kind.DELIVERY][0].secrets.mask_key == key
    seen = []
    for done in (first, other_session, other_draws):
        state = done.device_states[Kind.DELIVERY][0]
        neighbour, public = next(iter(state.neighbours.items()))
        secrets = state.secrets
        pair = device.pair_mask(done.session, secrets.mask_key, public.mask_key, owner=0, other=neighbour)
        seen += [pair.seed, device.self_mask(done.session, 0, secrets.seed).seed]
    assert len(set(seen)) == 6


def test_no_key_encrypts_twice(monkeypatch):
    """The nonce is constant, so that each direction between two devices has a key of its own."""
    used, encrypt = [], keys.encrypt

    def watched(key: bytes, plaintext: bytes, bound_to: bytes) -> bytes:
        used.append(key)
        return encrypt(key, plaintext, bound_to)

    monkeypatch.setattr(keys, "encrypt", watched)
    constants = session()
    whole_round(constants)
    assert len(used) == constants.devices * constants.neighbours
    assert len(set(used)) == len(used)


def test_a_share_of_one_secret_says_nothing_about_the_other():
    """Shared out by one polynomial, the two would differ by the same number everywhere, and one share would tell it."""
    done = whole_round(session())
    held = {i: state.shares for i, state in done.device_states[Kind.SURVIVORS].items()}
    for owner in range(done.session.devices):
        pairs = [held[i][owner] for i in done.session.neighbours_of(owner)]
        differences = [int.from_bytes(p[:32], "little") - int.from_bytes(p[32:], "little") for p in pairs]
        assert len({difference % shamir.P for difference in differences}) == len(pairs)


# A malicious server from here on. Six devices that all know each other; the threshold is above half.
SIX = session(devices=6, neighbours=5, threshold=4, minimum=3)


def announcement(done: Round, index: int, survivors: set[int]) -> bytes:
    """What device `index` is told if these devices are said to be included."""
    state = done.server_states[Kind.MASKED]
    for other in sorted(survivors):
        state = server.receive_masked(state, other, done.sent[Kind.MASKED][other])
    return server.close_masking(state)[0][index]


def test_without_the_consistency_round_a_server_isolates_a_device(monkeypatch):
    """Each device is told that only it and the victim are included: the server gets the victim's seed and all mask keys."""
    monkeypatch.setattr(device, "require_at_least", lambda *_: None)  # nobody counts who is included or who agrees
    done, victim, revealed = whole_round(SIX), 0, {}
    for index in range(1, 6):
        _, state = done.speak(Kind.SURVIVORS, index, forged(done, index, {index, victim}))
        revealed[index], _ = device.reveal(state, messages.from_server(SIX, Kind.AGREEMENTS, index, b""))
    np.testing.assert_array_equal(victim_seen(done, victim, revealed), done.values[victim])


def test_an_honest_round_does_not_give_a_device_away():
    done = whole_round(SIX)
    assert victim_seen(done, 0, done.sent[Kind.REVEAL]) is None


def test_the_consistency_round_refuses_a_set_a_device_would_be_nearly_alone_in():
    done = whole_round(SIX)
    for index in range(1, 6):
        with pytest.raises(ProtocolError, match="at least 3 included devices, got 2"):
            done.speak(Kind.SURVIVORS, index, forged(done, index, {0, index}))
        with pytest.raises(ProtocolError, match="at least 4 included neighbours, got 3"):
            done.speak(
                Kind.SURVIVORS, index, announcement(done, index, {index, *[i for i in range(6) if i != index][:3]})
            )


def test_a_server_that_tells_two_stories_gets_no_share_at_all():
    """Half the devices hear that everybody is included, half that device 5 is lost: no group is large enough to reveal."""
    done = whole_round(SIX)
    stories = {i: set(range(6)) if i < 3 else set(range(5)) for i in range(5)}
    said = {i: done.speak(Kind.SURVIVORS, i, announcement(done, i, story)) for i, story in stories.items()}
    for index, (_, state) in said.items():
        for group in (stories[index] & set(said), {i for i in said if stories[i] == stories[index]}):
            told = b"".join(said[i][0] for i in sorted(group - {index}))
            with pytest.raises(
                ProtocolError, match=r"agreed on another set of included devices|at least 4 neighbours that agree"
            ):
                device.reveal(state, messages.from_server(SIX, Kind.AGREEMENTS, index, told))


@pytest.mark.parametrize("threshold", [5, 6])
def test_only_a_threshold_above_two_thirds_holds_a_malicious_server_to_the_minimum(threshold):
    """Each half of the ring hears that one of its own is lost and nobody of the other half: both sets have 25 members.

    With 5 of 8 shares the server learns the sum over the 24 that are in both, which is still one sum; with 6 it learns none.
    """
    constants = session(devices=26, neighbours=8, threshold=threshold, minimum=25)
    done, (order, places) = whole_round(constants), constants._ring
    half = {i: places[i] // 13 for i in range(26)}
    missing = {order[6], order[19]}
    stories = [set(range(26)) - {order[6]}, set(range(26)) - {order[19]}]
    said, revealed = {}, {}
    for i in set(range(26)) - missing:
        said[i] = done.speak(Kind.SURVIVORS, i, forged(done, i, stories[half[i]]))
    for i, (_, state) in said.items():
        around = [said[j][0] for j in constants.neighbours_of(i) if j in said and half[j] == half[i]]
        try:
            revealed[i], _ = device.reveal(state, messages.from_server(constants, Kind.AGREEMENTS, i, b"".join(around)))
        except ProtocolError:
            continue
    secrets = rebuilt(done, revealed)
    group = stories[0] & stories[1]
    assert not any((i, 0) in secrets and (i, 1) in secrets for i in range(26))
    if threshold == 6:
        assert split_probability(26, 8, 6, corrupt=0) == 0
        assert not all((i, 0) in secrets for i in group)
        return
    assert split_probability(26, 8, 5, corrupt=0) == 1
    layers = [replace(device.self_mask(constants, i, secrets[i, 0]), negative=True) for i in group]
    adverts, total = done.server_states[Kind.SHARES].advertisements, np.zeros(constants.dimension, np.uint32)
    for i in group:
        vector = done.sent[Kind.MASKED][i][messages.witness_size(constants) :]
        total += masks.unpack(vector, constants.dimension, constants.bits)
        for lost in missing.intersection(constants.neighbours_of(i)):
            layers.append(device.pair_mask(constants, secrets[lost, 1], adverts[i].mask_key, owner=lost, other=i))
    expected = masks.reduced(np.sum([done.values[i] for i in group], axis=0, dtype=np.uint32), constants.bits)
    np.testing.assert_array_equal(masks.with_masks(total, layers, constants.bits), expected)


def test_a_story_about_a_stranger_is_noticed_before_anything_is_revealed():
    """On a ring, device 0 is told that one who is not its neighbour is lost; its neighbours are told otherwise."""
    done = whole_round(session(devices=7, neighbours=4, threshold=3))
    stranger = next(i for i in range(1, 7) if i not in done.session.neighbours_of(0))
    _, state = done.speak(Kind.SURVIVORS, 0, announcement(done, 0, set(range(7)) - {stranger}))
    with pytest.raises(ProtocolError, match="agreed on another set of included devices"):
        device.reveal(state, done.sent[Kind.AGREEMENTS][0])


def test_a_device_said_to_be_lost_although_it_is_there_reveals_nothing():
    done = whole_round(SIX)
    with pytest.raises(ProtocolError, match="Device 5 sent its vector and is not among the included"):
        done.speak(Kind.SURVIVORS, 5, forged(done, 5, {0, 1, 2, 3, 4}))


def test_shares_held_back_from_one_side_are_noticed():
    """The server keeps device 1's shares from device 0, which then shares no mask with it: both of them refuse to go on."""
    done = whole_round(SIX)
    delivery = done.sent[Kind.DELIVERY][0]
    kept = messages.records(delivery[46:], messages.CIPHERTEXT_BYTES, Kind.DELIVERY)
    del kept[1]
    cut, after = done.speak(Kind.DELIVERY, 0, delivery[:46] + messages.as_records(kept))
    with pytest.raises(ProtocolError, match="neighbour shares no mask with this device"):
        device.agree(after, announcement(done, 0, set(range(6))))
    with pytest.raises(ProtocolError, match="share masks with exactly its neighbours"):
        done.receive(Kind.MASKED, 0, cut)
    size = messages.witness_size(SIX)
    around = [cut[:size], *[done.sent[Kind.MASKED][i][:size] for i in (2, 3, 4, 5)]]
    told = messages.as_bits(range(6), range(6)) + b"".join(around)
    with pytest.raises(ProtocolError, match="device 0 shares no mask with device 1"):
        done.speak(Kind.SURVIVORS, 1, messages.from_server(SIX, Kind.SURVIVORS, 1, told))


def test_after_revealing_a_device_has_nothing_left():
    done = whole_round(SIX)
    _, after = done.speak(Kind.AGREEMENTS, 0, done.sent[Kind.AGREEMENTS][0])
    assert vars(after).keys() == {"session", "index"}


def test_nobody_reveals_both_secrets_of_a_device():
    done = whole_round(SIX)
    shares = done.device_states[Kind.AGREEMENTS][0].shares
    body = done.sent[Kind.REVEAL][0][46:-64]
    for owner, record in messages.records(body, 33, Kind.REVEAL).items():
        assert record[1:] == shares[owner][:32]
        assert shares[owner][32:] not in body
    both = messages.as_records({owner: bytes([1]) + pair[32:] for owner, pair in shares.items()})
    asked_otherwise = messages.signed(SIX, Kind.REVEAL, 0, done.identities[0], both)
    with pytest.raises(ProtocolError, match="a share of the wrong secret"):
        done.receive(Kind.REVEAL, 0, asked_otherwise)


def test_a_different_threshold_told_to_one_device_makes_it_a_stranger():
    """Constants are part of every key and signature: a server cannot lower one device's threshold alone."""
    done = whole_round(SIX)
    weaker = replace(SIX, threshold=1)
    message, _ = device.advertise(weaker, 0, identity=done.identities[0], entropy=replayable(0))
    with pytest.raises(ProtocolError, match="another session"):
        done.receive(Kind.ADVERTISE, 0, message)
