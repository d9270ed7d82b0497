"""Convert a checkpoint of PyTorch's word language model example, such as that of Gulordava et al., to a model folder.

Such a checkpoint is a pickled `RNNModel`: dropout, an embedding `encoder`, an `rnn` and a linear `decoder`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.files import identity
from pivotal.lm.foreign_checkpoint import BadPickle, Made, open_checkpoint
from pivotal.models.recurrent.folder import check_name, is_empty, is_only_a_model, save_folder
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.models.recurrent.weights import check_layers
from pivotal.questions.words import EOS, read_words

_MODULES = {"Embedding", "LSTM", "GRU", "RNN", "Linear", "Dropout"}
_TENSOR = re.compile(r"encoder\.weight|decoder\.(weight|bias)|rnn\.(weight|bias)_(ih|hh)_l\d{1,3}")
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
    words = _read_vocabulary(vocabulary, len(weights["encoder.weight"]))
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
    try:
        save_folder(folder, cell=cell, words=words, weights=weights, card=card, replace=replace)
    except OSError as error:
        raise PivotalError(f"{folder} cannot be written ({error.strerror or error}).") from None
    return model, summary


def check_free(folder: Path, replace: bool) -> None:
    """Raise PivotalError if the folder exists, unless it is a model that may be replaced."""
    check_name(folder)
    if is_empty(folder):
        return
    if not replace:
        raise PivotalError(f"{folder} exists already. Give another --out, or --overwrite.")
    if not is_only_a_model(folder):
        raise PivotalError(
            f"Only a model may be overwritten, but {folder} holds other files. Give another --out."
        )


def read_model(path: Path) -> tuple[str, dict[str, Tensor]]:
    """The cell and the weights of a checkpoint, with the names of `RecurrentLM`, in float32."""
    with open_checkpoint(path, _is_ours) as checkpoint:
        mode, parameters = _parameters(path, checkpoint.root)
        _check_names(path, parameters)
        weights = _numbers({name: checkpoint.tensor(what) for name, what in parameters.items()})
    _check_shapes(path, weights)
    mode = mode or _mode_of(path, weights)
    if mode not in _CELLS:
        raise PivotalError(
            f"The recurrent part must be one of {', '.join(_CELLS)}, but that of {path} is {mode}."
        )
    return _CELLS[mode], weights


def _is_ours(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return last in _MODULES if module.startswith("torch.nn.modules.") else last == "RNNModel"


def _last(what: Any) -> str | None:
    """The last part of the name of a class."""
    return what.name.rpartition(".")[2] if isinstance(what, Made) else None


def _parameters(path: Path, root: Any) -> tuple[str | None, Mapping[str, Any]]:
    """The mode of the recurrent module if the file states it, and the description of each parameter."""
    if isinstance(root, dict):  # a state_dict
        return None, root
    if _last(root) != "RNNModel":
        what = root.name if isinstance(root, Made) else type(root).__name__
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
    state = module.state if isinstance(module, Made) else None
    content = state.get(name) if isinstance(state, dict) else None
    if not isinstance(content, dict):
        what = getattr(module, "name", type(module).__name__)
        raise PivotalError(f"{path} must hold whole modules, but its {what} has no {name}.")
    return content


def _check_names(path: Path, parameters: Mapping[str, Any]) -> None:
    strange = [
        name if isinstance(name, str) else f"a key of type {type(name).__name__}"
        for name in parameters
        if not (isinstance(name, str) and _TENSOR.fullmatch(name))
    ]
    if strange:
        listed = ", ".join(strange[:4]) + (" …" if len(strange) > 4 else "")
        raise PivotalError(
            f"An RNNModel has encoder.weight, rnn.weight_ih_l0 … and decoder.weight, but {path} has {listed}: it is "
            "a model with another architecture."
        )
    needed = ("encoder.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "decoder.weight")
    missing = [name for name in needed if name not in parameters]
    if missing:
        raise PivotalError(f"An RNNModel has {', '.join(needed)}, but {path} lacks {', '.join(missing)}.")
    try:
        check_layers(parameters)
    except PivotalError as error:
        raise PivotalError(f"{path}: {error}") from None


def _numbers(views: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies in float32. Only a tied decoder may share its numbers with the encoder: other shared tensors could take
    far more memory than the file is long."""
    encoder, decoder = (
        (view.data_ptr(), view.shape, view.stride())
        for view in (views["encoder.weight"], views["decoder.weight"])
    )
    tied = encoder == decoder
    own = {name: view for name, view in views.items() if not (tied and name == "decoder.weight")}
    storages = {view.untyped_storage().data_ptr(): view for view in own.values()}
    there = sum(view.untyped_storage().nbytes() // view.element_size() for view in storages.values())
    if sum(view.numel() for view in own.values()) > there:
        raise BadPickle("its tensors share numbers, which only a tied decoder does in an RNNModel")
    weights = {name: view.float().clone() for name, view in own.items()}
    return {**weights, "decoder.weight": weights["encoder.weight"]} if tied else weights


def _check_shapes(path: Path, weights: dict[str, Tensor]) -> None:
    """Check that matrices are matrices and vectors vectors. `RecurrentLM` checks that they fit together."""
    for name, tensor in weights.items():
        matrix = weights.get(name.replace("bias", "weight"))
        if matrix is None or matrix.ndim != 2 or (tensor is not matrix and tensor.shape != matrix.shape[:1]):
            raise PivotalError(f"{name} in {path} has an impossible shape: {tuple(tensor.shape)}.")


def _mode_of(path: Path, weights: dict[str, Tensor]) -> str:
    """The mode of a state_dict: an LSTM has four gates, a GRU three."""
    rows, columns = weights["rnn.weight_hh_l0"].shape
    mode = _GATES.get(rows // columns) if columns else None
    if mode is None:
        raise PivotalError(
            f"{path} is a state_dict of neither an LSTM nor a GRU. A state_dict of a plain RNN does not say whether "
            "it uses tanh or relu. Save the whole model."
        )
    return mode


def _read_vocabulary(path: Path, rows: int) -> list[str]:
    words = read_words(path)
    if len(words) != rows:
        raise PivotalError(
            f"The vocabulary must have one line per row of the embedding: there are {rows:,} rows, but {path} has "
            f"{len(words):,} lines."
        )
    if EOS not in words:  # a closed vocabulary has no <unk>
        raise PivotalError(
            f"The vocabulary must have {EOS}, after which every sentence begins, but {path} lacks it."
        )
    return words
