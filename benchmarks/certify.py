"""How long a certificate takes, phase by phase, on a machine with nothing but torch.

python benchmarks/certify.py INTERVENTION --steps single [--exact] [--limit 150] [--out certificate.json]

INTERVENTION is a folder, or names of units with commas between them, such as hidden.0:122, whose values are then fitted
first. With `--limit` it stops after so many seconds and says how far it has got. Seconds of the
processor, in brackets, are what counts where others use it as well.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from pivotal.jobs.certify import certify_run
from pivotal.problem.objective import Terms
from pivotal.problem.prepare import model_of, problem_of
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.records.certificate import Effort
from pivotal.records.intervention import Intervention
from pivotal.records.serial import encode
from pivotal.report.certified import sentences, verdict
from pivotal.searches.base import Progress, interventions_of
from pivotal.searches.tools.refit import Refit

_TERMS = Terms(kl_weight=0.1)


class OverLimit(Exception):
    """The time that was allowed is used up."""


class Phases:
    """Prints what each phase took, and stops all when the time is up."""

    def __init__(self, limit: float | None) -> None:
        self._limit, self._start = limit, time.perf_counter()
        self._last, self._since, self._told = Progress("", 0, 1, [], [], []), self._start, self._start
        self._processor = time.process_time()
        self.spent: dict[str, float] = {}

    def say(self, text: str) -> None:
        print(text, flush=True)

    def progress(self, step: Progress) -> None:
        now = self._now()
        if step.phase != self._last.phase:
            self.close()
            self._since = self._told = now
        elif now - self._told > 5:
            share = step.update / step.updates
            whole = (now - self._since) / share if share else float("inf")
            self.say(
                f"  {step.phase}: {share:.1%} in {now - self._since:.1f} s, all of it in about {whole:.0f} s"
            )
            self._told = now
        self._last = step
        if self._limit is not None and now - self._start > self._limit:
            raise OverLimit(
                f"{step.phase}, {step.update:,} of {step.updates:,} after {now - self._since:.1f} s"
            )

    def close(self) -> None:
        if self._last.phase:
            took, processor = self._now() - self._since, time.process_time()
            self.spent[self._last.phase] = self.spent.get(self._last.phase, 0.0) + took
            self.say(f"{self._last.phase}: {took:.1f} s ({processor - self._processor:.1f} s)")
            self._processor = processor

    @staticmethod
    def _now() -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


def fitted(names: list[str], question: Question, device: str | None) -> Intervention:
    """The units with these names, their values fitted to all pairs."""
    problem: Problem = problem_of(question, model_of(question, device), question.load_pairs())
    mask = torch.zeros(1, len(problem.labels), len(problem.space), device=problem.model.device)
    mask[:, :, [problem.space.flat(problem.model.unit(name)) for name in names]] = 1.0
    values = Refit(_TERMS, updates=120).fit(problem, mask).values
    return interventions_of(problem, mask.bool(), values)[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("intervention")
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--steps", default="single")
    parser.add_argument("--values", default="unbounded", help="what units may be set to")
    parser.add_argument("--exact", action="store_true", help="every swap and every pair")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    question = Question(model=args.model, phenomenon=args.phenomenon, steps=args.steps, values=args.values)
    folder = Path(args.intervention)
    if folder.is_dir():
        intervention = Intervention.load(folder)
    else:
        intervention = fitted(args.intervention.split(","), question, args.device)
    phases = Phases(args.limit)
    effort = Effort(candidates=0, pairs="all") if args.exact else Effort()
    started = time.perf_counter()
    try:
        made = certify_run(
            intervention, question, None, terms=_TERMS, effort=effort, device=args.device, watch=phases
        )
    except OverLimit as stopped:
        print(f"Stopped at the limit of {args.limit:g} s in phase {stopped}. Before it: {phases.spent}")
        return
    phases.close()
    seconds = time.perf_counter() - started
    print(verdict(made), *sentences(made), sep="\n")
    print(
        f"{seconds:.1f} s with the model's loading; {made.seconds:.1f} s and {made.nodes:,} node evaluations"
    )
    if torch.cuda.is_available():
        print(f"at most {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB of the GPU's memory")
    if args.out is not None:
        args.out.write_text(encode({"certificate": made, "phases": phases.spent}))


if __name__ == "__main__":
    main()
