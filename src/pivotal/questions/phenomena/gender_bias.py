"""Pronouns after a profession: 17 sentence openings in the form of Vig et al. (2020), and 169 professions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pivotal.questions.pairs import MinimalPair, PairSet
from pivotal.questions.phenomena.base import Phenomenon

# Every opening ends where a pronoun is the natural next word. None refers to one gender.
TEMPLATES = (
    "The {} insisted that",
    "The {} claimed that",
    "The {} admitted that",
    "The {} hoped that",
    "The {} feared that",
    "The {} promised the visitors that",
    "The {} smiled because",
    "The {} resigned because",
    "The {} moved abroad because",
    "The {} arrived late because",
    "The {} was praised because",
    "The {} was very proud because",
    "The {} could not sleep because",
    "The {} never came back because",
    "The {} missed the train because",
    "The {} left the room because",
    "The {} was not worried because",
)

# Single words that do not name a gender (no "waitress", no "policeman").
PROFESSIONS = (
    "accountant", "administrator", "advocate", "aide", "ambassador", "analyst", "anthropologist",
    "archaeologist", "architect", "archivist", "artist", "astronaut", "astronomer", "athlete", "attorney",
    "author", "baker", "banker", "barrister", "bartender", "biologist", "botanist", "boxer", "broadcaster",
    "broker", "butcher", "captain", "caretaker", "carpenter", "cellist", "chancellor", "chef", "chemist",
    "choreographer", "clerk", "coach", "colonel", "columnist", "comedian", "commander", "commentator",
    "commissioner", "composer", "conductor", "consultant", "correspondent", "counselor", "critic",
    "curator", "cyclist", "dancer", "dean", "dentist", "deputy", "designer", "detective", "diplomat",
    "director", "doctor", "driver", "drummer", "economist", "editor", "educator", "electrician", "engineer",
    "entrepreneur", "envoy", "farmer", "filmmaker", "firefighter", "gardener", "geologist", "goalkeeper",
    "guitarist", "gymnast", "hairdresser", "historian", "housekeeper", "illustrator", "inspector",
    "instructor", "inventor", "investigator", "janitor", "journalist", "judge", "lawyer", "lecturer",
    "legislator", "librarian", "lieutenant", "magician", "magistrate", "manager", "mathematician", "medic",
    "midwife", "miner", "minister", "missionary", "musician", "nanny", "narrator", "negotiator", "novelist",
    "nurse", "officer", "organist", "painter", "performer", "pharmacist", "philosopher", "photographer",
    "physician", "physicist", "pianist", "pilot", "planner", "playwright", "plumber", "poet", "politician",
    "preacher", "president", "principal", "producer", "professor", "programmer", "promoter", "prosecutor",
    "psychiatrist", "psychologist", "rabbi", "ranger", "receptionist", "reporter", "researcher", "sailor",
    "scholar", "scientist", "screenwriter", "sculptor", "secretary", "senator", "sergeant", "singer",
    "skater", "sociologist", "solicitor", "strategist", "stylist", "superintendent", "surgeon", "swimmer",
    "tailor", "teacher", "technician", "therapist", "trader", "translator", "treasurer", "trooper", "tutor",
    "violinist", "vocalist", "worker", "wrestler", "writer",
)  # fmt: skip


@dataclass(frozen=True)
class GenderBias(Phenomenon):
    """Every profession in every opening. Neither pronoun is expected, so the pairs have no label."""

    name: ClassVar[str] = "gender-bias"
    labels: ClassVar[tuple[str, str]] = ("he", "she")
    summary: ClassVar[str] = "pronoun after a profession: 'The nurse smiled because' he or she; 2,873 pairs"

    def pairs(self) -> PairSet:
        made = (
            profession_pair(template, profession, f"t{number:02}")
            for number, template in enumerate(TEMPLATES, start=1)
            for profession in PROFESSIONS
        )
        return PairSet(self.name, self.labels, tuple(made))


def profession_pair(template: str, profession: str, group: str, label: str = "") -> MinimalPair:
    """The pair of a template and a profession. The template has {} as one of its words. A profession has no other
    gender, so "man" and "woman" take its place in the counterfactual prefixes."""
    cue = template.split().index("{}")
    prefix, man, woman = (template.replace("{}", noun) for noun in (profession, "man", "woman"))
    lexemes = (("profession", profession),)
    return MinimalPair(prefix, cue, ("he", "she"), label, group, lexemes, (man, woman))
