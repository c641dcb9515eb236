"""MultiheadAttention: the module of PyTorch with its parameters and calls, and a true gradient."""

import itertools

import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

from hardmax.torch.replacement import _with_token  # noqa: E402


def pair(**options):
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(12, 3, dtype=torch.float64, **options)
    ours = hm.torch.MultiheadAttention(12, 3, dtype=torch.float64, **options)
    assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
    return ours, theirs


def compare(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        if b is None:
            assert a is None
        else:
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


OPTIONS = [
    {"batch_first": True},
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 5, "vdim": 7, "batch_first": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("masks", [(), ("padding",), ("mask",), ("padding", "mask"), ("three",)], ids=str)
def test_every_call_of_pytorch(options, masks):
    ours, theirs = pair(**options)
    kdim, vdim = options.get("kdim", 12), options.get("vdim", 12)
    q, k, v = (torch.randn(2, n, d, dtype=torch.float64) for n, d in ((4, 12), (6, kdim), (6, vdim)))
    if not options.get("batch_first"):
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    given = {}
    if "padding" in masks:
        given["key_padding_mask"] = torch.tensor([[False] * 4 + [True] * 2, [False] * 6])
    if "mask" in masks:
        given["attn_mask"] = torch.rand(4, 6) > 0.7
        given["attn_mask"][:, 0] = False
    if "three" in masks:
        given["attn_mask"] = torch.randn(6, 4, 6, dtype=torch.float64)
    for need, average in itertools.product((True, False), repeat=2):
        calls = {"need_weights": need, "average_attn_weights": average, **given}
        compare(ours(q, k, v, **calls), theirs(q, k, v, **calls))


def test_one_input_without_a_batch():
    ours, theirs = pair()
    q, k = torch.randn(4, 12, dtype=torch.float64), torch.randn(6, 12, dtype=torch.float64)
    hidden = torch.tensor([False] * 5 + [True])
    compare(ours(q, k, k, key_padding_mask=hidden), theirs(q, k, k, key_padding_mask=hidden))


def test_gradients_of_all_parameters_where_attention_is_soft():
    ours, theirs = pair(batch_first=True)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    for module in (ours, theirs):
        module(x, x, x)[0].square().sum().backward()
    compare([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])


def test_a_hard_head_still_learns():
    """Queries scaled until float32 gives PyTorch nothing but noise; float64 has the truth there."""
    torch.manual_seed(1)
    x = torch.randn(1, 6, 8)
    found = {}
    for name, kind in (
        (hm.torch.MultiheadAttention, torch.float64),
        (hm.torch.MultiheadAttention, torch.float32),
        (torch.nn.MultiheadAttention, torch.float32),
    ):
        torch.manual_seed(2)
        module = name(8, 1, batch_first=True)
        module.in_proj_weight.data[:8] *= 300.0
        module = module.to(kind)
        module(x.to(kind), x.to(kind), x.to(kind))[0].square().sum().backward()
        found[name, kind] = module.in_proj_weight.grad[8:16].double().numpy().ravel()
    truth, ours, theirs = found.values()
    assert hm.cosine_distance(ours, truth) < 1e-8
    assert hm.cosine_distance(theirs, truth) > 1e-2


def test_the_gradient_of_the_bias_token_is_rounded_once():
    """In bfloat16 the bias token's gradient is a sum over 512 inputs, within one rounding of the true one."""
    torch.manual_seed(0)
    module = hm.torch.MultiheadAttention(8, 2, add_bias_kv=True, batch_first=True).bfloat16()
    k = torch.randn(512, 4, 8).bfloat16()
    go = torch.randn(512, 5, 8)
    found = {}
    for kind in (torch.bfloat16, torch.float64):
        module = module.to(kind)
        joined = _with_token(k.to(kind), module.bias_k)
        assert joined.dtype == torch.promote_types(kind, torch.float32)
        found[kind] = torch.autograd.grad((joined * go.to(joined.dtype)).sum(), module.bias_k)[0]
    ours, truth = found.values()
    assert ((ours - truth).abs() / truth.abs()).max() < 2.0**-8


def test_in_the_place_of_pytorchs_in_an_encoder():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    wanted = layer(x)
    exact = hm.torch.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    exact.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = exact
    torch.testing.assert_close(layer(x), wanted, rtol=1e-12, atol=1e-13)
    with torch.no_grad():
        torch.testing.assert_close(layer.eval()(x), wanted, rtol=1e-12, atol=1e-13)


def test_a_query_that_sees_nothing_has_no_nan():
    ours, _ = pair(batch_first=True)
    x = torch.randn(1, 3, 12, dtype=torch.float64)
    out, weights = ours(x, x, x, attn_mask=torch.tensor([[True] * 3, [False] * 3, [False] * 3]))
    np.testing.assert_array_equal(weights[0, 0].detach(), np.zeros(3))
    torch.testing.assert_close(out[0, 0], ours.out_proj.bias)


def test_dropout_is_for_training_only():
    ours, _ = pair(batch_first=True, dropout=0.5)
    x = torch.randn(1, 4, 12, dtype=torch.float64)
    assert not torch.equal(ours(x, x, x)[0], ours(x, x, x)[0])
    ours.eval()
    assert torch.equal(ours(x, x, x)[0], ours(x, x, x)[0])


def test_a_hint_without_a_mask_is_refused():
    ours, _ = pair(batch_first=True)
    x = torch.randn(1, 4, 12, dtype=torch.float64)
    with pytest.raises(ValueError, match="is_causal requires attn_mask"):
        ours(x, x, x, is_causal=True)
