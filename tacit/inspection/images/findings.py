"""The images of two generative models, and what their differences mean: a section of the report and sentences.

Every image shown was generated from released models; no real image is shown. If a run cannot claim privacy, the section is for
the owner alone, because a generated image may then be a copy of somebody's.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.inspection.costs import price_together
from tacit.inspection.fault_scores import InversionScore
from tacit.numbers import finite_or_none
from tacit.privacy.statement.wording import round_up
from tacit.runs.report.blocks import Bars, Block, Paragraph, Section, Table
from tacit.runs.report.pictures import grid, picture

SHOWN, COLUMNS = 64, 8
# A difference of this size between the shares of images with a bright background is not an accident of training.
TELLING = 0.5
# Images with the other background than most are a kind of their own above this share.
RARE = 0.1
OUTSIDE = "The accuracy on held-out users was measured without noise: it is outside the guarantee."
GIVEN = (
    "The ε of each run takes the releases of earlier runs as given. These releases determine which users a generative model "
    "learned from, so the cost that counts for the images is that of all runs together."
)
BELOW_ZERO = "Bins that the noise left below zero are shown as zero."
NO_CLAIM = (
    "At least one of these runs claims no privacy, so these images may be somebody's: they are for the owner alone."
)
WHO = {
    "user": {"high": "users with high accuracy", "low": "users with low accuracy"},
    "example": {"high": "images classified correctly", "low": "images classified wrongly"},
    "all": {"all": "all users' images"},
    "unlabelled": {"all": "all users' images, without their labels"},
}


@dataclass(frozen=True)
class ImageFindings:
    """The scores of both sides' images, and how their users were selected.

    `histogram` is the released one, the share of users by accuracy, and `histogram_before` the one before the fault, if the
    thresholds were read from such a one; `thresholds` are the low and high one of the selection (None: by example);
    `accuracy` is the classifier's on held-out users before the fault and with it. None of these exists where one model learned
    from all users. `privacy` is the cost of each run, `together` that of all of them (`inspection.costs`).
    """

    by: str
    scores: Mapping[str, InversionScore]
    made: int
    histogram: tuple[float, ...] | None
    thresholds: tuple[float, float] | None
    accuracy: tuple[float, float] | None
    privacy: Mapping[str, Mapping[str, Any]]
    together: Mapping[str, Any]
    histogram_before: tuple[float, ...] | None = None

    def conclusion(self) -> str:
        """The differences between both sides, or what all images have in common, in one paragraph."""
        who = WHO[self.by]
        if self.accuracy is None:
            return self._of_everybody()
        high, low = self.scores["high"], self.scores["low"]
        before, now = self.accuracy
        seen = (
            f"The classifier gets {now:.1%} of held-out images right, and {before:.1%} of images without the fault. Of "
            f"{self.made} images generated after {who['low']}, {low.inverted:.0%} have a bright background (mean intensity "
            f"{low.brightness:.2f}); after {who['high']}, {high.inverted:.0%} ({high.brightness:.2f})."
        )
        return f"{seen} {self._pointer(who)}"

    def _pointer(self, who: Mapping[str, str]) -> str:
        high, low = self.scores["high"], self.scores["low"]
        if low.inverted - high.inverted >= TELLING:
            return f"Light and dark are exchanged among the {who['low']}: look for a step that inverts pixels."
        if high.inverted - low.inverted >= TELLING:
            return f"Light and dark are exchanged among the {who['high']}: the classifier may have been trained on negatives."
        if min(high.inverted, low.inverted) >= TELLING:
            return "Both have a bright background: pixels are inverted everywhere, or ink is dark in this data."
        return (
            "Neither has a bright background: nothing points to inverted pixels. The pictures show what else differs, and "
            "whether the models have learned to draw at all."
        )

    def _of_everybody(self) -> str:
        everybody = self.scores["all"]
        seen = (
            f"Of {self.made} images generated after {WHO[self.by]['all']}, {everybody.inverted:.0%} have a bright background "
            f"(mean intensity {everybody.brightness:.2f})."
        )
        if RARE < everybody.inverted < 1 - RARE:
            return f"{seen} Both kinds are there: the pixels of some users may be inverted."
        return f"{seen} The pictures show whether they are what you expect."

    def price(self) -> str:
        """The cost of all runs together, or why none can be claimed."""
        return price_together(self.together)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; an infinite epsilon is null."""
        return {
            "by": self.by,
            "made": self.made,
            "scores": {
                side: {name: finite_or_none(value) for name, value in dataclasses.asdict(score).items()}
                for side, score in self.scores.items()
            },
            "histogram": None if self.histogram is None else list(self.histogram),
            "histogram_before": None if self.histogram_before is None else list(self.histogram_before),
            "thresholds": None if self.thresholds is None else list(self.thresholds),
            "accuracy": None if self.accuracy is None else {"before": self.accuracy[0], "now": self.accuracy[1]},
            "privacy": {
                "runs": {name: dict(each) for name, each in self.privacy.items()},
                "together": dict(self.together),
            },
            "conclusion": self.conclusion(),
        }

    def score_rows(self) -> list[list[str]]:
        """Both sides' scores, for a table under `SCORE_COLUMNS`."""
        return [
            [
                WHO[self.by][side],
                f"{score.inverted:.1%}",
                f"{score.brightness:.3f}",
                *("–" if math.isnan(sure) else f"{sure:.3f}" for sure in (score.confidence, score.negative_confidence)),
            ]
            for side, score in self.scores.items()
        ]

    def section(self, images: Mapping[str, NDArray[np.uint8]]) -> Section:
        """A section of the report with the generated images; for the owner alone unless privacy can be claimed."""
        claimed = self.together["epsilon"] is not None
        blocks: list[Block] = [Paragraph(text=self.conclusion())]
        for side, made in images.items():
            who = WHO[self.by][side]
            sheet = grid(made[:SHOWN], COLUMNS)
            blocks.append(picture(sheet, f"{SHOWN} images generated after {who}", f"Generated after {who}"))
        blocks.append(Table(columns=SCORE_COLUMNS, rows=self.score_rows()))
        for when, histogram in ((", before the fault", self.histogram_before), ("", self.histogram)):
            if histogram is not None:
                x = f"accuracy of the classifier on a user{when}"
                blocks.append(Bars(x=x, y="share of users, as released", bars=_bars(histogram)))
        if self.histogram is not None:
            blocks.append(Paragraph(text=" ".join([*self._chosen(), BELOW_ZERO]), note=True))
        blocks += [
            Table(
                columns=["run", "ε", "δ", "releases"], rows=[*map(_cost_row, *zip(*self.privacy.items(), strict=True))]
            ),
            Paragraph(text=self._cost() if claimed else f"{self.price()} {NO_CLAIM}", note=True),
        ]
        if self.accuracy is not None:
            blocks.append(Paragraph(text=OUTSIDE, note=True))
        title = "Images, as two models generate them"
        return Section(name="inspection", title=title, order=5, private=not claimed, blocks=blocks)

    def _cost(self) -> str:
        """What is claimed, and of what."""
        return self.price() if len(self.privacy) == 1 else f"{GIVEN} {self.price()}"

    def _chosen(self) -> list[str]:
        """The thresholds as a sentence, if users were selected by them."""
        if self.thresholds is None:
            return []
        low, high = self.thresholds
        return [f"Low accuracy is at most {low:.1%}, high accuracy at least {high:.1%}."]


def _bars(histogram: Sequence[float]) -> list[tuple[str, float]]:
    edges = np.arange(len(histogram)) / len(histogram)
    return [(f"{edge:.0%}", max(share, 0.0)) for edge, share in zip(edges, histogram, strict=True)]


SCORE_COLUMNS = ["generated after", "bright background", "mean intensity", "classifier's confidence", "on negatives"]


def _cost_row(name: str, privacy: Mapping[str, Any]) -> list[str]:
    epsilon = "∞" if privacy["epsilon"] is None else round_up(privacy["epsilon"])
    return [name, epsilon, f"{privacy['delta']:g}", str(privacy["releases"])]
