"""Results of the commands that use a model: predict, keyboard, compare, export."""

from __future__ import annotations

from tacit.cli.results.base import OpenResult, Result, key, sometimes


class Suggestion(Result):
    """A word that may come next."""

    word: str = key("the word")
    probability: float = key("its probability among all entries")


class PredictResult(Result):
    """The likeliest next words."""

    text: str = key("what was typed")
    suggestions: list[Suggestion] = key("the likeliest first")
    unknown: list[str] = key("typed words that the vocabulary does not have")


class KeyboardResult(Result):
    """A page to type on, which is served from now on until Ctrl-C."""

    address: str = key("where the page is")
    runs: list[str] = key("the folders of the runs whose models it has")


class ModelPrivacy(OpenResult):
    """The privacy of a model that is compared: a run's, or that of counted n-grams."""

    counted_on: str | None = sometimes("n-grams: whose text was counted")
    is_public: bool | None = sometimes("n-grams: whether that text is public")
    epsilon: float | None = sometimes("runs: epsilon; null if it is infinite")
    delta: float | None = sometimes("runs: the delta that epsilon is stated for")
    rounds: str | None = sometimes("runs: which rounds epsilon is that of")
    reasons_not_private: list[str] | None = sometimes("runs: why epsilon is infinite")
    reason_codes: list[str] | None = sometimes("runs: the same reasons as codes")


class RelativeChange(Result):
    """A change against the baseline."""

    relative: float | None = key("(new - baseline) / baseline; null if the baseline is 0 or undefined")
    low: float | None = key("the lower end of its 95% interval")
    high: float | None = key("the upper end of its 95% interval")


class ComparedResult(Result):
    """A model that was compared."""

    model: str = key("the model, as it was named")
    privacy: ModelPrivacy = key("its privacy")
    metrics: dict[str, float | None] = key("what was measured, by name; null if undefined")
    changes: dict[str, RelativeChange] = key("changes against the baseline, by metric; empty for the baseline")


class CompareResult(Result):
    """Models against a baseline, on the same typing."""

    on: str = key("whose typing was replayed")
    users: int = key("how many held-out users")
    words: int = key("how many words")
    buckets: int = key("how many buckets of users the intervals use")
    outside_guarantee: bool = key("true: no guarantee covers these figures")
    models: list[ComparedResult] = key("each model, the baseline first")


class OnnxFile(Result):
    """An ONNX file, and how well it agrees with the model."""

    file: str = key("the file that was written")
    bytes: int = key("its size")
    contexts: int = key("in how many contexts it was compared with the model")
    same: int = key("in how many of them the words came in the same order")
    largest_difference: float = key("of a shown word's probability, relative to it")
    largest_logit_difference: float = key("of a logit, absolute")


class SafetensorsFile(Result):
    """A safetensors file."""

    file: str = key("the file that was written")
    bytes: int = key("its size")


class ExportResult(Result):
    """Files with a run's model."""

    guarantee: str = key("the guarantee in one sentence, which is also in the files")
    onnx: OnnxFile | None = sometimes("with --onnx")
    safetensors: SafetensorsFile | None = sometimes("with --safetensors")
