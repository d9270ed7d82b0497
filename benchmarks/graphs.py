"""A search with its updates launched kernel by kernel, and replayed as CUDA graphs: the same result, and the seconds.

    python benchmarks/graphs.py [--model wiki-lstm] [--sites all] [--steps every] [--runs 1] [--profile]
    python benchmarks/graphs.py --llama 1.5b|8b [--dtype bfloat16] --sites mlp

The search runs in three ways: `never` (each batch in its own shape), `unrecorded` (batches in one shape, kernel by
kernel) and `auto` (the same, replayed). `auto` must find the same as `unrecorded` to the last digit. `never` adds up
numbers in another order, so its values may differ in the last digits. The seconds of each phase are those from the
report before it. The script ends with exit code 1 if two results differ by more than that. `--llama` makes a
transformer of a known shape with random weights; its words are those of the phenomenon.

With --profile, some updates of the relaxed loop are profiled in each way: the operations that cost the CPU most, and
the launches and the waits for the GPU of one update.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from typing import Any

import torch

import pivotal
from pivotal.models.base import LanguageModel
from pivotal.problem.passes import How, recording
from pivotal.problem.problem import Problem
from pivotal.questions.pairs import PairSet
from pivotal.questions.question import Question
from pivotal.searches.base import Progress

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 128, "vocab_size": 1000},
    "1.5b": {"hidden_size": 1536, "num_hidden_layers": 28, "intermediate_size": 8960, "vocab_size": 151_936},
    "8b": {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14_336, "vocab_size": 128_256},
}
HEADS = {"tiny": (4, 2), "1.5b": (12, 2), "8b": (32, 8)}
LAUNCHES = (
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaGraphLaunch",
)
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")
COPIES = ("cudaMemcpyAsync",)


def random_llama(shape: str, pairs: PairSet, device: str, dtype: torch.dtype) -> LanguageModel:
    """A Llama of this shape with random weights, whose tokens are the words of the pairs."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from pivotal.models.transformers.lm import TransformersLM

    words = sorted({word for pair in pairs for text in (pair.prefix, *pair.words) for word in text.split()})
    made = Tokenizer(models.WordLevel({"<unk>": 0, **{word: i for i, word in enumerate(words, 1)}}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    heads, keys = HEADS[shape]
    config = LlamaConfig(
        **SHAPES[shape], num_attention_heads=heads, num_key_value_heads=keys, initializer_range=0.05
    )
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
    return TransformersLM(f"llama-{shape}", model, tokenizer, fingerprint=f"random-{shape}", words=shape)


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def searched(search: Any, problem: Problem, how: How, runs: int) -> dict[str, Any]:
    """Search in one way. Print the seconds of its phases."""
    device = problem.model.device
    seconds: dict[str, float] = defaultdict(float)
    wait(device)
    started = last = time.perf_counter()

    def told(progress: Progress) -> None:
        nonlocal last
        wait(device)
        now = time.perf_counter()
        seconds[progress.phase] += now - last
        last = now

    with recording(how) as account:
        found = search.solve(problem, runs=runs, progress=told)
    wait(device)
    whole = time.perf_counter() - started
    phases = ", ".join(f"{name} {spent:.2f}" for name, spent in seconds.items())
    print(f"{how:>10}: {whole:6.2f} s ({phases}); {account.recorded} recorded", end="", flush=True)
    print(f"; not: {'; '.join(sorted(set(account.reasons)))}" if account.reasons else "", flush=True)
    if device.type == "cuda":
        print(f"{'':12}most memory {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB", flush=True)
    return {"found": found, "seconds": whole}


def compared(name: str, one: Any, other: Any, held_out: Problem, *, exactly: bool) -> bool:
    """Whether two searches found the same. Print how they differ."""
    same = True
    for run, (a, b) in enumerate(zip(one.interventions, other.interventions, strict=True)):
        units = a.units == b.units
        first, second = held_out.run_intervention(a), held_out.run_intervention(b)
        flips = int((first.flipped() != second.flipped()).sum())
        kl = abs(
            float(held_out.untouched.mean(first.states)[0]) - float(held_out.untouched.mean(second.states)[0])
        )
        values = float(abs(a.values - b.values).max()) if units else float("nan")
        score = abs(one.train_score[run] - other.train_score[run])
        print(
            f"{name}, run {run}: units {'equal' if units else 'DIFFER'}, {flips} of {len(held_out)} flips differ, "
            f"values by {values:.1e}, KL by {kl:.1e}, score by {score:.1e}",
            flush=True,
        )
        same &= units and flips == 0 and (values == score == 0.0 if exactly else kl < 1e-3 and score < 1e-3)
    return same


def first_updates(search: Any, make: Any, ways: list[How], updates: int = 12) -> None:
    """Compare the parameters of the relaxed loop after a few updates in each way."""
    found = {}
    for how in ways:
        problem = make()
        with recording(how):
            learner = search.learner(problem, 1, 0)
            for _ in range(updates):
                learner.step(False)
        found[how] = learner.logits.detach().clone(), learner.standardised.detach().clone()
    for how in ways[1:]:
        logits, values = (float((a - b).abs().max()) for a, b in zip(found[how], found[ways[0]], strict=True))
        print(
            f"after {updates} updates, {how} - {ways[0]}: logits {logits:.1e}, values {values:.1e}",
            flush=True,
        )


def profiled(search: Any, problem: Problem, how: How, runs: int, updates: int = 20) -> None:
    """Profile updates of the relaxed loop: operations, launches and waits."""
    from torch.profiler import ProfilerActivity, profile

    device = problem.model.device
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    with recording(how) as account:
        learner = search.learner(problem, runs, 0)
        batches = len(learner.passes.batches)
        for _ in range(min(batches, 40) + 3):
            learner.step(False)
        learner.update -= learner.update % batches  # batches that are prepared
        wait(device)
        started = time.perf_counter()
        for _ in range(updates):
            learner.step(False)
        wait(device)
        each = 1000 * (time.perf_counter() - started) / updates
        learner.update -= updates
        with profile(activities=activities) as seen:
            for _ in range(updates):
                learner.step(False)
            wait(device)
    events = seen.key_averages()
    print(f"\n{how}, {each:.2f} ms an update; {account.reasons or 'recorded'}")
    for label, names in (("launches", LAUNCHES), ("waits", WAITS), ("copies", COPIES)):
        counts = {event.key: event.count / updates for event in events if event.key in names}
        told = ", ".join(f"{key} {n:.1f}" for key, n in counts.items())
        print(f"  {label:9} {sum(counts.values()):8.1f} an update ({told})")
    print(events.table(sort_by="self_cpu_time_total", row_limit=15, max_name_column_width=50))
    if device.type == "cuda":
        print(
            events.table(sort_by="self_cuda_time_total", row_limit=12, max_name_column_width=60), flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--llama", choices=tuple(SHAPES))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--sites", default="all")
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--values", default="natural")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--updates", type=int, default=160)
    parser.add_argument("--refit", type=int, default=60)
    parser.add_argument("--every", type=int, default=1, help="take each n-th pair")
    parser.add_argument("--ways", default="never,unrecorded,auto")
    parser.add_argument("--repeat", type=int, default=1, help="how often the last way is timed again")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    question = Question(phenomenon=args.phenomenon)
    pairs = question.load_pairs()[:: args.every]
    started = time.perf_counter()
    if args.llama:
        model = random_llama(args.llama, pairs, args.device, getattr(torch, args.dtype))
    else:
        model = pivotal.load_model(
            args.model, device=args.device, dtype=None if args.dtype == "float32" else args.dtype
        )
    train, test = question.divide(pairs)
    print(f"{model.describe()}, {args.steps}, loaded in {time.perf_counter() - started:.1f} s", flush=True)

    def make() -> Problem:
        made = Problem(model, train, sites=args.sites, steps=args.steps, values=args.values)
        made.measure_activations()
        made.bounds()
        return made

    search = pivotal.searches.LearnedMask(updates=args.updates, refit=args.refit)
    problem = make()
    batches = problem.batches(search.batch)
    nodes, padded = [len(batch.tree) for batch in batches], len(problem.fixed_batches(search.batch).shape)
    print(
        f"{len(problem)} pairs, {len(batches)} batches of {min(nodes)} to {max(nodes)} nodes, "
        f"{sum(nodes) / len(nodes):.0f} on average; padded to {padded}",
        flush=True,
    )
    ways: list[How] = args.ways.split(",")
    pivotal.searches.LearnedMask(updates=4, refit=4).solve(
        make(), runs=args.runs
    )  # loads what the libraries load at first use
    first_updates(search, make, ways)
    done = {how: searched(search, make(), how, args.runs) for how in ways}
    for _ in range(args.repeat):
        done[ways[-1]] = searched(search, make(), ways[-1], args.runs)
    held_out = problem.on(test)
    same = True
    for one, other in (("never", "auto"), ("unrecorded", "auto"), ("never", "unrecorded")):
        if one in done and other in done:
            exactly = one == "unrecorded" and model.device.type == "cuda"
            name = f"{one} and {other}"
            same &= compared(name, done[one]["found"], done[other]["found"], held_out, exactly=exactly)
    print("the results are EQUAL" if same else "the results DIFFER", flush=True)
    if args.profile:
        for how in ways:
            profiled(search, make(), how, args.runs)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
