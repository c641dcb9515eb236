"""How often does the probe find what is not there? Heads of a real model, their queries rotated at random.

    python examples/fetch_models.py
    python benchmarks/probe_control.py build/models/all-MiniLM-L6-v2 0 2 4

W_Q keeps its singular values and loses what training gave it: W_Q O, with O a random rotation of the space
of its inputs, not of the whitened one. Printed is the share of such heads with p of 0.05 or less, which a
perfect null model would make 5 %.
"""

import argparse
import sys

import numpy as np

import hardmax as hm
from hardmax._lib.extras import install


def control(name: str, chosen: list[int]) -> None:
    """Probe the rotated heads of some layers of a model, and print how many look trained."""
    from hardmax.torch.prober import LENGTH, _items
    from hardmax.torch.probing.heads import STATISTICS, ProbeSettings, probe_head
    from hardmax.torch.probing.inputs import HeadWeights
    from hardmax.torch.probing.loading import load
    from hardmax.torch.probing.seeing import heads_of, see

    model, tokenizer = load(name)
    layers = hm.torch.attention_layers(model)
    items, _, _ = _items(model, None, tokenizer, LENGTH)
    seen = see(model, layers, items)
    rng = np.random.default_rng(1)
    p: dict[str, list[list[float]]] = {"all": [], "inner": []}
    for k in chosen:
        for h, head in enumerate(heads_of(layers[k], [each[k] for each in seen])):
            factor = head.query_factor.copy()
            width = factor.shape[1] - (not layers[k].rotary)  # the bias, in the last column, stays
            factor[:, :width] @= np.linalg.qr(rng.standard_normal((width, width)))[0]
            rotated = HeadWeights(head.inputs, head.key_factor, factor)
            found = probe_head(rotated, ProbeSettings(null=19), (k, h))
            for kind, values in p.items():
                one = getattr(found, kind)
                if one is not None:
                    values.append([one.null[name].p for name in STATISTICS])
    for kind, values in p.items():
        shares = (np.array(values).reshape(-1, 3) <= 0.05).mean(axis=0)
        told = ", ".join(f"{name} {share:.0%}" for name, share in zip(STATISTICS, shares, strict=True))
        print(f"{kind}: {len(values)} heads, p <= 0.05: {told}")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "model", metavar="MODEL", help="the folder or file of a model, as hardmax probe takes it"
    )
    options.add_argument(
        "layers", metavar="LAYER", type=int, nargs="+", help="whose heads are rotated, from 0"
    )
    asked = options.parse_args()
    try:
        control(asked.model, asked.layers)
    except ImportError as error:
        sys.exit(f"probe_control.py needs PyTorch and transformers ({error}): {install('probe')}")


if __name__ == "__main__":
    main()
