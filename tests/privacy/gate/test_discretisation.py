"""A plan with secure aggregation fits together, or says in one sentence what does not; without it nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.errors import RecipeError
from tacit.privacy.gate.discretisation import SecAggSection
from tacit.privacy.noise.mechanisms import Discrete, Gaussian
from tacit.privacy.plan import PrivacyPlan

BASE: dict[str, Any] = {"population": 1000, "cohort": 10, "clip_norm": 0.5, "noise_multiplier": 2.0, "delta": 1e-5}
CHECK_IN = BASE | {"sampling": "check_in", "min_separation": 3, "max_participation": 4}
DEVICES = CHECK_IN | {"mechanism": "discrete", "secagg": {"scheme": "device_noise"}}
TREE = CHECK_IN | {"mechanism": "tree"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (BASE | {"secagg": {}}, "got 'poisson': its cohorts have no largest size"),
        (CHECK_IN | {"secagg": {"bits": 4}}, r"bits ≥ 5, so that the sum of 10 users cannot wrap, got 4"),
        (
            CHECK_IN | {"mechanism": "none", "noise_multiplier": 0.0, "clip_norm": None, "secagg": {}},
            "clip_norm with privacy.secagg",
        ),
        (CHECK_IN | {"secagg": {"scheme": "device_noise"}}, "got 'device_noise' with 'gaussian'"),
        (TREE | {"secagg": {"scheme": "device_noise"}}, "got 'device_noise' with 'tree'"),
        (CHECK_IN | {"mechanism": "discrete"}, "got None with 'discrete'"),
        (DEVICES | {"secagg": {}}, "got 'server_noise' with 'discrete'"),
        (
            BASE | {"mechanism": "discrete", "sampling": "fixed", "secagg": {"scheme": "device_noise"}},
            "'check_in' with mechanism 'discrete', got 'fixed'",
        ),
        (DEVICES | {"adaptive": {"count_noise": 9.0}}, "neither privacy.adaptive nor estimator"),
        (DEVICES | {"secagg": {"scheme": "device_noise", "fewest_reports": 11}}, "from 1 to privacy.cohort = 10"),
        (DEVICES | {"secagg": {"scheme": "device_noise", "corrupt": 0.95}}, "one of them not corrupt"),
        (CHECK_IN | {"secagg": {"corrupt": 0.1}}, "with scheme 'device_noise' only"),
        (CHECK_IN | {"population": 9000, "cohort": 300, "secagg": {"protocol": True}}, "from 3 to 200"),
        (DEVICES | {"noise_multiplier": 0.0}, "noise_multiplier > 0 with mechanism 'discrete'"),
    ],
)
def test_what_does_not_fit_is_refused(settings, sentence):
    with pytest.raises(RecipeError, match=sentence):
        PrivacyPlan(**settings)


@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt", "banded"])
def test_server_noise_serves_every_mechanism(mechanism):
    assert PrivacyPlan(**CHECK_IN | {"mechanism": mechanism, "secagg": {"bits": 16}}).secagg is not None


def test_the_smallest_width_is_allowed():
    PrivacyPlan(**CHECK_IN | {"secagg": {"bits": 5}})


def test_the_plan_builds_its_mechanism():
    assert isinstance(PrivacyPlan(**DEVICES).build_mechanism(5, None), Discrete)
    assert isinstance(PrivacyPlan(**CHECK_IN | {"secagg": {}}).build_mechanism(5, None), Gaussian)


def test_a_plan_is_the_same_after_json():
    assert PrivacyPlan(**CHECK_IN).model_dump(mode="json")["secagg"] is None
    kept = PrivacyPlan(**DEVICES)
    assert PrivacyPlan.model_validate(kept.model_dump(mode="json")) == kept
    assert kept.model_dump()["secagg"]["scheme"] == "device_noise"


def test_corrupt_devices_are_rounded_up_and_never_below_none():
    section = SecAggSection(scheme="device_noise", corrupt=0.11)
    assert [section.noisy(reports, reports) for reports in (0, 1, 10, 100)] == [0, 0, 8, 89]
    assert section.reports_promised(10.0) == 10


def test_the_corrupt_are_a_share_of_the_cohort_however_few_report():
    section = SecAggSection(scheme="device_noise", corrupt=0.25)
    assert [section.noisy(reports, 100) for reports in (100, 70, 26, 25, 3)] == [75, 45, 1, 0, 0]
    with pytest.raises(RecipeError, match="one of them not corrupt"):
        PrivacyPlan(**DEVICES | {"secagg": {"scheme": "device_noise", "corrupt": 0.5, "fewest_reports": 5}})
