"""Results of `tacit inspect`."""

from __future__ import annotations

from typing import Literal

from tacit.cli.results.base import Result, key, sometimes
from tacit.cli.results.privacy import AtScale, RunPrivacy, TogetherCost
from tacit.cli.results.runs import Metrics


class UnknownWords(Result):
    """How many words the vocabulary does not have."""

    overall: float = key("the share of all words")
    by_place: list[float] = key("the share by place in the sentence, the first word first")


class PrimaryModel(Result):
    """The next-word model that was inspected too."""

    run: str = key("its run's folder")
    run_id: str = key("its run's id")
    accuracy: float = key("the share of held-out words that a keyboard with it suggests first, outside the guarantee")
    papers_accuracy: float = key("the same by the papers' metric")
    words: int = key("how many held-out words")
    sentences: list[str] = key("sentences that it makes up; empty if they are withheld")
    rates: UnknownWords | None = key("unknown words in them; null if they are withheld")
    epsilon: float | None = key("epsilon of its run; null if it is infinite")
    delta: float = key("delta of its run")


class TextFindings(Result):
    """What a model of unknown words makes up."""

    words: list[tuple[str, float]] = key("its likeliest words, with their probabilities")
    with_space: float = key("the share of them that contain a space")
    with_capital: float = key("the share that contain a capital letter")
    drawn: int = key("how many words were drawn at random")
    drawn_with_space: float = key("the share of these that contain a space")
    drawn_with_capital: float = key("the share that contain a capital letter")
    unknown_words: UnknownWords = key("counted on held-out users without noise, outside the guarantee")
    primary: PrimaryModel | None = key("the next-word model; null if none was given")


class InspectTextResult(Result):
    """An inspection of text."""

    run: str = key("the run's folder")
    rounds: int = key("how many rounds were trained")
    parameters: int = key("how many parameters the model has")
    metrics: Metrics = key("how well it spells words of held-out users")
    privacy: RunPrivacy = key("what the run costs its users")
    at_scale: AtScale | None = sometimes("an estimate for a larger run; if the recipe has `[scale]`")
    together: TogetherCost | None = sometimes("the cost of this model and the next-word model; if one was given")
    inspection: TextFindings = key("what was found")
    conclusion: str = key("the fault that the words point to, in sentences")


class InspectCompareResult(Result):
    """Two inspections of text."""

    before: TextFindings = key("the earlier one")
    after: TextFindings = key("the later one")
    new_words: list[str] = key("likely words of the later one that the earlier one does not have")
    conclusion: str = key("what has changed, in sentences")
    privacy: TogetherCost = key("the cost of all models together")


class BiasFound(Result):
    """What a model of people's unlikely sentences makes up."""

    threshold: float = key("the surprise of the public model from which sentences were learned, in nats per word")
    words: list[tuple[str, float, float]] = key(
        "words that it uses more often than the public model, with how often in a thousand words, of either; empty if withheld"
    )
    sentences: list[str] = key("sentences that it makes up; empty if they are withheld")
    conclusion: str = key("what people write that the public text does not have, in a sentence")


class InspectBiasResult(Result):
    """An inspection of bias."""

    run: str = key("the run's folder")
    rounds: int = key("how many rounds were trained")
    parameters: int = key("how many parameters the model has")
    metrics: Metrics = key("how well it predicts all sentences of held-out users")
    privacy: RunPrivacy = key("what the run costs its users")
    at_scale: AtScale | None = sometimes("an estimate for a larger run; if the recipe has `[scale]`")
    bias: BiasFound = key("what was found")


class ImageScore(Result):
    """How inverted made-up images are."""

    brightness: float = key("the mean pixel, from 0 to 1")
    inverted: float = key("the share of images with a bright background")
    confidence: float | None = key("the classifier's mean confidence in them; null if there is none")
    negative_confidence: float | None = key("its mean confidence in their negatives; null if there is none")


class BeforeAndNow(Result):
    """The classifier's accuracy on held-out images, outside the guarantee."""

    before: float = key("without the fault")
    now: float = key("with it")


class StagesPrivacy(Result):
    """The cost of an inspection's runs."""

    runs: dict[str, RunPrivacy] = key("of each run, given what earlier ones released")
    together: TogetherCost = key("of all of them, which is what counts for the images")


class InspectImagesResult(Result):
    """An inspection of images."""

    folder: str = key("the folder of its runs")
    by: Literal["user", "example", "all", "unlabelled"] = key(
        "whether users or examples were selected by accuracy, or all images, with or without their labels"
    )
    made: int = key("how many images each model made up")
    scores: dict[str, ImageScore] = key("of the sides `high` and `low`, or of `all`")
    histogram: list[float] | None = key("the share of users by accuracy, as released with noise; null for all images")
    histogram_before: list[float] | None = key(
        "the same before the fault, if the thresholds are percentiles of it; otherwise null"
    )
    thresholds: list[float] | None = key("the low and the high threshold of accuracy; null unless by user")
    accuracy: BeforeAndNow | None = key("of the classifier; null for all images, which need none")
    privacy: StagesPrivacy = key("what it costs the users")
    conclusion: str = key("the fault that the images point to, in sentences")
