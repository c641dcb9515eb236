"""Attention as Triton kernels, one program per head, for an audit in Triton's interpreter.

Run with TRITON_INTERPRET=1. It prints the regimes, dtypes and quantities that fail, for both backward passes.
"""

import json
import os

import torch
import triton
import triton.language as tl

import hardmax as hm

REGIMES = ["base", "gap 8", "gap 40", "4 ties", "sink 32", "length 7", "width 16", "scale argument"]


@triton.jit
def _weights(q, k, scale, i, t, queries, tokens):
    logits = tl.sum(q[:, None, :] * k[None, :, :], 2) * scale
    logits = tl.where(t[None, :] < tokens, logits, float("-inf"))
    e = tl.exp(logits - tl.max(logits, 1)[:, None])
    s = e / tl.sum(e, 1)[:, None]
    return tl.where(i[:, None] < queries, s, 0.0)


@triton.jit
def _load(x, head, rows, d, count, width: tl.constexpr):
    places = (head * count + rows[:, None]) * width + d[None, :]
    return tl.load(x + places, mask=rows[:, None] < count, other=0.0).to(tl.float32)


@triton.jit
def _store(x, head, rows, d, count, width: tl.constexpr, values):
    places = (head * count + rows[:, None]) * width + d[None, :]
    tl.store(x + places, values.to(x.dtype.element_ty), mask=rows[:, None] < count)


@triton.jit
def forward_kernel(q, k, v, out, scale, queries, tokens, W: tl.constexpr, I: tl.constexpr, T: tl.constexpr):
    head, i, t, d = tl.program_id(0), tl.arange(0, I), tl.arange(0, T), tl.arange(0, W)
    Q, K, V = (
        _load(q, head, i, d, queries, W),
        _load(k, head, t, d, tokens, W),
        _load(v, head, t, d, tokens, W),
    )
    s = _weights(Q, K, scale, i, t, queries, tokens)
    _store(out, head, i, d, queries, W, tl.sum(s[:, :, None] * V[None, :, :], 1))


@triton.jit
def backward_kernel(
    q, k, v, g, dq, dk, dv, scale, queries, tokens,
    W: tl.constexpr, I: tl.constexpr, T: tl.constexpr, zero_sum: tl.constexpr,
):  # fmt: skip
    head, i, t, d = tl.program_id(0), tl.arange(0, I), tl.arange(0, T), tl.arange(0, W)
    Q, K, V = (
        _load(q, head, i, d, queries, W),
        _load(k, head, t, d, tokens, W),
        _load(v, head, t, d, tokens, W),
    )
    G = _load(g, head, i, d, queries, W)
    s = _weights(Q, K, scale, i, t, queries, tokens)
    by_weights = tl.sum(G[:, None, :] * V[None, :, :], 2)
    if zero_sum:  # relative to the top token
        top = tl.argmax(s, 1)
        by_weights -= tl.sum(tl.where(t[None, :] == top[:, None], by_weights, 0.0), 1)[:, None]
    by_logits = s * (by_weights - tl.sum(s * by_weights, 1)[:, None])
    _store(dq, head, i, d, queries, W, tl.sum(by_logits[:, :, None] * K[None, :, :], 1) * scale)
    _store(dk, head, t, d, tokens, W, tl.sum(by_logits[:, :, None] * Q[:, None, :], 0) * scale)
    _store(dv, head, t, d, tokens, W, tl.sum(s[:, :, None] * G[:, None, :], 0))


class Attention(torch.autograd.Function):
    """Both kernels as one function of PyTorch."""

    @staticmethod
    def forward(ctx, q, k, v, scale, zero_sum):
        ctx.save_for_backward(q, k, v)
        ctx.options = scale, zero_sum
        out = torch.empty_like(q)
        forward_kernel[(q.shape[0] * q.shape[1],)](q, k, v, out, scale, *sizes(q, k))
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v = ctx.saved_tensors
        scale, zero_sum = ctx.options
        found = [torch.empty_like(x) for x in (q, k, v)]
        grid = (q.shape[0] * q.shape[1],)
        backward_kernel[grid](q, k, v, g.contiguous(), *found, scale, *sizes(q, k), zero_sum)
        return *found, None, None


def sizes(q, k):
    """Queries, tokens, width, and the powers of two that hold queries and tokens."""
    queries, tokens, width = q.shape[-2], k.shape[-2], q.shape[-1]
    return queries, tokens, width, triton.next_power_of_2(queries), triton.next_power_of_2(tokens)


def attention(q, k, v, scale=None, *, zero_sum=True):
    """Attention without masks."""
    return Attention.apply(q, k, v, q.shape[-1] ** -0.5 if scale is None else scale, zero_sum)


def usual(q, k, v, **options):
    """The same with the usual backward pass."""
    return attention(q, k, v, **options, zero_sum=False)


if __name__ == "__main__":
    assert os.environ["TRITON_INTERPRET"] == "1"
    failures = {}
    for function in (attention, usual):
        result = hm.torch.audit(function, ["float32", "bfloat16"], "exact", regimes=REGIMES)
        assert not result.not_run, result.not_run
        failures[function.__name__] = [[x.regime, x.dtype, x.quantity] for x in result.failures]
    print(json.dumps(failures))
