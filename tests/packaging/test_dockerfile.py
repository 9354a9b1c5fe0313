"""The Dockerfile names what is there: files of this checkout, extras of the package, a Python that the package supports."""

from __future__ import annotations

import fnmatch
import re
import shlex
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def arguments(name: str) -> list[str]:
    return [words for instruction, words in INSTRUCTIONS if instruction == name]


def in_context(name: str) -> bool:
    """Whether .dockerignore lets this file or folder into the build; its last line that fits decides."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatchcase(name, line.removeprefix("!")):
            kept = line.startswith("!")
    return kept


def test_everything_that_is_copied_exists_and_enters_the_build() -> None:
    sources = [
        name for words in arguments("COPY") if not words.startswith("--from=") for name in shlex.split(words)[:-1]
    ]
    assert {"pyproject.toml", "README.md", "LICENSE", "tacit", "recipes"} <= set(
        sources
    )  # what the wheel is built from
    for name in sources:
        assert (ROOT / name).exists(), name
        assert in_context(name), f"{name} is excluded by .dockerignore"


def test_nothing_else_enters_the_build() -> None:
    assert not any(in_context(name) for name in ("runs", "stores", "my_data", ".venv", ".git", "tests"))


def test_what_the_later_stage_copies_was_made_by_the_first() -> None:
    (stage,) = re.findall(r" AS (\w+)", arguments("FROM")[0])
    copied = [words for words in arguments("COPY") if words.startswith("--from=")]
    assert copied
    for words in copied:
        origin, source, target = shlex.split(words)
        assert origin == f"--from={stage}"
        assert f"venv {source} " in " ".join(arguments("RUN"))
        assert source == target  # an environment cannot be moved: its scripts name its folder
        assert f"PATH={source}/bin:$PATH" in " ".join(arguments("ENV"))


def test_it_starts_tacit_in_data_as_nobody_special() -> None:
    (user,) = arguments("USER")
    assert user != "root"
    assert f" {user} " in arguments("RUN")[-1]
    assert arguments("WORKDIR")[-1] == arguments("VOLUME")[0] == "/data"
    assert arguments("ENTRYPOINT") == ['["tacit"]']
    assert "tacit" in PROJECT["scripts"]


def test_python_and_the_extras_that_it_speaks_of_are_the_package_s() -> None:
    version = next(words.removeprefix("PYTHON=") for words in arguments("ARG") if words.startswith("PYTHON="))
    least = PROJECT["requires-python"].removeprefix(">=")
    assert tuple(map(int, version.split("."))) >= tuple(map(int, least.split(".")))
    (spoken,) = re.findall(r"--build-arg EXTRAS=(\S+)", (ROOT / "Dockerfile").read_text())
    assert set(spoken.split(",")) <= set(PROJECT["optional-dependencies"])
