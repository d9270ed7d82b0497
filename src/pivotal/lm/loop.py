"""The training loop: updates of all seeds, learning rate, validation, snapshots and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from pivotal.errors import PivotalError
from pivotal.lm.corpus import CorpusVocabulary
from pivotal.lm.learner import SeedLearner, perplexity_at
from pivotal.lm.model_folders import ModelFolders, short_number
from pivotal.lm.recipes import Settings
from pivotal.lm.training_folder import CHECKPOINT, TrainingFolder
from pivotal.records.run import Progress
from pivotal.stopping import signals
from pivotal.watch import Watch

TELL_EVERY = 2.0
"""Seconds between two reads of the loss. Each read waits for the device."""
_STATE = ("step", "seconds", "stepping", "finished", "history", "snapshots")
"""What a checkpoint keeps of the loop itself."""


@dataclass
class TrainingCourse:
    """All seeds train in step: they are at the same place in the same epoch and share one checkpoint."""

    settings: Settings
    words: CorpusVocabulary
    learners: Sequence[SeedLearner]
    valid: Tensor
    workplace: TrainingFolder
    folders: ModelFolders
    watch: Watch
    checkpoint_seconds: float
    step: int = 0
    seconds: float = 0.0
    """Seconds of training and validation, including those before a resume."""
    stepping: float = 0.0
    """Seconds spent on updates."""
    finished: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)
    """Per epoch: validation perplexity of every seed, tokens read, seconds."""
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    """The same for every snapshot, with the number of tokens that was asked for."""

    def __post_init__(self) -> None:
        self._steps_per_epoch = -(-(self.learners[0].rows - 1) // self.settings.bptt)
        self._started = self._saved = self._told = time.monotonic()
        self._rows = 0
        """Rows read since the loss was last read."""

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train to the end, from the last checkpoint if there is one."""
        self._resume()
        if self.finished:
            return
        self._check_snapshots(self.settings.epochs * self._epoch_tokens)
        self._started = time.monotonic() - self.seconds
        self._saved = self._told = time.monotonic()
        with signals() as stop, stop.deferred():
            while self.step < self.steps:
                self._step()
                self._take_snapshots()
                if self.learners[0].epoch_done or time.monotonic() - self._told >= TELL_EVERY:
                    self._tell()
                if self.learners[0].epoch_done:
                    self._validate()
                    for learner in self.learners:
                        learner.next_epoch()
                stopping = stop.requested  # read once: a signal that comes later waits for the next step
                if stopping or time.monotonic() - self._saved >= self.checkpoint_seconds:
                    self._save()
                if stopping:
                    stop.check()
        for learner in self.learners:
            learner.take_best()
        self.finished = True
        self._save()

    def _step(self) -> None:
        for learner in self.learners:
            rows = learner.step(self.rate(learner))
        self._rows += rows
        self.step += 1
        self.seconds = time.monotonic() - self._started

    def _check_snapshots(self, tokens: int) -> None:
        """Raise PivotalError if a snapshot is beyond the end of the training."""
        last = max(self.folders.snapshot_tokens, default=0)
        if last > tokens:
            raise PivotalError(
                f"The training reads {tokens:,} tokens, fewer than the snapshot at {last:,}.", "snapshots"
            )

    def _take_snapshots(self) -> None:
        for asked in self.folders.snapshot_tokens[len(self.snapshots) :]:
            if asked > self.tokens:
                break
            if self._rows:
                self._tell()
            point = {"asked": asked, **self._measured([seed.loss_on(self.valid) for seed in self.learners])}
            self.folders.write_snapshots(self, point)
            self.snapshots.append(point)
            self.watch.say(f"snapshot at {short_number(asked)} tokens: {_shown(point)}")
            # Neither the validation nor the writing counts as time spent on updates.
            self._told = time.monotonic()

    @property
    def steps(self) -> int:
        return self.settings.epochs * self._steps_per_epoch

    @property
    def tokens(self) -> int:
        """Tokens read so far by each seed."""
        learner = self.learners[0]
        return (learner.epoch * (learner.rows - 1) + learner.row) * self.settings.batch

    @property
    def share(self) -> float:
        """Completed share of the training."""
        return self.step / self.steps

    def rate(self, learner: SeedLearner) -> float:
        """Learning rate of the next update."""
        warmup = min(self.settings.warmup, self.steps // 10)
        rate = learner.plateau_rate
        if self.settings.schedule == "cosine":
            rate = self.settings.rate * 0.5 * (1 + math.cos(math.pi * self.share))
        return rate * min(1.0, (self.step + 1) / warmup) if warmup else rate

    def _validate(self) -> None:
        """Validate at the end of an epoch. The time counts as training, but not as time spent on updates."""
        point = self._measured([learner.validate(self.valid) for learner in self.learners])
        self.history.append(point)
        self.watch.say(
            f"epoch {self.tokens / max(self._epoch_tokens, 1):.3g}: {_shown(point)}  "
            f"({self.speed / 1e6:.3g}M tokens/s)"
        )
        self._told = time.monotonic()

    def _measured(self, losses: list[float]) -> dict[str, Any]:
        if not all(map(math.isfinite, losses)):
            raise PivotalError(f"The loss diverged after {self.step} updates: lower --rate, use --overwrite.")
        perplexities = [round(perplexity_at(loss), 3) for loss in losses]
        return {"tokens": self.tokens, "seconds": round(self.seconds, 1), "perplexity": perplexities}

    # -- progress -----------------------------------------------------------------------------------------------

    @property
    def _epoch_tokens(self) -> int:
        return (self.learners[0].rows - 1) * self.settings.batch

    @property
    def speed(self) -> float:
        """Tokens per second of all seeds together."""
        return self.tokens * len(self.learners) / self.stepping if self.stepping else 0.0

    def _tell(self) -> None:
        mean = sum(learner.take_loss() for learner in self.learners) / len(self.learners) / max(self._rows, 1)
        # Reading the loss has waited for the device: only now does the time include all updates.
        now = time.monotonic()
        self.stepping, self._told, self._rows = self.stepping + now - self._told, now, 0
        perplexity = perplexity_at(mean) if math.isfinite(mean) else math.nan
        self.watch.progress(
            Progress(
                "training",
                self.tokens,
                self._epoch_tokens * self.settings.epochs,
                extra={"perplexity": [perplexity], "speed": [self.speed]},
            )
        )

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._rows:
            self._tell()
        self.seconds = time.monotonic() - self._started
        state = {name: getattr(self, name) for name in _STATE}
        self.workplace.save(CHECKPOINT, state | {"learners": [one.state_dict() for one in self.learners]})
        self._saved = self._told = time.monotonic()

    def _resume(self) -> None:
        saved = self.workplace.load(CHECKPOINT)
        if saved is None:
            return
        for name in _STATE:
            setattr(self, name, saved[name])
        for learner, state in zip(self.learners, saved["learners"], strict=True):
            learner.load_state_dict(state)
        self.watch.say(f"Resuming after {self.step} updates.")


def _shown(point: dict[str, Any]) -> str:
    return "validation perplexity " + ", ".join(f"{perplexity:.2f}" for perplexity in point["perplexity"])
