"""The audit: its truth against 60 digits, eight planted bugs caught and located, bad functions reported."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import mpmath
import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

from hardmax._lib.pool import search_path  # noqa: E402
from hardmax.torch import auditing  # noqa: E402

ROOT = Path(__file__).parents[2]
F = torch.nn.functional


def kernel(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False, *, bug=None):
    """An attention kernel written like a fused one, exact inside, with one of eight bugs planted."""
    return _Kernel.apply(q, k, v, attn_mask, is_causal, scale, bug)


class _Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask, causal, scale, bug):
        group = q.shape[1] // k.shape[1]
        wide = [x.double() for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1))]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        if bug == "missing scale":
            scale = 1.0
        if bug == "stride of one head" and not q.is_contiguous():
            # The last head is read as if the tensor had no gaps.
            wide[0] = wide[0].clone()
            flat = torch.as_strided(q, q.shape, torch.empty(q.shape).stride())
            wide[0][:, -1] = flat[:, -1].double()
        logits = wide[0] @ wide[1].transpose(-2, -1) * scale
        if causal:
            rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
            mask = rows >= columns - int(bug == "causal off by one")
        if mask is not None and mask.dtype == torch.bool:
            if bug == "mask sign":
                mask = ~mask if not causal else mask
            logits = logits.masked_fill(~mask, -torch.inf)
        elif mask is not None:
            logits = logits + mask.double()
        weights = logits.softmax(dim=-1).nan_to_num(0.0)
        if bug == "float16 accumulation":
            out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=torch.float16)
            for t in range(k.shape[-2]):
                out = out + (weights[..., t : t + 1] * wide[2][..., t : t + 1, :]).half()
        else:
            out = weights @ wide[2]
        out = out.to(q.dtype)
        ctx.save_for_backward(*wide, weights, out)
        ctx.options = scale, bug, group, [x.dtype for x in (q, k, v)]
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, s, out = ctx.saved_tensors
        scale, bug, group, kinds = ctx.options
        g = g.double()
        by_weights = g @ v.transpose(-2, -1)
        top = s.argmax(dim=-1, keepdim=True)
        relative = by_weights - by_weights.gather(-1, top)
        if bug == "dropped D":
            by_logits = s * by_weights
        elif bug == "D from a rounded O":
            by_logits = s * (by_weights - (g * out.double()).sum(dim=-1, keepdim=True))
        elif bug == "ties split":
            # Every token at the top is given minus the sum of the others, divided among them.
            by_logits = s * (relative - (s * relative).sum(dim=-1, keepdim=True))
            tied = s == s.amax(dim=-1, keepdim=True)
            others = by_logits.masked_fill(tied, 0.0).sum(dim=-1, keepdim=True)
            by_logits = torch.where(tied, -others / tied.sum(dim=-1, keepdim=True), by_logits)
        else:
            by_logits = s * (relative - (s * relative).sum(dim=-1, keepdim=True))
        found = (
            by_logits @ k * scale,
            _summed(by_logits.transpose(-2, -1) @ q * scale, group),
            _summed(s.transpose(-2, -1) @ g, group),
        )
        return (*(x.to(kind) for x, kind in zip(found, kinds, strict=True)), None, None, None, None)


def _summed(x, group):
    return x.unflatten(1, (-1, group)).sum(dim=2)


ALL = [regime.name for regime in auditing.all_regimes(False)]
WITH_GAP = {f"gap {g}" for g in (8, 12, 16, 20, 30, 40, 60, 80)}
CAUSAL = {"causal", "causal, fewer queries"}
TIES = {f"{n} ties" for n in (2, 4, 16, 64)}

# What is planted, and the regimes in which an audit in some dtypes must find it.
PLANTED = {
    "missing scale": (("float32",), {"base", "width 16", "width 128", "grouped 4/2"}, "many"),
    "mask sign": (("float32",), {"boolean mask"}, "only"),
    "dropped D": (("float32",), {"base", "gap 40", "sink 32", "causal"}, "many"),
    "D from a rounded O": (("bfloat16",), {"gap 8", "gap 12", "sink 16"}, "not base"),
    "ties split": (("float32", "bfloat16"), TIES, "only"),
    "causal off by one": (("float32",), CAUSAL, "only"),
    "stride of one head": (("float32",), {"transposed"}, "only"),
    "float16 accumulation": (("float32",), {"base", "length 129", "gap 0"}, "many"),
}


def test_the_kernel_without_a_bug_is_exact():
    result = hm.torch.audit(kernel, level="exact")
    assert (result.exit_code, result.failures, result.not_run) == (0, (), ())
    assert len(result.cases) == len(ALL) * 4 * 4


@pytest.mark.parametrize("bug", PLANTED)
@pytest.mark.parametrize("level", auditing.LEVELS)
def test_planted_bugs_are_caught_where_they_are(bug, level):
    dtypes, wanted, others = PLANTED[bug]
    result = hm.torch.audit(lambda *a, **o: kernel(*a, **o, bug=bug), dtypes, level)
    assert result.exit_code == 1
    found = {case.regime for case in result.failures}
    assert found >= wanted, wanted - found
    if others == "only":
        assert found == wanted
    if others == "not base":
        soft = {"base", "gap 0", "causal", "boolean mask", "width 64", "transposed"}
        assert not found & soft
    quantities = {case.quantity for case in result.failures}
    if bug in ("dropped D", "D from a rounded O", "ties split"):
        assert quantities <= {"dq", "dk"}  # the forward pass and the values are right
    if bug == "float16 accumulation":
        assert "out" in quantities


def test_the_bugs_pass_tests_with_random_inputs():
    """Why regimes are needed: on random inputs without a mask these five agree with PyTorch to 1 %."""
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(2, 2, 16, 32, dtype=torch.bfloat16) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(F.scaled_dot_product_attention(*inputs), inputs, g)
    for bug in ("D from a rounded O", "ties split", "causal off by one", "mask sign", "stride of one head"):
        found = torch.autograd.grad(kernel(*inputs, bug=bug), inputs, g)
        for a, b in zip(found, wanted, strict=True):
            assert (a - b).norm() < 0.01 * b.norm()


def digits(q, k, v, g, scale):
    """Output and gradients of one head by the plain formula with 60 digits."""
    with mpmath.workdps(60):
        q, k, v, g = (mpmath.matrix(x.double().numpy()) for x in (q, k, v, g))
        n, tokens = q.rows, k.rows
        logits, by_weights = q * k.T * scale, g * v.T
        s, by_logits = mpmath.matrix(n, tokens), mpmath.matrix(n, tokens)
        for i in range(n):
            top = max(logits[i, t] for t in range(tokens))
            e = [mpmath.exp(logits[i, t] - top) for t in range(tokens)]
            total = mpmath.fsum(e)
            for t in range(tokens):
                s[i, t] = e[t] / total
            mean = mpmath.fsum(s[i, t] * by_weights[i, t] for t in range(tokens))
            for t in range(tokens):
                by_logits[i, t] = s[i, t] * (by_weights[i, t] - mean)
        made = (s * v, by_logits * k * scale, by_logits.T * q * scale, s.T * g)
        return [np.array([[float(x[i, j]) for j in range(x.cols)] for i in range(x.rows)]) for x in made]


@pytest.mark.parametrize(
    "name", ["base", "gap 0", "gap 40", "gap 80", "4 ties", "4 near ties", "sink 32", "scale 50"]
)
def test_the_truth_against_60_digits(name):
    """Every entry to a few units of float64, relative to the size that the audit gives its row."""
    [regime] = [each for each in auditing.all_regimes(False) if each.name == name]
    small = auditing.replace(regime, lengths=(3, 12), width=8)
    for kind in (torch.float64, torch.bfloat16):
        given = auditing.inputs_of(small, kind, 0)
        truth, largest = auditing._truth(given)
        parts = [x[0, 0] for x in (given.query, given.key, given.value, given.by_out)]
        for true, exact in zip(truth.values(), digits(*parts, 8**-0.5), strict=True):
            off = np.abs(true.value[0, 0].numpy() - exact).max(axis=1) / true.size[0, 0].numpy()
            assert off.max() <= 8 * 2.0**-53 * (1 + largest)


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_inputs_are_what_their_names_say(kind):
    made = {regime.name: auditing.inputs_of(regime, kind, 0) for regime in auditing.all_regimes(False)}
    slack = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.35, torch.float16: 0.05}[kind]

    def top(name, count):
        given = made[name]
        logits = given.query.double() @ given.key.double().transpose(-2, -1) / 8
        return logits.sort(dim=-1, descending=True).values[..., : count + 1]

    for gap in (0, 4, 20, 80):
        found = top(f"gap {gap}", 1)
        assert (found[..., 0] - found[..., 1] - gap).abs().max() <= slack * (1 + gap / 4)
    for ties in (2, 16, 64):
        found = top(f"{ties} ties", ties)
        assert (found[..., 0] == found[..., ties - 1]).all() or (
            found[..., 0] - found[..., ties - 1]
        ).max() < 1e-12
        assert ((found[..., 0] - found[..., ties]) / 20 - 1).abs().max() < 0.2
        spread = top(f"{ties} near ties", ties)
        assert 0 < (spread[..., 0] - spread[..., ties - 1]).max() < 10
    sink = made["sink 16"]
    logits = sink.query.double() @ sink.key.double().transpose(-2, -1)
    assert (logits.argmax(dim=-1) == 0).all()
    assert sink.value[:, :, 0].abs().max() < 0.2
    assert not made["transposed"].query.is_contiguous()
    assert made["grouped 4/2"].options == {"enable_gqa": True}
    for name in ("boolean mask", "additive mask"):
        mask = made[name].options["attn_mask"]
        hidden = ~mask if mask.dtype == torch.bool else mask == -torch.inf
        assert hidden.all(dim=-1).sum() == 1
        assert 0.1 < hidden.double().mean() < 0.6


def test_the_product_of_all_factors():
    every = list(auditing.all_regimes(True))
    assert len({regime.name for regime in every}) == len(every) > 1000
    names = [
        "gap 40, causal, grouped 4/2",
        "16 ties, boolean mask, transposed",
        "sink 32, additive mask, width 16",
    ]
    assert hm.torch.audit(kernel, ["float32"], "exact", full=True, regimes=names).exit_code == 0
    bugged = hm.torch.audit(
        lambda *a, **o: kernel(*a, **o, bug="causal off by one"), ["float32"], full=True, regimes=names
    )
    assert {case.regime for case in bugged.failures} == {names[0]}


def test_hardmax_is_exact_and_pytorch_is_not():
    assert hm.torch.audit(hm.torch.scaled_dot_product_attention, level="exact").exit_code == 0
    result = hm.torch.audit(auditing.math_path, ["float32"], "exact")
    assert {case.regime for case in result.failures} >= WITH_GAP | {
        "sink 16",
        "sink 32",
        "scale 10",
        "scale 50",
    }
    assert {case.quantity for case in result.failures} == {"dq", "dk"}
    assert hm.torch.audit(auditing.math_path, ["float32"], "usual").exit_code == 0


def paths():
    spec = importlib.util.spec_from_file_location("attention_paths", ROOT / "examples" / "attention_paths.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_flash_and_eager_are_reported_as_they_are():
    result = hm.torch.audit(paths().flash, ["bfloat16"])
    found = {case.regime for case in result.failures}
    assert found >= {"gap 8", "gap 40", "sink 16", "scale 20"}
    assert not found & {"base", "causal", "boolean mask", "grouped 4/2", "width 128"}
    worst = max(case.max_error for case in result.failures)
    assert worst > 1e6  # its errors are not small vectors
    pytest.importorskip("transformers", reason="the eager path of transformers: make test-extras")
    result = hm.torch.audit(paths().eager, ["bfloat16"])
    assert {case.regime for case in result.failures} >= {"gap 12", "gap 16"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_bias_tells_systematic_errors_from_random_ones(dtype):
    """The mean error along its leading direction over its spread: large for a constant error, else small."""
    chance = torch.Generator().manual_seed(0)
    random = torch.randn(16, 2, 5, 8, generator=chance, dtype=torch.float64)
    constant = torch.randn(1, 2, 5, 8, generator=chance, dtype=torch.float64).expand(16, -1, -1, -1)
    assert auditing._bias(random) < 0.8
    assert auditing._bias(constant + 0.1 * random) > 5
    assert auditing._bias(-constant - 0.1 * random) > 5
    assert auditing._bias(0 * random) is None

    def shrunk(*inputs, **options):  # every output 1 % too small
        return 0.99 * hm.torch.scaled_dot_product_attention(*inputs, **options)

    [out] = [c for c in hm.torch.audit(shrunk, [dtype], regimes=["gap 0"]).cases if c.quantity == "out"]
    assert 0.98 < out.length_ratio < 1.0


class Odd:
    """Functions that break in one regime only."""

    @staticmethod
    def raises(q, k, v, **options):
        if options.get("enable_gqa"):
            raise NotImplementedError("no grouped queries\nand a long story")
        return hm.torch.scaled_dot_product_attention(q, k, v, **options)

    @staticmethod
    def shape(q, k, v, **options):
        out = hm.torch.scaled_dot_product_attention(q, k, v, **options)
        return out[..., :-1] if options.get("enable_gqa") else out

    @staticmethod
    def nan(q, k, v, **options):
        out = hm.torch.scaled_dot_product_attention(q, k, v, **options)
        return out * torch.nan if options.get("enable_gqa") else out

    @staticmethod
    def no_tensor(q, k, v, **options):
        out = hm.torch.scaled_dot_product_attention(q, k, v, **options)
        return (out, None) if options.get("enable_gqa") else out

    @staticmethod
    def no_gradient(q, k, v, **options):
        out = hm.torch.scaled_dot_product_attention(q, k, v, **options)
        return out.detach() if options.get("enable_gqa") else out

    @staticmethod
    def writes(q, k, v, **options):
        out = hm.torch.scaled_dot_product_attention(q, k, v, **options)
        with torch.no_grad():
            q.zero_()  # the audit's own inputs are not touched
        return out


@pytest.mark.parametrize(
    "name, code, verdicts, detail",
    [
        ("raises", 3, ["not run"] * 4, "NotImplementedError: no grouped queries"),
        (
            "shape",
            1,
            ["fails", "not run", "not run", "not run"],
            "out has the shape (16, 4, 16, 63) instead of",
        ),
        ("nan", 1, ["fails"] * 4, "out is not finite"),
        (
            "no_tensor",
            1,
            ["fails", "not run", "not run", "not run"],
            "out is of the type tuple, not a tensor",
        ),
        ("no_gradient", 3, ["passes", "not run", "not run", "not run"], "does not require grad"),
    ],
)
def test_a_function_that_breaks_in_one_regime_is_reported_there(name, code, verdicts, detail):
    chosen = ["base", "grouped 4/2", "gap 40"]
    result = hm.torch.audit(getattr(Odd, name), ["float32"], regimes=chosen)
    assert result.exit_code == code
    assert [case.verdict for case in result.cases if case.regime == "grouped 4/2"] == verdicts
    assert {case.verdict for case in result.cases if case.regime != "grouped 4/2"} == {"passes"}
    assert any(detail in case.detail for case in result.cases)
    assert "\n" not in "".join(case.detail for case in result.cases)
    text = str(result)
    assert "not run" in text or re.search(r" (all|out|dq|dk|dv)\b", text)
    validate(result)
    with pytest.raises(AssertionError, match=re.escape("grouped 4/2, float32")):
        hm.torch.assert_accurate(getattr(Odd, name), dtypes=["float32"], regimes=chosen)


def test_functions_that_change_their_inputs_do_not_disturb_the_audit():
    clean = hm.torch.audit(hm.torch.scaled_dot_product_attention, ["float64"], regimes=["base"])
    dirty = hm.torch.audit(Odd.writes, ["float64"], regimes=["base"])
    assert dirty.cases[0].max_error == clean.cases[0].max_error


def validate(result):
    schema = json.loads((ROOT / "docs" / "reference" / "schemas" / "audit.schema.json").read_text())
    text = json.dumps(result.json(), allow_nan=False)
    jsonschema.Draft202012Validator(schema).validate(json.loads(text))


def test_the_result():
    result = hm.torch.audit(auditing.math_path, ["float32", "bfloat16"], "exact", regimes=["base", "gap 40"])
    assert repr(result) == "AuditResult(math_path, level exact: 12 of 16 cases pass, 4 fail)"
    assert result.json()["schema"] == "hardmax.audit/1"
    validate(result)
    lines = str(result).splitlines()
    assert lines[0].split() == ["regime", "float32", "bfloat16"]
    assert re.match(r"gap 40 +\S+ dq dk +\S+ dq dk", lines[2])
    assert lines[-1] == "12 of 16 cases pass, 4 fail"
    axes = result.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["base", "gap 40"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["out", "dq", "dk", "dv"] * 2
    crosses = [text.get_position() for text in axes.texts if text.get_text() == "x"]
    assert sorted(crosses) == [(1, 1), (2, 1), (5, 1), (6, 1)]
    assert "<img" in result._repr_html_()
    same = hm.torch.audit(auditing.math_path, [torch.float32], "exact", regimes="gap 40")
    assert same.cases == result.cases[8:12]  # the same seed, the same numbers


def test_bad_arguments():
    for error, message, call in [
        (TypeError, "attention must be a function, got 3", lambda: hm.torch.audit(3)),
        (ValueError, "dtypes must be among float64", lambda: hm.torch.audit(kernel, ["int8"])),
        (ValueError, "dtypes must name at least one", lambda: hm.torch.audit(kernel, [])),
        (ValueError, "level must be one of usual, exact", lambda: hm.torch.audit(kernel, level="best")),
        (ValueError, "regimes must be among base", lambda: hm.torch.audit(kernel, regimes=["gap 41"])),
        (ValueError, "device must be one that PyTorch has here", lambda: hm.torch.audit(kernel, device="x")),
        (ValueError, "rng must be an integer", lambda: hm.torch.audit(kernel, rng=-1)),
    ]:
        with pytest.raises(error, match=message):
            call()


def test_progress_is_reported():
    seen = []
    hm.torch.audit(
        kernel, ["float32", "float64"], regimes=["base", "causal"], progress=lambda *pair: seen.append(pair)
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed here: pip install triton"
)
def test_triton_kernels_in_the_interpreter():
    """With the zero-sum backward a kernel is exact; with the usual one it fails where attention is hard."""
    script = Path(__file__).parent / "triton_attention.py"
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": search_path()}
    run = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    failures = json.loads(run.stdout)
    assert failures["attention"] == []
    regimes = {regime for regime, _, _ in failures["usual"]}
    assert regimes == {"gap 8", "gap 40", "sink 32"}
    assert {quantity for _, _, quantity in failures["usual"]} == {"dq", "dk"}


def test_the_audit_uses_one_thread_and_restores_their_number():
    seen = []

    def attention(q, k, v):
        seen.append(torch.get_num_threads())
        return hm.torch.scaled_dot_product_attention(q, k, v)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        hm.torch.audit(attention, ["float32"], regimes=["base"])
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_on_cuda():
    assert hm.torch.audit(hm.torch.scaled_dot_product_attention, level="exact", device="cuda").exit_code == 0
