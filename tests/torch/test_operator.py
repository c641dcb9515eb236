"""The operator behind exact attention: chunks, sinks, dropout, second derivatives, opcheck, one graph."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

from hardmax.torch import operator  # noqa: E402


def drawn(*shapes, kind=torch.float64, seed=0, grad=True):
    chance = torch.Generator().manual_seed(seed)
    made = [torch.randn(s, generator=chance, dtype=torch.float64).to(kind) for s in shapes]
    return [x.requires_grad_(grad) for x in made]


CASES = {
    "plain": {},
    "causal": {"causal": True},
    "added": {"mask": (2, 1, 9, 7)},
    "per head": {"mask": (1, 4, 1, 7)},
    "sink": {"sink": True},
    "causal sink": {"sink": True, "causal": True},
    "all": {"sink": True, "mask": (1, 1, 9, 7)},
}


def arguments(mask=None, sink=False, causal=False, kind=torch.float64):
    q, k, v = drawn((2, 4, 9, 3), (2, 2, 7, 3), (2, 1, 7, 5), kind=kind)
    bias = drawn(mask, seed=1, kind=kind)[0] if mask else None
    logit = drawn((1, 4, 1, 1), seed=2, kind=kind)[0] if sink else None
    return q, k, v, bias, logit, None, causal, 0.7, 0.0


@pytest.mark.parametrize("chunk", [1, 20, 64, 150, 2**19])
@pytest.mark.parametrize("case", CASES)
def test_chunks_of_any_size_give_what_all_weights_give(case, chunk, monkeypatch):
    """Single queries, several queries, heads or batches at a time; forward and all gradients."""
    monkeypatch.setattr(operator, "CHUNK", chunk)
    given = arguments(**CASES[case])
    tensors = [x for x in given if isinstance(x, torch.Tensor)]
    (g,) = drawn((2, 4, 9, 5), seed=3, grad=False)
    found = {}
    for attend in (operator.attention, operator.dense):
        out = attend(*given)
        found[attend] = [out, *torch.autograd.grad(out, tensors, g)]
    for ours, whole in zip(*found.values(), strict=True):
        torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case, monkeypatch):
    monkeypatch.setattr(operator, "CHUNK", 30)
    *tensors, seed, causal, scale, _ = arguments(**CASES[case])
    present = [x for x in tensors if x is not None]

    def attend(*inputs):
        rest = iter(inputs)
        return operator.attention(
            *(x if x is None else next(rest) for x in tensors), seed, causal, scale, 0.0
        )

    assert torch.autograd.gradcheck(attend, present, fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, present, fast_mode=True)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_dropout_is_the_same_in_every_pass(dropout, monkeypatch):
    """Forward, backward and second derivatives drop the same weights, in chunks and at once."""
    monkeypatch.setattr(operator, "CHUNK", 30)
    q, k, v, *_ = arguments()
    seed = torch.tensor(7) if dropout else None

    def attend(*inputs):
        return operator.attention(*inputs, None, None, seed, True, 0.7, dropout)

    torch.testing.assert_close(attend(q, k, v), operator.dense(q, k, v, None, None, seed, True, 0.7, dropout))
    assert torch.autograd.gradcheck(attend, (q, k, v), fast_mode=True)
    assert torch.autograd.gradgradcheck(attend, (q, k, v), fast_mode=True)


def test_a_sink_is_one_more_token_without_a_value():
    q, k, v = drawn((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))
    (sink,) = drawn((3,), seed=4)
    ours = hm.torch.scaled_dot_product_attention(q, k, v, sink=sink)
    # A query with one more entry, 2 (the root of its width), meets the sink's key with the sink's logit.
    wide = torch.nn.functional.pad(q, (0, 1), value=2.0)
    keys = torch.cat([torch.nn.functional.pad(k, (0, 1)), torch.zeros(2, 3, 1, 5, dtype=q.dtype)], dim=-2)
    keys = torch.cat([keys[..., :-1, :], torch.zeros(2, 3, 1, 5, dtype=q.dtype)], dim=-2)
    keys[..., -1, -1] = sink[:, None].expand(3, 1)[:, 0]
    values = torch.nn.functional.pad(v, (0, 0, 0, 1))
    theirs = torch.nn.functional.scaled_dot_product_attention(wide, keys, values, scale=0.5)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)
    (g,) = drawn(ours.shape, seed=5, grad=False)
    pairs = zip(*(torch.autograd.grad(out, (q, k, v, sink), g) for out in (ours, theirs)), strict=True)
    for by_ours, by_theirs in pairs:
        torch.testing.assert_close(by_ours, by_theirs, rtol=1e-10, atol=1e-12)
    weights = hm.torch.attention_weights(q, k, sink=sink)
    torch.testing.assert_close(weights @ v, ours)
    assert (weights.sum(dim=-1) < 1).all()


def test_a_sink_with_everything_hidden_and_a_strong_one():
    q, k, v = drawn((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), kind=torch.float32)
    hidden = torch.zeros(3, 5, dtype=torch.bool)
    out = hm.torch.scaled_dot_product_attention(q, k, v, hidden, sink=torch.zeros(2))
    assert (out == 0).all()
    assert all((x == 0).all() for x in torch.autograd.grad(out.sum(), (q, k, v)))
    # The sink has nearly all the weight: directions stay true in float32.
    sink = torch.tensor([40.0, 30.0])
    found = torch.autograd.grad(hm.torch.scaled_dot_product_attention(q, k, v, sink=sink).sum(), q)[0]
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    out = hm.torch.scaled_dot_product_attention(*wide, sink=sink.double())
    truth = torch.autograd.grad(out.sum(), wide[0])[0]
    for head in range(2):
        off = hm.cosine_distance(found[0, head].double().numpy().ravel(), truth[0, head].numpy().ravel())
        assert off < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_opcheck(case):
    given = arguments(**CASES[case], kind=torch.float32)
    done = torch.library.opcheck(operator.attention, given)
    assert set(done.values()) == {"SUCCESS"}
    learned = given[3] is not None
    (g,) = drawn((2, 4, 9, 5), seed=3, kind=torch.float32, grad=False)
    done = torch.library.opcheck(operator.attention_backward, (g, *given, learned))
    assert set(done.values()) == {"SUCCESS"}
    half = [x.bfloat16() if isinstance(x, torch.Tensor) else x for x in given]
    options = {"test_utils": ("test_schema", "test_faketensor", "test_autograd_registration")}
    assert set(torch.library.opcheck(operator.attention, tuple(half), **options).values()) == {"SUCCESS"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fullgraph_with_every_option():
    q, k, v = drawn((2, 4, 9, 4), (2, 2, 7, 4), (2, 2, 7, 4), kind=torch.float32)
    bias, sink = drawn((9, 7), (4,), kind=torch.float32)

    def attend(q, k, v, bias, sink, dropout_p):
        options = {"dropout_p": dropout_p, "enable_gqa": True, "scale": 0.3, "sink": sink}
        return hm.torch.scaled_dot_product_attention(q, k, v, bias, **options)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    found = []
    for function in (attend, compiled):
        out = function(q, k, v, bias, sink, 0.0)
        found.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v, bias, sink))])
    for plain, fused in zip(*found, strict=True):
        torch.testing.assert_close(plain, fused)
    dropped = compiled(q, k, v, bias, sink, 0.5)
    assert not torch.equal(dropped, compiled(q, k, v, bias, sink, 0.5))


def test_a_backward_pass_inside_autocast_stays_in_float32():
    q, k, v = drawn((1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4), kind=torch.float32)
    out = hm.torch.scaled_dot_product_attention(q, k, v)
    plain = torch.autograd.grad(out.sum(), q, retain_graph=True)[0]
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(torch.autograd.grad(out.sum(), q)[0], plain, rtol=0, atol=0)


def test_shapes_that_broadcast():
    """Two to five dimensions, single heads shared by all, masks with a batch of their own."""
    theirs = torch.nn.functional.scaled_dot_product_attention
    for shapes, mask in [
        (((5, 4), (7, 4), (7, 3)), None),
        (((3, 5, 4), (3, 7, 4), (3, 7, 3)), (5, 7)),
        (((2, 3, 5, 4), (2, 1, 7, 4), (2, 1, 7, 3)), (2, 1, 1, 7)),
        (((2, 1, 3, 5, 4), (2, 6, 3, 7, 4), (2, 6, 3, 7, 3)), (2, 1, 1, 5, 7)),
    ]:
        q, k, v = drawn(*shapes)
        bias = drawn(mask, seed=1)[0] if mask else None
        ours, other = hm.torch.scaled_dot_product_attention(q, k, v, bias), theirs(q, k, v, bias)
        assert ours.shape == other.shape
        torch.testing.assert_close(ours, other, rtol=1e-12, atol=1e-13)
        for a, b in zip(
            torch.autograd.grad(ours.sum(), (q, k, v)),
            torch.autograd.grad(other.sum(), (q, k, v)),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_no_tokens_and_no_queries():
    q, k = drawn((1, 2, 3, 4), (1, 2, 0, 4))
    out = hm.torch.scaled_dot_product_attention(q, k, k)
    assert (out == 0).all()
    assert (torch.autograd.grad(out.sum(), q)[0] == 0).all()
    assert hm.torch.scaled_dot_product_attention(q[:, :, :0], q, q).shape == (1, 2, 0, 4)


def test_long_sequences_form_no_square(monkeypatch):
    """With 4,096 tokens no tensor of the size of the weights is made, forward or backward."""
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            sizes.extend(
                x.numel() for x in torch.utils._pytree.tree_leaves(out) if isinstance(x, torch.Tensor)
            )
            return out

    q = torch.randn(1, 1, 4096, 8)
    given = (q, q, q, None, None, None, True, 0.3, 0.0)
    with Sizes():  # it does not see into an operator that the dispatcher calls, so call its function
        out = operator.attention._init_fn(*given)
        operator.attention_backward._init_fn(out, *given, False)
    assert max(sizes) <= operator.CHUNK
    assert len(sizes) > 100  # the operator's own work is seen


LONG = """
import re, time, torch, hardmax as hm
from pathlib import Path

def kilobytes(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

torch.set_num_threads(1)
small = torch.randn(1, 1, 8, 64, requires_grad=True)
hm.torch.scaled_dot_product_attention(small, small, small).sum().backward()
q, k, v = (torch.randn(1, 1, 16384, 64, requires_grad=True) for _ in range(3))
Path("/proc/self/clear_refs").write_text("5")
before, begun = kilobytes("VmRSS"), time.process_time()
hm.torch.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
print(kilobytes("VmHWM") - before, time.process_time() - begun)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux only")
def test_memory_and_time_at_16384_tokens():
    """Both passes add less than a tenth of one T x T array in float32, which has 1,024 MB."""
    run = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    kilobytes, seconds = map(float, run.stdout.split())
    assert kilobytes / 1024 < 100
    assert seconds < 60


def test_bad_sinks_are_refused():
    q = torch.randn(1, 2, 3, 4)
    for error, message, sink in [
        (TypeError, "sink must be a tensor of logits or None, got list", [1.0, 2.0]),
        (TypeError, "sink must be a tensor of logits or None, got Tensor", torch.tensor([1, 2])),
        (ValueError, "sink must hold one logit for each of 2 heads, got the shape (3,)", torch.zeros(3)),
    ]:
        with pytest.raises(error, match=re.escape(message)):
            hm.torch.scaled_dot_product_attention(q, q, q, sink=sink)
