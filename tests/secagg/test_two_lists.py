"""A lying server without devices of its own: it shows two lists of participants to alternate places on the ring.

Half of a victim's neighbours hear that the victim is included, half that it is lost. If half of the neighbours are enough for
a secret, the server has both secrets of the victim, and its vector. This is what parameters against a curious server allow;
those against a malicious server do not.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import ProtocolError
from tacit.secagg import device, keys, masks, messages
from tacit.secagg.messages import Kind
from tacit.secagg.parameters import Parameters, against_malicious, check, choose
from tacit.secagg.session import Session
from tests.support.secagg_attacks import forged, rebuilt
from tests.support.secagg_round import Round, session, whole_round

# As a fleet selects: 1.3 devices for each report that it needs.
OVER_SELECTION, CORRUPTION = 1.3, 0.1


def session_with(found: Parameters, goal: int, devices: int):
    return session(devices=devices, neighbours=found.neighbours, threshold=found.threshold, minimum=goal)


def vector_of(done: Round, victim: int) -> np.ndarray | None:
    """The victim's vector, if the server gets it with two lists; None if a device's check stops it."""
    constants = done.session
    places = constants._ring[1] if constants.neighbours < constants.devices - 1 else range(constants.devices)
    n, everyone = constants.devices, set(range(constants.devices))
    stories = {0: everyone, 1: everyone - {victim}}
    told = {i: ((places[i] - places[victim] + n // 2) % n - n // 2) % 2 for i in everyone - {victim}}
    said = {i: done.speak(Kind.SURVIVORS, i, forged(done, i, stories[side])) for i, side in told.items()}
    revealed = {}
    for i, (_, state) in said.items():
        agreeing = [said[j][0] for j in constants.neighbours_of(i) if j in said and told[j] == told[i]]
        try:
            revealed[i], _ = device.reveal(
                state, messages.from_server(constants, Kind.AGREEMENTS, i, b"".join(agreeing))
            )
        except ProtocolError:
            continue
    secrets = rebuilt(done, revealed)
    if (victim, 0) not in secrets or (victim, 1) not in secrets:
        return None
    public = done.server_states[Kind.SHARES].advertisements
    assert keys.agreement_public(secrets[victim, 1]) == public[victim].mask_key
    layers = [replace(device.self_mask(constants, victim, secrets[victim, 0]), negative=True)]
    for other in constants.neighbours_of(victim):
        mask = device.pair_mask(constants, secrets[victim, 1], public[other].mask_key, owner=victim, other=other)
        layers.append(replace(mask, negative=not mask.negative))
    vector = done.sent[Kind.MASKED][victim][messages.witness_size(constants) :]
    return masks.with_masks(masks.unpack(vector, constants.dimension, constants.bits), layers, constants.bits)


def selected(goal: int) -> tuple[int, float]:
    devices = math.ceil(OVER_SELECTION * goal)
    return devices, max(0.3, 1 - goal / devices)


def given_away(constants: Session) -> None:
    done, victim = whole_round(constants), constants.devices // 3
    np.testing.assert_array_equal(vector_of(done, victim), done.values[victim])


def test_with_shares_from_half_of_the_neighbours_two_lists_give_any_vector_away():
    given_away(session(devices=25, neighbours=12, threshold=5, minimum=20))


@pytest.mark.slow
@pytest.mark.parametrize("goal", [77])
def test_against_a_curious_servers_parameters_two_lists_give_any_vector_away(goal):
    devices, dropout = selected(goal)
    found = choose(devices, dropout=dropout, corruption=CORRUPTION, server="curious")
    given_away(session_with(found, goal, devices))


@pytest.mark.parametrize("goal", [20])
def test_against_the_parameters_that_a_fleet_chooses_they_give_nothing(goal):
    devices, dropout = selected(goal)
    found = against_malicious(devices, dropout=dropout, corruption=CORRUPTION)
    done = whole_round(session_with(found, goal, devices))
    assert [vector_of(done, victim) for victim in (0, devices // 3, devices - 1)] == [None] * 3


@pytest.mark.parametrize("goal", [77, 100, 200])
def test_a_device_that_expects_a_malicious_server_refuses_what_would_give_it_away(goal):
    devices, dropout = selected(goal)
    weak = choose(devices, dropout=dropout, corruption=CORRUPTION, server="curious")
    strong = against_malicious(devices, dropout=dropout, corruption=CORRUPTION)
    expects = {"dropout": 0.1, "corruption": CORRUPTION, "server": "malicious", "minimum": goal, "steered": True}
    check(session_with(strong, goal, devices), **expects)
    with pytest.raises(ProtocolError, match="to a malicious server"):
        check(session_with(weak, goal, devices), **expects)
    one_less = replace(strong, threshold=(strong.neighbours + math.ceil(CORRUPTION * devices)) // 2)
    with pytest.raises(ProtocolError, match="to a malicious server"):
        check(session_with(one_less, goal, devices), **expects)
