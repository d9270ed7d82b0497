"""The kinds of bases that `--sites SITE@KIND` can name. One file in this folder adds a kind."""

from pivotal.problem.bases.base import BASES, BasisKind, given_bases, with_bases

__all__ = ["BASES", "BasisKind", "given_bases", "with_bases"]
