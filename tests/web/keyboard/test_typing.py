"""Typing on the page: by physical keys, by mouse and by touch; corrections, completions, phrases, and what they save."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from tacit.data.users import BOS, EOS, OOV, PAD, RESERVED
from tacit.export.model_files import words_metadata
from tacit.keyboard.ngram import train_katz
from tacit.keyboard.ngram_tree import tree_of
from tacit.keyboard.taps import KEY_HEIGHT, ROWS

pytestmark = pytest.mark.process

WORDS = [*RESERVED, "see", "you", "tomorrow", "soon", "son", "it's", "its", "late", "the", "year", ",", ".", "años"]
SENTENCES = [
    *["see you tomorrow ."] * 12,
    *["you see the son"] * 3,
    *["it's late , see you soon"] * 3,
    *["its the year"] * 2,
    *["tomorrow"] * 2,
    *["you see años unknownword"] * 2,
]


@pytest.fixture(scope="module")
def counted() -> bytes:
    """A trigram model of a few sentences: everybody can see what it has to suggest."""
    number = {word: i for i, word in enumerate(WORDS)}
    rows = [[number.get(word, OOV) for word in sentence.split()] for sentence in SENTENCES]
    katz = train_katz(
        np.array([token for row in rows for token in row]),
        np.cumsum([0, *map(len, rows)]),
        order=3,
        vocabulary=len(WORDS),
        bos=BOS,
        eos=EOS,
        never=(PAD, BOS),
        provenance="made up",
        is_public=True,
    )
    about = {**words_metadata(WORDS), "architecture": json.dumps({"kind": "ngram", "order": 3})}
    return save(tree_of(katz), about)


@pytest.fixture
def page(made: Callable[[dict[str, bytes]], Any], counted: bytes) -> Any:
    return made({"counted": counted})


def text(page: Any) -> str:
    return str(page.locator("#message").input_value())


def strip(page: Any) -> list[str]:
    return [each.inner_text() for each in page.locator(".slot .word").all()]


def key(page: Any, letter: str) -> Any:
    return page.locator(f".letter-key[aria-label='{letter}']")


def test_physical_keys_type_and_suggestions_follow(page: Any) -> None:
    assert strip(page)[0] == "see"
    page.keyboard.type("see ")
    assert text(page) == "see "
    assert strip(page)[0] == "you"
    page.keyboard.type("you t")
    assert strip(page)[0] == "tomorrow"
    page.keyboard.press("Alt+1")
    assert text(page) == "see you tomorrow "
    page.keyboard.type(".")
    assert text(page) == "see you tomorrow. "
    page.keyboard.press("Enter")
    assert (text(page), page.locator(".messages li").all_inner_texts()) == ("", ["see you tomorrow."])
    assert strip(page)[0] == "see"


def test_a_mouse_types_and_takes_suggestions(page: Any) -> None:
    for letter in "see":
        key(page, letter).click()
    key(page, "Space").click()
    page.locator(".slot").first.click()
    assert text(page) == "see you "
    key(page, "Backspace").click()
    assert text(page) == "see you"
    assert page.evaluate("document.activeElement.id") == "message"


def test_a_finger_types(page: Any) -> None:
    for letter in "see":
        key(page, letter).tap()
    key(page, "Full stop").tap()
    assert text(page) == "see."
    key(page, "Send, to nobody").tap()
    assert page.locator(".messages li").all_inner_texts() == ["see."]


def test_keys_are_used_without_a_pointer(page: Any) -> None:
    key(page, "q").focus()
    for pressed in ("ArrowRight", "ArrowRight", "Enter", "ArrowDown"):
        page.keyboard.press(pressed)
    assert text(page) == "e"
    assert page.evaluate("document.activeElement.ariaLabel") in ("s", "d")
    assert page.locator(".keys [tabindex='0']").count() == 1


def test_taps_that_miss_a_key_are_understood_and_taken_back(page: Any) -> None:
    page.keyboard.type("see you ")
    for meant, hit in zip("tomorrow", "timoreow", strict=True):
        tap_near(page, meant, hit)
    assert text(page) == "see you timoreow"
    key(page, "Space").tap()
    assert text(page) == "see you tomorrow "
    assert "became “tomorrow”" in page.locator(".said").inner_text()
    key(page, "Backspace").tap()
    assert text(page) == "see you timoreow"
    key(page, "Space").tap()
    assert text(page) == "see you timoreow "  # taken back once, it stays


def tap_near(page: Any, meant: str, hit: str) -> None:
    """A tap on the key `hit`, at its edge on the side of `meant`."""
    box, target = (key(page, letter).bounding_box() for letter in (hit, meant))
    to_right = target["x"] - box["x"]
    x = box["x"] + box["width"] * (0.5 if to_right == 0 else 0.9 if to_right > 0 else 0.1)
    page.touchscreen.tap(x, box["y"] + box["height"] / 2)


def test_the_place_of_a_tap_decides(made: Callable[[dict[str, bytes]], Any]) -> None:
    words = [*RESERVED, "as", "ad"]
    about = {**words_metadata(words), "architecture": json.dumps({"kind": "ngram", "order": 1})}
    logs = np.log(np.array([1e-9, 1e-9, 0.1, 0.1, 0.6, 0.2], np.float32))
    page = made({"two words": save({"log_probabilities.1": logs}, about)})
    for meant, hit, understood in (("s", "d", "as"), ("f", "d", "ad"), ("a", "s", "as")):
        page.get_by_role("button", name="Start again").click()
        key(page, "a").tap()
        tap_near(page, meant, hit)
        key(page, "Space").tap()
        assert text(page) == f"{understood} "


def test_the_layout_on_screen_is_the_one_that_compare_taps_on(page: Any) -> None:
    box = page.locator(".keys").bounding_box()
    width = box["width"] / 10
    for row, (letters, shift) in enumerate(ROWS):
        for column, letter in enumerate(letters):
            at = key(page, letter).bounding_box()
            middle = ((at["x"] + at["width"] / 2 - box["x"]) / width, (at["y"] + at["height"] / 2 - box["y"]) / width)
            assert middle == pytest.approx((shift + column + 0.5, KEY_HEIGHT * (row + 0.5)), abs=0.03)


def test_words_are_corrected_as_compare_does_and_unknown_ones_are_kept(page: Any) -> None:
    page.keyboard.type("sew yiu ")  # both one key off
    assert text(page) == "see you "
    page.keyboard.type("qqzxqq ")
    assert text(page) == "see you qqzxqq "
    page.keyboard.type("anos ")
    assert text(page).endswith("años ")
    page.keyboard.type("Anos ")
    assert text(page).endswith("Años ")


def test_apostrophes_are_left_to_the_keyboard_or_typed(page: Any) -> None:
    page.keyboard.type("its ")
    assert text(page) in ("it's ", "its ")
    page.get_by_role("button", name="Start again").click()
    page.locator("#message").focus()
    page.keyboard.type("it's ")
    assert text(page) == "it's "


def test_corrections_can_be_switched_off(page: Any) -> None:
    page.get_by_label("Correct words").uncheck()
    page.locator("#message").focus()
    page.keyboard.type("sew yiu ")
    assert text(page) == "sew yiu "


@pytest.mark.parametrize("how", ["Tab", "ArrowRight", "click", "swipe"])
def test_a_phrase_in_grey_is_taken(page: Any, how: str) -> None:
    page.keyboard.type("see ")
    grey = page.locator(".phrase")
    assert grey.inner_text().startswith("you tomorrow")
    if how == "click":
        grey.click()
    elif how == "swipe":
        box = page.locator(".writing").bounding_box()
        for name, x in (("pointerdown", 20), ("pointerup", 120)):
            about = {"clientX": box["x"] + x, "clientY": box["y"] + 60, "pointerType": "touch", "bubbles": True}
            page.locator(".writing").dispatch_event(name, about)
    else:
        page.keyboard.press(how)
    assert text(page).startswith("see you tomorrow")
    assert "1 key" not in page.locator("#own-keys").inner_text()


def test_escape_hides_the_phrase_and_tab_then_moves_on(page: Any) -> None:
    page.keyboard.type("see ")
    page.keyboard.press("Escape")
    assert not page.locator(".phrase").is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "slot"
    assert text(page) == "see "


def test_there_is_no_phrase_inside_a_word_or_a_text(page: Any) -> None:
    page.keyboard.type("see")
    assert not page.locator(".phrase").is_visible()
    page.keyboard.type(" ")
    assert page.locator(".phrase").is_visible()
    page.keyboard.press("Home")
    page.locator(".phrase").wait_for(state="hidden")


def test_the_caret_inside_the_text_is_typed_at(page: Any) -> None:
    page.keyboard.type("see tomorrow")
    for _ in "tomorrow":
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("you ")
    assert text(page) == "see you tomorrow"
    page.keyboard.press("Control+a")
    page.keyboard.type("its ")
    assert text(page) in ("its ", "it's ")


def test_keystrokes_are_counted(page: Any) -> None:
    page.keyboard.type("see ")
    page.keyboard.press("Tab")
    words = text(page)
    sentence = page.locator("#own-keys").inner_text()
    assert sentence.startswith(f"You: 5 keys for {len(words)} characters: ")
    assert f"{round(100 * (1 - 5 / len(words)))}% saved" in sentence
    # "see" and "you" come before their first letter, and so does "tomorrow": a key each.
    page.locator(".savings dd", has_text="instead of").first.wait_for()


def test_savings_are_those_of_somebody_who_takes_every_suggestion(page: Any) -> None:
    page.keyboard.type("see you late ")
    # see: 1 key for 4. you: 1 for 4. late: not among the three before its first letter, but after it: 2 for 5.
    page.locator(".savings dd", has_text="of 13").first.wait_for()
    assert page.locator(".savings dd").first.inner_text() == "69% (4 instead of 13)"
    assert page.locator(".savings dd").nth(1).inner_text() == "67% of 3 words"


def test_probabilities_on_demand(page: Any) -> None:
    assert page.locator(".probability").count() == 0
    page.get_by_label("Probabilities").check()
    shown = page.locator(".slot .probability").all_inner_texts()
    assert len(shown) == 3
    assert all(each.endswith("%") for each in shown)
    page.wait_for_selector(".candidates .share-bar")
    assert page.locator(".candidates li").count() == 5


def test_several_models_answer_side_by_side(made: Callable[[dict[str, bytes]], Any], counted: bytes) -> None:
    page = made({"one": counted, "other": counted})
    page.keyboard.type("see ")
    page.locator(".savings dd", has_text="instead of").nth(1).wait_for()  # what a card shows last
    lists = [each.all_inner_texts() for each in (page.locator(".candidates").nth(i).locator("li") for i in (0, 1))]
    assert lists[0] == lists[1] == strip(page)
    assert page.locator(".model.in-use h3").inner_text() == "one"
    page.get_by_role("radio", name="other").check()
    assert page.locator(".model.in-use h3").inner_text() == "other"
    assert text(page) == "see "


def test_other_models_are_opened_anew(opened: Any, run: Any) -> None:
    names = opened.locator(".model h3").all_inner_texts()
    assert names == [run.name, f"{run.name}, pre-trained only", "n-gram"]


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (b"no model at all", "it is not a safetensors file"),
        (save({"a": np.zeros(3, np.float32)}, {"vocabulary": "[]"}), 'has no "reserved" in its metadata'),
        (
            save({"a": np.zeros(3, np.float32)}, {**words_metadata(WORDS), "architecture": "null"}),
            "this model is none of them",
        ),
        (
            save(
                {"a": np.zeros(3, np.float32)},
                {**words_metadata(WORDS), "architecture": '{"kind": "ngram", "order": 2}'},
            ),
            "the array log_probabilities.1 is missing",
        ),
        (
            save({"model.embedding": np.zeros((3, 2), np.float16)}, {**words_metadata(WORDS), "architecture": "{}"}),
            "has the type F16",
        ),
    ],
)
def test_a_model_that_cannot_be_run_is_refused_in_one_sentence(
    made: Callable[[dict[str, bytes]], Any], file: bytes, sentence: str
) -> None:
    page = made({"foreign": file})
    said = page.locator(".model p").inner_text()
    assert sentence in said
    assert said.endswith(".")
    assert "\n" not in said
