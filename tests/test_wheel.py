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
from pathlib import Path

import pytest
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


def test_it_finds_units_in_an_empty_environment(wheel, tmp_path):
    environment = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    packages = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # Torch and the other dependencies are those of the tests; the editable pivotal is not seen through this path.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    subprocess.run(
        [*PIP, "--python", str(environment / "bin" / "python"), "install", "--no-deps", wheel], check=True
    )
    cleared = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = ["demo", "planted", "planted", "--evidence", "none", "--controls", "0"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(
        [environment / "bin" / "pivotal", *asked, "--quiet", "--json", "--out", "run"],
        cwd=tmp_path,
        env=cleared,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flip_accuracy"] > 0.9
    assert (tmp_path / "run" / "report.html").is_file()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 30, "3 CPU seconds on a desk"
