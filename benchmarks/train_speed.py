"""Tokens per second of `train-lm` on a GPU, and whether replayed updates compute what updates without a recording do.

    python benchmarks/train_speed.py --recipe gulordava --seeds 1 2 4 --vocabulary-size 12288

The text is random: words with the frequencies of Zipf's law, sentences of about 25 words. One JSON line per number of
seeds: tokens per second of all seeds together, and milliseconds per update of all. `--check` compares weights after
some updates: replayed and not, beside another seed and alone, in one piece and resumed from a checkpoint.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch

from pivotal.lm.learner import SeedLearner, Stream
from pivotal.lm.recipes import RECIPES, Settings, settings_of
from pivotal.models import device_named
from pivotal.models.replay import Replay

EOS = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="gulordava")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0, help="of the measurement, after the recording")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--updates", type=int, default=40, help="of a check")
    parser.add_argument("--device")
    for name in ("vocabulary-size", "hidden", "embedding", "batch", "bptt"):
        parser.add_argument(f"--{name}", type=int)
    given = vars(parser.parse_args())
    recipe, seeds, seconds = given.pop("recipe"), given.pop("seeds"), given.pop("seconds")
    check, updates, device = given.pop("check"), given.pop("updates"), device_named(given.pop("device"))
    sizes = {name: value for name, value in given.items() if value is not None}
    half = {"precision": "fp16" if device.type == "cuda" else "fp32"}
    settings = settings_of(recipe, sizes | half)
    stream = text(settings, device)
    if check:
        tell(recipe=recipe, **differences(settings, stream, device, updates))
    for number in seeds:
        tell(recipe=recipe, seeds=number, **speed(settings, stream, device, number, seconds))


def text(settings: Settings, device: torch.device) -> Stream:
    """Two hundred updates' worth."""
    random, words = np.random.default_rng(0), settings.vocabulary_size
    share = 1 / np.arange(2, words + 1)
    size = settings.batch * (200 * settings.bptt + 1)
    ids = 1 + random.choice(words - 1, size, p=share / share.sum())
    ids[random.random(size) < 0.04] = ids[-1] = EOS
    return Stream.of(ids.astype(np.int32), EOS, device)


def speed(
    settings: Settings, stream: Stream, device: torch.device, seeds: int, seconds: float
) -> dict[str, Any]:
    learners = made(settings, stream, device, range(seeds))
    learn(learners, 3)  # a run, a recording and a replay
    synchronize(device)
    started, updates = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        learn(learners, 20)
        synchronize(device)
        updates += 20
    spent = time.perf_counter() - started
    tokens = updates * settings.batch * settings.bptt * seeds
    return {"tokens_per_second": round(tokens / spent), "ms": round(1000 * spent / updates, 3)}


def differences(
    settings: Settings, stream: Stream, device: torch.device, updates: int
) -> dict[str, float | bool]:
    """The largest differences of a weight, in units of the largest change of one while learning."""
    (alone,) = made(settings, stream, device, [1])
    start = weights(alone)
    learn([alone], updates)
    company = made(settings, stream, device, [0, 1])
    learn(company, updates)
    (unrecorded,) = made(settings, stream, device, [1])
    unrecorded._replay = Replay(None)
    learn([unrecorded], updates)
    first, second = (made(settings, stream, device, [1])[0] for _ in range(2))
    learn([first], updates // 2)
    second.load_state_dict(first.state_dict())
    learn([second], updates - updates // 2)
    whole = weights(alone)
    moved = float((whole - start).abs().max())
    found = {"beside": company[1], "unrecorded": unrecorded, "resumed": second}
    apart = {name: float((weights(one) - whole).abs().max()) / moved for name, one in found.items()}
    return {"moved": moved, **apart, "learnt": alone.take_loss() > 0}


def made(settings: Settings, stream: Stream, device: torch.device, seeds: Any) -> list[SeedLearner]:
    return [SeedLearner(settings, settings.vocabulary_size, stream, seed, device) for seed in seeds]


def learn(learners: list[SeedLearner], updates: int) -> None:
    for _ in range(updates):
        for learner in learners:
            if learner.epoch_done:
                learner.next_epoch()
            learner.step(learner.settings.rate)


def weights(learner: SeedLearner) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in learner.weights().values()])


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
