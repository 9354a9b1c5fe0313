"""A device that follows its server's log: every way to show it something else is refused, or found by two devices together."""

from __future__ import annotations

import json
import math
import re
import shutil

import pytest

from tacit.errors import FleetError
from tacit.fleet.device import account, leaving, public_log, receipts
from tacit.fleet.device.home import Home
from tacit.fleet.device.policy import OwnerPolicy
from tacit.fleet.device.published import found_in_ledger
from tacit.fleet.device.spending import epsilon_of
from tacit.fleet.device.stated_noise import require_affordable, rho_of, stated_epsilon, stated_rho
from tacit.fleet.device.statement import statement_of
from tacit.fleet.device.terms import PolicyRefusal
from tacit.fleet.rounds import task_compiler
from tacit.fleet.wire.task import NoiseTerms
from tacit.privacy.accounting.correlated import toeplitz_sensitivity
from tacit.privacy.participation.limits import Gap
from tests.support.fleet.fake_log import FakeLog
from tests.support.fleet.fake_server import Clock, FakeServer, Running, enrolled, signed_policy
from tests.support.fleet.worlds import sentences_of, setup
from tests.support.forging import forge
from tests.support.witnessed_runs import add_rounds, begun

NOISY = {"mechanism": "gaussian", "noise_multiplier": 1.0, "delta": 1e-2}
POLICY = OwnerPolicy.for_trying().model_copy(update={"log": "required", "least_noise": 0.5, "least_cohort": 3})
DAY = 86_400.0


@pytest.fixture
def fake():
    made = setup(privacy=NOISY)
    server = FakeServer(task_compiler.prepare(made, timer_s=1.0), made.start.model)
    server.log = FakeLog()
    server.log.add_task(server.blobs[server.prepared.name])
    return server


@pytest.fixture
def home(tmp_path, fake):
    return enrolled(tmp_path, fake, sentences_of(setup(privacy=NOISY), 0), POLICY)


def step(home, fake, clock):
    clock.at += 10.0
    with Running(home, fake, clock) as device:
        device.agent.step()
        return device.said


def takes_part(home, fake, clock, round=0):
    """The device takes part in this round; returns its place."""
    place = fake.offer(round)
    assert step(home, fake, clock) == [f"Took part in round {round} of small."]
    return place


def refused(home, fake, clock, round=0, **changes):
    """The one line with which a device refuses; the server got nothing, and the device remembers."""
    before = sum(len(bodies) for bodies in fake.reports.values())
    fake.offer(round, **changes)
    (said,) = step(home, fake, clock)
    assert sum(len(bodies) for bodies in fake.reports.values()) == before
    with Home.open(home) as opened:
        assert opened.memory.refusals[-1].sentence in said
    clock.at += 4000.0  # a refused task is not asked for again for a while
    return said


def contributions(home):
    with Home.open(home) as opened:
        return account.read(opened.account_path)


def checked(home, fake, clock):
    """As `tacit device receipts --check` does."""
    with Running(home, fake, clock) as device:
        opened, connection = device.agent.home, device.agent.connection
        log = public_log.followed(connection, opened.memory.log, opened.policy)
        receipts.check_all(connection, log, opened.account_path, now=clock.now(), most=99)
    return contributions(home)


# What an honest server and a device do.


def test_a_contribution_is_listed_receipted_and_found_in_the_log(home, fake):
    clock = Clock()
    place = takes_part(home, fake, clock)
    (mine,) = contributions(home)
    assert (mine.sent.round, mine.sent.clip_norm, mine.sent.report_goal, mine.sent.rho) == (0, 0.3, 4, None)
    assert mine.sent.size == len(fake.reports[place.round_id][0])
    assert mine.receipt is not None
    assert checked(home, fake, clock)[0].checked is None  # the round is not over
    fake.log.close(place, counted=4)
    (found,) = checked(home, fake, clock)
    assert (found.checked.outcome, found.checked.counted, found.broken_promise) == ("committed", 4, None)
    takes_part(home, fake, clock, round=2)


def test_a_report_that_is_sent_again_after_a_kill_has_its_receipt(home, fake):
    fake.offer(0)
    clock = Clock()

    def lost(request):
        fake.after = lambda request: None
        raise KeyboardInterrupt

    fake.after = lambda request: lost(request) if request.url.path.endswith("/report") else None
    with pytest.raises(KeyboardInterrupt):
        step(home, fake, clock)
    assert contributions(home)[0].receipt is None
    step(home, fake, clock)
    assert contributions(home)[0].receipt is not None


def test_the_log_is_followed_across_restarts_and_growth(home, fake):
    clock = Clock()
    for round in (0, 2, 4):
        fake.log.close(takes_part(home, fake, clock, round=round), counted=4)
    with Home.open(home) as opened:
        assert opened.memory.log.checkpoint.size == 3
        assert len(opened.memory.log.tasks) == 1


# Lies.


def test_no_log_where_one_is_demanded(home, fake):
    fake.log = None
    assert "asks for a server with a public log, and this one has none" in refused(home, fake, Clock())


def test_a_log_that_disappears(tmp_path, fake):
    lenient = POLICY.model_copy(update={"log": "if offered"})
    home, clock = enrolled(tmp_path, fake, sentences_of(setup(), 0), lenient), Clock()
    takes_part(home, fake, clock)
    fake.log = None
    assert "showed a public log before, and none now" in refused(home, fake, clock, 2)


def test_without_a_log_a_policy_for_trying_works_as_before(tmp_path, fake):
    fake.log = None
    home = enrolled(tmp_path, fake, sentences_of(setup(), 0), OwnerPolicy.for_trying())
    takes_part(home, fake, Clock())
    assert contributions(home)[0].receipt is None


@pytest.mark.parametrize("changes", [{"plan": "c" * 64}, {"noise_multiplier": 2.0}, {"name": "another"}])
def test_an_unlogged_plan_or_task(home, fake, changes):
    changed = fake.prepared.task.model_copy(update=changes)
    name = fake.add_blob(changed.model_dump_json().encode())
    sentence = refused(home, fake, Clock(), task=name)
    assert f"The task {changed.name!r} is not in the server's public log." in sentence


def test_another_plan_than_the_logged_one_under_the_same_proof(home, fake):
    """The server answers for the honest task's entry."""
    changed = fake.prepared.task.model_copy(update={"timer_s": 2.0})
    name = fake.add_blob(changed.model_dump_json().encode())
    honest = fake.log.answer

    def answer(path, device):
        if "/entries/" in path:
            path = f"/v1/log/entries/{honest_leaf(fake)}/{path.rsplit('/', 1)[1]}"
        return honest(path, device)

    fake.log.answer = answer
    assert "not in the server's public log" in refused(home, fake, Clock(), task=name)


def honest_leaf(fake):
    return public_log.TaskEntry.of(fake.prepared.name, fake.prepared.task).leaf()


@pytest.mark.parametrize(
    ("noise", "why"),
    [
        ({"noise_multiplier": 0.0, "noise": None}, "noise multiplier of at least 0.5, got 0"),
        (
            {"noise": NoiseTerms(mechanism="gaussian", multiplier=100.0)},
            "it states noise of 1 times the clip, and computes its cost from 100",
        ),
    ],
)
def test_noise_left_out_of_the_plan(home, fake, noise, why):
    content = fake.prepared.task.model_copy(update=noise).model_dump_json().encode()
    fake.log.add_task(content)
    assert why in refused(home, fake, Clock(), task=fake.add_blob(content))


def test_a_smaller_cohort_in_the_plan_and_in_the_round(home, fake):
    clock = Clock()
    small = fake.prepared.task.model_copy(update={"report_goal": 2}).model_dump_json().encode()
    fake.log.add_task(small)
    assert "report goal of at least 3, got 2" in refused(home, fake, clock, task=fake.add_blob(small))
    place = takes_part(home, fake, clock)
    fake.log.close(place, counted=3)  # promised were 4
    sentence = refused(home, fake, clock, 2)
    assert "Round 0 of 'small' added up 3 contributions, and its task promised 4." in sentence
    assert "added up 3 contributions" in refused(home, fake, clock, 4)  # it is not forgotten
    signed_policy(home / "policy.json", POLICY.model_copy(update={"issue": 2}))
    takes_part(home, fake, clock, 6)  # the application agrees to go on


def test_fewer_rounds_reported(home, fake):
    """A round that the device took part in is not in the log."""
    clock = Clock()
    takes_part(home, fake, clock)
    takes_part(home, fake, clock, 2)  # the first round may still be open
    clock.at += DAY + 1000.0
    assert "does not count the device's contribution to round 0 of 'small'" in refused(home, fake, clock, 4)
    with pytest.raises(PolicyRefusal, match="does not count"):
        checked(home, fake, clock)


def test_a_round_that_is_closed_without_this_device(home, fake):
    clock = Clock()
    place = takes_part(home, fake, clock)
    fake.log.receipts[place.round_id] = []
    fake.log.close(place, counted=4)
    clock.at += DAY + 1000.0
    assert "does not count the device's contribution" in refused(home, fake, clock, 2)


# What the made-up run's ledger says, and so what an honest server tells devices of it.
TOLD = {"noise_multiplier": 3.0, "noise": NoiseTerms(mechanism="gaussian", multiplier=3.0)}


def test_a_published_ledger_that_lacks_a_round_of_this_device(tmp_path, fake):
    """The server counted the round in its log, and computes epsilon from a ledger without it."""
    run = begun(tmp_path / "run", None, rounds=2)
    content = fake.prepared.task.model_copy(update={"run": run.run_id, **TOLD}).model_dump_json().encode()
    fake.log.add_task(content)
    home, clock = enrolled(tmp_path, fake, sentences_of(setup(), 0), POLICY), Clock()
    place = fake.offer(0, task=fake.add_blob(content))
    step(home, fake, clock)
    with pytest.raises(FleetError, match="knows of no committed round"):
        found_in_ledger(contributions(home), run.ledger_path)
    fake.log.close(place, counted=4, ledger=run.ledger().head)
    mine = checked(home, fake, clock)
    add_rounds(run, 1)  # the run went on
    assert found_in_ledger(mine, run.ledger_path) == 1
    forge(run.path, lambda records: records.__delitem__(slice(2, None)))
    with pytest.raises(FleetError, match="is not the one of round 0 of 'small'"):
        found_in_ledger(mine, run.ledger_path)


def of_block(**changes):
    """In every intent, what is said of the update."""
    return lambda records: [each["blocks"]["update"].update(changes) for each in records if each["kind"] == "intent"]


@pytest.mark.parametrize(
    ("ledger", "told", "why"),
    [
        (of_block(noise_multiplier=3.1), {}, "noise of 3.1 times the clip was added, and the device was told 3:"),
        (of_block(bound=0.2), {}, "no contribution was longer than 0.2, and the device was told 0.3:"),
        (lambda records: records[0].update(strategy={"strategy": "tree"}), {}, "1 participation of one device moves"),
        (lambda records: None, {}, None),
        (of_block(noise_multiplier=2.0, bound=9.0), {}, None),  # worse than it was told
        (
            lambda records: records[0].update(strategy={"strategy": "tree"}),
            {"noise": NoiseTerms(mechanism="tree", multiplier=3.0, moved_squared=(4.0,))},
            None,
        ),
    ],
)
def test_a_ledger_with_better_terms_than_the_devices_were_told(tmp_path, fake, ledger, told, why):
    """Another plan: the ledger says from the start what makes epsilon smaller, and its digests are in the log."""
    run = begun(tmp_path / "run", None, rounds=2)
    forge(run.path, ledger)
    task = fake.prepared.task.model_copy(update={"run": run.run_id, **TOLD, **told})
    fake.log.add_task(task.model_dump_json().encode())
    home, clock = enrolled(tmp_path, fake, sentences_of(setup(), 0), POLICY), Clock()
    place = fake.offer(0, task=fake.add_blob(task.model_dump_json().encode()))
    step(home, fake, clock)
    fake.log.close(place, counted=4, ledger=last_digest(run.ledger_path))
    mine = checked(home, fake, clock)
    noise = {each.sent.task: task.noise for each in mine}
    if why is None:
        assert found_in_ledger(mine, run.ledger_path, noise) == 1
        return
    with pytest.raises(FleetError, match=re.escape(why)):
        found_in_ledger(mine, run.ledger_path, noise)


def last_digest(path):
    return json.loads(path.read_text().splitlines()[-1])["digest"]


@pytest.mark.parametrize("lie", ["counted", "outcome", "receipt"])
def test_a_false_proof_of_a_round(home, fake, lie):
    clock = Clock()
    place = takes_part(home, fake, clock)
    fake.log.close(place, counted=4)
    (entry,) = [each for each in fake.log.entries if place.round_id in each]
    shown = {"counted": ('"counted":4', '"counted":400'), "outcome": ("committed", "abandoned"), "receipt": ("", "")}[
        lie
    ]
    fake.log.closed[place.round_id] = entry.replace(*shown)  # not what is in the log
    fake.log._place = lambda leaf, size, asked=fake.log._place: asked(public_log_leaf(entry), size)
    if lie == "receipt":  # the entry is right, and this receipt is not in its tree
        honest = fake.log.answer
        without = public_log.Place(index=0, hashes=())

        def answer(path, device):
            found = honest(path, device)
            return found.model_copy(update={"receipt": without}) if "/receipts/" in path else found

        fake.log.answer = answer
    with pytest.raises(PolicyRefusal, match="proof that round 0 of 'small' is in its log is false"):
        checked(home, fake, clock)


def public_log_leaf(entry):
    return receipts.leaf_of(entry)


def test_a_rewritten_and_a_shorter_log(home, fake):
    clock = Clock()
    fake.log.close(takes_part(home, fake, clock), counted=4)
    takes_part(home, fake, clock, 2)
    kept = list(fake.log.entries)
    fake.log.entries = kept[:1]
    assert "shorter: it had 2 entries before, and has 1 now" in refused(home, fake, clock, 4)
    fake.log.entries = [kept[0], kept[1].replace('"attempt":0', '"attempt":1')]
    assert "Two different logs were shown" in refused(home, fake, clock, 4)
    fake.log.entries.append(kept[1])
    assert "cannot show that its log of 3 entries continues the one of 2" in refused(home, fake, clock, 4)
    fake.log.entries = kept
    takes_part(home, fake, clock, 6)


def test_a_log_with_another_key(home, fake):
    clock = Clock()
    takes_part(home, fake, clock)
    other = FakeLog(b"\10" * 32)
    other.entries = list(fake.log.entries)
    fake.log = other
    assert "another key than the one that this device follows" in refused(home, fake, clock, 2)
    # The application names the new log in a new edition of its policy.
    named = POLICY.model_copy(update={"issue": 2, "log_key": other.key.public.text()})
    signed_policy(home / "policy.json", named)
    takes_part(home, fake, clock, 4)


def test_a_head_that_nobody_signed(home, fake):
    head = fake.log.head
    fake.log.head = lambda: head().replace("\n1\n", "\n7\n")
    assert "not signed with the log's key" in refused(home, fake, Clock())
    fake.log.head = lambda: "no head"
    assert "head of the server's log is not valid" in refused(home, fake, Clock())


def test_two_views_for_two_devices_are_found_when_they_compare_heads(tmp_path, fake):
    clock = Clock()
    ann, bo = (enrolled(tmp_path / name, fake, sentences_of(setup(), 0), POLICY) for name in ("ann", "bo"))
    one, other = fake.log, fake.log.copy()
    takes_part(ann, fake, clock)
    fake.log = other
    other.add_task(fake.prepared.task.model_copy(update={"name": "for bo alone"}).model_dump_json().encode())
    takes_part(bo, fake, clock)
    place = fake.places["0" * 32]
    one.close(place, counted=4)
    for view, home in ((one, ann), (other, bo)):  # to each its own view, each consistent in itself
        fake.log = view
        takes_part(home, fake, clock, 2)
    heads = {}
    for home in (ann, bo):
        with Home.open(home) as opened:
            heads[home] = opened.memory.log.head
    for view, home, theirs in ((one, ann, bo), (other, bo, ann)):
        fake.log = view
        with Running(home, fake, clock) as device:
            opened = device.agent.home
            found, log = public_log.compared(device.agent.connection, opened.memory.log, heads[theirs])
            opened.remember(opened.memory.model_copy(update={"log": log}))
        assert not found.one_log
        assert "Two different logs were shown" in found.sentence
        assert "Two different logs were shown" in refused(home, fake, clock, 4)


def test_two_devices_that_were_shown_one_log(tmp_path, fake):
    clock = Clock()
    ann, bo = (enrolled(tmp_path / name, fake, sentences_of(setup(), 0), POLICY) for name in ("ann", "bo"))
    takes_part(ann, fake, clock)
    fake.log.close(fake.places["0" * 32], counted=4)
    takes_part(bo, fake, clock, 2)
    with Home.open(bo) as opened:
        newer = opened.memory.log.head
    with Running(ann, fake, clock) as device:
        memory = device.agent.home.memory
        found, log = public_log.compared(device.agent.connection, memory.log, newer)
        assert (found.one_log, found.here, found.there) == (True, 1, 2)
        assert log.head == newer
        with pytest.raises(FleetError, match="not signed with the key"):
            public_log.compared(device.agent.connection, memory.log, newer.replace("\n2\n", "\n1\n"))
        strange, log = public_log.compared(device.agent.connection, memory.log, FakeLog(b"\1" * 32).head())
        assert not strange.one_log
        assert log.fork is None  # nobody but the log's own key can make a device stop


@pytest.mark.parametrize("lie", ["none", "body", "device", "round", "key"])
def test_a_receipt_for_something_else_is_not_kept(home, fake, lie):
    honest = fake.log.received

    def received(place, device, body, *, repeated):
        if lie == "round":
            place = place.model_copy(update={"round": 7})
        found = honest(place, device + (lie == "device"), body + b"x" * (lie == "body"), repeated=repeated)
        if lie == "key":
            found = found.model_copy(update={"signature": FakeLog(b"\1" * 32).key.sign(b"", found.receipt)})
        return found

    fake.log.received, fake.log.gives_receipts = received, lie != "none"
    fake.offer(0)
    clock = Clock()
    said = step(home, fake, clock)
    why = "gave no receipt in round 0" if lie == "none" else "receipt in round 0 is not for what the device sent"
    assert why in said[0]
    assert contributions(home)[0].receipt is None
    fake.log.received, fake.log.gives_receipts = honest, True
    clock.at += 4000.0
    for round in (2, 4):  # nor does the device go on: a round without receipts need not be in the log
        assert why in refused(home, fake, clock, round)
    signed_policy(home / "policy.json", POLICY.model_copy(update={"issue": 2}))
    takes_part(home, fake, clock, 6)  # the application agrees to go on


@pytest.mark.parametrize("looked_before", [True, False])
def test_a_round_that_counts_in_the_log_and_not_for_the_device(home, fake, looked_before):
    """So that the device takes part more often than the task allows."""
    clock = Clock()
    place = takes_part(home, fake, clock)
    fake.log.close(place, counted=4)
    if looked_before:
        checked(home, fake, clock)
    fake.uncounted = (place.round_id,)
    assert "said that the device's contribution to round 0 of 'small' does not count, and its log counts it" in refused(
        home, fake, clock, 2
    )


def test_a_try_that_came_to_nothing_and_is_so_in_the_log(home, fake):
    clock = Clock()
    place = takes_part(home, fake, clock)
    fake.log.close(place, outcome="abandoned", counted=1)
    fake.uncounted = (place.round_id,)
    takes_part(home, fake, clock, 2)
    assert [each.uncounted for each in contributions(home)] == [True, False]


# What it cost, if the server adds the noise it logged.


def test_the_stated_cost_of_rounds_is_the_devices_own_sum(home, fake):
    clock = Clock()
    takes_part(home, fake, clock)
    takes_part(home, fake, clock, 2)
    with Home.open(home) as opened:
        assert stated_epsilon(opened.memory, 1e-6) == epsilon_of(2 / 2, 1e-6)  # z = 1: 1/2 for each
        # Whatever the server says about them.
        memory = opened.memory.without([each.sent.round_id for each in account.read(opened.account_path)])
        assert stated_epsilon(memory, 1e-6) == epsilon_of(2 / 2, 1e-6)


def test_a_limit_on_the_stated_cost_is_kept(tmp_path, fake):
    limit = epsilon_of(1 / 2, 1e-6) + 1e-6
    policy = POLICY.model_copy(update={"largest_stated_epsilon": limit})
    home, clock = enrolled(tmp_path, fake, sentences_of(setup(), 0), policy), Clock()
    takes_part(home, fake, clock)
    assert "in all if the server adds the noise it logged, and with this round it would be" in refused(
        home, fake, clock, 2
    )


def test_a_task_that_states_no_noise_costs_without_bound(tmp_path, fake):
    content = fake.prepared.task.model_copy(update={"noise": None}).model_dump_json().encode()
    fake.log.add_task(content)
    policy = POLICY.model_copy(update={"largest_stated_epsilon": 100.0})
    home = enrolled(tmp_path, fake, sentences_of(setup(), 0), policy)
    assert "would be inf" in refused(home, fake, Clock(), task=fake.add_blob(content))


def test_a_round_whose_devices_noise_proves_nothing_has_no_finite_cost(home, fake):
    takes_part(home, fake, Clock())
    with Home.open(home) as opened:
        memory = opened.memory
    ((name, known),) = memory.tasks.items()
    limited = POLICY.model_copy(update={"largest_stated_epsilon": 100.0})
    mine = memory.model_copy(update={"tasks": {name: known.model_copy(update={"devices_noise": True})}})
    assert math.isinf(stated_rho(mine))
    proven = mine.model_copy(update={"server": mine.server.model_copy(update={"unproven": 0, "spent_rho": 0.25})})
    assert stated_rho(proven) == 0.25
    require_affordable(proven, name, limited, 0.25)
    with pytest.raises(PolicyRefusal, match="would be inf"):
        require_affordable(proven, name, limited, math.inf)
    with pytest.raises(PolicyRefusal):
        require_affordable(proven, name, limited.model_copy(update={"largest_stated_epsilon": 1e-3}), 0.25)


def test_correlated_noise_costs_what_the_strategy_says_and_more_participations_no_less():
    column, gap = [1.0, 0.5, 0.375, 0.3], Gap(1)
    exact = [toeplitz_sensitivity(column, 20, gap, n).squared for n in range(1, 9)]
    terms = NoiseTerms(mechanism="banded", multiplier=2.0, moved_squared=exact[:3])
    assert rho_of(terms, 0) == 0
    assert [rho_of(terms, n) for n in (1, 2, 3)] == pytest.approx([each / 8 for each in exact[:3]])
    for n in range(4, 9):
        assert rho_of(terms, n) >= exact[n - 1] / 8
    assert rho_of(terms, 2, 1) >= rho_of(terms, 3)
    assert rho_of(terms.model_copy(update={"moved_squared": (1e-9,)}), 4) == 4 / 8  # never less than independent noise
    assert math.isinf(rho_of(terms.model_copy(update={"multiplier": 0.0}), 1))


@pytest.mark.parametrize("restarted", [False, True])
def test_a_folder_that_was_put_back_takes_part_in_nothing_and_states_no_cost(home, fake, tmp_path, restarted):
    """The copy is older than a round, with whose report the device's last process ended."""

    def report_arrives(request):
        if request.url.path.endswith("/report"):
            raise KeyboardInterrupt

    clock = Clock()
    with Running(home, fake, clock) as device:
        device.agent.step()
        shutil.copytree(home, tmp_path / "older")
        fake.offer(0)
        fake.after = report_arrives
        if not restarted:
            with pytest.raises(KeyboardInterrupt):
                device.agent.step()
    if restarted:
        with pytest.raises(KeyboardInterrupt):
            step(home, fake, clock)
    fake.after = lambda request: None
    assert "so no limit can be kept" in refused(tmp_path / "older", fake, clock, 2)
    with Home.open(tmp_path / "older") as opened:
        found = statement_of(opened)
    assert math.isinf(found.epsilon)
    assert math.isinf(found.stated)
    assert "What that cost cannot be said" in "\n".join(found.sentences())


# What it can say, and leaving.


def test_the_statement_says_what_was_asked_and_sent_and_refused(home, fake):
    clock = Clock()
    place = takes_part(home, fake, clock)
    fake.log.close(place, counted=4)
    checked(home, fake, clock)
    assert "clip norm" in refused(home, fake, clock, 2, clip_norm=1e4)
    with Home.open(home) as opened:
        text = "\n".join(statement_of(opened).sentences())
    sent = contributions(home)[0].sent
    for part in (
        "asked this device to take part in 1 task; it had 1 of the 10,000 rounds",
        "sums of 4 contributions",
        "without secure aggregation",
        "numbers that the task's program computed from the text, and not the text itself.",
        "can be read by whoever runs the server, before they are added up",
        f"{sent.numbers:,} numbers, of length at most 0.3, {sent.size:,} bytes",
        "the server's log counts it, among 4.",
        "If the server adds the noise it logged, its one round costs at most ε = ",
        "had 2 entries",
        "It refused: ",
        "tacit device leave --home",
    ):
        assert part in text
    assert all(word not in text for word in sentences_of(setup(), 0))
    (home / "account.jsonl").unlink()
    with Home.open(home) as opened:
        text = "\n".join(statement_of(opened).sentences())
    assert "1 contribution is not listed in its account." in text
    assert "It has sent nothing" not in text


def test_leaving_deletes_key_and_text_and_keeps_the_confirmation(home, fake):
    clock = Clock()
    takes_part(home, fake, clock)
    with Running(home, fake, clock) as device:
        found = leaving.leave(device.agent.home, device.agent.connection, keep_text=False)
    assert found.confirmed.kept == ("the device's number",)
    left = {path.name for path in home.iterdir()}
    assert not {"identity.key", "examples.jsonl", "blobs", "report.bin"} & left
    assert {"left.json", "account.jsonl", "state.json"} <= left
    with pytest.raises(FleetError, match="has left its server"):
        Home.open(home)
    with Home.open(home, or_left=True) as opened:
        text = "\n".join(statement_of(opened).sentences())
    assert "which the server confirmed. The server keeps: the device's number." in text


@pytest.mark.parametrize("lie", ["another device", "another key", "nothing"])
def test_leaving_without_the_servers_word_deletes_nothing(home, fake, lie):
    honest = fake.log.answer

    def answer(path, device):
        if not path.endswith("/leave"):
            return honest(path, device)
        if lie == "nothing":
            return None
        return (FakeLog(b"\1" * 32).answer if lie == "another key" else honest)(path, device + 1)

    fake.log.answer = answer
    with Running(home, fake, Clock()) as device, pytest.raises(FleetError) as error:
        leaving.leave(device.agent.home, device.agent.connection, keep_text=False)
    assert "--without-server" in str(error.value.hint)
    assert (home / "identity.key").exists()
    assert (home / "examples.jsonl").exists()
    with Running(home, fake, Clock()) as device:
        assert leaving.leave(device.agent.home, None, keep_text=True).confirmed is None
    assert (home / "examples.jsonl").exists()
    assert not (home / "identity.key").exists()


def test_no_lie_about_the_log_keeps_a_device_from_leaving(home, fake):
    clock = Clock()
    takes_part(home, fake, clock)
    with Home.open(home) as opened:
        log = opened.memory.log.forked(FakeLog().head())
        opened.remember(opened.memory.model_copy(update={"log": log}))
    with Running(home, fake, clock) as device:
        found = leaving.leave(device.agent.home, device.agent.connection, keep_text=False)
    assert found.confirmed is not None


def test_a_line_of_the_account_that_a_kill_cut_short_is_skipped_and_no_other(home, fake):
    clock = Clock()
    takes_part(home, fake, clock)
    path = home / "account.jsonl"
    path.write_bytes(path.read_bytes() + b'{"line":"sent","at":1')
    assert len(contributions(home)) == 1
    takes_part(home, fake, clock, 2)
    assert len(contributions(home)) == 2
    path.write_text(json.dumps({"line": "sent"}) + "\n" + path.read_text())
    with pytest.raises(FleetError, match="account is damaged"):
        contributions(home)
