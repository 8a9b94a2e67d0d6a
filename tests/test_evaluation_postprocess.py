"""BERT-whitening against scikit-learn, BERT-flow against autograd's Jacobian."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from ditto_fast.errors import DataError, OptionError
from ditto_fast.evaluation.evaluate import evaluate
from ditto_fast.evaluation.postprocess import fit
from ditto_fast.evaluation.sources import open_source
from ditto_fast.evaluation.tasks import Subset, Task
from ditto_fast.evaluation.with_torch.flow import Flow, Glow, loss

RNG = np.random.default_rng(0)
ROWS = (RNG.standard_normal((400, 12)) @ RNG.standard_normal((12, 12)) + 3).astype(np.float32)


@pytest.mark.parametrize(("name", "kept"), [("whitening", 12), ("whitening-5", 5)])
def test_whitening_is_that_of_pca_up_to_signs(name: str, kept: int):
    ours = fit(name, ROWS, seed=0)(ROWS)
    theirs = PCA(kept, whiten=True, svd_solver="full").fit_transform(ROWS.astype(np.float64))
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-3)
    np.testing.assert_allclose(np.cov(ours.T), np.eye(kept), atol=1e-4)


def test_whitening_of_too_few_sentences_says_how_many_dimensions_there_are():
    with pytest.raises(DataError, match=r"\+whitening-4"):
        fit("whitening", ROWS[:5], seed=0)
    with pytest.raises(OptionError, match="whitening-K"):
        fit("whitening-0", ROWS, seed=0)


def test_the_flows_log_determinant_is_that_of_its_jacobian():
    torch.manual_seed(0)
    glow = Glow(10).double()
    glow(torch.randn(32, 10, dtype=torch.float64))  # sets actnorm
    for parameter in glow.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = torch.randn(10, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda v: glow(v[None])[0][0], x)
    sign, log_det = torch.linalg.slogdet(jacobian)
    assert log_det.item() == pytest.approx(glow(x[None])[1].item(), abs=1e-9)
    assert abs(sign.item()) == 1


def test_the_loss_is_that_of_a_gaussian():
    z = torch.randn(5, 6, dtype=torch.float64)
    gaussian = torch.distributions.MultivariateNormal(torch.zeros(6).double(), torch.eye(6).double())
    expected = -(gaussian.log_prob(z) + 0.7).mean() / (6 * np.log(2))
    assert loss(z, torch.tensor(0.7)).item() == pytest.approx(expected.item())


def test_the_flow_learns_and_is_seeded():
    flow = Flow(ROWS, epochs=8, seed=1)
    assert np.mean(flow.losses[-12:]) < np.mean(flow.losses[:12]) - 0.02
    z = flow(ROWS)
    assert z.shape == ROWS.shape
    assert (Flow(ROWS, epochs=8, seed=1)(ROWS) == z).all()
    assert not np.allclose(Flow(ROWS, epochs=8, seed=2)(ROWS), z)
    with pytest.raises(DataError, match="batches of 32"):
        Flow(ROWS[:31])


def test_post_processing_is_fit_on_the_target_or_on_given_sentences(checkpoint, tmp_path):
    source = open_source(str(checkpoint("bert")), None, tmp_path)
    words = "ferry harbour bridge piano school teachers spring prices wages word sunrise hall".split()
    texts = [f"{a} {b}" for a in words for b in words]
    subset = Subset("toy", texts[:70], texts[70:140], RNG.integers(0, 6, 70).astype(float))
    task = Task("toy", (subset,), tuple(texts[140:]))
    names = ["mean-last", "mean-last+whitening-8", "mean-last+flow"]
    target = evaluate(source, [task], names)
    elsewhere = evaluate(source, [task], names, fit_on=texts[:100])
    scores = [[row.scores[0].spearman["all"] for row in rows] for rows in (target, elsewhere)]
    assert scores[0][0] == scores[1][0]
    assert scores[0][1] != scores[1][1]
    assert len({round(score, 6) for score in scores[0]}) == 3
    again = evaluate(source, [task], names)
    assert [row.scores[0].spearman for row in again] == [row.scores[0].spearman for row in target]
