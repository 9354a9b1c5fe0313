"""The plan's settings for secure aggregation: the width of integers, who adds the noise, and how much noise is certain.

With `server_noise`, users' vectors become integers whose sum cannot wrap, and the server adds noise to the decoded sum: any
mechanism serves, and only the bound that its noise is scaled to grows (`tacit.secagg.encoding`). With `device_noise`, each
device adds its share of discrete Gaussian noise to its integers; that is the mechanism "discrete".

Both need a largest cohort that is public beforehand. A Poisson cohort has none, and cutting it would change the law that is
accounted, so Poisson sampling is refused.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# A simulated protocol keeps every device's vector in memory, and pairs every device with every other.
LARGEST_REHEARSAL = 200


class SecAggSection(BaseModel):
    """Sums under secure aggregation: integers of `bits` bits, added exactly modulo 2^bits."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    bits: int = Field(default=20, ge=2, le=32, description="width of one uploaded number")
    scheme: Literal["server_noise", "device_noise"] = Field(default="server_noise", description="who adds the noise")
    protocol: bool = Field(default=False, description="run the whole protocol, masks and all, for small cohorts")
    fewest_reports: int | None = Field(
        default=None, ge=1, description="fewest reports a round is accounted with; none: the cohort (device noise)"
    )
    corrupt: float = Field(
        default=0.0, ge=0, lt=1, description="share of the cohort whose noise an attacker knows (device noise)"
    )

    def noisy(self, reports: int, cohort: float) -> int:
        """How many of `reports` reports carry noise that an attacker does not know.

        Corrupt devices are a share of the cohort, not of the reports: we assume that none of them drops out, so in a round
        with dropouts they are a larger share of the reports.
        """
        return max(0, reports - math.ceil(self.corrupt * cohort))

    def reports_promised(self, cohort: float) -> int:
        """How many reports a round is accounted with when the real number is not known."""
        return int(cohort) if self.fewest_reports is None else self.fewest_reports

    def check(self, *, sampling: str, cohort: float, clip_norm: float | None, side_blocks: bool) -> None:
        """ValueError unless it fits the rest of the plan. `side_blocks`: whether anything beside updates is released."""
        if sampling not in ("fixed", "check_in"):
            raise ValueError(
                f"expected privacy.sampling = 'fixed' or 'check_in' with privacy.secagg, got '{sampling}': its cohorts have no "
                "largest size, and integers that wrap would break the bound"
            )
        if clip_norm is None:
            raise ValueError("expected privacy.clip_norm with privacy.secagg: integers need a bound to be scaled to")
        if self.protocol and not 3 <= cohort <= LARGEST_REHEARSAL:
            raise ValueError(
                f"expected privacy.cohort from 3 to {LARGEST_REHEARSAL} with privacy.secagg.protocol, got {cohort:g}"
            )
        if self.scheme == "device_noise":
            self._check_device_noise(sampling, cohort, side_blocks)
            return
        if cohort >= 1 << (self.bits - 1):
            needed = int(cohort).bit_length() + 1
            raise ValueError(
                f"expected privacy.secagg.bits ≥ {needed}, so that the sum of {cohort:g} users cannot wrap, got {self.bits}"
            )
        if self.corrupt > 0 or self.fewest_reports is not None:
            raise ValueError(
                "expected privacy.secagg.corrupt and fewest_reports with scheme 'device_noise' only, got 'server_noise'"
            )

    def _check_device_noise(self, sampling: str, cohort: float, side_blocks: bool) -> None:
        if sampling != "check_in":
            raise ValueError(
                f"expected privacy.sampling = 'check_in' with mechanism 'discrete', got '{sampling}': nothing is proven here "
                "about what devices' noise gains by sampling"
            )
        if side_blocks:
            raise ValueError(
                "expected neither privacy.adaptive nor estimator 'clipped' with mechanism 'discrete', got one of them: "
                "devices add noise to their updates alone"
            )
        fewest = self.reports_promised(cohort)
        if fewest > cohort or self.noisy(fewest, cohort) < 1:
            raise ValueError(
                f"expected privacy.secagg.fewest_reports from 1 to privacy.cohort = {cohort:g}, and one of them not corrupt, "
                f"got {fewest} with a corrupt share of {self.corrupt:g}"
            )
