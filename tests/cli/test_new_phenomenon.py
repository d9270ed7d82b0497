"""`pivotal new-phenomenon`, and a template file where a phenomenon is named."""

TOY = """
labels: [singular, plural]
lexicon:
  noun: [{singular: noun0a, plural: noun0as}, {singular: noun0b, plural: noun0bs}, {singular: noun0c, plural: noun0cs}]
  verb: [{plural: verb0a, singular: verb0as}, {plural: verb0b, singular: verb0bs}]
  near: [near, behind, quite, often]
words: verb
templates: ["The {noun}", "The {noun} {near}"]
"""


def test_it_writes_a_file_that_works(pivotal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = pivotal("new-phenomenon", "mine")
    assert done.code == 0 and "pivotal find wiki-lstm mine.yaml" in done.out
    assert (tmp_path / "mine.yaml").exists()
    pivotal("new-phenomenon", "mine").refused("mine.yaml exists already")
    told = pivotal("new-phenomenon", "other", "--like", "agreement-be", "--json").json
    assert told == {"path": "other.yaml", "pairs": 840}
    pivotal("new-phenomenon", "third", "--like", "agreement-bee").refused("Did you mean 'agreement-be'?")


def test_a_template_file_is_a_question_and_its_slips_are_told(pivotal, run_folder, tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(TOY)
    done = pivotal("evaluate", run_folder, path, "--part", "all", "--json")
    assert done.code == 0 and set(done.json["by_group"]) == {"t01", "t02"}
    path.write_text(TOY.replace("{near}", "{nera}"))
    pivotal("evaluate", run_folder, path).refused(
        "toy.yaml, line 8", "is not in the lexicon", "Did you mean 'near'?"
    )
