import pytest

from pivotal.errors import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("gredy", ["learned", "greedy"], " Did you mean 'greedy'? Available: greedy, learned."),
        ("BASE", ["Base"], " Did you mean 'Base'? Available: Base."),
        ("zzz", ["a"], " Available: a."),
        ("zzz", [], " None is available."),
    ],
)
def test_did_you_mean(name, known, hint):
    assert did_you_mean(name, known) == hint
