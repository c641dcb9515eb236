"""What 0.3 adds: attention as a parameter, citing, sweeps from a file, the audit of attention."""

import numpy as np
import pytest

from . import names as n


def test_citing():
    assert n.cite("B").count("@") == 2


def test_attention_is_a_parameter():
    problem = n.problem([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 0.0]])
    link = n.softmax_link()
    assert isinstance(link, n.link_class)
    assert problem.with_attention(link).loss([2.0, -1.0]) == pytest.approx(
        n.loss(problem, [2.0, -1.0]), rel=1e-15
    )
    assert n.attended(np.array([0.5]), np.log([0.25]), np.ones(1)).predictions.tolist() == [0.5]


def test_a_norm_has_its_mirror_map():
    cubes = n.norm("l3").mirror
    assert isinstance(cubes, n.mirror_map)
    assert cubes.dual(np.array([-2.0, 0.5])).tolist() == [-4.0, 0.25]
    assert cubes.image(np.array([-4.0, 0.25])) == pytest.approx([-2.0, 0.5], rel=1e-15)


def test_classes_are_tokens():
    problem = n.problem_from_classes([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], ["a", "b", "c"])
    assert n.loss(problem, np.zeros((3, 2))) == pytest.approx(np.log(3), rel=1e-15)
    assert n.max_margin(problem).margin == pytest.approx(np.sqrt(3) / 2, rel=1e-12)


def test_soft_labels_have_log_odds():
    problem = n.soft_labels(["x", "x", "y"], ["a", "b", "c"], [3, 1, 2])
    finite = n.decompose(problem).p_fin.reshape(problem.shape)
    assert finite[0, 0] - finite[1, 0] == pytest.approx(np.log(3), rel=1e-12)


def test_a_sweep_from_a_file(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('experiment = "sphere"\ntrials = 2\nworkers = 1\n[grid]\nd = [2]\n')
    assert n.sweep_file(file).exit_code == 0


@pytest.mark.extra
@pytest.mark.slow
def test_audit_and_drop_in():
    torch = pytest.importorskip("torch")
    assert n.torch_audit(n.torch_attention, dtypes=[torch.float64], level="exact").exit_code == 0
    n.torch_assert_accurate(n.torch_attention, dtypes=[torch.float64], level="exact")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.ones(1, 3, 8)
    expected = layer(x)
    with n.torch_exact_attention(layer):
        assert torch.allclose(layer(x), expected, atol=1e-6)
    transformers = pytest.importorskip("transformers")
    n.register_with_transformers()
    assert "hardmax" in transformers.AttentionInterface.valid_keys(transformers.AttentionInterface())
