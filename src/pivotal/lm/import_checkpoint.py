"""Convert a checkpoint of PyTorch's word language model example, such as that of Gulordava et al., to a model folder.

Such a checkpoint is a pickled `RNNModel`: dropout, an embedding `encoder`, an `rnn` and a linear `decoder`.
`torch.load` reads it, in the zip format or the older one of PyTorch 0.2 to 1.5, with an unpickler that imports nothing.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from pivotal.errors import PivotalError, in_short
from pivotal.files import identity, read_bytes
from pivotal.models.recurrent.folder import check_free, save_folder
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.models.recurrent.weights import check_layers
from pivotal.questions.words import EOS, read_words

_MODULES = {"Embedding", "LSTM", "GRU", "RNN", "Linear", "Dropout"}
_CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn"}
_GATES = {4: "LSTM", 3: "GRU"}


def import_checkpoint(
    path: Path, vocabulary: Path, folder: Path, *, replace: bool = False, command: str = ""
) -> tuple[RecurrentLM, str]:
    """Read a checkpoint without running any code in it, and write the model to `folder`, which must not exist. Returns
    the model and a sentence about it.

    `vocabulary` has one word per line, in the order of the rows of the embedding. With `replace`, `folder` may be an
    existing model.
    """
    check_free(folder, replace)
    cell, weights = read_model(path)
    words = _read_vocabulary(vocabulary, weights["encoder.weight"].shape[:1].numel())
    model = RecurrentLM(folder.name, cell=cell, words=words, weights=weights)
    layers = len(model.sites)
    summary = (
        f"{cell.upper()} of {layers} x {model.hidden} units, imported from {path.name}; {len(words):,} words"
    )
    card = {
        "name": folder.name,
        "summary": summary,
        "licence": "that of the checkpoint",
        "source": {**identity(path), "vocabulary": vocabulary.name},
        "command": command,
    }
    save_folder(folder, cell=cell, words=words, weights=weights, card=card, replace=replace)
    return model, summary


def read_model(path: Path) -> tuple[str, dict[str, Tensor]]:
    """The cell and the weights of a checkpoint, with the names of `RecurrentLM`, in float32."""
    mode, parameters = _parameters(path, load_checkpoint(path))
    try:
        check_layers(parameters)
    except PivotalError as error:
        raise PivotalError(f"{path}: {error}") from None
    weights = _copies(path, parameters)
    mode = mode or _mode_of(path, weights)
    if mode not in _CELLS:
        raise PivotalError(f"The recurrent part must be {' or '.join(_CELLS)}, but in {path} it is {mode}.")
    return _CELLS[mode], weights


# -- a pickle without its code ----------------------------------------------------------------------------------------


class StandIn:
    """Stands for an object of a class that is not imported, and keeps its state. Each name has a subclass."""

    name: ClassVar[str]
    """Module and class, such as `torch.nn.modules.linear.Linear`."""
    dump_patches: ClassVar[bool] = False
    """Tells `torch.load` not to compare the source of the class with the one in the file."""
    state: Any = None

    def __new__(cls, *_: Any) -> StandIn:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Parameter:
    """A parameter, or a variable of PyTorch 0.3, is read as its tensor."""

    def __new__(cls, data: Any, *_: Any) -> Any:  # type: ignore[misc]
        return data


def _tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> Tensor:
    made: Tensor = torch._utils._rebuild_tensor(storage, offset, size, stride)
    return made


_READ_AS: dict[str, Any] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _Parameter,
    "torch.nn.parameter.Parameter": _Parameter,
    "torch.autograd.variable.Variable": _Parameter,
    "torch.Size": torch.Size,
    "collections.OrderedDict": OrderedDict,
    "builtins.set": set,
    "__builtin__.set": set,
}
_LEFTOVERS = {"torch.nn.backends.thnn._get_thnn_function_backend", "torch.backends.cudnn.rnn.Unserializable"}
"""Names in modules that PyTorch 0.x pickled."""


class _NotAdmitted(Exception):
    pass


class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc,unused-ignore]
    """Imports nothing. The unpickler in Python, unlike that in C, allocates only what the file fills."""

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _READ_AS:
            return _READ_AS[full]
        known = name in _MODULES if module.startswith("torch.nn.modules.") else name == "RNNModel"
        if not known and full not in _LEFTOVERS:
            raise _NotAdmitted(full)
        return type("StandIn", (StandIn,), {"name": full})


def _load_pickle(file: Any, **options: Any) -> Any:
    return _Unpickler(file, **options).load()


def load_checkpoint(path: Path) -> Any:
    """The content of a file of `torch.save`, with a `StandIn` for every module. No code in it is run.

    `torch.load(weights_only=True)` does not read modules as PyTorch pickled them before 1.6.
    """
    content = read_bytes(path)
    try:
        if content.startswith(b"PK"):
            _check_archive(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the source of the classes, which is not compared
            return torch.load(
                BytesIO(content),  # of a file, torch would try to unpack a tar archive
                map_location="cpu",
                weights_only=False,
                pickle_module=SimpleNamespace(__name__="pickle", Unpickler=_Unpickler, load=_load_pickle),
                encoding="latin-1",
            )
    except _NotAdmitted as error:
        raise PivotalError(
            f"{path} asks for {error}, which no recurrent language model needs: it is another kind of model, or a "
            "file that tries to run code. No code was run. Give a checkpoint of an RNNModel, or its state_dict."
        ) from None
    except Exception as error:  # a broken file makes torch and the unpickler raise errors of all kinds
        raise PivotalError(f"{path} cannot be read as a PyTorch checkpoint ({in_short(error)}).") from None


def _check_archive(content: bytes) -> None:
    """Refuse a zip archive that `torch.load` would run as TorchScript, or that unpacks to more than its size."""
    members = zipfile.ZipFile(BytesIO(content)).infolist()
    if b"constants.pkl" in content or sum(member.file_size for member in members) > len(content):
        raise ValueError("it is TorchScript, or compressed")


# -- the model in it ------------------------------------------------------------------------------------------------


def _parameters(path: Path, root: Any) -> tuple[str | None, Mapping[str, Any]]:
    """The mode of the recurrent module if the file states it, and the description of each parameter."""
    if isinstance(root, dict):  # a state_dict
        return None, root
    if not isinstance(root, StandIn) or not root.name.endswith(".RNNModel"):
        what = root.name if isinstance(root, StandIn) else type(root).__name__
        raise PivotalError(f"{path} must hold an RNNModel or its state_dict, but it holds a {what}.")
    modules = _dict(path, root, "_modules")
    parameters = {
        f"{part}.{name}": what
        for part, module in modules.items()
        for name, what in _dict(path, module, "_parameters").items()
        if what is not None  # a layer without bias has None there
    }
    mode = modules["rnn"].state.get("mode") if "rnn" in modules else None
    return mode if isinstance(mode, str) else "unknown", parameters


def _dict(path: Path, module: Any, name: str) -> dict[str, Any]:
    state = module.state if isinstance(module, StandIn) else None
    content = state.get(name) if isinstance(state, dict) else None
    if not isinstance(content, dict):
        what = getattr(module, "name", type(module).__name__)
        raise PivotalError(f"{path} must hold whole modules, but its {what} has no {name}.")
    return content


def _copies(path: Path, parameters: Mapping[str, Any]) -> dict[str, Tensor]:
    """Copies in float32. A tied decoder stays one tensor with the encoder."""
    for name, what in parameters.items():
        if not isinstance(what, Tensor):
            raise PivotalError(f"{name} in {path} must be a tensor, but it is a {type(what).__name__}.")
    places = {name: (view.data_ptr(), view.shape, view.stride()) for name, view in parameters.items()}
    distinct = {places[name]: view for name, view in parameters.items()}
    if sum(view.nbytes for view in distinct.values()) > path.stat().st_size:
        raise PivotalError(f"The tensors in {path} overlap, and would take more memory than the file.")
    copies = {place: view.detach().float().clone() for place, view in distinct.items()}
    return {name: copies[place] for name, place in places.items()}


def _mode_of(path: Path, weights: dict[str, Tensor]) -> str:
    """The mode of a state_dict: an LSTM has four gates, a GRU three."""
    rows, columns, *_ = *weights["rnn.weight_hh_l0"].shape, 0, 0
    mode = _GATES.get(rows // columns) if columns else None
    if mode is None:
        raise PivotalError(
            f"{path} is not a state_dict of an LSTM or GRU. Of a plain RNN, save the whole model, which states tanh."
        )
    return mode


def _read_vocabulary(path: Path, rows: int) -> list[str]:
    words = read_words(path)
    if len(words) != rows:
        raise PivotalError(f"The embedding has {rows:,} rows, but {path} has {len(words):,} lines.")
    if EOS not in words:  # a closed vocabulary has no <unk>
        raise PivotalError(f"The vocabulary must have {EOS}, before every sentence, but {path} lacks it.")
    return words
