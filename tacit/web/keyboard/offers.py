"""What a page is told of a model before it loads it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

Kind = Literal["trained", "pretrained", "ngram"]


class OfferedModel(BaseModel):
    """A model that the page can load, or the reason why it cannot."""

    key: str = Field(description="names the model's file in addresses")
    run: str
    name: str
    kind: Kind
    badge: str = Field(description="its privacy in two or three words")
    is_private: bool = Field(description="a finite epsilon is claimed, or nobody private was read")
    statement: str = Field(description="the guarantee in one sentence, or what the model has read")
    meaning: str = Field(description="what the statement means for one person")
    problem: str | None = Field(default=None, description="why the model cannot be had; then nothing of it is served")
