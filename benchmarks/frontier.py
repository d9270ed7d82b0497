"""`pivotal compare` for a machine that has little more than torch. It prints a line for each finished row.

    python benchmarks/frontier.py --searches learned,greedy,exchange --sizes 1..10 --runs 5 --out DIR [--max-kl 0.05]

Every row is saved in DIR/compare.json as soon as it is finished. After a kill, the same command continues.
"""

from __future__ import annotations

import argparse

from pivotal.jobs.compare import ComparisonPlan, compare, contenders, sizes_of
from pivotal.questions.question import Question
from pivotal.searches.base import Progress


class Lines:
    """A watch that prints the messages of the job."""

    def say(self, text: str) -> None:
        print(text, flush=True)

    def progress(self, progress: Progress) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="wiki-lstm")
    parser.add_argument("--phenomenon", default="number-agreement")
    parser.add_argument("--steps", default="single")
    parser.add_argument("--split", default="prefixes")
    parser.add_argument("--searches", default="")
    parser.add_argument("--sizes", default="1..10")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mode", default="converged")
    parser.add_argument("--values", default="unbounded", help="what units may be set to")
    parser.add_argument("--max-kl", type=float)
    parser.add_argument("--kl-weight", type=float)
    parser.add_argument("--option", "-o", action="append", default=[])
    parser.add_argument("--device")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    common = {
        name: value
        for name, value in (("max_kl", args.max_kl), ("kl_weight", args.kl_weight))
        if value is not None
    }
    plan = ComparisonPlan(
        tuple(
            contenders(
                [s for s in args.searches.split(",") if s],
                common=common,
                options=args.option,
                same_values=True,
            )
        ),
        sizes_of(args.sizes),
        runs=args.runs,
        mode=args.mode,
    )
    question = Question(
        model=args.model,
        phenomenon=args.phenomenon,
        steps=args.steps,
        values=args.values,
        split=args.split,
    )
    compare(question, plan, out=args.out, device=args.device, watch=Lines())


if __name__ == "__main__":
    main()
