"""Exact attention: PyTorch's forward, a true gradient at any gap, twice differentiable, compiled."""

import re
import shutil

import mpmath
import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

PRECISIONS = {"float64": 1e-13, "float32": 1e-5, "bfloat16": 4e-2}


def drawn(*shapes, kind="float64", seed=0, grad=False):
    chance = torch.Generator().manual_seed(seed)
    made = [torch.randn(s, generator=chance, dtype=torch.float64).to(getattr(torch, kind)) for s in shapes]
    return [x.requires_grad_(grad) for x in made]


def theirs(*inputs, **options):
    return torch.nn.functional.scaled_dot_product_attention(*inputs, **options)


def masks(name):
    chance = torch.Generator().manual_seed(5)
    kept = torch.rand(2, 1, 5, 7, generator=chance) > 0.4
    kept[0, 0, 2] = False  # a query that sees nothing
    added = torch.randn(5, 7, generator=chance, dtype=torch.float64)
    return {
        "none": {},
        "causal": {"is_causal": True},
        "bool": {"attn_mask": kept},
        "added": {"attn_mask": added},
        "hidden": {"attn_mask": torch.zeros(5, 7, dtype=torch.float64).masked_fill(~kept[0, 0], -torch.inf)},
        "scale": {"scale": 0.3},
    }[name]


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added", "hidden", "scale"])
@pytest.mark.parametrize("kind", PRECISIONS)
def test_outputs_and_soft_gradients_are_those_of_pytorch(kind, mask):
    options = masks(mask)
    if "attn_mask" in options and options["attn_mask"].dtype != torch.bool:
        options["attn_mask"] = options["attn_mask"].to(getattr(torch, kind))
    q, k, v = drawn((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), kind=kind, grad=True)
    outputs = [attend(q, k, v, **options) for attend in (hm.torch.scaled_dot_product_attention, theirs)]
    assert outputs[0].dtype == q.dtype
    (go,) = drawn((2, 3, 5, 4), kind=kind, seed=1)
    gradients = [torch.autograd.grad(out, (q, k, v), go) for out in outputs]
    for ours, other in zip((outputs[0], *gradients[0]), (outputs[1], *gradients[1]), strict=True):
        torch.testing.assert_close(ours, other, rtol=PRECISIONS[kind], atol=PRECISIONS[kind])


def test_heads_that_share_keys():
    q, k, v = drawn((2, 6, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4))
    ours, other = (
        attend(q, k, v, enable_gqa=True) for attend in (hm.torch.scaled_dot_product_attention, theirs)
    )
    torch.testing.assert_close(ours, other, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind, unit", [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
@pytest.mark.parametrize("shared", [1, 8])
def test_gradients_of_shared_keys_are_rounded_once(kind, unit, shared):
    """Each entry of dK and dV is within one rounding of the true sum over the heads of its group."""
    inputs = drawn((2, 32, 16, 16), (2, shared, 16, 16), (2, shared, 16, 16), (2, 32, 16, 16), kind=kind)

    def gradients(precision):
        q, k, v, go = (x.to(precision) for x in inputs)
        of = [x.requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(hm.torch.scaled_dot_product_attention(*of, enable_gqa=True), of, go)

    for found, truth in zip(gradients(inputs[0].dtype), gradients(torch.float64), strict=True):
        small = 1e-6 * truth.abs().max()  # what float32 inside and subnormal numbers of float16 may add
        assert ((found - truth).abs() <= 1.01 * unit * truth.abs() + small).all()


def true_gradient(q, k, v, go):
    """The gradient of the query by the plain formula with 60 digits."""
    with mpmath.workdps(60):
        q, k, v, go = (mpmath.matrix(x.double().detach().numpy()) for x in (q, k, v, go))
        logits, by_weights = k * q.T, v * go.T
        weights = [mpmath.exp(a - max(logits)) for a in logits]
        total = sum(weights)
        weights = [w / total for w in weights]
        mean = sum(w * g for w, g in zip(weights, by_weights, strict=True))
        by_logits = [w * (g - mean) for w, g in zip(weights, by_weights, strict=True)]
        made = [sum(w * k[t, j] for t, w in enumerate(by_logits)) for j in range(k.cols)]
        largest = max(abs(x) for x in made)
        return np.array([float(x / largest) for x in made]), float(mpmath.log(largest))


def at_gap(gap, kind, seed):
    q, k, v, go = drawn((1, 8), (8, 8), (8, 8), (1, 8), seed=seed)
    first, second = (q @ k.T)[0].topk(2).values
    return [x.to(getattr(torch, kind)) for x in (q * (gap / (first - second)), k, v, go)]


def by_query(attend, q, k, v, go):
    q = q.clone().requires_grad_()
    found = torch.autograd.grad(attend(q[None], k[None], v[None], scale=1.0), q, go[None])[0]
    return found.double().flatten().numpy()


# 1 - cos is half a squared error: 2^-24 leaves 1e-14, and the 3 digits of bfloat16 of the result 1e-5.
@pytest.mark.parametrize("kind, most", [("float64", 1e-27), ("float32", 1e-10), ("bfloat16", 1e-5)])
@pytest.mark.parametrize("gap", [0.0, 2.0, 6.0, 12.0, 17.0, 30.0, 40.0, 60.0, 80.0])
def test_the_direction_is_true_at_any_gap(kind, most, gap):
    for seed in range(5):
        inputs = at_gap(gap, kind, seed)
        direction, log_size = true_gradient(*inputs)
        found = by_query(hm.torch.scaled_dot_product_attention, *inputs)
        assert hm.cosine_distance(found, direction) < most
        # sizes depend on the gap itself, whose rounding the exponential multiplies
        unit = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-8}[kind]
        assert abs(np.log(np.abs(found).max()) - log_size) < 8 * unit * (
            1 + (gap if kind != "bfloat16" else 0)
        )


def test_the_usual_backward_is_wrong_there():
    """What the page says: from a gap of 17 in float32 and 40 in float64, and flash noise is far too long."""
    for kind, gap in (("float32", 17.0), ("float64", 40.0)):
        off = [
            hm.cosine_distance(
                by_query(theirs, *at_gap(gap, kind, s)), true_gradient(*at_gap(gap, kind, s))[0]
            )
            for s in range(20)
        ]
        assert np.median(off) > 1e-2


def test_ties_at_the_top():
    """Two tokens share the top: neither is the minus sum of all others."""
    x = torch.tensor([30.0, 30.0, 0.0], requires_grad=True)
    g = torch.tensor([1.0, 3.0, 2.0])
    (found,) = torch.autograd.grad(hm.torch.softmax(x) @ g, x)
    np.testing.assert_allclose(found[:2], [-0.5, 0.5], rtol=1e-6)
    assert abs(found[2]) < 1e-20  # its value is the mean of the others
    (same,) = torch.autograd.grad(hm.torch.softmax(x) @ torch.tensor([3.0, 3.0, 0.0]), x)
    e = np.exp(-30.0)
    np.testing.assert_allclose(same, [1.5 * e / 2, 1.5 * e / 2, -1.5 * e], rtol=1e-5)


@pytest.mark.parametrize("mask", ["none", "causal", "bool"])
def test_derivatives_of_first_and_second_order(mask):
    q, k, v = drawn((2, 1, 5, 2), (2, 1, 7, 2), (2, 1, 7, 2), grad=True)
    attend = lambda q, k, v: hm.torch.scaled_dot_product_attention(q, k, v, **masks(mask))  # noqa: E731
    assert torch.autograd.gradcheck(attend, (q, k, v))
    assert torch.autograd.gradgradcheck(attend, (q, k, v))


def test_a_mask_can_be_learned():
    q, k, v, bias = drawn((1, 2, 3, 2), (1, 2, 4, 2), (1, 2, 4, 2), (3, 4), grad=True)
    assert torch.autograd.gradcheck(hm.torch.scaled_dot_product_attention, (q, k, v, bias))
    assert torch.autograd.gradgradcheck(hm.torch.scaled_dot_product_attention, (q, k, v, bias))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mask", ["none", "causal", "bool"])
def test_compiled_in_one_graph(mask):
    inputs = drawn((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), kind="float32", grad=True)
    compiled = torch.compile(hm.torch.scaled_dot_product_attention, fullgraph=True, backend="aot_eager")
    for attend in (compiled, hm.torch.scaled_dot_product_attention):
        out = attend(*inputs, **masks(mask))
        found = [out, *torch.autograd.grad(out.square().sum(), inputs)]
        if attend is compiled:
            first = found
    for a, b in zip(first, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_compiled_by_inductor_the_direction_is_still_true():
    q, k, v = drawn((1, 2, 4, 4), (1, 2, 6, 4), (1, 2, 6, 4), kind="float32", grad=True)
    compiled = torch.compile(hm.torch.scaled_dot_product_attention, fullgraph=True)
    (found,) = torch.autograd.grad(compiled(30 * q, k, v).square().sum(), q)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    (truth,) = torch.autograd.grad(
        hm.torch.scaled_dot_product_attention(30 * exact[0], *exact[1:]).square().sum(), exact[0]
    )
    assert hm.cosine_distance(found.double().numpy().ravel(), truth.numpy().ravel()) < 1e-8


def test_autocast_is_followed_with_float32_inside():
    q, k, v = drawn((1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4), kind="float32", grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = hm.torch.scaled_dot_product_attention(q, k, v)
        assert out.dtype == theirs(q, k, v).dtype == torch.bfloat16
    rounded = [x.bfloat16().float() for x in (q, k, v)]
    torch.testing.assert_close(out, theirs(*rounded).bfloat16())
    found = torch.autograd.grad(out.float().sum(), (q, k, v))
    assert [x.dtype for x in found] == [torch.float32] * 3


def test_dropout_keeps_the_mean_and_its_own_gradient():
    q, k, v = drawn((1, 1, 2, 3), (1, 1, 4, 3), (1, 1, 4, 3), grad=True)
    torch.manual_seed(0)
    many = hm.torch.scaled_dot_product_attention(
        *(x.expand(4000, -1, -1, -1) for x in (q, k, v)), dropout_p=0.3
    )
    off = many.mean(0, keepdim=True) - hm.torch.scaled_dot_product_attention(q, k, v)
    assert off.abs().max() < 4 * many.std(0).max() / 4000**0.5

    def fixed(*inputs):
        torch.manual_seed(1)
        return hm.torch.scaled_dot_product_attention(*inputs, dropout_p=0.3)

    assert torch.autograd.gradcheck(fixed, (q, k, v))


def test_gradients_of_every_input_alone():
    q, k, v = drawn((4, 1, 3, 2), (4, 1, 3, 2), (4, 1, 3, 2))
    each = torch.func.vmap(
        torch.func.grad(lambda *x: hm.torch.scaled_dot_product_attention(*x).square().sum())
    )(q, k, v)
    whole = torch.func.grad(lambda *x: hm.torch.scaled_dot_product_attention(*x).square().sum())(q, k, v)
    torch.testing.assert_close(each, whole)


def test_softmax_over_another_dimension():
    (x,) = drawn((3, 4, 5), grad=True)
    torch.testing.assert_close(hm.torch.softmax(x, 1), torch.softmax(x, 1))
    assert torch.autograd.gradcheck(lambda x: hm.torch.softmax(x, 0), x)


def test_bad_input_is_refused_in_a_sentence():
    q = torch.randn(1, 1, 2, 4)
    two, three, four = (q.expand(1, n, 2, 4) for n in (2, 3, 4))
    for message, inputs, options in [
        ("query must be a tensor of floating-point numbers, got torch.int64", (q.long(), q, q), {}),
        ("value must be a tensor of floating-point numbers, got list", (q, q, [1.0]), {}),
        ("key must be as wide as query, 4, got 3", (q, q[..., :3], q), {}),
        ("value must be of 2 tokens as key is, got 1", (q, q, q[:, :, :1]), {}),
        ("dropout_p must be in [0, 1), got 1", (q, q, q), {"dropout_p": 1.0}),
        ("attn_mask must be None", (q, q, q), {"is_causal": True, "attn_mask": torch.ones(2, 2)}),
        ("attn_mask must end with the shape (2, 2), got (3, 2)", (q, q, q, torch.ones(3, 2)), {}),
        ("enable_gqa must be set", (four, two, two), {}),
        ("key must have a number of heads that divides 4", (four, three, three), {"enable_gqa": True}),
        ("value must have a number of heads that divides 4", (four, two, three), {"enable_gqa": True}),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            hm.torch.scaled_dot_product_attention(*inputs, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_on_cuda():
    inputs = [x.cuda() for x in at_gap(40.0, "float32", 0)]
    found = by_query(lambda *x, **o: hm.torch.scaled_dot_product_attention(*x, **o).cpu(), *inputs)
    assert hm.cosine_distance(found, true_gradient(*(x.cpu() for x in inputs))[0]) < 1e-10
