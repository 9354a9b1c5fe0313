"""Messages that were tampered with, replayed, reordered, cut or taken from elsewhere are refused; parsers are fuzzed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ProtocolError
from tacit.secagg import device, keys, messages
from tacit.secagg.messages import SERVER, Kind
from tests.support.secagg_round import RECEIVE, TO_DEVICES, TO_SERVER, session, whole_round

ROUND = whole_round(session(devices=7), seed=1)
ELSEWHERE = whole_round(session(devices=7, session_id=bytes(32)), seed=1)
HEADER = 46


def deliver(kind: Kind, index: int, message: bytes) -> None:
    """Hand a message to whom it is for."""
    (ROUND.speak if kind in TO_DEVICES else ROUND.receive)(kind, index, message)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_honest_message_is_accepted_and_reading_is_pure(kind):
    deliver(kind, 3, ROUND.sent[kind][3])
    deliver(kind, 3, ROUND.sent[kind][3])


@pytest.mark.parametrize("kind", list(Kind))
def test_any_flipped_bit_is_refused(kind):
    message, rng = ROUND.sent[kind][3], random.Random(int(kind))
    places = {*range(HEADER + 8), *rng.sample(range(len(message)), min(60, len(message))), len(message) - 1}
    for place in places:
        if kind == Kind.SURVIVORS and place == HEADER:
            continue  # who is included beyond the neighbours: the next stage settles it, see test_security
        changed = bytearray(message)
        changed[place] ^= 1 << rng.randrange(8)
        with pytest.raises(ProtocolError):
            deliver(kind, 3, bytes(changed))


@pytest.mark.parametrize("kind", list(Kind))
def test_a_cut_or_lengthened_message_is_refused(kind):
    message = ROUND.sent[kind][3]
    lengths = {0, 1, HEADER - 1, HEADER, HEADER + 1, len(message) // 2, len(message) - 1}
    for length in lengths - ({HEADER} if kind in (Kind.ROSTER,) else set()):
        with pytest.raises(ProtocolError):
            deliver(kind, 3, message[:length])
    for extra in (b"\0", message[-64:], message):
        with pytest.raises(ProtocolError):
            deliver(kind, 3, message + extra)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_message_of_another_session_is_refused(kind):
    with pytest.raises(ProtocolError, match="belongs to another session"):
        deliver(kind, 3, ELSEWHERE.sent[kind][3])


@pytest.mark.parametrize("kind", list(Kind))
def test_a_message_of_another_stage_is_refused(kind):
    for other in set(Kind) - {kind}:
        with pytest.raises(ProtocolError, match=f"Expected a {kind.name} message, got kind {int(other)}"):
            deliver(kind, 3, ROUND.sent[other][3])


@pytest.mark.parametrize("kind", list(Kind))
def test_a_message_of_or_for_another_device_is_refused(kind):
    with pytest.raises(ProtocolError, match=f"Expected a {kind.name} message from"):
        deliver(kind, 3, ROUND.sent[kind][4])


@pytest.mark.parametrize("kind", TO_SERVER)
def test_a_message_that_comes_twice_is_refused(kind):
    state = ROUND.receive(kind, 3, ROUND.sent[kind][3])
    with pytest.raises(ProtocolError, match=f"Device 3 has already sent a {kind.name} message"):
        RECEIVE[kind](state, 3, ROUND.sent[kind][3])


@pytest.mark.parametrize("kind", TO_SERVER[1:])
def test_a_message_signed_by_somebody_else_is_refused(kind):
    """Device 4 writes device 3's message: header right, signature its own."""
    message = ROUND.sent[kind][3]
    size = messages.witness_size(ROUND.session) if kind == Kind.MASKED else len(message)
    forged = messages.signed(ROUND.session, kind, 3, ROUND.identities[4], message[HEADER : size - 64]) + message[size:]
    assert len(forged) == len(message)
    with pytest.raises(ProtocolError, match=r"signature on the .* is wrong"):
        deliver(kind, 3, forged)


def test_records_out_of_order_or_twice_are_refused():
    for kind, size in ((Kind.ROSTER, messages.bundled_size(160)), (Kind.DELIVERY, 84), (Kind.AGREEMENTS, 142)):
        message = ROUND.sent[kind][3]
        body = message[HEADER:]
        parts = [body[i : i + size] for i in range(0, len(body), size)]
        for wrong in ([parts[1], parts[0], *parts[2:]], [parts[0], *parts]):
            with pytest.raises(ProtocolError, match="ascending order, each once"):
                deliver(kind, 3, message[:HEADER] + b"".join(wrong))


def test_shares_cannot_be_swapped_between_senders_or_stages():
    """A ciphertext is bound to its sender and receiver: in another's place it does not open."""
    message = ROUND.sent[Kind.DELIVERY][3]
    held = messages.records(message[HEADER:], messages.CIPHERTEXT_BYTES, Kind.DELIVERY)
    first, second = sorted(held)[:2]
    held[first], held[second] = held[second], held[first]
    with pytest.raises(ProtocolError, match="not what it encrypted for"):
        deliver(Kind.DELIVERY, 3, message[:HEADER] + messages.as_records(held))


def test_an_identity_nobody_vouches_for_is_refused():
    state, roster = ROUND.device_states[Kind.ROSTER][3], ROUND.sent[Kind.ROSTER][3]
    with pytest.raises(ProtocolError, match="Nobody vouches"):
        device.share(state, roster, vouched=lambda *_: False, entropy=lambda size: bytes(size))


def test_a_stranger_is_not_taken_for_a_neighbour():
    constants = ROUND.session
    stranger = next(i for i in range(7) if i != 3 and i not in constants.neighbours_of(3))
    for kind in (Kind.ROSTER, Kind.AGREEMENTS):
        part = ROUND.sent[Kind.ADVERTISE if kind == Kind.ROSTER else Kind.AGREE][stranger]
        with pytest.raises(ProtocolError, match=f"got device {stranger}'s"):
            deliver(kind, 3, messages.from_server(constants, kind, 3, part))


def test_a_key_that_agrees_on_zero_is_refused():
    with pytest.raises(ProtocolError, match="small order"):
        messages.keys.agree(bytes(31) + b"\x40", bytes(32))


ORDER_EIGHT = 0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F
OTHER_ORDER_EIGHT = 0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("value", "why"),
    [(value, "zero") for value in (0, 1, 2**255 - 20, ORDER_EIGHT, OTHER_ORDER_EIGHT)]
    + [(value, "second encoding") for value in (2**255 - 19 + 9, 2**255 + 9, 2**255 - 19)],
)
def test_public_keys_have_one_encoding_and_large_order(value, why, place):
    """One device with such a key would otherwise make each of its neighbours leave, or its own mask key irrecoverable."""
    public, good = value.to_bytes(32, "little"), keys.agreement_public(bytes(31) + b"\x40")
    if why == "zero":
        with pytest.raises(ProtocolError, match="small order"):
            keys.agree(bytes(31) + b"\x40", public)
    identity = ROUND.identities[3]
    body = keys.identity_public(identity) + (public + good if place == 0 else good + public)
    body += messages.NO_CERTIFICATE
    with pytest.raises(ProtocolError, match="keys of device 3 are not canonical"):
        deliver(Kind.ADVERTISE, 3, messages.signed(ROUND.session, Kind.ADVERTISE, 3, identity, body))
    honest = keys.identity_public(identity) + good + good + messages.NO_CERTIFICATE
    deliver(Kind.ADVERTISE, 3, messages.signed(ROUND.session, Kind.ADVERTISE, 3, identity, honest))


def test_bits_are_canonical():
    assert messages.from_bits(b"\x05", range(3), Kind.SURVIVORS) == {0, 2}
    for wrong in (b"\x08", b"", b"\x01\x00"):
        with pytest.raises(ProtocolError):
            messages.from_bits(wrong, range(3), Kind.SURVIVORS)


@settings(max_examples=150)
@given(st.sampled_from(list(Kind)), st.binary(max_size=400), st.booleans())
def test_noise_never_gets_past_a_parser_nor_crashes_it(kind, noise, with_header):
    if with_header:
        sender, receiver = (SERVER, 3) if kind in TO_DEVICES else (3, SERVER)
        noise = messages.header(ROUND.session, kind, sender, receiver) + noise
    with pytest.raises(ProtocolError):
        deliver(kind, 3, noise)


@settings(max_examples=150)
@given(st.sampled_from([kind for kind in Kind if kind != Kind.SURVIVORS]), st.data())
def test_pieces_of_real_messages_put_together_wrongly_are_refused(kind, data):
    pool = [ROUND.sent[each][i] for each in Kind for i in (2, 3)]
    message = ROUND.sent[kind][3]
    start = data.draw(st.integers(HEADER, len(message)))
    end = data.draw(st.integers(start, len(message)))
    donor = data.draw(st.sampled_from(pool))
    piece_start = data.draw(st.integers(0, len(donor)))
    piece = donor[piece_start : data.draw(st.integers(piece_start, len(donor)))]
    spliced = message[:start] + piece + message[end:]
    if spliced == message:
        return
    try:
        deliver(kind, 3, spliced)
    except ProtocolError:
        return
    # A server may leave a neighbour out; that is what a loss looks like, and the only change that passes.
    assert kind in TO_DEVICES
    assert len(spliced) < len(message)
