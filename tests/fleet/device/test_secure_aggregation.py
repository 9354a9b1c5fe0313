"""Secure aggregation from the device's side: the right integers, the right stages, and no part in what is not safe."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tacit.errors import FleetError, ProtocolError
from tacit.fleet.device import secure_aggregation
from tacit.fleet.device.agent import Agent
from tacit.fleet.device.clipping import Contribution
from tacit.fleet.device.connection import Connection
from tacit.fleet.device.home import Home
from tacit.fleet.device.policy import OwnerPolicy, SecAggAssumptions
from tacit.fleet.device.vouching import certificate_of
from tacit.fleet.rounds import task_compiler
from tacit.fleet.rounds.partial_sums import PartialSum
from tacit.fleet.wire.blobs import packed_leaves
from tacit.fleet.wire.messages import Assignment
from tacit.fleet.wire.reports import unpack_report
from tacit.fleet.wire.task import session_id_of
from tacit.privacy.gate.rounding import HEADROOM
from tacit.secagg import keys, messages, parameters
from tacit.secagg.encoding import decoded
from tacit.secagg.hadamard import public_signs
from tacit.secagg.messages import Kind
from tacit.secagg.session import Session
from tests.support import secagg_round
from tests.support.fleet.fake_server import Clock, FakeSecAgg, FakeServer, Killed, Running, enrolled, refused
from tests.support.fleet.worlds import sentences_of, setup
from tests.support.secagg_attacks import forged

CURIOUS = SecAggAssumptions(server="curious")
SEED = "5" * 64
DEVICES = 4
SECURE = {"secagg": {"bits": 24}, "clip_norm": 0.3}
WEIGHED = {**SECURE, "estimator": "clipped", "example_cap": 30.0, "total_weight": 6.0}
ADAPTIVE = {**WEIGHED, "adaptive": {}}


def prepared_of(privacy):
    return task_compiler.prepare(setup(privacy=privacy), timer_s=100.0)


def session_of(task, *, sides=0, **changes):
    fields = {
        "session_id": bytes(range(32)),
        "graph_seed": bytes(32),
        "devices": DEVICES,
        "neighbours": DEVICES - 1,
        "threshold": 3,
        "minimum": DEVICES,
        "dimension": task.secagg.encoding().padded + sides,
        "bits": task.secagg.bits,
    }
    return Session(**{**fields, **changes})


def assignment(**changes):
    fields = {
        "round_id": "0" * 32,
        "task": "a" * 64,
        "round": 0,
        "checkpoint": "b" * 64,
        "upload_to": "",
        "clip_norm": 0.3,
        "signs_seed": SEED,
        "seconds_left": 60.0,
    }
    return Assignment(**{**fields, **changes})


def centred(words, bits):
    half = 1 << (bits - 1)
    return ((words.astype(np.int64) + half) & (2 * half - 1)) - half


def test_the_integers_say_what_the_contribution_says():
    terms = prepared_of(WEIGHED).task.secagg
    encoding = terms.encoding()
    update = np.random.default_rng(1).normal(size=terms.dimension)
    update *= 0.3 / np.linalg.norm(update)
    words = secure_aggregation.integers_of(Contribution(update, 0.5, -1), terms, assignment(threshold=0.2))
    assert len(words) == encoding.padded + 2
    signs = public_signs(bytes.fromhex(SEED), encoding.padded)
    found = decoded(words[: encoding.padded], encoding, signs=signs) * 0.3
    np.testing.assert_allclose(found, update * 0.5 * HEADROOM, atol=0.3 * 5 / encoding.scale)
    weight, bit = centred(words[encoding.padded :], encoding.bits)
    assert abs(weight - 0.5 * encoding.element_clip) <= 1
    assert bit == -1
    nothing = secure_aggregation.integers_of(Contribution(0 * update, 0.0, -1), terms, assignment(threshold=0.2))
    assert centred(nothing[encoding.padded :], encoding.bits).tolist() == [0, 0]


def test_a_whole_weight_is_never_more_than_one():
    terms = prepared_of(WEIGHED).task.secagg
    zero = np.zeros(terms.dimension)
    drawn = {
        int(secure_aggregation.integers_of(Contribution(zero, 1.0, 0), terms, assignment())[-1]) for _ in range(20)
    }
    assert drawn == {terms.element_clip}


def test_rounding_is_drawn_anew_and_unbiased():
    terms = prepared_of(SECURE).task.secagg.model_copy(update={"scale": 2.0})
    encoding = terms.encoding()
    update = np.full(terms.dimension, 0.3 / np.sqrt(terms.dimension))
    draws = np.stack(
        [secure_aggregation.integers_of(Contribution(update, 1.0, 0), terms, assignment()) for _ in range(400)]
    )
    assert len({tuple(draw) for draw in draws}) == 400
    exact = centred(draws, encoding.bits)
    signs = public_signs(bytes.fromhex(SEED), encoding.padded)
    mean = np.array([decoded(draw, encoding, signs=signs) for draw in draws]).mean(axis=0) * 0.3
    # A fraction's variance is at most a quarter: six standard errors, in the units of the update.
    np.testing.assert_allclose(mean, update * HEADROOM, atol=6 * 0.5 / np.sqrt(400) / 2.0 * 0.3)
    assert np.abs(exact).max() <= encoding.element_clip


def test_a_devices_share_of_noise_has_the_stated_variance():
    terms = prepared_of(SECURE).task.secagg.model_copy(update={"local_variance": 400})
    encoding, zero = terms.encoding(), np.zeros(terms.dimension)
    draws = [
        centred(secure_aggregation.integers_of(Contribution(zero, 1.0, 0), terms, assignment()), encoding.bits)
        for _ in range(30)
    ]
    values = np.concatenate(draws)
    assert len(values) > 10_000
    assert np.var(values) == pytest.approx(400, rel=6 * np.sqrt(2 / len(values)))


def test_without_a_seed_there_is_no_rotation():
    terms = prepared_of(SECURE).task.secagg
    with pytest.raises(FleetError, match="seed"):
        secure_aggregation.integers_of(
            Contribution(np.zeros(terms.dimension), 1.0, 0), terms, assignment(signs_seed=None)
        )


@pytest.mark.parametrize(
    ("changes", "assumptions"),
    [
        ({"threshold": 1}, {}),
        ({"minimum": DEVICES - 1}, {}),
        ({"threshold": 1}, {"server": "malicious"}),
        ({"threshold": 2}, {"server": "malicious"}),
        ({"devices": 1_000, "neighbours": 6, "minimum": 900}, {}),
        ({}, {"minimum": 5}),
        ({"dimension": 7}, {}),
        ({"bits": 20}, {}),
    ],
)
def test_sessions_that_would_expose_a_device_are_refused(changes, assumptions):
    task = prepared_of(SECURE).task
    session = session_of(task, **changes)
    width = session_of(task).dimension
    with pytest.raises((FleetError, ProtocolError)):
        secure_aggregation.require_safe(session, task, width, SecAggAssumptions(**{"server": "curious", **assumptions}))


def test_devices_selected_beyond_the_goal_count_as_lost():
    """A session that bears a tenth of its devices lost does not bear half of them, which over-selection makes of it."""
    found = parameters.choose(1_000, dropout=0.1, corruption=0.1, server="curious")
    task = prepared_of(SECURE).task
    terms = task.secagg.model_copy(update={"element_clip": 1 << 12})  # so that a thousand devices fit into 24 bits
    task = task.model_copy(update={"report_goal": 500, "secagg": terms})
    terms = {"devices": 1_000, "neighbours": found.neighbours, "threshold": found.threshold}
    width = session_of(task).dimension
    secure_aggregation.require_safe(session_of(task, **terms, minimum=900), task, width, CURIOUS)
    with pytest.raises(ProtocolError, match="expose"):
        secure_aggregation.require_safe(session_of(task, **terms, minimum=500), task, width, CURIOUS)


def test_a_safe_session_is_not_refused():
    task = prepared_of(SECURE).task
    secure_aggregation.require_safe(session_of(task), task, session_of(task).dimension, CURIOUS)


def test_a_sum_that_can_wrap_around_is_refused_where_the_server_adds_the_noise():
    """A device that makes an entry wrap would move the sum by 2^bits, whatever its clip norm is."""
    task = prepared_of(SECURE).task
    assert task.secagg.encoding().largest_cohort() >= DEVICES
    wide = task.model_copy(update={"secagg": task.secagg.model_copy(update={"element_clip": 1 << 22})})
    with pytest.raises(FleetError, match="Expected entries that at least 4 devices can add up without"):
        secure_aggregation.require_safe(session_of(wide), wide, session_of(wide).dimension, CURIOUS)
    noisy = wide.model_copy(update={"secagg": wide.secagg.model_copy(update={"local_variance": 400})})
    secure_aggregation.require_safe(session_of(noisy), noisy, session_of(noisy).dimension, CURIOUS)


class Round:
    """A server with a session, and the homes of its devices."""

    def __init__(self, folder, privacy=None, *, sides=0, policy=None, server=FakeSecAgg, constants=None, **offer):
        self.made = setup(privacy=privacy or SECURE)
        prepared = prepared_of(privacy or SECURE)
        self.fake = FakeServer(prepared, self.made.start.model)
        constants = {"devices": DEVICES, **(constants or {})}
        self.homes = [
            enrolled(folder / str(user), self.fake, sentences_of(self.made, user), policy)
            for user in range(constants["devices"])
        ]
        for _ in self.homes:
            place = self.fake.offer(0, signs_seed=SEED, **offer)
        session = session_of(prepared.task, sides=sides, session_id=session_id_of(place), **constants)
        self.fake.secagg = server(session)

    def run(self):
        """All devices at once; what each said. `left` are those that are done."""
        said, self.left = {}, []

        def one(number):
            with Home.open(self.homes[number]) as home:
                connection = Connection(home, transport=self.fake.transport, sleep=lambda seconds: time.sleep(0.002))
                said[number] = []
                try:
                    Agent(home, connection, on_event=said[number].append).step()
                except Killed:
                    said[number].append("killed")
                connection.close()
                self.left.append(number)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(len(self.homes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [said[number] for number in range(len(self.homes))]

    def over_once_others_left(self, stage):
        """Once all others have left the round, the one that waits for them in this stage hears that it is over."""

        def before(request):
            waits = request.method == "GET" and request.url.path.endswith(f"/secagg/{stage}")
            return refused(410, "The round is over.") if waits and len(self.left) == DEVICES - 1 else None

        return before


def plain_sum(folder, made, threshold, users=range(DEVICES)):
    """What these devices report where nothing is masked."""
    plain = dict(made.recipe.privacy.model_dump(exclude_none=True), secagg=None)
    prepared = task_compiler.prepare(
        setup(privacy={key: each for key, each in plain.items() if each is not None}), timer_s=0.0
    )
    fake = FakeServer(prepared, made.start.model)
    sums = PartialSum(0.3, prepared.task.update_shapes, per_layer=False)
    for user in users:
        home = enrolled(folder / f"plain {user}", fake, sentences_of(made, user))
        offer = fake.offer(0, round_id=f"{user:032x}", threshold=threshold)
        with Running(home, fake, Clock()) as device:
            device.agent.step()
        weight, within, update = unpack_report(fake.reports[offer.round_id][0], offer.round_id, prepared.task.dimension)
        sums.admit(user, update, weight, within)
    return sums


def test_masked_devices_add_up_to_what_plain_ones_do(tmp_path):
    threshold = 0.25
    round = Round(tmp_path, ADAPTIVE, sides=2, threshold=threshold)
    assert round.run() == [["Took part in round 0 of small, with secure aggregation."]] * DEVICES
    terms = round.fake.prepared.task.secagg
    encoding, total = terms.encoding(), round.fake.secagg.sum
    expected = plain_sum(tmp_path, round.made, threshold)
    signs = public_signs(bytes.fromhex(SEED), encoding.padded)
    found = decoded(total[: encoding.padded], encoding, signs=signs) * 0.3
    np.testing.assert_allclose(found, expected.update, atol=0.3 * 5 * np.sqrt(DEVICES) / encoding.scale + 1e-7)
    weight, bits = centred(total[encoding.padded :], encoding.bits)
    assert weight / encoding.element_clip == pytest.approx(
        expected.weight, abs=2 * DEVICES / encoding.element_clip + 1e-4
    )
    assert 0.5 * bits == pytest.approx(expected.bits, abs=1e-4)
    assert not round.fake.reports  # nothing went in the clear


def test_a_device_without_sentences_is_in_the_masked_sum_with_zeros(tmp_path):
    """To leave the round would let what its user wrote decide who is in it."""
    round = Round(tmp_path, ADAPTIVE, sides=2, threshold=0.25)
    with Home.open(round.homes[0]) as found:
        found.examples_path.write_text("")
    assert round.run() == [["Took part in round 0 of small, with secure aggregation."]] * DEVICES
    encoding, total = round.fake.prepared.task.secagg.encoding(), round.fake.secagg.sum
    expected = plain_sum(tmp_path, round.made, 0.25, users=range(1, DEVICES))
    signs = public_signs(bytes.fromhex(SEED), encoding.padded)
    update = decoded(total[: encoding.padded], encoding, signs=signs) * 0.3
    np.testing.assert_allclose(update, expected.update, atol=0.3 * 5 * np.sqrt(DEVICES) / encoding.scale + 1e-7)
    weight, bits = centred(total[encoding.padded :], encoding.bits)
    assert weight / encoding.element_clip == pytest.approx(expected.weight, abs=1e-3)
    assert 0.5 * bits == pytest.approx(expected.bits, abs=1e-4)
    assert taken(round.homes[0]) == 1


def taken(home):
    with Home.open(home) as found:
        return next(iter(found.memory.tasks.values())).taken


def test_a_threshold_of_one_gets_not_even_a_key(tmp_path):
    round = Round(tmp_path)
    round.fake.secagg.terms = {"threshold": 1}
    for said in round.run():
        assert "Expected neighbours and threshold" in said[0]
    assert not any("secagg/advertise" in request for request in round.fake.requests)
    assert taken(round.homes[0]) == 0


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_as_its_vector_leaves_a_device_has_taken_the_round(tmp_path, moment):
    round = Round(tmp_path)

    def kill(request):
        if request.url.path.endswith("/mask") and request.method == "POST":
            raise Killed

    setattr(round.fake, moment, kill)
    assert round.run() == [["killed"]] * DEVICES
    assert [taken(home) for home in round.homes] == [1] * DEVICES


def test_killed_before_its_vector_leaves_a_device_has_not(tmp_path):
    round = Round(tmp_path)

    def kill(request):
        if request.url.path.endswith("/share") and request.method == "POST":
            raise Killed

    round.fake.after = kill
    assert round.run() == [["killed"]] * DEVICES
    assert [taken(home) for home in round.homes] == [0] * DEVICES


def test_a_session_is_not_begun_again_by_a_device_that_was_restarted(tmp_path):
    """Whatever a server learned of the first try, no second one under the same constants adds to it."""
    round = Round(tmp_path)

    def kill(request):
        if request.url.path.endswith("/advertise") and request.method == "POST":
            raise Killed

    round.fake.before = kill
    assert round.run() == [["killed"]] * DEVICES
    round.fake.before = lambda request: None
    for _ in range(DEVICES):
        round.fake.offer(0, signs_seed=SEED)
    before = len(round.fake.requests)
    for said in round.run():
        assert "a session of secure aggregation again" in said[0]
    assert not any("secagg/advertise" in request for request in round.fake.requests[before:])


def other_model(fake, value):
    """A model of the task's shapes in which every entry has this value."""
    shapes = fake.prepared.task.model_shapes
    return fake.add_blob(packed_leaves([np.full(shape, value, np.float32) for shape in shapes]))


@pytest.mark.parametrize("changes", [{"checkpoint": 3e38}, {"clip_norm": 0.2}, {"signs_seed": "6" * 64}])
def test_a_server_that_shows_one_device_another_model_clip_or_rotation_gets_nobodys_vector(tmp_path, changes):
    """With a model on which all others learn nothing, or a clip that makes them short, the sum would be one device's vector."""
    round = Round(tmp_path)
    if "checkpoint" in changes:
        changes = {"checkpoint": other_model(round.fake, changes["checkpoint"])}
    honest = round.fake.offers[0]
    round.fake.offers[1:] = [honest.model_copy(update=changes) for _ in range(DEVICES - 1)]

    round.fake.before = round.over_once_others_left("advertise")
    heard = round.run()
    assert sum("for another model, clip norm or rotation" in said[0] for said in heard) == DEVICES - 1
    for said in heard:
        assert "Took part" not in said[0]
    assert round.fake.secagg.sum is None
    assert not any("secagg/mask" in request and "POST" in request for request in round.fake.requests)
    assert [taken(home) for home in round.homes] == [0] * DEVICES


class TwoLists(FakeSecAgg):
    """Tells every other device that the last one is lost, and all others, with itself, that it is included.

    Each hears of the agreements of those that were told the same.
    """

    def __init__(self, session):
        super().__init__(session)
        self._masked, self._agreed = {}, {}
        self._victim = session.devices - 1

    def receive(self, stage, device, body):
        if stage == "agree":
            self._agreed[device] = body
            if len(self._agreed) == self.session.devices:
                self._out["agree"] = {each: self._agreements(each) for each in self._agreed}
            return
        super().receive(stage, device, body)
        if stage == "mask":
            self._masked[device] = body
            if len(self._masked) == self.session.devices:
                heard = secagg_round.Round(self.session, {}, {}, sent={Kind.MASKED: self._masked})
                self._out["mask"] = {each: forged(heard, each, self._list(each)) for each in self._masked}

    def _list(self, device):
        everybody = set(range(self.session.devices))
        return everybody if device == self._victim or device % 2 == 0 else everybody - {self._victim}

    def _agreements(self, device):
        others = [each for each in self._agreed if each != device and self._list(each) == self._list(device)]
        content = b"".join(self._agreed[each] for each in sorted(others))
        return messages.from_server(self.session, Kind.AGREEMENTS, device, content)


def test_a_server_that_tells_two_lists_of_participants_gets_no_share_and_each_device_says_why(tmp_path):
    """Six devices that expect a malicious server; five are enough for a sum, and four shares for a secret."""
    malicious = OwnerPolicy.for_trying().model_copy(update={"secagg": SecAggAssumptions()})
    constants = {"devices": 6, "neighbours": 5, "threshold": 4, "minimum": 5}
    round = Round(tmp_path, {**SECURE, "cohort": 5}, policy=malicious, server=TwoLists, constants=constants)
    heard = round.run()
    included, lost = "neighbours that agree, got 3", "neighbours that agree, got 1"
    for said, why in zip(heard, [included, lost, included, lost, included, included], strict=True):
        assert len(said) == 1
        assert f"Left round 0. Expected at least 4 {why}" in said[0]
        assert "\n" not in said[0]
    assert not any("secagg/reveal" in request for request in round.fake.requests)
    for home in round.homes:
        with Home.open(home) as found:
            (objection,) = found.memory.refusals
        assert "neighbours that agree" in objection.sentence
    assert [taken(home) for home in round.homes] == [1] * 6  # a masked vector has left, and counts


VOUCHER = b"\x11" * 32


@pytest.mark.parametrize("certified", [DEVICES, DEVICES - 1])
def test_with_vouchers_a_server_cannot_put_its_own_keys_in_the_place_of_a_device(tmp_path, certified):
    """The last device has a certificate of the server's own: nobody gives it a share."""
    trusting = OwnerPolicy.for_trying()
    vouchers = SecAggAssumptions(server="curious", vouchers=(keys.identity_public(VOUCHER).hex(),))
    round = Round(tmp_path, policy=trusting.model_copy(update={"secagg": vouchers}))
    round.fake.before = round.over_once_others_left("share")
    for number, home in enumerate(round.homes):
        with Home.open(home) as found:
            public = keys.identity_public(found.identity)
        given = certificate_of(VOUCHER if number < certified else b"\x12" * 32, public)
        (home / "identity.certificate").write_text(given.hex())
    said = round.run()
    if certified == DEVICES:
        assert said == [["Took part in round 0 of small, with secure aggregation."]] * DEVICES
        return
    for each in said[:certified]:
        assert "Nobody vouches for the identity of device 3" in each[0]
    assert [taken(home) for home in round.homes] == [0] * DEVICES
