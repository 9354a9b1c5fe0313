from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import RecipeError
from tacit.recipe.reading import read_toml


def test_a_byte_order_mark_is_no_part_of_a_recipe(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n', encoding="utf-8-sig")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_toml(path) == {"name": "mine"}


def test_utf_16_is_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n', encoding="utf-16")
    with pytest.raises(RecipeError, match=r"mine\.toml is not valid TOML: byte 1 is not UTF-8") as caught:
        read_toml(path)
    assert caught.value.hint == "Save the file as UTF-8."
