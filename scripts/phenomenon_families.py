"""Families of the phenomena of the atlas, by what the two labels mean.

We sorted them by hand after we had seen the rows of wiki-lstm, and before there were rows of any other model. What the
families of wiki-lstm share is therefore no independent test of the sorting; the other models are one. The labels of the
phenomena are older than all rows.
"""

from __future__ import annotations

FAMILIES: dict[str, tuple[str, ...]] = {
    "number of verbs": (
        *("agreement-be", "agreement-coordination", "agreement-have", "agreement-object-relative"),
        *("agreement-participle", "agreement-pronoun", "agreement-quantifier", "agreement-subject-relative"),
        *("number-agreement", "BLiMP distractor_agreement_relational_noun"),
        *("BLiMP distractor_agreement_relative_clause", "BLiMP irregular_plural_subject_verb_agreement_1"),
        "BLiMP regular_plural_subject_verb_agreement_1",
    ),
    "number of nouns": (
        *(
            "agreement-question",
            "agreement-there",
            "count-mass",
            "determiner-demonstrative",
            "determiner-irregular",
        ),
        *("determiner-numeral", "determiner-quantifier", "BLiMP determiner_noun_agreement_1"),
        *(
            "BLiMP determiner_noun_agreement_irregular_1",
            "BLiMP determiner_noun_agreement_with_adj_irregular_1",
        ),
        "BLiMP determiner_noun_agreement_with_adjective_1",
    ),
    "number of pronouns": (
        *("possessive-number", "pronoun-number", "reciprocal", "reflexive-number"),
        *("BLiMP anaphor_number_agreement", "BLiMP principle_A_c_command"),
    ),
    "gender": (
        *(
            "gender-bias",
            "gendered-noun",
            "possessive-gender",
            "pronoun-gender-kinship",
            "pronoun-gender-name",
        ),
        *("pronoun-gender-title", "reflexive-gender", "BLiMP anaphor_gender_agreement"),
        "BLiMP principle_A_domain_2",
    ),
    "person, case, animacy": (
        *("agreement-person", "pronoun-animacy", "pronoun-case", "reflexive-person", "relative-animacy"),
        *("BLiMP principle_A_case_1", "BLiMP principle_A_case_2", "BLiMP principle_A_domain_1"),
        "BLiMP animate_subject_passive",
    ),
    "tense and verb form": (
        *("aspect", "do-support", "gerund", "modal", "tense-adverb", "tense-conditional", "tense-sequence"),
        "BLiMP irregular_past_participle_verbs",
    ),
    "verb frames": (
        *("clause-embedding", "filler-gap", "particle", "passive", "transitivity", "verb-complement"),
        *("verb-gerund", "word-class", "BLiMP wh_island"),
    ),
    "degree and modification": ("adjective-adverb", "comparative", "degree-clause", "degree-grade"),
    "polarity and pairs of words": (
        *("between-from", "correlative-both", "correlative-neither", "negation-but", "npi-any", "npi-ever"),
        *("preposition-time", "since-for", "BLiMP npi_present_1", "BLiMP npi_present_2"),
    ),
    "sound and punctuation": ("article-sound", "bracket", "quotation"),
    "knowledge and context": (
        *("continent", "greater-than", "hypernym", "indirect-object", "language", "odd-even"),
        *("relation-antonym", "relation-capital", "sentiment"),
    ),
}

_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}


def family_of(phenomenon: str) -> str:
    return _FAMILY[phenomenon]
