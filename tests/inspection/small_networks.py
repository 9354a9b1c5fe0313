"""Networks so small that a whole inspection of images takes seconds, under the names of the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tacit.models import classifier, gan


@pytest.fixture(scope="module", autouse=True)
def small_networks() -> Iterator[None]:
    """While a module that imports this is tested, "small" is smaller still."""

    def shape(name: str, classes: int) -> classifier.ClassifierConfig:
        return classifier.ClassifierConfig(classes, (2, 4), sides=(4, 4), strides=(2, 2), pooled=False, hidden=8)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(gan.PRESETS, "small", gan.GanConfig(4, 8, (4, 4, 2), (2, 4), 8))
        patch.setattr(classifier, "preset", shape)
        yield
