"""Route of the papers: the recorded experiments as charts and tables.

`papers.json` travels in the package. `python experiments/papers.py` writes it from the results in docs/experiments, and a test
checks that it is current.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, model_validator

RECORDED = Path(__file__).parent / "papers.json"
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PaperCurve(_Part):
    """A named curve. `dots`: points that are not connected. `labels`: what each point is, if not all are alike.

    `colour`: curves of the same number belong together; by default each curve has a colour of its own.
    """

    name: str
    points: list[tuple[Finite, Finite]] = Field(min_length=1)
    dashed: bool = False
    dots: bool = False
    colour: int | None = Field(default=None, ge=0, lt=6)
    labels: list[str] = []

    @model_validator(mode="after")
    def _has_a_label_a_point(self) -> PaperCurve:
        if self.labels and len(self.labels) != len(self.points):
            raise ValueError(f"expected {len(self.points)} labels")
        return self


class PaperChart(_Part):
    """Curves over one axis. `percent`: y is a share."""

    title: str
    x: str
    y: str
    curves: list[PaperCurve] = Field(min_length=1, max_length=8)
    percent: bool = False
    log: bool = False
    log_x: bool = False
    from_zero: bool = True
    note: str = ""


class PaperTable(_Part):
    """Rows of text. A column of a paper's figures says so in its head."""

    title: str
    columns: list[str]
    rows: list[list[str]]

    @model_validator(mode="after")
    def _is_rectangular(self) -> PaperTable:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"expected {len(self.columns)} cells in each row of the table {self.title}")
        return self


class Experiment(_Part):
    """What was recorded of one experiment: its charts begin with the one that says most."""

    name: str
    title: str
    papers: list[str] = Field(description="the papers that it follows")
    what: str = Field(description="what was measured, on whom, and what may not be claimed")
    page: str = Field(description="its page in the documentation")
    sources: list[str] = Field(description="the files of results that its figures are from")
    commands: list[str] = Field(description="what makes these results")
    charts: list[PaperChart] = Field(min_length=1)
    tables: list[PaperTable]


class Papers(_Part):
    experiments: list[Experiment]


@cache
def recorded() -> Papers:
    """The recorded experiments that are in the package."""
    return Papers.model_validate_json(RECORDED.read_text(encoding="utf-8"))


def paper_routes() -> APIRouter:
    """The route of the recorded experiments."""
    router = APIRouter(prefix="/api/papers")

    @router.get("")
    def papers() -> Papers:
        """Every recorded experiment, with its charts and tables."""
        return recorded()

    return router
