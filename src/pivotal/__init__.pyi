"""The types of the names that `__init__.py` imports when they are first used."""

from pivotal import evidence as evidence
from pivotal import exports as exports
from pivotal import models as models
from pivotal import questions as questions
from pivotal import searches as searches
from pivotal import testing as testing
from pivotal import units as units
from pivotal.errors import PivotalError as PivotalError
from pivotal.evidence.certify import certify as certify
from pivotal.evidence.evaluation import Evaluation as Evaluation
from pivotal.evidence.evaluation import evaluate as evaluate
from pivotal.evidence.side_effects import transfer as transfer
from pivotal.evidence.trace import trace as trace
from pivotal.jobs.find import Finding as Finding
from pivotal.jobs.front_door import check as check
from pivotal.jobs.front_door import find as find
from pivotal.jobs.run_folder import RunFolder as RunFolder
from pivotal.jobs.runs import runs as runs
from pivotal.jobs.study.job import study as study
from pivotal.models import list_models as list_models
from pivotal.models import load_model as load_model
from pivotal.problem.problem import Problem as Problem
from pivotal.questions.pairs import read_pairs as read_pairs
from pivotal.questions.phenomena import list_phenomena as list_phenomena
from pivotal.questions.phenomena import load_phenomenon as load_phenomenon
from pivotal.questions.question import Question as Question
from pivotal.records.intervention import Intervention as Intervention

__version__: str
