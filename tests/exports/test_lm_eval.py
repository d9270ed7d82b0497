"""The adapter in lm-eval, on a task in a local file."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.exports.conftest import Tiny, peer_python
from tests.models.tiny import PREFIXES

from pivotal.exports import Portable, export

TASK = """
task: agreement
dataset_path: json
dataset_kwargs: {data_files: {test: PAIRS}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{prefix}}"
doc_to_choice: "{{words}}"
doc_to_target: 0
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@pytest.mark.slow
def test_lm_eval_measures_the_model_with_the_adapter(tiny: Callable[..., Tiny], tmp_path: Path) -> None:
    """The log-likelihoods of the two words differ by as much as our logits."""
    lm_eval = Path(peer_python("lm-eval")).with_name("lm_eval")
    model = tiny("llama")
    found = model.intervention()
    export(Portable.of(model.lm, found), "peft", tmp_path / "out")
    rows = [{"prefix": prefix, "words": ["runs", "run"]} for prefix in PREFIXES]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "agreement.yaml").write_text(TASK.replace("PAIRS", json.dumps(str(tmp_path / "pairs.jsonl"))))
    arguments = f"pretrained={model.folder},peft={tmp_path / 'out' / 'two'},dtype=float32"
    told = ("--include_path", str(tmp_path), "--output_path", str(tmp_path / "scores"), "--log_samples")
    ran = subprocess.run(
        [
            lm_eval,
            "--model",
            "hf",
            "--model_args",
            arguments,
            "--tasks",
            "agreement",
            "--device",
            "cpu",
            *told,
        ],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    (samples,) = (tmp_path / "scores").rglob("samples_*.jsonl")
    theirs = {}
    for line in samples.read_text().splitlines():
        sample = json.loads(line)
        first, second = (float(answer[0][0]) for answer in sample["resps"])
        theirs[sample["doc"]["prefix"]] = first - second
    one, two = (model.lm.tokens_of(word)[0] for word in ("runs", "run"))
    for prefix, logits in zip(PREFIXES, model.logits(found, "two"), strict=True):
        assert theirs[prefix] == pytest.approx(float(logits[one] - logits[two]), abs=1e-4)
