"""Routes of the planner: the same questions and answers as `tacit plan`, and the curves around the recommended row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from tacit.privacy.planning.asking import Asked, answer_as_dict, question_of
from tacit.privacy.planning.curves import INSTANT, POINTS, SEARCHED_POINTS, PlanCurves
from tacit.privacy.planning.planner import PlanAnswer, Question, Row, Target, plan

# Answers that are kept: a slider that goes back finds the one from before.
KEPT = 256
_Found = TypeVar("_Found")


class PlanQuestion(BaseModel):
    """The options of tacit plan, under their names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    population: int
    rounds: int
    delta: float
    epsilon: float | None = None
    rho: float | None = None
    simulated_noise: float | None = None
    simulated_report_goal: int | None = None
    noise_on_mean: float | None = None
    simulated_mechanism: str = "tree"
    devices_per_round: int | None = None
    devices_per_day: float | None = None
    round_minutes: float | None = None
    timer_hours: list[float] = Field(default=[], max_length=5)
    min_separation: list[int] = Field(default=[], max_length=5)
    max_participation: int | None = None
    report_goal: list[int] = Field(default=[], max_length=6)
    uniform_sampling: bool = False
    mechanism: list[str] = Field(default=[], max_length=6)

    def asked(self) -> Asked:
        """The same as the command's options; lists become tuples, so that an answer can be kept."""
        given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in self}
        return Asked(**given)


class PlanView(BaseModel):
    """The table, and the row that is recommended. Figures that are infinite are null."""

    epsilon: float | None
    delta: float
    rho: float | None
    adjacency: str
    accountant: str
    assumptions: list[str]
    target: Target | None
    recommended: Row
    reason: str
    why: str
    notes: list[str]
    rows: list[Row]


class PlanCurve(BaseModel):
    """A curve of the picture. `own`: the recommended row lies on it."""

    name: str
    own: bool
    points: Sequence[tuple[float, float]] = Field(description="where a value is infinite, it is null")


class PlanPicture(BaseModel):
    """Epsilon over the report goal by mechanism, and rho over it by population and by rounds, as tacit plan --plot draws."""

    mechanism: str = Field(description="the mechanism of the curves of rho")
    by_mechanism: list[PlanCurve]
    by_population: list[PlanCurve]
    by_rounds: list[PlanCurve]


def plan_routes() -> APIRouter:
    """The routes of the planner. It reads no run."""
    router = APIRouter(prefix="/api/plan")
    answers, pictures = ThreadPoolExecutor(1, "tacit plan"), ThreadPoolExecutor(1, "tacit plan picture")

    def run(where: ThreadPoolExecutor, call: Callable[[Asked], _Found], asked: PlanQuestion) -> _Found:
        return where.submit(call, asked.asked()).result()

    @router.get("")
    def answer(asked: Annotated[PlanQuestion, Query()]) -> PlanView:
        """What tacit plan --json prints for these options."""
        question, found = run(answers, _answered, asked)
        return PlanView.model_validate(answer_as_dict(question, found))

    @router.get("/picture")
    def picture(asked: Annotated[PlanQuestion, Query()]) -> PlanPicture:
        """The curves around the recommended row. They may take seconds, where noise is searched for each point."""
        return run(pictures, _pictured, asked)

    return router


@lru_cache(KEPT)
def _answered(asked: Asked) -> tuple[Question, PlanAnswer]:
    question = question_of(asked)
    return question, plan(question)


@lru_cache(KEPT)
def _pictured(asked: Asked) -> PlanPicture:
    question, answer = _answered(asked)
    curves = PlanCurves(question, answer.recommended)
    goals = curves.goals()
    by_mechanism = []
    for name in dict.fromkeys([*question.mechanisms, curves.mechanism]):
        at = curves.goals(POINTS if name in INSTANT else SEARCHED_POINTS)
        points = [(float(goal), curves.epsilon(name, goal)) for goal in at]
        by_mechanism.append(PlanCurve(name=name, own=name == curves.row.mechanism, points=points))
    by_population = []
    for factor in (0.25, 1, 4):
        population = round(factor * curves.population)
        points = [
            (float(goal), curves.rho(goal, curves.held_gap(goal, population, curves.rounds), curves.rounds))
            for goal in goals
            if goal <= population
        ]
        by_population.append(PlanCurve(name=f"{population:,} users", own=factor == 1, points=points))
    by_rounds = []
    for rounds, _, own in curves.rounds_beside():
        points = [
            (float(goal), curves.rho(goal, curves.held_gap(goal, curves.population, rounds), rounds)) for goal in goals
        ]
        by_rounds.append(PlanCurve(name=f"{rounds:,} rounds", own=own, points=points))
    return PlanPicture(
        mechanism=curves.mechanism, by_mechanism=by_mechanism, by_population=by_population, by_rounds=by_rounds
    )
