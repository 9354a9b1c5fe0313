"""The wheel, built from this checkout and used outside of it: what it holds, and that a new user can train with it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import tacit

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
# The demo on few users and for few rounds.
SMALL = ("run.rounds=4", "run.evaluate_every=2", "data.users=400", "data.held_out=2", "privacy.population=400")
SMALL += ("privacy.cohort=10", "privacy.delta=1e-4")


def checked(*command: str | Path, cwd: Path) -> str:
    """Run a command without a trace of this checkout in its environment; what it prints on stdout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(source: Path, out: Path, target: str) -> Path:
    """The wheel or the source archive of a source tree, in the folder `out`."""
    command = (sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out))
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl" if target == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("archive"), "sdist")


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it, and whether its dependencies came from the package index."""

    folder: Path
    from_index: bool

    @property
    def tacit(self) -> Path:
        return self.folder / "bin" / "tacit"

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A new environment with the wheel; if the package index cannot be reached, with the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("environment")
    checked(sys.executable, "-m", "venv", folder, cwd=folder)
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    from_index = reachable(folder)
    if from_index:
        checked(*pip, "--constraint", LOCK, wheel, cwd=folder)
    else:
        checked(*pip, "--no-index", "--no-deps", wheel, cwd=folder)
        # A path in a .pth file is searched after the environment's own packages, and .pth files in it are not read: an
        # editable install of this checkout is not seen.
        own = checked(
            folder / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder
        )
        (Path(own.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(folder, from_index)


def reachable(folder: Path) -> bool:
    """Whether pip can download one small package that the lock file names."""
    pin = next(line for line in LOCK.read_text().splitlines() if line.startswith("typer=="))
    command = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--quiet",
        "--no-deps",
        "--retries=0",
    ]
    done = subprocess.run(
        [*command, "--timeout=20", "--no-cache-dir", "--dest", folder, pin], capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """An empty folder to be in."""
    assert not tmp_path.is_relative_to(ROOT)
    return tmp_path


def tracked(*folders: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *folders], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_wheel_holds_the_package_its_recipes_and_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        metadata = opened.read(f"tacit-{tacit.__version__}.dist-info/METADATA").decode()
    about = {name for name in names if name.startswith(f"tacit-{tacit.__version__}.dist-info/")}
    assert {name.partition("/")[2] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }
    assert names - about == tracked("tacit") | {f"tacit/{name}" for name in tracked("recipes")}
    assert "tacit/py.typed" in names
    assert "tacit/recipes/demo.toml" in names
    assert f"\nVersion: {tacit.__version__}\n" in metadata
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {line.removeprefix("Provides-Extra: ") for line in metadata.splitlines() if "Provides-Extra" in line} == set(
        extras
    )


def test_the_source_archive_holds_what_is_named_and_builds_the_same_wheel(
    archive: Path, wheel: Path, tmp_path: Path
) -> None:
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    always = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    assert {path.name for path in source.iterdir()} == {*named["only-include"], *always}
    again = build(source, tmp_path / "again", "wheel")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_the_dependencies_come_from_the_package_index(installed: Installed) -> None:
    if not installed.from_index:
        pytest.skip("the package index cannot be reached: the wheel is tested with the dependencies installed here")
    listed = checked(installed.python, "-m", "pip", "--disable-pip-version-check", "freeze", cwd=installed.folder)
    pinned = {line for line in LOCK.read_text().splitlines() if "==" in line}
    assert {line for line in listed.splitlines() if not line.startswith("tacit ")} == pinned


def test_the_package_is_the_installed_one(installed: Installed, empty: Path) -> None:
    where = checked(installed.python, "-c", "import tacit; print(tacit.__file__)", cwd=empty)
    assert Path(where.strip()).is_relative_to(installed.folder)
    assert checked(installed.tacit, "--version", cwd=empty) == f"tacit {tacit.__version__}\n"
    assert checked(installed.python, "-m", "tacit", "--version", cwd=empty) == f"tacit {tacit.__version__}\n"


def test_a_new_user_trains_the_demo_and_uses_its_model(installed: Installed, empty: Path) -> None:
    changes = [word for change in SMALL for word in ("--set", change)]
    trained = checked(installed.tacit, "train", "demo", *changes, cwd=empty)
    assert "Privacy: ε = " in trained
    assert "The run is in runs/demo-1." in trained
    assert [path.name for path in empty.iterdir()] == ["runs"]
    assert "%" in checked(installed.tacit, "predict", "runs/demo-1", "see you", cwd=empty)
    assert "demo-1" in checked(installed.tacit, "runs", cwd=empty)
    assert "epsilon" in checked(installed.tacit, "guarantee", "runs/demo-1", cwd=empty).lower()
    checked(installed.tacit, "report", "runs/demo-1", "--share", "--out", "report.html", cwd=empty)
    checked(installed.tacit, "export", "runs/demo-1", "--safetensors", "model.safetensors", cwd=empty)
    assert str(ROOT) not in (empty / "report.html").read_text()
    assert {path.name for path in empty.iterdir()} == {"model.safetensors", "report.html", "runs"}


def test_every_recipe_is_found_by_its_name(installed: Installed, empty: Path) -> None:
    code = (
        "from tacit.recipe.reading import find_recipe; import sys; [print(find_recipe(name)) for name in sys.argv[1:]]"
    )
    names = sorted(path.stem for path in (ROOT / "recipes").glob("*.toml"))
    found = [Path(line) for line in checked(installed.python, "-c", code, *names, cwd=empty).splitlines()]
    assert [path.stem for path in found] == names
    assert all(path.is_relative_to(installed.folder) for path in found)
