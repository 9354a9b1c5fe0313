"""Results of `tacit plan`, `tacit population` and `tacit tune`."""

from __future__ import annotations

from typing import Any, Literal

from tacit.cli.results.base import Result, key, sometimes


class PlanTarget(Result):
    """The privacy to reach."""

    rho: float = key("as rho of zCDP")
    epsilon: float = key("as epsilon at delta")
    stated: Literal["rho", "epsilon"] = key("which of them was asked for")


class PlanRow(Result):
    """One way to train."""

    mechanism: str = key("how noise is added")
    report_goal: int = key("how many users a round")
    noise_multiplier: float = key("the noise on the sum, over the clip")
    noise_on_mean: float = key("noise multiplier / report goal")
    min_separation: int | None = key("MinS; null with sampling")
    max_participation: int | None = key("MaxP; null with sampling")
    capped: bool = key("whether MinS is less than was asked for, because there are too few users")
    timer_in_hours: float | None = key("how long a device waits after a report; null if it is not known")
    days: float | None = key("how long training takes; null if it is not known")
    prefix_error: float = key("root-mean-square noise in running sums of mean updates, over the clip")
    error_ratio: float | None = key("prefix_error over the simulation's; null without a simulation")
    rho: float | None = key("rho of zCDP; null with sampling")
    epsilon: float | None = key("epsilon at delta; null if it is infinite")
    meets_target: bool | None = key("whether the target is met; null without one")


class PlanResult(Result):
    """Report goal, noise and MinS for a fleet. The first keys are those of the recommended row."""

    epsilon: float | None = key("epsilon of the recommended row; null if it is infinite")
    delta: float = key("the delta that was given")
    rho: float | None = key("its rho; null with sampling")
    adjacency: str = key("how two neighbouring data sets differ")
    accountant: str = key("how epsilon was computed")
    assumptions: list[str] = key("what its epsilon rests on")
    target: PlanTarget | None = key("the target; null if none was given")
    recommended: PlanRow = key("the recommended row")
    reason: str = key("why it is recommended, as a code")
    why: str = key("why it is recommended, in sentences")
    notes: list[str] = key("what to know before relying on the rows")
    rows: list[PlanRow] = key("every row")


class DeviceSettings(Result):
    """The devices and the server, as simulated."""

    devices: int = key("how many devices")
    report_goal: int = key("how many reports complete a round")
    over_selection: float = key("how many devices are selected for each report of the goal")
    deadline_hours: float = key("after how long a round is abandoned")
    work_minutes: float = key("how long the median device works")
    drop_out: float = key("the share of selected devices that drop out")
    server_seconds: int = key("from a round's last report to the opening of the next")
    zones: str = key("time zones")
    min_separation: int | None = key("the MinS that the server enforces; null if none")
    max_participation: int | None = key("the MaxP that the server enforces; null if none")


class RoundSeconds(Result):
    """How long rounds take."""

    p5: float = key("the 5th percentile")
    median: float = key("the median")
    p95: float = key("the 95th percentile")


class CheckIns(Result):
    """What became of the devices that checked in."""

    check_ins: int = key("how often a device checked in")
    sent_away: int = key("while no device was needed")
    refused: int = key("too early or too often for the limits that the server enforces")
    taken: int = key("selected for a round")
    dropped_out: int = key("of the taken: left before they had reported")
    late: int = key("of the taken: reported after the round was over")


class TimerOutcome(Result):
    """The rounds with one timer."""

    timer_hours: float = key("how long a device waits after a report")
    simulated_days: float = key("how long all rounds took")
    round_s: RoundSeconds = key("how long a round takes, in seconds")
    round_s_by_hour_utc: list[float | None] = key("the median by hour of the day; null for an hour without a round")
    given_up: int = key("how many rounds were abandoned")
    min_separation: int | None = key("the MinS that happened; null if no device took part twice")
    max_participation: int = key("the MaxP that happened")
    counts: CheckIns = key("what became of the devices")


class PopulationResult(Result):
    """Participation of simulated devices."""

    settings: DeviceSettings = key("what was simulated")
    rounds: int = key("how many rounds were completed")
    seed: int = key("the seed of the simulation")
    largest_separation: int = key("the largest MinS that so many devices allow")
    timers: list[TimerOutcome] = key("the outcome with each timer")


class PublicParts(Result):
    """How the people of a public store were divided."""

    pretraining: int = key("people whose text the model was pre-trained on")
    stand_ins: int = key("people who stood for private users")
    held_out: int = key("people on whom accuracy was measured")


class TuneAccuracy(Result):
    """Accuracy on the held-out stand-ins."""

    top1: float = key("the share of words that were the first suggestion of a keyboard")
    papers_top1: float = key("the same by the papers' metric")


class TriedSetting(Result):
    """A setting that was tried on stand-ins."""

    keys: dict[str, Any] = key("the keys of the recipe that the search changes, with their values")
    noise_multiplier: float = key("the noise that the private run needs for the epsilon")
    trainings: int = key("how often it was trained to the end; the accuracy is their mean")
    seconds: float = key("how long all of its trainings took")
    average: dict[str, Any] | None = sometimes("the best average of models, as keys of [server]; if it was trained")
    top1: float | None = sometimes("accuracy with that average, as a keyboard shows it; if it was trained")
    papers_top1: float | None = sometimes("the same by the papers' metric; if it was trained")
    problem: str | None = sometimes("why a training has no result: it was given up, or diverged")


class TuneResult(Result):
    """Training settings that were searched on public text."""

    recipe: str = key("the recipe file that was written")
    epsilon: float = key("epsilon of the private run that it plans, the discovery of its words included")
    delta: float = key("the delta that epsilon is stated for")
    noise_multiplier: float = key("the noise of the private run")
    people: PublicParts = key("the people of the public store")
    metric: str = key("what the choice was made by")
    before: TuneAccuracy = key("the pre-trained model, before the first round")
    settings: list[TriedSetting] = key("each setting that was tried, the recipe's own first")
    chosen: int = key("which of them was chosen; the first is 1")
    within_noise: bool = key("whether the gain is no larger than the difference between two trainings of one setting")
    seconds: float = key("how long the search took")
