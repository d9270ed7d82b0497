"""The weights of a recurrent model that is given as torch modules."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pivotal.errors import PivotalError


def weights_of(encoder: Any, rnn: Any, decoder: Any) -> tuple[str, dict[str, Tensor]]:
    """The cell and the weights, with the names of `RecurrentLM`, of an embedding, a recurrent module and an output
    layer. PivotalError says what to give instead of something else."""
    if not isinstance(encoder, nn.Embedding):
        raise PivotalError(
            f"The encoder must be an nn.Embedding, but it is {_called(encoder)}. Wrap the weights: "
            "nn.Embedding.from_pretrained(weight)."
        )
    _check_recurrent(rnn)
    if not isinstance(decoder, nn.Linear):
        raise PivotalError(
            f"The decoder must be an nn.Linear, but it is {_called(decoder)}. {_instead(decoder)}"
        )
    weights = {f"rnn.{key}": value.detach() for key, value in rnn.state_dict().items()}
    weights["encoder.weight"] = encoder.weight.detach()
    weights["decoder.weight"] = decoder.weight.detach()
    if decoder.bias is not None:
        weights["decoder.bias"] = decoder.bias.detach()
    return {"LSTM": "lstm", "GRU": "gru"}.get(rnn.mode, "rnn"), weights


def _check_recurrent(rnn: Any) -> None:
    if isinstance(rnn, nn.RNNCellBase):
        whole = type(rnn).__name__.removesuffix("Cell")
        raise PivotalError(
            f"The recurrent module must be an nn.LSTM, nn.GRU or nn.RNN, but it is an nn.{whole}Cell, which is one "
            f"step of one layer. Make an nn.{whole} of the same sizes and copy the weights: weight_ih to weight_ih_l0, "
            "and so on."
        )
    if not isinstance(rnn, nn.LSTM | nn.GRU | nn.RNN):
        raise PivotalError(
            f"The recurrent module must be an nn.LSTM, nn.GRU or nn.RNN, but it is {_called(rnn)}. Make one of the "
            "same sizes and load the weights with load_state_dict, or use pv.ModuleLM for another architecture."
        )
    if rnn.bidirectional:
        raise PivotalError(
            "A language model must read from left to right, but this recurrent module is bidirectional."
        )
    if getattr(rnn, "proj_size", 0):
        raise PivotalError("LSTMs with a projection (proj_size) are not supported. Use one without.")
    if isinstance(rnn, nn.RNN) and rnn.nonlinearity != "tanh":
        raise PivotalError(f"A plain RNN must use tanh, but this one uses {rnn.nonlinearity}.")


def _called(thing: Any) -> str:
    if isinstance(thing, Tensor):
        return f"a bare tensor of the shape {tuple(thing.shape)}"
    return f"an nn.{type(thing).__name__}" if isinstance(thing, nn.Module) else f"a {type(thing).__name__}"


def _instead(decoder: Any) -> str:
    if not isinstance(decoder, nn.Sequential):
        return "Make an nn.Linear and copy the weights into it."
    layers = [i for i, layer in enumerate(decoder) if isinstance(layer, nn.Linear)]
    others = [layer for layer in decoder if not isinstance(layer, nn.Linear | nn.Dropout | nn.Identity)]
    if len(layers) == 1 and not others:
        return f"Its only layer with weights is decoder[{layers[0]}]: give that."
    return "It computes more than one linear layer, so use pv.ModuleLM with the whole model."
