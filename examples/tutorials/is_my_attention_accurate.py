"""
Is my attention accurate?
=========================

This tutorial takes one attention layer in PyTorch from a silent error to a fix. In a layer whose logits are
far apart the loss is right, but the direction of the gradient is wrong. The tutorial needs the extra
``torch``.

A head that is hard
-------------------

Large queries make attention hard. The gradient of the key projection in float32 should agree with float64:
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import hardmax as hm


def key_gradient(dtype, scale, exact):
    """Return the gradient of the key projection of a layer whose queries are multiplied by a scale."""
    torch.manual_seed(2)
    layer = torch.nn.MultiheadAttention(8, 1, batch_first=True)
    layer.in_proj_weight.data[:8] *= scale
    layer = layer.to(dtype)
    torch.manual_seed(1)
    x = torch.randn(1, 6, 8).to(dtype)
    if exact:
        with hm.torch.exact_attention(layer):
            out = layer(x, x, x, need_weights=False)[0]
    else:
        out = layer(x, x, x, need_weights=False)[0]
    out.square().sum().backward()
    return layer.in_proj_weight.grad[8:16].double().numpy().ravel()


truth = key_gradient(torch.float64, 300, exact=True)
usual = hm.cosine_distance(key_gradient(torch.float32, 300, exact=False), truth)
print(f"1 - cos between PyTorch's gradient in float32 and the truth: {usual:.3f}")

# %%
# Find out where
# --------------
#
# An audit measures an attention function in regimes in which attention is hard. The math path of PyTorch
# computes the output and dv accurately, but not dq and dk once the logits are 8 apart:


def math_path(*inputs, **options):
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(*inputs, **options)


regimes = ["gap 0", "gap 4", "gap 8", "gap 20"]
result = hm.torch.audit(math_path, ["float32"], "exact", regimes=regimes)
print("regimes that fail:", sorted({case.regime for case in result.failures}))
print("quantities that fail:", sorted({case.quantity for case in result.failures}))

# %%
# The backward pass of a softmax computes s (g - sum of s g). For the top token the two numbers are nearly
# equal, and their difference is noise.
#
# Fix it
# ------
#
# Inside ``hm.torch.exact_attention(model)`` the layers of a model use attention with an accurate backward
# pass. The model itself does not change.

fixed = hm.cosine_distance(key_gradient(torch.float32, 300, exact=True), truth)
print(f"1 - cos with exact attention: {fixed:.1e}")

# %%
# Does it matter for my model?
# ----------------------------
#
# Only if its heads become hard. Here the same layer is made harder step by step:

scales = [1, 3, 10, 30, 100, 200, 300]
errors = {"PyTorch": [], "exact attention": []}
for scale in scales:
    truth = key_gradient(torch.float64, scale, exact=True)
    for name, exact in (("PyTorch", False), ("exact attention", True)):
        errors[name].append(hm.cosine_distance(key_gradient(torch.float32, scale, exact), truth))

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, values in errors.items():
    axes.loglog(scales, [max(value, 1e-16) for value in values], "o-", label=name)
axes.set(xlabel="scale of the queries", ylabel="1 - cos to the true gradient, float32")
axes.legend()
plt.show()

# %%
# While attention is soft, both are accurate. ``hm.torch.watch(model)`` records the gap of every head during
# training: if gaps stay below 4, nothing needs to change.
