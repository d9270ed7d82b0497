"""Numbers as text, and sentences about a run."""

from math import nan

from pivotal import Finding
from pivotal.records.serial import replace
from pivotal.report import tables
from pivotal.report.evidence import badge


def test_numbers_as_text():
    assert [tables.percent(share) for share in (0.9999, 1.0, 0.994)] == ["99.99%", "100%", "99.4%"]
    assert tables.percent(None) == tables.percent(nan) == tables.number(nan) == "–"
    assert tables.interval(0.985, 1.0) == "98.5–100%"
    assert tables.points(-0.334) == "−33.4"
    assert [tables.points(-0.0), tables.number(-1e-9), tables.signed(-0.001)] == ["+0.0", "0.000", "+0.00"]
    assert tables.mean_and_spread([0.5, None, 0.7]) == "+0.60 ± 0.14"
    assert tables.mean_and_spread([None]) == tables.activation(None) == "left alone"
    assert [tables.activation(v) for v in (0.0, -0.001, 0.126, -1.0, 1234.0)] == [
        *("0.00", "0.00", "+0.13", "−1.00", "+1,234")
    ]


def test_controls_that_break_a_bound_are_told(folder):
    summary = folder.summary()
    assert "the bound" not in tables.control_sentence(summary)
    summary = replace(summary, controls=replace(summary.controls, broken=7))
    assert " (for p, without 7 sets over the bound on KL): p =" in tables.control_sentence(summary)


def test_the_sentence_claims_no_more_than_was_found(folder):
    summary = folder.summary()
    assert "3 of 64 units switch planted in planted: set at every step they flip" in tables.sentence(summary)
    nothing = replace(summary.verdict, word="no evidence")
    few = replace(summary, verdict=nothing, flip_accuracy=0.11, max_kl=0.05, kl_bound_kept=False)
    said = tables.sentence(few)
    assert said.startswith(
        "No evidence: 3 of 64 units, set at every step, flip 11.0% of 303 held-out preferences"
    )
    assert "decide" not in said and said.endswith(". This KL exceeds the bound of 0.05.")
    assert "set once, at the cue, flip 11.0%" in tables.sentence(replace(few, steps="single"))
    assert "exceeds" not in tables.sentence(replace(few, kl_bound_kept=True))


def test_negative_shares_have_a_minus_that_is_no_dash():
    assert [tables.percent(share) for share in (-0.029, -0.0001, 0.0001)] == ["−2.9%", "0.0%", "0.01%"]
    assert tables.interval(-0.05, -0.009) == "−5.0 to −0.9%"


def test_the_untouched_model_is_judged_on_labelled_pairs(folder):
    summary = folder.summary()
    assert tables.clean_sentence(summary).endswith("in 100% of the held-out pairs.")
    assert "100% of the 20 " in tables.clean_sentence(replace(summary, labelled=20))
    assert tables.clean_sentence(replace(summary, clean_accuracy=None)) == ""


def test_a_sentence_before_and_after_with_the_probabilities_of_its_words(folder):
    summary = folder.summary()
    assert tables.example_sentence(summary) in repr(Finding(folder, summary))
    example = replace(
        summary.example, prefix="The key", words=("is", "are"), direction="plural", target=(0.047, 0.505)
    )
    said = tables.example_sentence(replace(summary, example=example))
    assert said == (
        "A typical flip, to plural: “The key …” is 95.3% → 49.5%, are 4.7% → 50.5% (probabilities among the two words)."
    )
    few = replace(summary, example=example, flip_accuracy=0.06)
    assert tables.example_sentence(few).startswith("One that flips, to plural")
    missed = replace(summary, example=replace(example, target=(0.1, 0.2)))
    assert "None flips; a typical" in tables.example_sentence(missed)


def test_a_verdict_with_failed_checks_is_not_green(folder):
    verdict = folder.summary().verdict
    assert badge(verdict) == ("Verdict: switch · 2 not checked", "good")
    checks = (replace(verdict.checks[0], passed=False), *verdict.checks[1:])
    assert badge(replace(verdict, checks=checks)) == ("Verdict: switch · 1 failed, 2 not checked", "warn")
    assert badge(replace(verdict, word="no evidence"))[1] == "bad"
