"""Push an intervention to the Hugging Face hub, and pull one from it. What is pulled is data, never code."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError, in_short
from pivotal.exports.base import Portable, taken
from pivotal.exports.templates import about, render
from pivotal.exports.weights import PeftTarget
from pivotal.files import disk, identity, write_bytes, write_text
from pivotal.models.base import LanguageModel
from pivotal.records import serial
from pivotal.records.certificate import Certificate
from pivotal.records.exported import SOURCE, SourceRecord
from pivotal.records.intervention import BASES, CARD, VALUES, Intervention

ADAPTERS = "adapters"
CERTIFICATE = "certificate.json"
OPTIONAL = (BASES, CERTIFICATE)
FILES = (CARD, VALUES, *OPTIONAL)
"""The files that are pulled."""
_PATIENCE = 20.0
"""The seconds to wait for an answer of the hub."""
_REPOSITORY = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")


def library() -> Any:
    """The package huggingface_hub. Raises PivotalError if it is not installed."""
    try:
        import huggingface_hub
    except ImportError:
        raise PivotalError("Sharing needs the package huggingface_hub. Install pivotal[hf].") from None
    return huggingface_hub


def check_name(repository: str) -> None:
    """Raise PivotalError if this is not the name of a repository, ORG/NAME."""
    if not _REPOSITORY.fullmatch(repository):
        raise PivotalError(f"A Hugging Face repository is named ORG/NAME, but {repository!r} is not.")


# -- push -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """What is shared, and what its card says about it."""

    intervention: Intervention
    model: LanguageModel
    repository: str
    """ORG/NAME"""
    base_model: str | None = None
    """The name of the model on the hub."""
    license: str | None = None
    """The licence of the model, which its adapters inherit."""
    pairs: int | None = None
    """The number of held-out pairs behind the scores."""
    verdict: str = ""
    """The verdict of the run in a sentence."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The content of further files, such as certificate.json and report.html."""


def licence_of(model: str) -> str | None:
    """The licence of a model on the hub; None if the hub does not answer or the model states none."""
    try:
        data = library().HfApi().model_info(model, timeout=_PATIENCE).card_data
        return str(data.license) if data is not None and data.license else None
    except Exception:  # the network, the repository, its card: the licence is then unknown
        return None


def write_shared(shared: Shared, folder: Path) -> list[str]:
    """Write the folder of the repository. Returns what is missing from it, a sentence each."""
    i, target, notes = shared.intervention, PeftTarget(), []
    approximate: tuple[str, ...] = ()
    with disk(folder):
        i.save(folder)
        for name, content in shared.files.items():
            write_bytes(folder / name, content)
        try:
            # Never the path of a folder of this machine: the adapters are published.
            portable = Portable.of(shared.model, i, base=shared.base_model or shared.model.name)
            target.check_steps(i.steps)
            (folder / ADAPTERS).mkdir()
            approximate = target.write(portable, folder / ADAPTERS).approximate
        except PivotalError as error:
            shutil.rmtree(folder / ADAPTERS, ignore_errors=True)
            notes.append(f"There are no adapters: {error}")
    if shared.base_model is None:
        notes.append("The card names no base model: give its name on the hub with --base-model.")
    if shared.license is None:
        notes.append("The card states no licence: give that of the base model with --license.")
    adapters = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{ADAPTERS}/*"))
    text = render(
        "card.md",
        metadata=_metadata(shared),
        repository=shared.repository,
        base=shared.base_model or i.model,
        adapter=adapters[0] if adapters else "",
        approximate=approximate,
        **about(i, shared.pairs, shared.verdict),
    )
    write_text(folder / "README.md", text + "\n")
    return notes


def _metadata(shared: Shared) -> str:
    """The YAML of the card. huggingface_hub writes it, so that the hub can read it."""
    based = {"base_model": shared.base_model, "base_model_relation": "adapter"} if shared.base_model else {}
    data = library().ModelCardData(
        library_name="pivotal",
        license=shared.license,
        tags=["pivotal", "interpretability", "intervention", "sparse-intervention"],
        model_name=shared.repository.rpartition("/")[2],
        **based,
    )
    return str(data.to_yaml())


def share(shared: Shared, *, out: Path | None = None, private: bool = False) -> tuple[str, str, list[str]]:
    """Push an intervention with its card and adapters, or write them to the folder `out` only. Returns the address of
    the commit or the folder, the card, and what is missing."""
    check_name(shared.repository)
    if shared.license is None and shared.base_model is not None:
        shared = replace(shared, license=licence_of(shared.base_model))
    with tempfile.TemporaryDirectory() as temporary, nullcontext() if out is None else taken(out):
        made = out or Path(temporary) / "repository"
        notes = write_shared(shared, made)
        card = (made / "README.md").read_text(encoding="utf-8")
        return push(made, shared.repository, private=private) if out is None else str(out), card, notes


def hub_name(spec: str) -> str | None:
    """The name of a model on the Hugging Face hub, if the spec is one; else None."""
    if spec.startswith("hf:"):
        return spec.removeprefix("hf:")
    return spec if _REPOSITORY.fullmatch(spec) and not Path(spec).exists() else None


def push(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload a folder as a new commit, and return the address of the commit."""
    hub = library()
    try:
        hub.HfApi().create_repo(repository, exist_ok=True, private=private)
        commit = hub.HfApi().upload_folder(
            repo_id=repository,
            folder_path=folder,
            commit_message="Share an intervention",
            # What an earlier push wrote and this one does not must not stay beside other units.
            delete_patterns=[f"{ADAPTERS}/*", *OPTIONAL, "report.html"],
        )
    except Exception as error:  # the network, the rights of the user, the name
        raise PivotalError(
            f"Cannot push to the Hugging Face repository {repository} ({in_short(error)}). Log in with `hf auth login` "
            "as a user who may write there; --dry-run writes the folder without a network."
        ) from None
    return str(commit.commit_url)


# -- pull -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pulled:
    """An intervention in files on this machine, which are checked."""

    intervention: Intervention
    folder: Path
    source: SourceRecord


def pull(spec: str, revision: str | None = None, *, offline: bool = False) -> Pulled:
    """Download an intervention, of one commit, and check its files. `spec` is ORG/NAME, or a folder of `push`.

    If the hub does not answer, or with `offline`, the files are those of an earlier download.
    """
    if Path(spec).is_dir():
        if revision is not None:
            raise PivotalError(f"--revision is for a repository, but {spec} is a folder. Leave it out.")
        return _checked(Path(spec), spec, None)
    check_name(spec)
    try:
        folder = library().snapshot_download(
            spec, revision=revision, allow_patterns=list(FILES), local_files_only=offline
        )
    except Exception as error:
        raise PivotalError(
            f"Cannot take {spec}, revision {revision or 'main'}, from the Hugging Face hub or from the cache "
            f"({in_short(error)}). Check the name. Without a network, only earlier downloads can be pulled."
        ) from None
    return _checked(Path(folder), spec, Path(folder).name)


def _checked(folder: Path, repository: str, commit: str | None) -> Pulled:
    digests = {name: identity(folder / name)["sha256"] for name in FILES if (folder / name).is_file()}
    intervention = Intervention.load(folder)
    if CERTIFICATE in digests:
        certificate = serial.read(folder / CERTIFICATE, Certificate)
        if certificate.intervention != intervention.fingerprint():
            del digests[CERTIFICATE]
    source = SourceRecord(repository=repository, commit=commit, files=digests)
    return Pulled(intervention, folder, source)


def keep(pulled: Pulled, out: Path, *, overwrite: bool = False) -> None:
    """Copy the checked files to a folder, with a record of where they come from."""
    new = pulled.source
    with taken(out, lambda there: (*FILES, SOURCE) if SOURCE in there else ()) as there, disk(out):
        if there and not overwrite:
            before = serial.read(out / SOURCE, SourceRecord)
            if before != new:
                raise PivotalError(
                    f"{out} holds {before}, and this is {new}. Nothing was changed; use another --out, or --overwrite."
                )
        # Read before anything is removed: `out` may be the folder that they come from.
        files = {name: (pulled.folder / name).read_bytes() for name in new.files}
        for name in {*FILES, SOURCE} - files.keys():
            (out / name).unlink(missing_ok=True)
        for name, content in files.items():
            write_bytes(out / name, content)
        serial.write(out / SOURCE, new)
