"""The types of the names that `__init__.py` imports when they are first used."""

from pivotal.errors import PivotalError as PivotalError
from pivotal.evidence.certify import certify as certify
from pivotal.evidence.check import check as check
from pivotal.evidence.evaluation import Evaluation as Evaluation
from pivotal.evidence.evaluation import evaluate as evaluate
from pivotal.evidence.trace import trace as trace
from pivotal.jobs.find import Finding as Finding
from pivotal.jobs.front_door import find as find
from pivotal.jobs.run_folder import RunFolder as RunFolder
from pivotal.jobs.run_folder import runs as runs
from pivotal.models import (
    LanguageModel as LanguageModel,
)
from pivotal.models import (
    list_models as list_models,
)
from pivotal.models import (
    load_model as load_model,
)
from pivotal.models.intervened import IntervenedModel as IntervenedModel
from pivotal.models.module import ModuleLM as ModuleLM
from pivotal.models.recurrent.lm import RecurrentLM as RecurrentLM
from pivotal.models.transformers.lm import TransformersLM as TransformersLM
from pivotal.problem.problem import Problem as Problem
from pivotal.questions.minimal_pair import MinimalPair as MinimalPair
from pivotal.questions.pairs import PairSet as PairSet
from pivotal.questions.pairs import read_pairs as read_pairs
from pivotal.questions.phenomena import load_phenomenon as load_phenomenon
from pivotal.questions.question import Question as Question
from pivotal.records.certificate import Certificate as Certificate
from pivotal.records.certificate import Effort as Effort
from pivotal.records.check import CheckReport as CheckReport
from pivotal.records.intervention import Intervention as Intervention
from pivotal.records.traces import Trace as Trace
from pivotal.searches import Discovery as Discovery
from pivotal.searches import Progress as Progress
from pivotal.searches import Search as Search
from pivotal.searches.attribution import Attribution as Attribution
from pivotal.searches.exchange import Exchange as Exchange
from pivotal.searches.greedy import Greedy as Greedy
from pivotal.searches.learned import LearnedMask as LearnedMask
from pivotal.searches.reinforce import Reinforce as Reinforce
from pivotal.units import Site as Site
from pivotal.units import Unit as Unit
from pivotal.units import UnitSpace as UnitSpace

__version__: str
