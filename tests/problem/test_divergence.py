"""KL between two next-word distributions."""

import torch

from pivotal.problem.divergence import divergence


def test_kl_of_large_logits_over_a_large_vocabulary_is_exact():
    """As SmolLM2 has them: around ten, up to thirty, 49,152 of them."""
    noise = torch.Generator().manual_seed(0)
    untouched = 10 + 4 * torch.randn(6, 49_152, generator=noise)
    edited = untouched[:, None] + 0.1 * torch.randn(6, 3, 49_152, generator=noise)
    edited[:, 0] = untouched
    log_p, log_q = (logits.double().log_softmax(-1) for logits in (untouched[:, None], edited))
    exact = (log_p.exp() * (log_p - log_q)).sum(-1)
    assert float(exact[:, 1:].min()) > 0.001
    torch.testing.assert_close(divergence(untouched, edited).double(), exact, atol=2e-5, rtol=0)


def test_its_gradient_is_that_of_the_numbers():
    noise = torch.Generator().manual_seed(0)
    untouched = torch.randn(3, 7, generator=noise, dtype=torch.float64)
    edited = torch.randn(3, 2, 7, generator=noise, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda logits: divergence(untouched, logits), edited)


def test_it_leaves_the_logits_as_they_are():
    """They are computed in place where no gradient is wanted."""
    noise = torch.Generator().manual_seed(0)
    untouched, edited = torch.randn(3, 7, generator=noise), torch.randn(3, 2, 7, generator=noise)
    kept = untouched.clone(), edited.clone()
    found = divergence(untouched, edited)
    assert torch.equal(untouched, kept[0]) and torch.equal(edited, kept[1])
    torch.testing.assert_close(divergence(untouched, edited.requires_grad_()), found)
