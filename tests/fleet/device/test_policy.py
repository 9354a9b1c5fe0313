"""The owner's policy comes from the application that signed it, or is a built-in one; a registry has a key of its own."""

from __future__ import annotations

import json

import pytest

from tacit.errors import FleetError
from tacit.fleet.device.enrolment import enrol
from tacit.fleet.device.home import DeviceConfig, Home
from tacit.fleet.device.plan_registry import PLANS_LABEL, PermittedPlan, PlanRegistry, read_registry
from tacit.fleet.device.policy import POLICY_LABEL, OwnerPolicy, built_in, read_policy
from tacit.fleet.device.signed_files import sign_file, signature_path, signing_key
from tacit.secagg import keys
from tests.support.fleet.fake_server import APPLICATION, APPLICATION_KEY, signed_policy

OTHER_KEY = b"\7" * 32


def test_a_signed_policy_is_read_as_it_was_written(tmp_path):
    policy = OwnerPolicy(issue=3, largest_clip=0.5, most_rounds=7)
    assert read_policy(signed_policy(tmp_path / "policy.json", policy), APPLICATION) == policy


def test_a_changed_policy_is_refused(tmp_path):
    path = signed_policy(tmp_path / "policy.json", OwnerPolicy())
    path.write_text(path.read_text().replace('"largest_clip":10.0', '"largest_clip":99.0'))
    with pytest.raises(FleetError, match="is not signed with the key"):
        read_policy(path, APPLICATION)


@pytest.mark.parametrize(
    ("key", "label"), [(OTHER_KEY, POLICY_LABEL), (APPLICATION_KEY, PLANS_LABEL)], ids=["another key", "another use"]
)
def test_another_signature_is_refused(tmp_path, key, label):
    path = tmp_path / "policy.json"
    path.write_text(OwnerPolicy().model_dump_json())
    sign_file(path, key, label)
    with pytest.raises(FleetError, match="is not signed with the key"):
        read_policy(path, APPLICATION)


def test_a_policy_without_a_signature_is_refused(tmp_path):
    path = signed_policy(tmp_path / "policy.json", OwnerPolicy())
    signature_path(path).unlink()
    with pytest.raises(FleetError, match=r"policy\.json\.signature is missing"):
        read_policy(path, APPLICATION)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ('{"largest_clip": 1e300}', "largest_clip"),
        ('{"largest_clip": NaN}', "largest_clip"),
        ('{"least_noise": -1}', "least_noise"),
        ('{"largest_klip": 1}', "largest_klip"),
        ('{"secagg": {"corruption": 1}}', "secagg.corruption"),
        ("[", "the file"),
    ],
)
def test_a_policy_that_makes_no_sense_names_its_field(tmp_path, content, where):
    path = tmp_path / "policy.json"
    path.write_text(content)
    sign_file(path, APPLICATION_KEY, POLICY_LABEL)
    with pytest.raises(FleetError, match=f"not valid: {where}"):
        read_policy(path, APPLICATION)


def test_the_built_in_policy_trusts_only_a_server_on_this_machine():
    assert built_in("https://localhost:8443") == built_in("http://127.0.0.1:1") == OwnerPolicy.for_trying()
    for server in ("https://fleet.example.org", "https://localhost.example.org"):
        assert built_in(server) == OwnerPolicy()
    strict = OwnerPolicy()
    assert (strict.secure_aggregation, strict.secagg.server) == ("required", "malicious")
    assert strict.least_noise > 0
    assert strict.least_cohort >= 20


def test_a_home_without_its_signed_policy_has_no_other(tmp_path):
    """Deleting the file must not bring a weaker built-in one back."""
    with Home.create(tmp_path / "home") as home:
        home.configure(DeviceConfig(server="http://127.0.0.1:1", device=1, application=APPLICATION))
        with pytest.raises(FleetError, match=r"policy\.json is missing"):
            _ = home.policy
        signed_policy(home.policy_path, OwnerPolicy(issue=2))
        assert home.policy.issue == 2


def test_enrolment_takes_a_policy_only_with_its_key(tmp_path):
    path = signed_policy(tmp_path / "policy.json", OwnerPolicy())
    where = {"server": "https://fleet.test", "token": "t" * 16, "data": tmp_path / "none"}
    with pytest.raises(FleetError, match="together with the public key"):
        enrol(tmp_path / "home", policy=path, **where)
    with pytest.raises(FleetError, match="not signed with the key"):
        enrol(tmp_path / "home", policy=path, application=keys.identity_public(OTHER_KEY).hex(), **where)
    assert not (tmp_path / "home").exists()


def test_a_registry_is_of_its_key_and_of_a_kind(tmp_path):
    path, registrar = tmp_path / "plans.json", keys.identity_public(OTHER_KEY).hex()
    path.write_text(PlanRegistry(plans=(PermittedPlan(sha256="a" * 64, kind="train"),)).model_dump_json())
    sign_file(path, OTHER_KEY, PLANS_LABEL)
    registry = read_registry(path, registrar)
    assert registry.has("a" * 64, "train")
    assert not registry.has("a" * 64, "evaluate")
    assert not registry.has("b" * 64, "train")
    with pytest.raises(FleetError, match="not signed"):
        read_registry(path, APPLICATION)
    path.write_text(json.dumps({"plans": 3}))
    sign_file(path, OTHER_KEY, PLANS_LABEL)
    with pytest.raises(FleetError, match=r"registry of plans .* is not valid"):
        read_registry(path, registrar)


def test_a_signing_key_is_made_once_and_is_private(tmp_path):
    path = tmp_path / "application.key"
    made = signing_key(path)
    assert signing_key(path) == made
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("no key")
    with pytest.raises(FleetError, match="64 hexadecimal digits"):
        signing_key(path)
