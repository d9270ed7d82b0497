"""The sites of a transformer, found by running the model once and observing its modules.

There is no list of architectures. The blocks are the module list with the most weights. A module mixes positions if a
change at one position changes its output at another. A projection is a module with a weight matrix that runs once, on
every position, and whose output is as wide as the block's. The same run shows how logits follow from the last states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from pivotal.errors import PivotalError
from pivotal.models.hooks import Tap, check_causal, first_input, first_of, hooked, with_first_input
from pivotal.models.tensors import loaded, wide
from pivotal.units import Site

_STEPS = 6
"""The length of the probe: long enough that a module that mixes neighbours only does not reach from end to end."""


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The parts of a causal language model that pivotal uses."""

    blocks: nn.ModuleList
    taps: tuple[Tap, ...]
    """In the order of computation."""
    head: nn.Module
    outputs: tuple[int, ...]
    """The number of values that each block returns; 0 if it returns its hidden state and not a tuple."""
    states: Tensor
    logits: Tensor
    """The input of the head on the probe (`states`), and the model's logits."""


@dataclass
class _Call:
    order: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    count: int


_Calls: TypeAlias = dict[nn.Module, _Call]
"""The last call of each module."""


def probe_tokens(vocabulary: int, device: torch.device) -> Tensor:
    """A fixed sequence of tokens from the middle of the vocabulary, where there are no special tokens."""
    return torch.arange(1, _STEPS + 1, device=device)[None] * max(1, vocabulary // (_STEPS + 3)) % vocabulary


@torch.no_grad()
def examine(model: nn.Module, vocabulary: int, device: torch.device) -> Anatomy:
    """Find the blocks, the sites and the output projection of a model."""
    blocks = _blocks(model)
    calls: _Calls = {}

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        count = calls[module].count + 1 if module in calls else 1
        calls[module] = _Call(len(calls), args, kwargs, output, count)

    tokens = probe_tokens(vocabulary, device)
    causal = not getattr(model.config, "is_encoder_decoder", False)
    with hooked(module.register_forward_hook(note, with_kwargs=True) for module in model.modules()):
        if (logits := getattr(causal and model(input_ids=tokens, use_cache=False), "logits", None)) is None:
            raise PivotalError(
                f"A model must be causal and give logits, unlike {type(model).__name__}. Load an AutoModelForCausalLM."
            )
    check_causal(lambda ids: model(input_ids=ids, use_cache=False).logits, tokens, logits)
    taps: list[tuple[int, Tap]] = []

    def add(
        order: int, tapped: nn.Module, side: str, name: str, width: int, size: int = 1, within: str = ""
    ) -> None:
        site = Site(name, width, size=size, within=within)
        taps.append((order, Tap(site, tapped, side, int(name.partition(".")[2]))))

    for level, block in enumerate(blocks):
        for kind, owner, module, call in _projections(block, calls):
            width = call.args[0].shape[-1]
            add(call.order, module, "input", f"{kind}.{level}", width)
            if kind == "attn" and (heads := _heads(model, owner, width)):
                add(call.order, module, "input", f"head.{level}", heads, width // heads, f"attn.{level}")
        h = first_of(calls[block].output)
        # Some blocks return several streams, none of which is the residual.
        if h.numel() == _STEPS * h.shape[-1]:
            add(calls[block].order, block, "output", f"resid.{level}", h.shape[-1])
    head = _head(model, calls, logits)
    outputs = tuple(
        len(out) if isinstance(out := calls[block].output, tuple | list) else 0 for block in blocks
    )
    in_order = tuple(tap for _, tap in sorted(taps, key=lambda entry: entry[0]))
    return Anatomy(blocks, in_order, head, outputs, calls[head].args[0], logits)


def _heads(model: Any, attention: nn.Module, width: int) -> int | None:
    """The number of heads in the input of an attention's output projection; None if it is unknown.

    The configuration gives the number, and one of the module's attributes must equal the resulting width of a head.
    """
    heads = getattr(model.config.get_text_config(), "num_attention_heads", None)
    if not isinstance(heads, int) or heads < 1 or width % heads:
        return None
    parts = [part for part in attention.modules() if not hasattr(part, "weight")]
    known = {value for part in parts for value in vars(part).values() if type(value) is int}
    return heads if width // heads in known else None


def _blocks(model: nn.Module) -> nn.ModuleList:
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m)]
    if not lists:
        raise PivotalError(
            f"{type(model).__name__} has no list of blocks. Wrap it in pivotal.models.ModuleLM and name its sites."
        )
    return max(lists, key=lambda entry: (sum(p.numel() for p in entry[1].parameters()), -len(entry[0])))[1]


def _projections(block: nn.Module, calls: _Calls) -> list[tuple[str, nn.Module, nn.Module, _Call]]:
    """The projections of a block onto the residual stream whose inputs are sites: (kind, part of the block, module,
    call)."""
    width = first_of(calls[block].output).shape[-1]
    chosen: list[tuple[str, nn.Module, nn.Module, _Call]] = []
    neurons: list[tuple[nn.Module, nn.Module, _Call]] = []
    for child in block.children():
        parts = [m for m in child.modules() if _projects(m, calls, width)]
        # An adapter contains the projection that it changes.
        inner = {part for m in parts for part in m.modules() if part is not m}
        projections = [(child, m, calls[m]) for m in parts if m not in inner]
        projections.sort(key=lambda entry: entry[2].order)
        attends = "attention" in type(child).__name__.lower()
        if (
            projections
            and child in calls
            and (after := _mixed(child, calls[child], [m for _, m, _ in projections]))
        ):
            # The first projection after the mixing is the output projection of the attention. Any later one belongs to
            # a nested block, and is that of an MLP.
            mixed = [entry for entry in projections if entry[1] in after]
            chosen += [("attn" if attends else "mixer", *place) for place in mixed[:1]]
            neurons += mixed[1:]
        elif not attends:
            neurons += projections
    if neurons:
        widest = max(neurons, key=lambda entry: (entry[2].args[0].shape[-1], entry[2].order))
        chosen.append(("mlp", *widest))
    return chosen


def _projects(module: nn.Module, calls: _Calls, width: int) -> bool:
    """Whether a module has a weight matrix and ran once, on all positions. Experts run on some positions only, so their
    neurons are not a site."""
    call, weight = calls.get(module), getattr(module, "weight", None)
    if call is None or call.count != 1 or not isinstance(weight, Tensor) or weight.ndim < 2 or not call.args:
        return False
    x, y = call.args[0], call.output
    return (
        isinstance(x, Tensor)
        and isinstance(y, Tensor)
        and x.is_floating_point()
        and y.shape[-1] == width
        and x.numel() == _STEPS * x.shape[-1]
        and y.numel() == _STEPS * y.shape[-1]
    )


def _mixed(module: nn.Module, call: _Call, parts: list[nn.Module]) -> set[nn.Module] | None:
    """The parts whose input at later positions changes when the first position changes; None if the module's output at
    later positions does not change, so that the module does not mix positions."""

    def run(change: float) -> tuple[Tensor, dict[nn.Module, Tensor]]:
        got: dict[nn.Module, Tensor] = {}
        first = _changed(first_input(call.args, call.kwargs), change)
        args, kwargs = with_first_input(first, call.args, call.kwargs)

        def see(part: nn.Module, inputs: tuple[Any, ...]) -> None:
            got[part] = inputs[0].reshape(1, _STEPS, -1).clone()

        with hooked(part.register_forward_pre_hook(see) for part in parts):
            return first_of(module(*args, **kwargs)), got

    def differ(a: Tensor, b: Tensor) -> bool:
        return not torch.allclose(a[:, 2:], b[:, 2:], rtol=1e-4, atol=1e-7)

    # Do not compare with the logged output: some blocks write into it later.
    (before, was), (after, now) = run(0.0), run(1.0)
    if before.ndim != 3 or not differ(before, after):
        return None
    return {part for part in parts if part in was and part in now and differ(was[part], now[part])}


def is_transposed(module: nn.Module) -> bool:
    """Whether a projection stores its weights as inputs x outputs, like the Conv1D of GPT-2."""
    return type(module).__name__ == "Conv1D"


def matrix_of(module: nn.Module) -> Float[Tensor, "outputs inputs"] | None:
    """The matrix W of a projection that computes W x + b. None for another module, such as one with an adapter, or with
    quantised weights."""
    weight = getattr(module, "weight", None)
    linear = isinstance(module, nn.Linear) or is_transposed(module)
    if not linear or not isinstance(weight, Tensor) or not weight.is_floating_point():
        return None
    return weight.T if is_transposed(module) else weight


def _changed(value: Any, change: float) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 3:
        value = value.clone()
        value[:, 0] += change * (1 + value[:, 0].flip(-1))
    return value


def _head(model: nn.Module, calls: _Calls, logits: Tensor) -> nn.Module:
    embeddings: Any = getattr(model, "get_output_embeddings", lambda: None)
    head = embeddings()
    if head in calls:
        return head
    heads = [
        (call.order, module)
        for module, call in calls.items()
        if isinstance(getattr(module, "weight", None), Tensor)
        and isinstance(call.output, Tensor)
        and call.output.shape == logits.shape
    ]
    if not heads:
        raise PivotalError(f"{type(model).__name__} has no output projection. Wrap it in ModuleLM.")
    return max(heads, key=lambda entry: entry[0])[1]


# -- the output projection --------------------------------------------------------------------------------------------

_TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Head:
    """logits = cap * tanh(scale * (W h + b) / cap), or scale * (W h + b) without a cap."""

    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None
    scale: float = 1.0
    cap: float | None = None

    @staticmethod
    @torch.no_grad()
    def of(anatomy: Anatomy, config: Any) -> Head:
        """Determine scale and cap from the probe's logits, because models apply them in different ways."""
        module, device = anatomy.head, anatomy.states.device
        bias = None if getattr(module, "bias", None) is None else loaded(module, "bias", device)
        weight = loaded(module, "weight", device)
        logits = anatomy.logits.to(weight.device, torch.float32)
        raw = Head(weight, bias)(anatomy.states.to(weight.device))
        largest = float(logits.abs().max().clamp(min=1.0))
        tolerance = _TOLERANCE if anatomy.states.dtype.itemsize >= 4 else 0.05
        found: list[tuple[float, Head]] = []
        for cap in (None, *_caps(config)):
            before = logits if cap is None else cap * (logits / cap).clamp(-0.999999, 0.999999).atanh()
            scale = float((before * raw).sum() / raw.square().sum())
            for tried in (1.0, scale):
                head = Head(weight, bias, tried, cap)
                error = float((head._finish(raw) - logits).abs().max())
                if error <= tolerance * largest:
                    found.append((error, head))
                    break
        if found:  # a cap changes small logits by less than the tolerance, so several may be within it
            least = min(error for error, _ in found)
            return next(head for error, head in found if error <= 2 * least)
        raise PivotalError(
            "A model's logits must be its output projection, scaled or capped, but those of "
            f"{type(module).__name__} are something else. Wrap the model in pivotal.models.module.ModuleLM."
        )

    def __call__(
        self, states: Float[Tensor, "*rows width"], ids: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "*rows words"]:
        device, weight, bias = states.device, self.weight, self.bias
        if ids is not None:
            weight = weight[ids.to(weight.device)]
            bias = None if bias is None else bias[ids.to(bias.device)]
        # A few words are computed in full precision. For the whole vocabulary, the product may be in half precision.
        number = weight.dtype if ids is None else torch.promote_types(weight.dtype, torch.float32)
        logits = wide(linear(states.to(weight.device, number), weight.to(number)).to(device))
        if bias is not None:
            logits = logits + bias.to(device, logits.dtype)
        return self._finish(logits)

    def mean_row(self, p: Float[Tensor, "nodes vocabulary"]) -> Float[Tensor, "nodes width"] | None:
        """The mean row of the scaled projection under some distributions; None if logits are capped or imprecise."""
        if self.cap is not None or self.weight.dtype.itemsize < 4:
            return None
        return (p.to(self.weight) @ self.weight).to(p.device) * self.scale

    def _finish(self, logits: Tensor) -> Tensor:
        if self.scale != 1.0:
            logits = logits * self.scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)


def _caps(config: Any) -> list[float]:
    """The numbers of a configuration that may be the cap of the logits."""
    settings = config.get_text_config().to_dict().items()
    return [float(v) for k, v in settings if "cap" in k and type(v) in (int, float) and v > 0]
