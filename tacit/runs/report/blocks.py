"""What a section of a report is made of: data, not markup.

Whoever writes a section (an audit, an inspection) says what there is to see; the page decides how it looks, in light, in
dark and on paper. Since there is no markup in a section, text from users or from a stranger's run cannot become any.

    Section(name="audit", title="The audit", order=60, blocks=[
        Paragraph(text="A canary is a sentence that was planted ..."),
        Table(columns=["canary", "rank"], rows=[["nine blue pens", "12"]]),
        Lines(x="round", y="rank", series=[Series(name="rank", points=[(0, 900), (10, 12)])]),
    ])
"""

from __future__ import annotations

import base64
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Paragraph(_Block):
    """Running text. `note`: an aside, set apart (a caveat, what is outside the guarantee)."""

    kind: Literal["paragraph"] = "paragraph"
    text: str
    note: bool = False


class Table(_Block):
    """Rows of text under column heads; a column whose cells all look like numbers is set flush right.

    `folded`: shown as its caption, to be opened by whoever wants the figures.
    """

    kind: Literal["table"] = "table"
    columns: list[str]
    rows: list[list[str]]
    caption: str = ""
    folded: bool = False

    @model_validator(mode="after")
    def _is_rectangular(self) -> Table:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"expected {len(self.columns)} cells in each row of the table")
        return self


class Code(_Block):
    """Text whose line ends and spaces matter: a recipe, a log, a command. `folded` as in a table."""

    kind: Literal["code"] = "code"
    text: str
    caption: str = ""
    folded: bool = False


class Series(_Block):
    """A named curve of (x, y) points."""

    name: str
    points: list[tuple[Finite, Finite]] = Field(min_length=1)


class Level(_Block):
    """A height to compare with."""

    name: str
    y: Finite


class Lines(_Block):
    """Up to four curves over one axis. `percent`: y is a fraction, shown as a percentage.

    Axes begin at zero, except y with `log`: powers of ten, for values that are far apart.
    """

    kind: Literal["lines"] = "lines"
    x: str
    y: str
    series: list[Series] = Field(min_length=1, max_length=4)
    levels: list[Level] = []
    percent: bool = False
    log: bool = False
    caption: str = ""


class Bars(_Block):
    """Counts, or any amounts of at least zero, by label: a histogram."""

    kind: Literal["bars"] = "bars"
    x: str
    y: str
    bars: list[tuple[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]] = Field(min_length=1, max_length=60)
    caption: str = ""


class Image(_Block):
    """A picture of one's own, in base64. It is shown as an image, so that nothing in an SVG can run."""

    kind: Literal["image"] = "image"
    media: Literal["image/png", "image/svg+xml"]
    data: str
    description: str
    caption: str = ""

    @field_validator("data")
    @classmethod
    def _is_base64(cls, data: str) -> str:
        base64.b64decode(data, validate=True)
        return data


Block = Annotated[Paragraph | Table | Code | Lines | Bars | Image, Field(discriminator="kind")]


class Section(_Block):
    """A part of the report. Sections stand by `order`, then by name; a run's own lie between 10 and 90.

    `private`: made from what only the run's owner may know, so it is kept where only the owner can read it, and left out
    of shared copies.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    title: str = Field(min_length=1)
    order: int = Field(ge=0, le=99)
    private: bool = False
    blocks: list[Block]
