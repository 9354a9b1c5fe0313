from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.data.formats import ReadOptions, json_stream, read
from tacit.errors import DataError
from tests.support.leaf_files import leaf_file


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    users = {
        "ann é": {"x": ["to be", "or n\u00f6t"], "y": ["e", "t"]},
        "none": {"x": [], "y": []},
        "bob": {"x": ["is"], "y": [1]},
    }
    path = leaf_file(tmp_path / "a.json", users, hierarchies=["x"], version=1234)
    path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, indent=1))
    assert list(read(path, ReadOptions()).rows) == [(1, "ann é", "to be"), (1, "ann é", "or nöt"), (3, "bob", "is")]


def test_lists_of_words_and_lists_of_strings(tmp_path: Path) -> None:
    words = [[["<BOS>", "to", "be", "<EOS>", "<PAD>"], ["or", "not"]]]
    path = leaf_file(tmp_path / "reddit.json", {"ann": {"x": words, "y": []}})
    assert [text for _, _, text in read(path, ReadOptions()).rows] == ["to be", "or not"]
    path = leaf_file(tmp_path / "sent140.json", {"ann": {"x": [["1", "Mon", "q", "ann", "hello you", "t"]], "y": [0]}})
    assert [text for _, _, text in read(path, ReadOptions(text="4")).rows] == ["hello you"]
    with pytest.raises(DataError, match="neither text nor a list"):
        list(read(path, ReadOptions(text="9")).rows)
    with pytest.raises(DataError, match="Expected the number of the text"):
        read(path, ReadOptions(text="body"))


def test_images(tmp_path: Path) -> None:
    image = [1.0] * 784
    image[0] = 0.0
    path = leaf_file(tmp_path / "femnist.json", {"w1": {"x": [image, image], "y": [3, 61]}, "w2": {"x": [], "y": []}})
    ((_, user, images, labels),) = read(path, ReadOptions()).rows
    assert (user, images.shape, labels.tolist()) == ("w1", (2, 28, 28), [3, 61])
    assert images[0, 0, :2].tolist() == [255, 0]
    assert images.dtype == np.uint8


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"x": [[1.0] * 785], "y": [1]}, "images are 785; expected 28×28"),
        ({"x": [[1.0] * 784, [1.0]], "y": [1, 2]}, "differ in size"),
        ({"x": [[1.0] * 784], "y": [1, 2]}, "1 images and 2 labels"),
        ({"x": ["text", 5], "y": []}, "neither text nor a list"),
        ({"x": "text"}, "user 1 has no list 'x'"),
    ],
)
def test_bad_users(tmp_path: Path, data: Any, sentence: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"user_data": {"ann": data}}))
    with pytest.raises(DataError, match=sentence):
        list(read(tmp_path / "a.json", ReadOptions()).rows)


@pytest.mark.parametrize("content", ['{"users": [', "7", "{} trailing", '{"user_data": {"a": {"x": ["b"]', "hello"])
def test_broken_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=r"not valid JSON in LEAF's layout|has no users"):
        list(read(tmp_path / "a.json", ReadOptions()).rows)
    (tmp_path / "a.json").write_bytes(b'{"\xff": 1}')
    with pytest.raises(DataError, match="UTF-8"):
        list(read(tmp_path / "a.json", ReadOptions()).rows)
