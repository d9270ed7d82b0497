"""The wheel works where the clone is not: in an empty environment, in another folder."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.paths import ROOT

pytestmark = pytest.mark.slow
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, so that nothing of an earlier build gets into it."""
    folder = tmp_path_factory.mktemp("sources")
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder / "dist"), str(folder)]
    subprocess.run(build, check=True)
    (made,) = (folder / "dist").glob("pivotal-*.whl")
    return made


def test_it_has_the_data_and_the_licences_and_no_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"pivotal/py.typed", "pivotal/assets/models/wiki-lstm/model.safetensors"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/src/pivotal/assets/LICENSES.md") for name in names)
    assert not any(name.startswith(("tests/", "scripts/")) for name in names)
    assert wheel.stat().st_size < 60e6  # PyPI takes 100 MB


def test_a_release_has_no_relative_links():
    """PyPI shows the README where there is no repository beside it."""
    sys.path.append(str(ROOT / "scripts"))
    import release_links

    home = "https://github.com/owner/name"
    text = release_links.absolute((ROOT / "README.md").read_text(encoding="utf-8"), home, "v1")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links and all(link.startswith("https://") for link in links)
    assert f"({home}/raw/v1/docs/images/report.png)" in text and f"({home}/blob/v1/docs/start.md)" in text
    project = release_links.with_urls((ROOT / "pyproject.toml").read_text(encoding="utf-8"), home)
    assert f'Source = "{home}"' in project.split("[project.urls]")[1].split("[project.scripts]")[0]


def needed(wheel):
    """The folders and modules of all packages that the wheel requires, of these in turn, and so on."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        asked = Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist")
    names, tops = set(), set()
    while asked:
        wanted = Requirement(asked.pop())
        if wanted.name in names or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        names.add(wanted.name)
        found = distribution(wanted.name)
        asked += found.requires or []
        tops |= {Path(found.locate_file(file.parts[0])) for file in found.files if file.parts[0] != ".."}
    return tops - {Path(sysconfig.get_path("purelib"), "__pycache__")}


def test_it_finds_units_in_an_empty_environment(wheel, tmp_path):
    environment = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # Only what the wheel asks for is there: a dependency that its metadata forgets is missing, as on a user's machine.
    for top in sorted(needed(wheel)):
        (packages / top.name).symlink_to(top)
    assert not (packages / "transformers").exists() and not (packages / "pivotal").exists()
    subprocess.run(
        [*PIP, "--python", str(environment / "bin" / "python"), "install", "--no-deps", wheel], check=True
    )
    cleared = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = ["demo", "planted", "planted", "--evidence", "none", "--controls", "0"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [environment / "bin" / "pivotal", *asked, "--quiet", "--json", "--out", "run"]
    how = {"cwd": tmp_path, "env": cleared, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flip_accuracy"] > 0.9
    assert (tmp_path / "run" / "report.html").is_file()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 30, "3 CPU seconds on a desk"
