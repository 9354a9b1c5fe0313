"""A server that changes what it asks for gets nothing, and the device says why in one line.

Each test is an attack on a device with a policy. The device has served the server honestly once, or never.
"""

from __future__ import annotations

import json
from functools import partial

import httpx
import numpy as np
import pytest

from tacit.fleet.device.home import Home
from tacit.fleet.device.memory import Memory
from tacit.fleet.device.plan_registry import PLANS_LABEL, PermittedPlan, PlanRegistry
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.signed_files import sign_file
from tacit.fleet.device.spending import epsilon_of, rho_of_round
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.rounds import task_compiler
from tacit.fleet.wire.task import SecAggTerms
from tacit.privacy.accounting.device_noise import DeviceNoise
from tacit.privacy.gate.discretisation import SecAggSection
from tacit.secagg import keys
from tacit.secagg.session import Session
from tests.support.fleet.device_task import task
from tests.support.fleet.fake_server import Clock, FakeServer, Running, enrolled, signed_policy
from tests.support.fleet.worlds import sentences_of, setup

# What the owner permits here: a little less than what the honest server asks for.
POLICY = OwnerPolicy.for_trying().model_copy(
    update={"largest_clip": 0.5, "least_cohort": 3, "least_noise": 0.5, "least_separation": 1, "most_rounds": 5}
)
NOISY = {"mechanism": "gaussian", "noise_multiplier": 1.0, "delta": 1e-2}
ENCODED = SecAggTerms(
    dimension=2, scale=8.0, element_clip=9, bits=12, block=2, rounding_failure=1e-9, local_variance=400, weighted=False
)


@pytest.fixture
def fake():
    made = setup(privacy=NOISY)
    return FakeServer(task_compiler.prepare(made, timer_s=100.0), made.start.model)


@pytest.fixture
def home(tmp_path, fake):
    return enrolled(tmp_path, fake, sentences_of(setup(privacy=NOISY), 0), POLICY)


def sent(fake):
    return sum(len(bodies) for bodies in fake.reports.values())


def step(home, fake, clock):
    with Running(home, fake, clock) as device:
        device.agent.step()
        return device.said


def refused(home, fake, clock):
    """The one line with which a device refuses, after which the server has nothing, and the device remembers."""
    before = sent(fake)
    said = step(home, fake, clock)
    assert len(said) == 1
    assert "\n" not in said[0]
    assert sent(fake) == before
    return said[0]


def other_task(fake, **changes):
    return fake.add_blob(fake.prepared.task.model_copy(update=changes).model_dump_json().encode())


def take_one(home, fake, clock):
    fake.offer(0)
    assert step(home, fake, clock) == ["Took part in round 0 of small."]
    clock.at += 1e6


@pytest.mark.parametrize(
    ("clip", "why"),
    [
        (0.31, "Expected a clip norm of at most 0.3, as the task says, got 0.31"),
        (1e300, "The owner's policy asks for a clip norm of at most 0.5, got 1e+300"),
    ],
)
def test_a_larger_clip_in_an_assignment(home, fake, clip, why):
    fake.offer(0, clip_norm=clip)
    assert why in refused(home, fake, Clock())


def test_a_bit_that_the_task_does_not_have(home, fake):
    """Adaptive clipping asks for one more number of each device, which the noise that a task states has to cover."""
    fake.offer(0, threshold=0.1)
    why = "The task has a fixed clip norm, and the server asked whether the update is longer than 0.1."
    assert why in refused(home, fake, Clock())


@pytest.mark.parametrize("clip", ["NaN", "Infinity", "-Infinity", "0", "1e999"])
def test_a_clip_that_is_no_number(home, fake, clip):
    offer = fake.offer(0).model_dump_json().replace('"clip_norm":0.3', f'"clip_norm":{clip}')
    answer = f'{{"assignment": {offer}, "come_back_s": 1.0}}'.encode()
    fake.before = lambda request: httpx.Response(200, content=answer) if "check-in" in request.url.path else None
    assert "answer to the check-in is not valid" in refused(home, fake, Clock())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"clip_norm": 9.0}, "clip norm of at most 0.5, got 9"),
        ({"clip_norm": None}, "clip norm of at most 0.5, got 9"),
        ({"report_goal": 2}, "report goal of at least 3, got 2"),
        ({"noise_multiplier": 0.4}, "noise multiplier of at least 0.5, got 0.4"),
        ({"min_separation": 0}, "separation of at least 1, got 0"),
    ],
)
def test_terms_outside_the_policy_in_the_first_task_ever(home, fake, changes, why):
    fake.offer(0, task=other_task(fake, **changes), clip_norm=9.0 if "clip_norm" in changes else 0.3)
    assert why in refused(home, fake, Clock())
    with Home.open(home) as found:
        (objection,) = found.memory.refusals
        assert why in objection.sentence


@pytest.mark.parametrize("name", ["small", "another name"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"report_goal": 3}, "a report goal of 4 before, and 3 now"),
        ({"noise_multiplier": 0.9, "noise": None}, "a noise multiplier of 1 before, and 0.9 now"),
        ({"timer_s": 99.0}, "a timer in seconds of 100 before, and 99 now"),
        ({"clip_norm": 0.4}, "a clip norm of 0.3 before, and 0.4 now"),
        ({"clip_norm": None}, "a clip norm of 0.3 before, and a changing one now"),
    ],
)
def test_weaker_terms_under_any_name_or_run(home, fake, changes, why, name):
    clock = Clock()
    take_one(home, fake, clock)
    fake.offer(9, task=other_task(fake, name=name, run="another run", **changes))
    assert why in refused(home, fake, clock)
    # And it is not forgotten when the honest terms are offered again, nor by a restart.
    fake.offer(20)
    assert step(home, fake, clock) == ["Took part in round 20 of small."]
    clock.at += 1e6
    fake.offer(30, task=other_task(fake, name="a third name", **changes))
    assert why in refused(home, fake, clock)


def test_masks_that_are_dropped_under_another_name(tmp_path):
    secure = {**NOISY, "secagg": {"bits": 24}}
    made = setup(privacy=secure)
    fake = FakeServer(task_compiler.prepare(made, timer_s=100.0), made.start.model)
    home, clock = enrolled(tmp_path, fake, sentences_of(made, 0), POLICY), Clock()
    fake.offer(0)
    refused(home, fake, clock)  # there is no seed of the rotation, and so no round, but the terms are known
    fake.offer(1, task=other_task(fake, name="plain", secagg=None), round_id="1" * 32)
    assert "offered secure aggregation before, and none now" in refused(home, fake, clock)


@pytest.mark.parametrize(
    ("demand", "why"),
    [
        ({"secure_aggregation": "required"}, "asks for secure aggregation, and the task has none"),
        ({"noise_from": "devices"}, "asks for noise that devices add, and the task has none"),
        ({"largest_epsilon": 1.0}, "the device can compute none of noise that the server adds"),
    ],
)
def test_what_the_policy_demands_and_the_task_lacks(tmp_path, fake, demand, why):
    home = enrolled(tmp_path, fake, sentences_of(setup(), 0), POLICY.model_copy(update=demand))
    fake.offer(0)
    assert why in refused(home, fake, Clock())


def test_another_run_or_name_wins_no_round_while_the_pause_runs_and_none_beyond_the_limit(tmp_path, fake):
    policy = POLICY.model_copy(update={"least_pause_s": 1000.0})
    home, clock = enrolled(tmp_path, fake, sentences_of(setup(), 0), policy), Clock()
    for number in range(5):
        changed = other_task(fake, run=f"run {number}", name=f"name {number}")
        fake.offer(0, task=changed, round_id=f"{number:032x}")
        assert "Took part" in step(home, fake, clock)[0]
        again = other_task(fake, run=f"again {number}", name=f"again {number}")
        fake.offer(0, task=again, round_id=f"{number + 100:032x}")
        clock.at += 999.0
        assert ("pause of 1000 s" if number < 4 else "5 rounds of this server") in refused(home, fake, clock)
        clock.at += 1.0
    fake.offer(0, task=other_task(fake, run="last"), round_id="e" * 32)
    clock.at += 1e9
    assert "5 rounds of this server, as many as the owner's policy allows" in refused(home, fake, clock)


def test_another_run_or_name_does_not_end_the_timer(home, fake):
    """A device rests for its server, not for a task, or each new task would find it rested."""
    clock = Clock()
    fake.offer(0)
    assert step(home, fake, clock) == ["Took part in round 0 of small."]
    for number, changes in enumerate(
        ({"run": "again"}, {"name": "other"}, {"run": "again", "name": "other"}), start=50
    ):
        clock.at += 30.0
        fake.offer(number, task=other_task(fake, **changes))
        assert "timer of 100 s for all this server's tasks is still running" in refused(home, fake, clock)
    clock.at += 10.0
    fake.offer(60, task=other_task(fake, run="again"))
    assert step(home, fake, clock) == ["Took part in round 60 of small."]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"local_variance": 0}, "offered noise of the devices before, and none now"),
        ({"local_variance": 399}, "a noise multiplier of 4.26401 before, and 4.25868 now"),
        ({"element_clip": 10, "scale": 9.0}, "a noise multiplier of 4.26401 before, and 3.849 now"),
    ],
)
def test_less_noise_of_devices_under_another_name(changes, why):
    """None, less, or longer vectors beside it."""
    memory = Memory().offered("a" * 64, task(secagg=ENCODED, noise_multiplier=9.0), 0.0)
    weaker = ENCODED.model_copy(update=changes)
    with pytest.raises(PolicyRefusal) as refusal:
        memory.offered("b" * 64, task(secagg=weaker, name="another", run="another", noise_multiplier=9.0), 1.0)
    assert why in str(refusal.value)


def test_a_replayed_assignment(home, fake):
    clock = Clock()
    take_one(home, fake, clock)
    fake.offer(0)
    assert "a round again" in refused(home, fake, clock)
    fake.offer(0, task=other_task(fake, run="again"))
    assert "a round again" in refused(home, fake, clock)


def test_a_plan_that_is_not_in_the_registry(tmp_path, fake):
    registrar = b"\5" * 32
    policy = POLICY.model_copy(update={"plan_registry": keys.identity_public(registrar).hex()})
    home, clock = enrolled(tmp_path, fake, sentences_of(setup(), 0), policy), Clock()
    plans = home / "plans.json"

    def register(*known):
        plans.write_text(PlanRegistry(plans=known).model_dump_json())
        sign_file(plans, registrar, PLANS_LABEL)

    fake.offer(0)
    assert "plans.json is missing" in refused(home, fake, clock)
    for known in ((), (PermittedPlan(sha256=fake.prepared.task.plan, kind="evaluate"),)):
        register(*known)
        fake.offer(0)
        clock.at += 1e3
        assert "is not in the owner's registry of plans for 'train'" in refused(home, fake, clock)
    register(PermittedPlan(sha256=fake.prepared.task.plan, kind="train"))
    fake.offer(0)
    clock.at += 1e3
    assert "Took part" in step(home, fake, clock)[0]
    changed = bytearray(fake.blobs[fake.prepared.task.plan])
    changed[len(changed) // 2] ^= 1
    clock.at += 1e6
    fake.offer(9, task=other_task(fake, plan=fake.add_blob(bytes(changed))))
    assert "is not in the owner's registry" in refused(home, fake, clock)


def test_a_policy_that_was_changed_on_disk_ends_all_service(home, fake):
    path = home / "policy.json"
    path.write_text(path.read_text().replace("0.5", "50.0"))
    fake.offer(0)
    assert "is not signed with the key" in refused(home, fake, Clock())


def test_an_older_policy_does_not_come_back(home, fake):
    clock = Clock()
    signed_policy(home / "policy.json", POLICY.model_copy(update={"issue": 2}))
    take_one(home, fake, clock)
    signed_policy(home / "policy.json", POLICY)
    fake.offer(9)
    assert "Expected issue 2 or a later one" in refused(home, fake, clock)


# What the device itself can prove of the cost.


def session(**changes):
    fields = {"session_id": bytes(32), "graph_seed": bytes(32), "devices": 60, "threshold": 40}
    fields |= {"minimum": 50, "dimension": 2, "bits": 12, **changes}
    return Session(neighbours=fields["devices"] - 1, **fields)


def test_the_devices_own_epsilon_is_the_servers_where_both_assume_the_same():
    noisy, here = task(secagg=ENCODED), session(devices=50)
    server = DeviceNoise(ENCODED.encoding().norm_limit_squared, 400, 2, SecAggSection(bits=12, corrupt=0.1), 50)
    cost = partial(rho_of_round, bit=False, corruption=0.1)
    assert cost(noisy, here) == pytest.approx(server.rho(50))
    assert cost(noisy, session(minimum=40)) > cost(noisy, here)  # fewer devices, less noise
    assert cost(noisy, session(devices=90)) > cost(noisy, here)  # more that may be corrupt
    assert cost(task(secagg=ENCODED.model_copy(update={"local_variance": 100})), here) > 3.9 * cost(noisy, here)
    assert np.isinf(cost(task(secagg=ENCODED.model_copy(update={"local_variance": 0})), here))
    assert np.isinf(cost(task(), None))
    assert 0 < epsilon_of(cost(noisy, here), 1e-6) < 10


def test_a_memory_of_rounds_keeps_what_they_cost(home, fake):
    clock = Clock()
    take_one(home, fake, clock)
    state = json.loads((home / "state.json").read_text())["server"]
    assert (state["rounds"], state["unproven"], state["spent_rho"]) == (1, 1, 0.0)
