"""Discrete Gaussian noise from the devices, under secure aggregation (`accounting.device_noise` has the proof's constants)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting import device_noise
from tacit.privacy.accounting.cost import Cost
from tacit.privacy.accounting.releases import Releases
from tacit.privacy.noise.kinds.base import SYSTEM_ENTROPY, MechanismKind
from tacit.privacy.record.records import Intent, Opened

if TYPE_CHECKING:
    from tacit.privacy.noise.mechanisms import Mechanism
    from tacit.privacy.noise.strategies import Strategy
    from tacit.privacy.plan import PrivacyPlan


class DiscreteKind(MechanismKind):
    """Each device adds a share of the noise to its own integers, fresh in every round."""

    name = "discrete"
    noise = "Discrete Gaussian noise that each device adds to its own integers, fresh in every round"
    proven_under = ("check_in",)
    on_devices = True
    gaussian_noise = False

    def build(self, plan: PrivacyPlan, rounds: int, strategy: Strategy | None) -> Mechanism:
        from tacit.privacy.noise.mechanisms import Discrete

        return Discrete(plan.noise_multipliers)

    def cost(self, releases: Releases) -> Cost:
        """The ρ of the integers. No tail is charged: devices sample integers exactly, and the server adds no noise."""
        noise = device_noise.constants_of(releases.opened)
        if noise is None:
            return Cost.of_rho(float("inf"), draws=0, objection="the ledger does not say what noise each device added")
        lengths = [len(branch) for branch in releases.branches]
        rho = device_noise.rho_of(noise, releases.cohorts, lengths, releases.promised)
        return Cost.of_rho(rho, draws=0, objection=device_noise.objection_to(releases.happened))

    def enforced(self) -> tuple[str, ...]:
        return (
            SYSTEM_ENTROPY + "neither a resumed run nor a copy of it adds the same draws to another sum",
            "devices draw their noise exactly, in integers, and its tail is complete",
        )

    def assumptions(self, opened: Opened) -> tuple[str, ...]:
        section = opened.plan.get("secagg") or {}
        share = float(section.get("corrupt", 0.0))
        who = f"at most {share:.1%} of a round's devices are" if share else "no device is"
        return (
            "nobody has the computing power to tell AES-256-CTR or keyed BLAKE2b from random bits",
            "sums are computed under secure aggregation, so that nobody sees the integers of a single device",
            f"{who} corrupt; every other device adds its share of the noise and keeps it secret",
        )

    def broken_promise(self, opened: Opened, cohorts: Sequence[NDArray[np.int64]]) -> str | None:
        noise, fewest = device_noise.constants_of(opened), min(map(len, cohorts), default=0)
        if noise is not None and len(cohorts) and fewest < noise.fewest_reports:
            return f"a round had {fewest} reports, and the plan promises {noise.fewest_reports} at least"
        return None

    def least_rho(self, opened: Opened, intents: Sequence[Intent]) -> float:
        """The ρ under the noise of a full cohort: no round has more noise."""
        noise = device_noise.constants_of(opened)
        return noise.rho(int(opened.plan["cohort"])) if noise is not None and intents else 0.0
