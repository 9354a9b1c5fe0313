"""The sentences of a plan: why a row is recommended, and what to know before relying on the table."""

from __future__ import annotations

from tacit.numbers import rounded_up
from tacit.privacy.planning.planner import POISSON, PlanAnswer, Question, Row, Target
from tacit.privacy.statement.wording import epsilon_text

# The report goal of the simulation that is suggested: quick to run before a fleet is asked.
TRIAL_REPORT_GOAL = 100


def why(question: Question, answer: PlanAnswer) -> str:
    """One or two sentences about the recommended row."""
    row, target = answer.recommended, question.target
    what = described(row)
    if answer.reason == "strongest":
        others = "" if len(answer.rows) == 1 else ", the smallest epsilon of all rows"
        return f"{what}: {_privacy(row, question)}{others} with no more noise than the simulation had."
    assert target is not None, "every other reason is about a target"
    if answer.reason == "smallest that meets the target":
        said = (
            f"{what}: the smallest report goal that meets {target_text(target)} with no more noise than the simulation "
            f"had ({_privacy(row, question)})."
        )
        largest = max(answer.rows, key=lambda each: each.report_goal).report_goal
        if largest > row.report_goal:
            strongest = min(
                (each for each in answer.rows if each.mechanism == row.mechanism and each.report_goal == largest),
                key=lambda each: each.epsilon,
            )
            said += f" Report goal {largest}, the largest, would give {_privacy(strongest, question)}."
        return said
    if answer.reason == "noise raised to the target":
        ratio = " more than" if row.error_ratio is None else f" {rounded_up(row.error_ratio, 3)} times"
        return (
            f"{what}: no row meets {target_text(target)} with the noise of the simulation, so this row has the largest report "
            f"goal and{ratio} the noise of the simulation. Expect a worse model, or plan with more devices, a larger MinS "
            "or fewer rounds (pre-training on public data saves some)."
        )
    trial = row.noise_on_mean * TRIAL_REPORT_GOAL
    return (
        f"{what}: it meets {target_text(target)} with the least noise in running sums. No simulation says yet "
        f"whether a model learns under it: first simulate report goal {TRIAL_REPORT_GOAL} with noise multiplier "
        f"{rounded_up(trial, 3)}, which is the same noise on the mean."
    )


def notes(question: Question, answer: PlanAnswer) -> list[str]:
    """What the columns mean, which limits were met, and when sampling would be better."""
    devices, row = question.devices, answer.recommended
    said = [
        "error is the root-mean-square noise in the running sums of mean updates, in units of the clip. Mechanisms with the "
        "same error disturb training about equally, whatever their noise multipliers, so compare rows by it. Within one "
        "mechanism it is proportional to z / goal, the noise on the mean."
    ]
    if any(each.capped for each in answer.rows):
        cause = " A longer timer would only make rounds wait for devices." if devices.timers_in_hours else ""
        said.append(
            "* MinS is less than was asked for. It cannot exceed population / report goal - 1, because every user who waits "
            f"must be replaced by another one.{cause}"
        )
    if not devices.min_separations and not devices.timers_in_hours and row.mechanism != POISSON:
        said.append(
            "MinS is the most the population can sustain. Gboard's models reached 14% to 81% of it, so plan again with a "
            "--min-separation or --timer-hours that your devices can keep."
        )
    if answer.left_out:
        goals = ", ".join(str(goal) for goal in answer.left_out)
        said.append(
            f"Left out, because the population cannot fill them within --max-participation: report goal {goals}."
        )
    if row.timer_in_hours is not None and row.days is not None:
        said.append(
            f"A timer of {rounded_up(row.timer_in_hours, 3)} hours on each device holds MinS {row.min_separation}, if no round "
            f"is shorter than expected; training takes about {row.days:.3g} days."
        )
    sampled = [each for each in answer.rows if each.mechanism == POISSON and each.report_goal == row.report_goal]
    if sampled and row.mechanism != POISSON:
        said.append(_about_sampling(question, answer, sampled[-1]))
    if row.mechanism != POISSON:
        said.append("The noise is correlated over all rounds, without a restart. Each restart would add to rho.")
    if any(each.mechanism == "banded" for each in answer.rows):
        said.append("To make its noise, banded keeps up to MinS arrays of the model's size, blt at most 4.")
    said.append(
        "z is the noise multiplier of everything that a round releases. With adaptive clipping the update alone has a larger "
        "one, (z^-2 - (2 sigma_b)^-2)^(-1/2)."
    )
    return said


def assumptions(row: Row) -> list[str]:
    """What the recommended row's epsilon rests on."""
    said = [
        "each user's update is clipped, and noise of noise multiplier × clip is added",
        "one person is one user",
        "settings were not chosen by looking at these users",
    ]
    if row.mechanism == POISSON:
        said.append(
            "every round draws each user independently with probability report goal / population, and who was drawn "
            "stays secret"
        )
    else:
        said.append(
            f"no user takes part more than {row.max_participation} times, with at least {row.min_separation} rounds "
            "strictly between two of them; the ledger of the finished run shows what really happened"
        )
    return said


def described(row: Row) -> str:
    """The settings of a row, in words."""
    limits = "" if row.min_separation is None else f", MinS {row.min_separation} and MaxP {row.max_participation}"
    return f"{row.mechanism} with report goal {row.report_goal}, noise multiplier {rounded_up(row.noise_multiplier)}{limits}"


def target_text(target: Target) -> str:
    """The target as it was given."""
    return f"rho {target.rho:.4g}" if target.stated == "rho" else f"epsilon {target.epsilon:.4g}"


def _privacy(row: Row, question: Question) -> str:
    rho = "" if row.rho is None else f"rho {rounded_up(row.rho)}, "
    return f"{rho}epsilon {epsilon_text(row.epsilon)} at delta {question.delta:g}"


def _about_sampling(question: Question, answer: PlanAnswer, sampled: Row) -> str:
    """Whether uniform sampling would be better than the recommended row at its report goal."""
    row = answer.recommended
    if answer.reason in ("least error", "noise raised to the target"):
        better, measure = sampled.prefix_error < row.prefix_error, "error"
        figures = f"{rounded_up(sampled.prefix_error, 3)} against {rounded_up(row.prefix_error, 3)}"
    else:
        better, measure = sampled.epsilon < row.epsilon, "epsilon"
        figures = f"{epsilon_text(sampled.epsilon)} against {epsilon_text(row.epsilon)}"
    if better:
        return (
            f"Poisson sampling would be better here ({measure} {figures}). It requires that every round draws its users "
            "uniformly from all users, also those who are offline, and keeps the draw secret. If you can do that, add "
            "--uniform-sampling."
        )
    return (
        f"Poisson sampling is no better here ({measure} {figures}), even if users can be drawn uniformly and in secret. "
        "It pays when the noise multiplier of each round is about 1 or more, which takes a larger report goal; here it is "
        f"{rounded_up(sampled.noise_multiplier, 3)}."
    )
