"""The sum is exact whoever is lost whenever, as long as thresholds allow, and a round fails cleanly otherwise."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ProtocolError
from tacit.secagg import device, masks, server, shamir
from tacit.secagg.messages import Kind
from tacit.secagg.rehearsal import RehearsalStage, rehearse
from tacit.secagg.session import Session
from tests.support.secagg_round import replayable, session, whole_round

SIZES = [(4, 3, 2), (5, 2, 1), (6, 4, 3), (7, 4, 2), (7, 6, 4)]


def predicted(constants: Session, lost: dict[int, RehearsalStage]) -> frozenset[int] | None:
    """Who is included, by counting alone; None if the round must fail."""
    around = {i: set(constants.neighbours_of(i)) for i in range(constants.devices)}
    there = {i for i in around if lost.get(i, 9) > RehearsalStage.ADVERTISE}
    sets = [there]
    for stage in (RehearsalStage.SHARE, RehearsalStage.MASK, RehearsalStage.AGREE, RehearsalStage.REVEAL):
        if len(there) < constants.minimum and stage <= RehearsalStage.AGREE:
            return None
        there = {i for i in there if lost.get(i, 9) > stage and len(around[i] & there) >= constants.threshold}
        sets.append(there)
    _, shared, included, _, revealing = sets
    needed = included | {i for i in shared - included if around[i] & included}
    if all(len(around[i] & revealing) >= constants.threshold for i in needed):
        return frozenset(included)
    return None


@settings(max_examples=80)
@given(st.sampled_from(SIZES), st.integers(0, 2**32), st.data())
def test_the_sum_is_exact_for_every_pattern_of_losses(size, seed, data):
    devices, neighbours, threshold = size
    bits = data.draw(st.sampled_from([1, 7, 32]))
    constants = session(
        devices=devices,
        neighbours=neighbours,
        threshold=threshold,
        minimum=2,
        bits=bits,
        graph_seed=seed.to_bytes(32, "big"),
    )
    stages = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(list(RehearsalStage)))
    lost = {i: stage for i in range(devices) if (stage := data.draw(stages)) is not None}
    rng = np.random.default_rng(seed)
    values = {i: rng.integers(0, 1 << bits, constants.dimension).astype(np.uint32) for i in range(devices)}
    included = predicted(constants, lost)
    if included is None:
        with pytest.raises(ProtocolError):
            rehearse(constants, values, lost=lost, entropy=replayable(seed))
        return
    outcome = rehearse(constants, values, lost=lost, entropy=replayable(seed))
    assert outcome.included == included
    expected = sum(values[i].astype(np.uint64) for i in included) % (1 << bits)
    np.testing.assert_array_equal(outcome.total, expected)


def test_losses_at_every_stage_within_the_threshold_do_not_stop_a_round():
    constants = session(devices=12, neighbours=8, threshold=3, minimum=4)
    lost = {
        1: RehearsalStage.ADVERTISE,
        3: RehearsalStage.SHARE,
        5: RehearsalStage.MASK,
        7: RehearsalStage.AGREE,
        9: RehearsalStage.REVEAL,
    }
    values = {i: np.full(5, i, np.uint32) for i in range(12)}
    outcome = rehearse(constants, values, lost=lost, entropy=replayable(0))
    assert outcome.included == set(range(12)) - {1, 3, 5}
    assert set(outcome.total.tolist()) == {sum(outcome.included)}


def test_one_share_too_few_and_the_round_fails_with_nothing_put_together(monkeypatch):
    done = whole_round(session(devices=5, neighbours=4, threshold=4))
    state = done.server_states[Kind.REVEAL]
    for sender in range(3):  # each device's seed now has two or three shares
        state = server.receive_reveal(state, sender, done.sent[Kind.REVEAL][sender])
    monkeypatch.setattr(shamir, "combine", lambda *_: pytest.fail("a secret was put together"))
    with pytest.raises(ProtocolError, match="at least 4 shares of a secret of device"):
        server.recovered(state)


def test_a_false_share_too_many_is_noticed():
    done = whole_round(session(devices=5, neighbours=4, threshold=4))
    state = done.server_states[Kind.AGREEMENTS]
    shares = {owner: dict(held) for owner, held in state.shares.items()}
    shares[2][0] = bytes(32)
    with pytest.raises(server.FalseShares, match="the first of them device 2's") as raised:
        server.recovered(replace(state, shares=shares))
    assert raised.value.owners == (2,)


def test_false_shares_are_corrected_and_named_and_the_sum_is_right():
    done = whole_round(session(devices=9, neighbours=8, threshold=4))
    state = done.server_states[Kind.AGREEMENTS]
    # Devices 0 and 5 give false shares of everybody's seed: two of eight, where four are needed.
    shares = {
        owner: {holder: bytes(32) if holder in (0, 5) else share for holder, share in held.items()}
        for owner, held in state.shares.items()
    }
    found = server.recovered(replace(state, shares=shares))
    false = {(owner, holder) for holder in (0, 5) for owner in range(9) if owner != holder}
    assert false - found.false_shares == {(0, 5)}  # the first secret was rebuilt without that share
    assert found.false_shares <= false
    total = masks.with_masks(state.total, found.masks, done.session.bits)
    np.testing.assert_array_equal(total, sum(done.values.values()) % (1 << done.session.bits))


def test_a_false_share_of_a_mask_key_is_noticed():
    constants = session(devices=6, neighbours=5, threshold=3)
    done = whole_round(constants)
    masking = done.server_states[Kind.MASKED]
    for sender in range(5):  # device 5 is lost
        masking = server.receive_masked(masking, sender, done.sent[Kind.MASKED][sender])
    outgoing, agreeing = server.close_masking(masking)
    said = {i: done.speak(Kind.SURVIVORS, i, outgoing[i]) for i in range(5)}
    for sender, (message, _) in said.items():
        agreeing = server.receive_agreement(agreeing, sender, message)
    outgoing, revealing = server.close_agreeing(agreeing)
    for sender, (_, after) in said.items():
        revealing = server.receive_reveal(revealing, sender, device.reveal(after, outgoing[sender])[0])
    total = masks.with_masks(revealing.total, server.recovered(revealing).masks, constants.bits)
    np.testing.assert_array_equal(total, sum(done.values[i] for i in range(5)) % (1 << constants.bits))
    shares = {owner: dict(held) for owner, held in revealing.shares.items()}
    shares[5][1] = bytes(31) + b"\1"
    assert server.recovered(replace(revealing, shares=shares)).false_shares == {(5, 1)}
    shares[5] = {holder: bytes(31) + bytes([holder]) for holder in shares[5]}
    with pytest.raises(server.FalseShares, match="device 5's"):
        server.recovered(replace(revealing, shares=shares))


def test_masks_can_be_removed_in_parts():
    done = whole_round(session())
    state, bits = done.server_states[Kind.AGREEMENTS], done.session.bits
    found = server.recovered(state).masks
    zeros = np.zeros_like(state.total)
    parts = masks.with_masks(zeros, found[:2], bits) + masks.with_masks(zeros, found[2:], bits)
    expected = sum(done.values.values()) % (1 << bits)
    np.testing.assert_array_equal(masks.reduced(state.total + parts, bits), expected)


def test_a_vector_that_does_not_fit_is_refused():
    done = whole_round(session(bits=4))
    state, delivery = done.device_states[Kind.DELIVERY][0], done.sent[Kind.DELIVERY][0]
    for wrong in (np.full(5, 16, np.uint32), np.zeros(4, np.uint32), np.zeros(5, np.int64)):
        with pytest.raises(ProtocolError, match="Expected 5 unsigned values below"):
            device.mask(state, delivery, wrong)


def test_states_hide_their_secrets():
    done = whole_round(session())
    for kind in (Kind.ROSTER, Kind.DELIVERY, Kind.SURVIVORS, Kind.AGREEMENTS):
        state = done.device_states[kind][0]
        assert repr(done.identities[0]) not in repr(state)
        assert not re.search(r"\b(seed|mask_key|cipher_key|shares|identity)=", repr(state))


@pytest.mark.process
def test_no_module_loads_jax():
    names = [
        f"tacit.secagg.{path.stem}" for path in Path(device.__file__).parent.glob("*.py") if path.stem != "__init__"
    ]
    code = f"import sys, {', '.join(names)}; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(names) >= 11
    assert done.stdout.strip() == "False"
