"""The images of two generative models, and what their differences mean: a section of the report and sentences.

Every image shown was generated from released models; no real image is shown. If a run cannot claim privacy, the section is for
the owner alone, because a generated image may then be a copy of somebody's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.inspection.costs import price_together
from tacit.inspection.fault_scores import InversionScore
from tacit.privacy.statement.wording import round_up
from tacit.runs.report.blocks import Bars, Block, Paragraph, Section, Table
from tacit.runs.report.pictures import grid, picture

SHOWN, COLUMNS = 64, 8
# A difference of this size between the shares of images with a bright background is not an accident of training.
TELLING = 0.5
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
}


@dataclass(frozen=True)
class ImageFindings:
    """The scores of both sides' images, and how their users were selected.

    `histogram` is the released one, the share of users by accuracy; `thresholds` are the low and high one of the selection
    (None: by example); `accuracy` is the classifier's on held-out users before the fault and with it. `privacy` is the cost
    of each run, `together` that of all of them (`inspection.costs`).
    """

    by: str
    scores: Mapping[str, InversionScore]
    made: int
    histogram: tuple[float, ...]
    thresholds: tuple[float, float] | None
    accuracy: tuple[float, float]
    privacy: Mapping[str, Mapping[str, Any]]
    together: Mapping[str, Any]

    def conclusion(self) -> str:
        """The differences between both sides, in one paragraph."""
        who = WHO[self.by]
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

    def price(self) -> str:
        """The cost of all runs together, or why none can be claimed."""
        return price_together(self.together)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; an infinite epsilon is null."""
        return {
            "by": self.by,
            "made": self.made,
            "scores": {side: dataclasses.asdict(score) for side, score in self.scores.items()},
            "histogram": list(self.histogram),
            "thresholds": None if self.thresholds is None else list(self.thresholds),
            "accuracy": {"before": self.accuracy[0], "now": self.accuracy[1]},
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
                f"{score.confidence:.3f}",
                f"{score.negative_confidence:.3f}",
            ]
            for side, score in self.scores.items()
        ]

    def section(self, images: Mapping[str, NDArray[np.uint8]]) -> Section:
        """A section of the report with the generated images; for the owner alone unless privacy can be claimed."""
        claimed = self.together["epsilon"] is not None
        edges = np.arange(len(self.histogram)) / len(self.histogram)
        bars = [(f"{edge:.0%}", max(share, 0.0)) for edge, share in zip(edges, self.histogram, strict=True)]
        blocks: list[Block] = [Paragraph(text=self.conclusion())]
        for side, made in images.items():
            who = WHO[self.by][side]
            sheet = grid(made[:SHOWN], COLUMNS)
            blocks.append(picture(sheet, f"{SHOWN} images generated after {who}", f"Generated after {who}"))
        blocks += [
            Table(columns=SCORE_COLUMNS, rows=self.score_rows()),
            Bars(x="accuracy of the classifier on a user", y="share of users, as released", bars=bars),
            Paragraph(text=" ".join([*self._chosen(), BELOW_ZERO]), note=True),
            Table(
                columns=["run", "ε", "δ", "releases"], rows=[*map(_cost_row, *zip(*self.privacy.items(), strict=True))]
            ),
            Paragraph(text=f"{GIVEN} {self.price()}" if claimed else f"{self.price()} {NO_CLAIM}", note=True),
            Paragraph(text=OUTSIDE, note=True),
        ]
        title = "Images, as two models generate them"
        return Section(name="inspection", title=title, order=5, private=not claimed, blocks=blocks)

    def _chosen(self) -> list[str]:
        """The thresholds as a sentence, if users were selected by them."""
        if self.thresholds is None:
            return []
        low, high = self.thresholds
        return [f"Low accuracy is at most {low:.1%}, high accuracy at least {high:.1%}."]


SCORE_COLUMNS = ["generated after", "bright background", "mean intensity", "classifier's confidence", "on negatives"]


def _cost_row(name: str, privacy: Mapping[str, Any]) -> list[str]:
    epsilon = "∞" if privacy["epsilon"] is None else round_up(privacy["epsilon"])
    return [name, epsilon, f"{privacy['delta']:g}", str(privacy["releases"])]
