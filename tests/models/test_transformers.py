"""Every family of causal models, tiny and random, through the contract that the rest of pivotal relies on."""

import pytest
import torch
from tests.models.tiny import (
    FAMILIES,
    FEW,
    PACKED,
    PREFIXES,
    random_model,
    save_tiny,
    shared_lm,
    tiny_lm,
    tokenizer,
)
from torch import Tensor

from pivotal import PivotalError, Problem, load_model
from pivotal.models import TransformersLM
from pivotal.models.edits import MaskedEdit
from pivotal.models.tensors import checksum
from pivotal.models.tree import PrefixTree
from pivotal.searches.masks.hard_concrete import LOUIZOS
from pivotal.testing import check_model


def plain_logits(lm: TransformersLM, text: str) -> Tensor:
    """What transformers itself says comes next."""
    ids = [*lm.vocabulary.priming, *lm.encode(text).ids]
    with torch.no_grad():
        return lm.network(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
def test_contract(family):
    check_model(shared_lm(family), PREFIXES)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family):
    lm = shared_lm(family)
    found = lm.next_logits([lm.encode(text).ids for text in PREFIXES])
    expected = torch.stack([plain_logits(lm, text) for text in PREFIXES])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_prefixes_are_computed_once_and_heads_offered_where_that_is_right(family):
    trunk = shared_lm(family)._trunk
    assert (trunk.packs, trunk.caches, trunk.skips) == (family in PACKED, family in PACKED, True)
    sites = [site for site in shared_lm(family).sites if site.size > 1]
    heads = [] if family in ("mamba", "mamba2", "rwkv") else [(f"head.{i}", 4) for i in range(3)]
    assert [(site.name, site.width) for site in sites] == heads


@pytest.mark.parametrize("family", ["gpt2", "granite", "gemma2"])
def test_the_mean_row_gives_the_mean_logit(family):
    """Granite scales its logits. Those of Gemma 2 are capped, and not linear in the state."""
    lm = shared_lm(family)
    p = torch.rand(3, lm.vocabulary_size).softmax(-1)
    row, states = lm.mean_row(p), torch.randn(2, lm.layers[-1].width)
    assert (row is None) == (family == "gemma2")
    if row is not None:
        logits = lm.readout(states)
        expected = (logits[0] - logits[1]) @ p.T
        torch.testing.assert_close((states[0] - states[1]) @ row.T, expected, atol=1e-4, rtol=1e-4)


def test_a_cap_is_found_if_the_logits_of_the_probe_are_small():
    """A cap of 3 then changes them by less than the tolerance, but later ones by more."""
    model = random_model("gemma2")
    with torch.no_grad():
        model.model.norm.weight.copy_(0.03 * (1 + model.model.norm.weight) - 1)
    assert TransformersLM("small", model, tokenizer())._head.cap == 3.0


def test_sites():
    widths = {site.name: site.width for site in tiny_lm("llama").sites}
    assert list(widths)[:4] == ["attn.0", "head.0", "mlp.0", "resid.0"]
    assert (widths["attn.2"], widths["head.2"], widths["mlp.2"], widths["resid.2"]) == (16, 4, 24, 16)
    assert {site.kind for site in tiny_lm("mixtral").sites} == {"attn", "head", "resid"}
    assert {site.kind for site in tiny_lm("mamba").sites} == {"mixer", "resid"}
    assert {site.name: site.width for site in tiny_lm("rwkv").sites}["mlp.0"] == 24
    with pytest.raises(PivotalError, match=r"mlp\.0, "):
        tiny_lm("llama").unit_space("neurons")


def test_a_site_is_what_its_name_says():
    """An edit by pivotal against the same edit by hand, on a whole sentence."""
    lm = tiny_lm("llama")
    ids = lm.encode("The doctor near cars").ids
    block = lm.network.model.layers[1]
    projected, attended = block.mlp.down_proj, block.self_attn.o_proj
    into = {"mlp.1": projected, "attn.1": attended, "head.1": attended}
    for name, unit, at in (
        ("mlp.1", 5, [5]),
        ("attn.1", 5, [5]),
        ("head.1", 2, [8, 9, 10, 11]),
        ("resid.1", 5, [5]),
    ):
        space = lm.unit_space(name)
        mask, values = torch.zeros(1, 1, len(space)), torch.zeros(1, 1, space.coordinates)
        mask[..., unit], values[..., at] = 1.0, torch.tensor([1.0, -2.0, 3.0, 0.5])[: len(at)]

        def edited(h: Tensor, at: list[int] = at, values: Tensor = values) -> Tensor:
            h = h.clone()
            h[:, 1, at] = values[0, 0, at]
            return h

        tree = PrefixTree.build([ids], [1], [0], "single")
        found = lm.readout(lm.states(lm.prepare(tree), MaskedEdit(space, mask, values)))
        if name == "resid.1":
            handle = block.register_forward_hook(lambda _, a, out: edited(out))
        else:
            handle = into[name].register_forward_pre_hook(lambda _, a: (edited(a[0]),))
        try:
            expected = lm.network(input_ids=torch.tensor([ids])).logits[0, 1:]
        finally:
            handle.remove()
        torch.testing.assert_close(found[:, 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", "bloom"])
@pytest.mark.parametrize("steps", ["every", "single"])
def test_parts_of_a_tree_give_the_whole(family, steps, monkeypatch):
    lm = tiny_lm(family, bos=True)
    sequences = [lm.encode(text).ids for text in PREFIXES]
    tree = PrefixTree.build(sequences, [1, 2, 0, 1, 1], [0, 1, 0, 1, 0], steps)
    space = lm.unit_space("mlp")
    torch.manual_seed(1)
    values = torch.randn(2, 2, len(space))

    def run() -> tuple[Tensor, Tensor]:
        mask = torch.rand(2, 2, len(space), generator=torch.Generator().manual_seed(2)).requires_grad_()
        states = lm.states(lm.prepare(tree), MaskedEdit(space, mask, values))
        states.square().sum().backward()
        return states.detach(), mask.grad

    whole = run()
    monkeypatch.setattr("pivotal.models.chunks.FEWEST", 4)
    lm.batch_nodes = 8
    in_parts = run()
    assert len(lm.division(lm.prepare(tree), 2).chunks) > 1
    for a, b in zip(whole, in_parts, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_large_tree_is_packed_into_rows_of_bounded_length(monkeypatch):
    """Attention looks at all pairs of a row: in one long row it would be most of the work."""
    lm = shared_lm("llama")
    generator = torch.Generator().manual_seed(0)
    tree = PrefixTree.build(torch.randint(3, 24, (60, 6), generator=generator).tolist())
    short = lm.prepare(tree)
    states = lm.states(short)
    lengths = [chunk.layout.places for chunk in lm.division(short, 1).chunks]
    assert len(lengths) > 1 and max(lengths) <= 256
    monkeypatch.setattr("pivotal.models.transformers.lm._LONGEST_ROW_CPU", 10_000)
    long = lm.prepare(tree)
    torch.testing.assert_close(lm.states(long), states, atol=1e-5, rtol=1e-5)
    assert [chunk.layout.places for chunk in lm.division(long, 1).chunks] == [tree.n_live]


def test_a_large_model_learns_from_fewer_nodes_at_once_on_a_cpu(monkeypatch):
    small = tiny_lm("llama")
    assert small.batch_nodes == 4096
    kept = 12 * sum(site.coordinates for site in small.sites)
    monkeypatch.setattr("pivotal.models.transformers.lm._KEPT", 100 * kept)
    large = tiny_lm("llama")
    assert large.batch_nodes == 100
    few, many = (Problem(lm, FEW, sites="mlp").runs_at_once(learning=True) for lm in (large, small))
    assert few * Problem(large, FEW).tree.n_live <= 100 < many * Problem(large, FEW).tree.n_live


def test_hooks_are_gone_after_an_error():
    lm = tiny_lm("llama")
    ids = lm.encode("The doctor near cars").ids
    before = lm.next_logits([ids])

    def broken(site: str, spans: object, h: Tensor) -> Tensor:
        raise ValueError(site)

    with pytest.raises(ValueError, match=r"attn\.0"):
        lm.states(lm.prepare(PrefixTree.build([ids], [1], [0], "every")), broken)
    hooked = (m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in lm.network.modules())
    assert not any(hooked)
    assert torch.equal(lm.next_logits([ids]), before)


@pytest.mark.parametrize("head", ["cpu", "disk"])
@pytest.mark.slow
def test_a_model_spread_over_devices(head, tmp_path):
    """As accelerate spreads a model that is too large for a device; here over memory and disk."""
    from accelerate import dispatch_model

    places = {"model.embed_tokens": head, "lm_head": head, "model.norm": "cpu", "model.rotary_emb": "cpu"}
    places |= {"model.layers.0": "cpu", "model.layers.1": "disk", "model.layers.2": "cpu"}
    how = {"main_device": "cpu", "offload_dir": tmp_path, "force_hooks": True}
    model = dispatch_model(random_model("llama"), places, **how)
    lm, whole = TransformersLM("spread", model, tokenizer()), tiny_lm("llama")
    check_model(lm, PREFIXES)
    assert lm.fixed(lm.prepare(PrefixTree.build([[3, 4]])), 1) is None, "A recording is of one device."
    assert lm.fingerprint() == whole.fingerprint()
    ids = [lm.encode(text).ids for text in PREFIXES]
    torch.testing.assert_close(lm.next_logits(ids), whole.next_logits(ids))


# -- words ----------------------------------------------------------------------------------------------------------


def test_bos_is_read_where_the_tokenizer_puts_it_and_can_be_overridden():
    with_bos, without = tiny_lm("llama", bos=True), tiny_lm("llama")
    assert "reads <s> before every sentence" in with_bos.describe()
    assert "no BOS" in without.describe()
    off, on = tiny_lm("llama", bos=True, priming=""), tiny_lm("llama", priming="<s>")
    ids = [off.encode("The doctor").ids]
    assert ids == [with_bos.encode("The doctor").ids], "BOS is no token of a sentence: it is never edited."
    torch.testing.assert_close(off.next_logits(ids), without.next_logits(ids))
    torch.testing.assert_close(on.next_logits(ids), with_bos.next_logits(ids))
    assert len({lm.fingerprint() for lm in (with_bos, off, on)}) == 3


# -- where models come from -----------------------------------------------------------------------------------------


def test_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PIVOTAL_HOME", str(tmp_path / "home"))
    folder = save_tiny(tmp_path / "tiny-llama", "llama")
    lm = load_model(folder)
    assert lm.name == "tiny-llama"
    ids = [lm.encode("The doctor").ids]
    torch.testing.assert_close(lm.next_logits(ids).cpu(), tiny_lm("llama").next_logits(ids))
    assert load_model(folder).fingerprint() == lm.fingerprint()


def test_one_changed_weight_changes_the_checksum():
    model = random_model("llama")
    before = checksum(model)
    assert checksum(random_model("llama")) == before
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[3, 4] += 1e-3
    assert checksum(model) != before


def test_an_encoder_is_refused(tmp_path):
    from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

    small = {"vocab_size": 24, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    bert = BertForMaskedLM(BertConfig(**small, intermediate_size=24, initializer_range=0.4))
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=24, **sizes))
    for model, said in ((bert, "Later words"), (t5, "encoder with a decoder")):
        model.save_pretrained(tmp_path / said)
        tokenizer().save_pretrained(tmp_path / said)
        with pytest.raises(PivotalError, match=said):
            load_model(tmp_path / said)


# -- searches -------------------------------------------------------------------------------------------------------


def test_a_relaxed_mask_has_the_same_gradients_if_sites_at_zero_are_left_out():
    lm = shared_lm("llama")
    problem = Problem(lm, FEW, sites="mlp,attn,resid")
    assert len(problem.space.sites) >= 8
    noise = torch.rand(2, 1, len(problem.space), generator=torch.Generator().manual_seed(0))
    found = []
    for zeros_stay in (False, True):
        logits = torch.full((2, 1, len(problem.space)), -1.0)
        logits[..., : len(problem.space) // 2] = -30.0
        logits.requires_grad_()
        values = torch.ones(2, 2, len(problem.space), requires_grad=True)
        mask = LOUIZOS.sample(logits, noise).expand(-1, 2, -1)
        problem.run(mask, values, zeros_stay=zeros_stay).log_ratio.sum().backward()
        found.append((logits.grad, values.grad))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_separator_of_documents_is_read_first_unless_the_tokenizer_adds_another_start():
    model = random_model("llama")
    for bos, start in ((False, "<|endoftext|>"), (True, "<s>")):
        words = tokenizer(bos=bos)
        words.add_special_tokens({"additional_special_tokens": ["<|endoftext|>"]})
        model.resize_token_embeddings(len(words))
        lm = TransformersLM("llama", model, words)
        assert lm.vocabulary.priming_text() == start and f"reads {start} before" in lm.describe()
        nothing = TransformersLM("llama", model, words, priming="")
        assert nothing.vocabulary.priming == () and nothing.fingerprint() != lm.fingerprint()
        assert TransformersLM("llama", model, words, priming=start).fingerprint() == lm.fingerprint()
