"""Push an intervention to the Hugging Face hub, and pull one from it. What is pulled is data, never code."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pivotal.errors import PivotalError, in_short
from pivotal.exports.sharing import ADAPTERS, library
from pivotal.files import disk
from pivotal.records import serial
from pivotal.records.certificate import Certificate
from pivotal.records.intervention import BASES, CARD, SOURCE, VALUES, Intervention, SourceRecord

CERTIFICATE = "certificate.json"
OPTIONAL = (BASES, CERTIFICATE)
FILES = (CARD, VALUES, *OPTIONAL)
"""The files that are pulled."""
_MOST = {CARD: 64 * 2**20, VALUES: 64 * 2**20, CERTIFICATE: 64 * 2**20, BASES: 2 * 2**30}
"""The most bytes of a pulled file. A basis may be a sparse autoencoder."""
_PATIENCE = 20.0
"""The seconds to wait for an answer of the hub."""
_REPOSITORY = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}")


def check_name(repository: str) -> str:
    """The name of a repository, ORG/NAME. Raises PivotalError if it is not one."""
    if not _REPOSITORY.fullmatch(repository):
        raise PivotalError(
            f"A repository on the Hugging Face hub is named ORG/NAME, but {repository!r} is not such a name."
        )
    return repository


def licence_of(model: str) -> str | None:
    """The licence of a model on the hub; None if the hub does not answer or the model states none."""
    try:
        data = library().HfApi().model_info(model, timeout=_PATIENCE).card_data
        return str(data.license) if data is not None and data.license else None
    except Exception:  # the network, the repository, its card: the licence is then unknown
        return None


def push(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload a folder as a new commit, and return the address of the commit."""
    hub = library()
    try:
        hub.HfApi().create_repo(repository, exist_ok=True, private=private)
        made = hub.HfApi().upload_folder(
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
    return str(made.commit_url)


@dataclass(frozen=True)
class Pulled:
    """Files of an intervention on this machine, before they are checked."""

    folder: Path
    repository: str
    commit: str | None
    cached: bool = False
    """Whether the hub did not answer or was not asked, so that the files are those of an earlier download."""


def fetch(spec: str, revision: str | None = None, *, offline: bool = False) -> Pulled:
    """Download the files of an intervention, of one commit. `spec` is ORG/NAME, or a folder as `push` writes it.

    Without a network, the files come from the cache of huggingface_hub.
    """
    if Path(spec).is_dir():
        if revision is not None:
            raise PivotalError(f"--revision is for a repository, but {spec} is a folder. Leave it out.")
        return Pulled(Path(spec), spec, None)
    check_name(spec)
    hub = library()
    commit, names = (None, FILES) if offline else _commit(hub, spec, revision)
    there = commit or revision or _newest_in_cache(hub, spec)
    if there is None:
        raise PivotalError(
            f"Cannot reach the Hugging Face hub, and no commit of {spec} is on this machine. Without a network, only "
            "what was pulled before can be pulled."
        )
    for name in names:
        try:
            path = Path(hub.hf_hub_download(spec, name, revision=there, local_files_only=commit is None))
        except Exception as error:
            if name in OPTIONAL and commit is None:  # it may not have one
                continue
            raise PivotalError(
                f"Cannot take {name} of {spec}, revision {there}, from the Hugging Face hub or from the cache "
                f"({in_short(error)}). Check the name and the network."
            ) from None
        folder = path.parent
    return Pulled(folder, spec, folder.name, cached=commit is None)


def _newest_in_cache(hub: Any, repository: str) -> str | None:
    """The commit that was downloaded last; None if there is none."""
    try:
        found = [repo for repo in hub.scan_cache_dir().repos if repo.repo_id == repository]
    except Exception:  # there is no cache yet
        return None
    commits = [commit for repo in found for commit in repo.revisions]
    # Commits share their files, so the age of the files does not tell which commit was downloaded last.
    newest = max(commits, key=lambda one: one.snapshot_path.stat().st_mtime, default=None)
    return None if newest is None else str(newest.commit_hash)


def _commit(hub: Any, repository: str, revision: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The commit of a revision, and which files to take from it; no commit if the hub does not answer. Files that are
    too large are refused before they are downloaded."""
    from huggingface_hub.errors import HfHubHTTPError

    try:
        info = hub.HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=_PATIENCE)
    except HfHubHTTPError as error:  # the hub has answered
        raise PivotalError(
            f"The Hugging Face hub has no repository {repository} that you may read, or no revision "
            f"{revision or 'main'} of it ({in_short(error)})."
        ) from None
    except Exception:  # no network
        return None, FILES
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    for name in FILES:
        if (sizes.get(name) or 0) > _MOST[name]:
            raise _too_large(repository, name, sizes[name])
    return str(info.sha), tuple(name for name in FILES if name in sizes or name not in OPTIONAL)


def _too_large(repository: str, name: str, size: int) -> PivotalError:
    return PivotalError(
        f"{name} of an intervention has at most {_MOST[name]:,} bytes, but that of {repository} has {size:,}. It is "
        "not an intervention of pivotal."
    )


def read_pulled(pulled: Pulled) -> tuple[Intervention, dict[str, str]]:
    """Check the files, and return the intervention with the digests of the files."""
    digests = {}
    for name in FILES:
        path = pulled.folder / name
        if not path.is_file():
            continue
        if (size := path.stat().st_size) > _MOST[name]:
            raise _too_large(pulled.repository, name, size)
        digests[name] = _digest(path)
    intervention = Intervention.load(pulled.folder)
    if CERTIFICATE in digests:
        serial.read(pulled.folder / CERTIFICATE, Certificate)
    return intervention, digests


def _digest(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


def keep(pulled: Pulled, digests: dict[str, str], out: Path, *, overwrite: bool = False) -> SourceRecord:
    """Copy the checked files to a folder, with a record of where they come from."""
    record = SourceRecord(repository=pulled.repository, commit=pulled.commit, files=digests)
    _check_out(out, record, overwrite)
    with disk(out):
        out.mkdir(parents=True, exist_ok=True)
        for name in (*FILES, SOURCE):
            (out / name).unlink(missing_ok=True)
        for name in digests:
            shutil.copyfile(pulled.folder / name, out / name)
    serial.write(out / SOURCE, record)
    return record


def _check_out(out: Path, record: SourceRecord, overwrite: bool) -> None:
    with disk(out):
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise PivotalError(f"{out} is a file or a link. Name another folder with --out.")
        if not out.is_dir() or not any(out.iterdir()):
            return
    if not (out / SOURCE).is_file():
        raise PivotalError(
            f"A pulled intervention needs a folder of its own, but {out} holds other files. Nothing was changed; name "
            "another folder with --out."
        )
    before = serial.read(out / SOURCE, SourceRecord)
    if before != record and not overwrite:
        raise PivotalError(
            f"{out} holds {before.repository} at commit {before.commit}, and this is {record.repository} at commit "
            f"{record.commit}. Nothing was changed; name another folder with --out, or replace it with --overwrite."
        )
