"""The recipe of an inspection of bias: public text is needed, and what it cannot have is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.errors import RecipeError
from tacit.recipe.bias_inspection import BIAS, load_bias_inspection, parse_bias_inspection
from tacit.recipe.reading import find_recipe


def test_the_recipe_that_comes_with_tacit_is_valid_and_comes_back(tmp_path: Path) -> None:
    recipe = load_bias_inspection(BIAS, ["bias.threshold=5"])
    assert recipe.bias.threshold == 5
    (tmp_path / "again.toml").write_text(recipe.to_toml())
    assert load_bias_inspection(tmp_path / "again.toml") == recipe
    stored = load_bias_inspection(BIAS, ["pretrain.world_seed=3"], store=Path("my store"))
    assert (stored.data.world, stored.data.store) == (None, "my store")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("bias.threshold=0", "Expected bias.threshold > 0, got 0."),
        ("data.layout=windows", "one sentence a row, got 'windows'"),
        ("data={store='x', iid=true, layout='sentences'}", r"expected data.iid = false in an inspection"),
        ("audit={plan='x'}", r"no \[audit\]"),
    ],
)
def test_what_does_not_fit_is_refused(change: str, said: str) -> None:
    with pytest.raises(RecipeError, match=f"(?i){said}"):
        load_bias_inspection(BIAS, [change])


def test_public_text_is_needed_and_another_kind_is_refused() -> None:
    tree = load_bias_inspection(BIAS).model_dump(mode="json", exclude_none=True)
    with pytest.raises(RecipeError, match=r"\[pretrain\], the public text"):
        parse_bias_inspection({key: value for key, value in tree.items() if key != "pretrain"})
    with pytest.raises(RecipeError, match='got one with inspect = "text"'):
        load_bias_inspection(find_recipe("inspect_text"))
