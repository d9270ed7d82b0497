"""`pivotal find --keep`: what must stay bounds the search, and what changes is reported beside the bound."""

from tests.finished_run import FIND

from pivotal import RunFolder

QUICK = ("--controls", "0", "--evidence", "none")


def test_what_must_stay_is_not_flipped(pivotal, tmp_path):
    """The planted pairs cannot both flip and stay."""
    done = pivotal(*FIND, *QUICK, "--keep", "planted", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    folder = RunFolder(tmp_path / "run")
    summary = folder.summary()
    assert folder.settings["keep"] == "planted" and folder.settings["search"]["max_change"] == 0.02
    assert summary.flip_accuracy < 0.5 and summary.max_kl is None
    kept = summary.kept
    assert kept is not None and [effect.phenomenon for effect in kept.effects] == ["planted"]
    assert kept.max_change == 0.02 and list(kept.changes) == ["planted"] and kept.broken == ()
    assert kept.changes["planted"] < 0.022 and kept.kl is None
    for said in (done.out, (tmp_path / "run" / "report.html").read_text()):
        assert "What had to stay" in said
    # Scores and certificates are made with the run's own question.
    scores = pivotal("evaluate", tmp_path / "run", "--json").json
    assert scores["flip_accuracy"] == summary.flip_accuracy


def test_a_broken_bound_is_said_in_the_result(pivotal, tmp_path):
    """The values of a search without a refit keep no bound."""
    options = ("-o", "updates=5", "-o", "refit=0", "--max-change", "0.000001", "--values", "unbounded")
    done = pivotal(*FIND[:3], *FIND[-2:], *options, *QUICK, "--keep", "planted", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    kept = RunFolder(tmp_path / "run").summary().kept
    assert kept.broken == ("planted",) and kept.max_change == 1e-6
    assert f"The change of planted ({kept.changes['planted']:.3f}) exceeds the bound of 1e-06." in " ".join(
        done.out.split()
    )


def test_text_is_kept_by_its_kl(pivotal, tmp_path):
    text = tmp_path / "some.txt"
    text.write_text("The noun0a near noun1a\nThe noun1as often noun2a\nThe noun2a quite\n" * 4)
    done = pivotal(*FIND, *QUICK, "--keep", text, "--max-kl", "0.3", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    kept = RunFolder(tmp_path / "run").summary().kept
    assert kept is not None and (kept.max_kl, kept.max_change, kept.changes) == (0.3, None, {})
    assert kept.kl < 0.33


def test_a_text_in_other_words_is_refused(pivotal, tmp_path):
    """Its KL would be that after unknown words."""
    (tmp_path / "other.txt").write_text("A text in other words\n" * 4)
    done = pivotal("find", "planted", "planted", "--keep", tmp_path / "other.txt", "--out", tmp_path / "run")
    done.refused("does not know most of the words", "Leave it out of --keep")
