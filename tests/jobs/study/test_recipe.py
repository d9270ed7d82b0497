"""What a recipe says, and what it says wrongly: the line, the rule and the cure."""

import pytest
from tests.paths import ROOT, code_of

from pivotal import PivotalError
from pivotal.jobs.study.cells import SETTINGS, Cell, cells_of, chosen
from pivotal.jobs.study.recipe import TableLayout, parse_recipe, read_recipe
from pivotal.questions.templates.template_file import bundled

GOOD = """\
name: toy
about: Planted models.
runs: 2
seed: 5
defaults: {phenomenon: planted, search: learned, updates: 40}
grid:
  model: [planted, "planted:1"]
  kl: [{label: without KL, kl_weight: 0}, {label: with KL, kl_weight: 1, runs: 4}]
also:
  - {label: {model: planted, kl: greedy}, model: planted, search: greedy, max-units: 2}
table: {pool: model}
resources: {cpus: 1, gpus: 0.5}
"""


def cells(text: str = GOOD, runs: int | None = None) -> tuple[Cell, ...]:
    return cells_of(parse_recipe(text, "toy.yaml"), runs)


def test_a_grid_is_the_product_of_its_axes_the_last_one_fastest():
    assert [cell.name for cell in cells()] == [
        "planted, without KL",
        "planted, with KL",
        "planted:1, without KL",
        "planted:1, with KL",
        "planted, greedy",
    ]
    first, second = cells()[:2]
    assert first.label == {"model": "planted", "kl": "without KL"}
    assert (first.question.phenomenon, first.options["kl_weight"], first.options["updates"]) == (
        "planted",
        0.0,
        40,
    )
    assert (first.seeds, second.seeds) == (range(5, 7), range(5, 9))
    assert first.question.split_seed == 5


def test_a_default_option_is_for_the_searches_that_have_it():
    greedy = cells()[-1]
    assert greedy.search.name == "greedy" and greedy.options["max_units"] == 2
    assert "updates" not in greedy.options


def test_the_rest_of_a_recipe():
    recipe = parse_recipe(GOOD, "toy.yaml")
    assert recipe.table == TableLayout(pool="model")
    assert (recipe.resources.cpus, recipe.resources.gpus) == (1, 0.5)
    assert recipe.text == GOOD


def test_the_key_of_a_cell_is_its_settings_not_its_labels_and_its_seeds():
    renamed = cells(GOOD.replace("label: with KL", "label: firm").replace("runs: 2", "runs: 7"))
    assert [cell.key for cell in renamed] == [cell.key for cell in cells()]
    for other in (GOOD.replace("updates: 40", "updates: 41"), GOOD.replace("seed: 5", "seed: 6")):
        assert not {cell.key for cell in cells(other)[:4]} & {cell.key for cell in cells()}


def test_values_are_those_of_the_cell_else_of_the_preset_else_natural():
    def values(cell: str) -> str:
        text = f"name: toy\nabout: Values.\ngrid: {{model: [planted]}}\ndefaults: {{{cell}}}\n"
        return cells(text)[0].question.values

    assert values("search: learned") == "natural"
    assert values("preset: paper") == "unbounded"
    assert values("preset: paper, values: interchange") == "interchange"
    with pytest.raises(PivotalError, match="no searches named 'gredy'"):
        values("search: gredy, preset: paper")


def test_cells_are_chosen_by_a_part_of_their_name_or_a_pattern():
    assert [cell.name for cell in chosen(cells(), "WITH KL")] == ["planted, with KL", "planted:1, with KL"]
    assert [cell.name for cell in chosen(cells(), "planted, *")] == [
        "planted, without KL",
        "planted, with KL",
        "planted, greedy",
    ]
    with pytest.raises(PivotalError, match="no name matches 'gredy'"):
        chosen(cells(), "gredy")


LAUGHS = "\n".join(f"  a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]" for i in range(9))
AXES = "\n".join(f"  axis{i}: [{{updates: 1, label: a}}, {{updates: 2, label: b}}]" for i in range(26))
WRONG = [
    ("runs: 2", "rums: 2", "toy.yaml, line 3, column .*: there is no key 'rums' in a recipe. Did you mean 'runs'?"),
    ("kl_weight: 0", "kl_wight: 0", r"line 8, .* \(cell 'planted, without KL'\): 'kl_wight' .* mean 'kl_weight'?"),
    ("updates: 40", "updtes: 40", "line 5, column .*: 'updtes' is not a setting .* Did you mean 'updates'?"),
    ("updates: 40", "updates: many", "'updates' of 'learned' takes a whole number, not 'many'"),
    ("max-units: 2", "preset: none-such", "'greedy' has no preset 'none-such'"),
    ("max-units: 2", "steps: evry", "line 10, .*'steps' of a cell takes .* not 'evry'. Did you mean 'every'?"),
    ("label: with KL", "label: without KL", "two cells are named"),
    ("kl_weight: 1", "kl_weight: 1}]\n  kl-weight: [{label: x, kl-weight: 3", "'kl_weight' is also in another axis"),
    ("kl_weight: 1", "kl_weight: 0", "'planted, without KL' and 'planted, with KL' are the same"),
    ("kl: [", "kl: 3 #[", "line 8, column 3: 'kl' is a list, not text. Example"),
    ("name: toy", "name: ''", "line 1, column .*: A study needs a name"),
    ("cpus: 1", "cpus: one", "line 12, column .*: Option 'cpus' of 'resources' takes"),
    ("runs: 4", "runs: 0", "line 8, .*runs must be 1 or more, but it is 0"),
    ("pool: model", "pol: model", "line 11, column .*: 'table' has no option 'pol'. Did you mean 'pool'?"),
    ("pool: model", "across: modl", "line 11, column .*: 'across' must name an axis .* Did you mean 'model'?"),
    ("max-units: 2", "max-units: 2, max_units: 3", "line 10, .*: 'max_units' is also at .*toy.yaml, line 10"),
    (GOOD, "- a list", "a recipe is a mapping, not a list"),
    (GOOD, "name: empty", "a study needs cells"),
    (GOOD, f"name: x\ngrid:\n{AXES}\n", r"line 2, column 1: a study has at most 10,000 cells, not 67,"),
    (GOOD, f"name: x\ngrid:\n  a0: &a0 [x]\n{LAUGHS}\n", "has no aliases"),
    ("runs: 4", "runs: 9223372036854775808", r"runs must be a whole number, 1 to 10,000, but it is 9223372036"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "said"), WRONG, ids=range(len(WRONG)))
def test_bad_recipes(good, bad, said):
    assert good in GOOD
    with pytest.raises(PivotalError, match=said):
        cells(GOOD.replace(good, bad))


def test_a_folder_is_no_recipe_but_may_hold_one(tmp_path):
    with pytest.raises(PivotalError, match=r"A recipe is a YAML file, but .* is a folder\. Give a YAML file"):
        read_recipe(tmp_path)
    (tmp_path / "recipe.yaml").write_text("name: mine")
    with pytest.raises(PivotalError, match=r"Give .*recipe\.yaml, with --out"):
        read_recipe(tmp_path)


def test_the_recipe_of_the_documentation_is_one():
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    (text,) = code_of("studies", "yaml")
    assert [len(cell.seeds) for cell in cells(text)] == [3] * 9
    for key in SETTINGS:
        assert f"`{key}`" in page, key


def test_the_atlas_asks_every_bundled_phenomenon_and_the_larger_one_asks_more():
    """The larger atlas has the cells of the other, so that its rows serve both."""
    atlas, larger = cells_of(read_recipe("atlas")), cells_of(read_recipe("atlas-blimp"))
    assert {cell.question.phenomenon for cell in atlas} == set(bundled())
    assert {cell.key for cell in atlas} < {cell.key for cell in larger}


def test_other_phenomena_are_asked_as_their_own_cells_say():
    first, *_ = cells(
        "name: x\ndefaults: {model: planted, cross: true}\n"
        "grid: {q: [{phenomenon: planted}, {phenomenon: a + b, labels: c=d}, {phenomenon: t.tsv, columns: good=e}]}"
    )
    assert [(one.phenomenon, one.labels, one.columns) for one in first.others or ()] == [
        ("planted", "", ""),
        ("a + b", "c=d", ""),
        ("t.tsv", "", "good=e"),
    ]
