"""The probe on real architectures: the heads of the model's own attention, refusals in a sentence."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.app import cli

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
transformers = pytest.importorskip("transformers", reason="real architectures need it: make test-extras")
prober = pytest.importorskip("hardmax.torch.prober")
pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:[0-9]+ random heads cannot reach"),
]

ROOT = Path(__file__).parents[2]
TINY = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 24}
WORDS = {"vocab_size": 40, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
IDS = torch.randint(0, 40, (8, 9), generator=torch.Generator().manual_seed(0))
FEW = {"null": 9, "queries": 12}


def sharpened(model, factor=25.0):
    """Random weights with queries and keys large enough to choose."""
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and any(word in name for word in ("query", "key", "q_proj", "k_proj", "c_attn")):
            weight.data *= factor
    return model


def bert():
    return sharpened(
        transformers.BertModel(transformers.BertConfig(**TINY, vocab_size=40, pad_token_id=None))
    )


def gpt2():
    config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=3, n_positions=32, **WORDS)
    return sharpened(transformers.GPT2Model(config))


def llama():
    config = transformers.LlamaConfig(**{**TINY, "num_attention_heads": 4}, num_key_value_heads=2, **WORDS)
    return sharpened(transformers.LlamaModel(config))


def vit():
    config = transformers.ViTConfig(**TINY, image_size=12, patch_size=4)
    return sharpened(transformers.ViTModel(config))


def encoder():
    layer = torch.nn.TransformerEncoderLayer(24, 3, 24, batch_first=True)
    made = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    for each in made.layers:
        each.self_attn.in_proj_weight.data *= 3
    return made


def batch(model):
    if isinstance(model, torch.nn.TransformerEncoder):
        return torch.randn(8, 9, 24, generator=torch.Generator().manual_seed(1))
    if isinstance(model, transformers.ViTModel):
        return {"pixel_values": torch.randn(8, 3, 12, 12, generator=torch.Generator().manual_seed(1))}
    return {"input_ids": IDS}


def dense_check(head):
    """Margin and cosine of a head against matrices that are written out."""
    from hardmax.torch.probing.heads import closeness
    from hardmax.torch.probing.inputs import choices, hard_queries, rows_of

    i = head.inputs
    found = choices(i, head.logits)
    queries = hard_queries(found, 12)
    rows = rows_of(i, queries, found.top.ravel()[queries])
    told = closeness(i, found, head.bilinear(i.z @ head.query_factor.T), queries)
    x, z = i.x.reshape(-1, i.x.shape[2]), i.z.reshape(-1, i.z.shape[2])
    A = np.einsum("jd,je->jde", x[rows.plus] - x[rows.minus], z[rows.query]).reshape(rows.count, -1)
    W = (head.key_factor.T @ head.query_factor).ravel()
    _, sizes, Vt = np.linalg.svd(A, full_matrices=False)
    inside = Vt[sizes > 1e-5 * sizes[0]]
    projected = inside.T @ (inside @ W)
    best = hm.max_margin(hm.Constraints.dense(A))
    assert told.margin.margin == pytest.approx(best.margin, rel=1e-9)
    cosine = projected @ best.p / np.linalg.norm(projected) / np.linalg.norm(best.p)
    assert told.cosine == pytest.approx(cosine, rel=1e-9)


@pytest.mark.parametrize("make", [bert, gpt2, llama, vit, encoder])
def test_architectures(make):
    torch.manual_seed(0)
    model = make().train()
    given, layers = batch(model), hm.torch.attention_layers(model)
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    found = prober.probe(model, given, **FEW)
    assert model.training
    assert torch.backends.mha.get_fastpath_enabled()
    assert getattr(getattr(model, "config", None), "_attn_implementation", None) == before
    assert len(found.heads) == sum(layer.heads for layer in layers)
    assert {head.why for head in found.heads} == {""}  # all agree with the model's own attention
    assert any(head.all is not None and head.all.status == "certified" for head in found.heads)
    assert ("induction" in found.heads[0].kinds) == (make in (gpt2, llama))
    from hardmax.torch.probing.seeing import heads_of, see

    items = (
        [given[b : b + 1] for b in range(8)]
        if torch.is_tensor(given)
        else [{name: value[b : b + 1] for name, value in given.items()} for b in range(8)]
    )
    seen = see(model, layers, items)
    heads = list(heads_of(layers[0], [each[0] for each in seen]))
    dense_check(heads[max(range(len(heads)), key=lambda h: found.heads[h].hard)])
    if before is not None:  # the top tokens are those of the model's own output
        model.set_attn_implementation("eager")
        model.eval()
        with torch.no_grad():
            weights = model(**given, output_attentions=True).attentions
        for head in found.heads:
            known = np.isfinite(head.gaps) & (head.gaps > 1e-3)
            own = weights[head.layer][:, head.head].argmax(dim=-1).numpy()
            assert np.array_equal(own[known], head.top[known])


def test_a_head_with_other_terms_reports_the_norms_of_its_matrix():
    """Rotary heads have rotated queries and keys as inputs; their matrix is the one before the rotation."""
    from hardmax.torch.probing import seeing
    from hardmax.torch.probing.inputs import HeadWeights, Inputs, softmax

    rng = np.random.default_rng(0)
    inputs = Inputs(*rng.normal(size=(2, 3, 4, 2)), np.ones((3, 4, 4), dtype=bool))
    factors = tuple(rng.normal(size=(2, 2, 5)))
    head = HeadWeights(inputs, np.eye(2), np.eye(2), weights=factors)
    norm = np.linalg.norm(factors[0].T @ factors[1])
    attention = softmax(head.logits + rng.normal(size=(4, 4)))
    offsets = seeing._offsets(head, attention, 1e-3)
    assert offsets is not None
    for other in (seeing.replace(head, offsets=offsets), seeing._read_off(head, attention, "not bilinear")):
        assert np.abs(softmax(other.logits) - attention).max() < 1e-12
        assert other.norms["frobenius"] == pytest.approx(norm)


def test_the_lift_is_a_relaxation():
    """Every distance may have its own matrix, so the margin can only grow next to |W| of the same head."""
    torch.manual_seed(0)
    model = llama()
    lifted = prober.probe(model, {"input_ids": IDS}, rotary="lift", **FEW)
    plain = prober.probe(model, {"input_ids": IDS}, **FEW)
    for one, other in zip(lifted.heads, plain.heads, strict=True):
        assert (one.gap, one.hard) == pytest.approx((other.gap, other.hard))
        assert np.array_equal(one.top, other.top)
        assert one.why == ""
        assert one.all is None or one.all.rank >= other.all.rank


def test_position_terms_normalized_keys_and_grouped_keys():
    torch.manual_seed(0)
    bloom = sharpened(
        transformers.BloomModel(transformers.BloomConfig(hidden_size=24, n_layer=1, n_head=3, **WORDS))
    )
    found = prober.probe(bloom, {"input_ids": IDS}, **FEW)  # ALiBi: fixed terms
    assert {head.why for head in found.heads} == {""}
    config = transformers.Qwen3Config(
        **{**TINY, "num_attention_heads": 4}, num_key_value_heads=2, head_dim=6, **WORDS
    )
    found = prober.probe(sharpened(transformers.Qwen3Model(config)), {"input_ids": IDS}, **FEW)
    assert all("normalized" in head.why and head.all is None for head in found.heads)
    assert all(head.gap > 0 for head in found.heads)


def test_a_batch_with_padding_is_the_same_as_without():
    torch.manual_seed(0)
    model = bert()
    mask = torch.ones_like(IDS)
    mask[::2, 6:] = 0
    padded = prober.probe(model, {"input_ids": IDS, "attention_mask": mask}, workers=1, **FEW)
    rows = [IDS[b, : int(mask[b].sum())] for b in range(8)]

    class Numbers:
        def __call__(self, text):
            return {"input_ids": rows[int(text)].tolist() if text else []}

        def convert_ids_to_tokens(self, ids):
            return ids

    plain = prober.probe(model, [str(b) for b in range(8)], Numbers(), workers=2, **FEW)
    for one, other in zip(padded.heads, plain.heads, strict=True):
        assert np.array_equal(one.top, other.top)
        assert one.gap == pytest.approx(other.gap, rel=1e-12)
        assert (one.all is None) == (other.all is None)
        assert one.all is None or one.all.null["cosine"].p == other.all.null["cosine"].p


class Fused(torch.nn.Module):
    """Its kernel reads the weights; the projections are never called."""

    def __init__(self):
        super().__init__()
        self.num_heads = 2
        self.q_proj, self.k_proj = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        q, k = (torch.nn.functional.linear(x, each.weight, each.bias) for each in (self.q_proj, self.k_proj))
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ x


class Silent(Fused):
    """It calls them, and keeps its attention."""

    def forward(self, x):
        return torch.softmax(self.q_proj(x) @ self.k_proj(x).transpose(1, 2), dim=-1) @ x


def test_refusals():
    x = torch.randn(4, 5, 8, generator=torch.Generator().manual_seed(0))
    for model, given, sentence in [
        (torch.nn.Linear(8, 8), x, "model must be one with attention layers"),
        (Fused(), x, "a fused kernel hides them; switch it off"),
        (Silent(), x, "model must show its attention weights"),
        (encoder(), torch.randn(4, 1, 24), "texts must have two tokens or more"),
        (encoder(), torch.zeros(0, 5, 24), "texts must have two tokens or more"),
        (encoder(), ["a text"], "tokenizer must be given with texts"),
        (torch.nn.TransformerEncoderLayer(8, 2, 8), x, "make it with batch_first=True"),
        (encoder(), 3, "texts must be sentences or a batch of tensors"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            prober.probe(model, given, **FEW)
    assert len(prober.probe(Silent(), x, causal=False, **FEW).heads) == 2
    broken = encoder()
    broken.layers[1].self_attn.in_proj_weight.data[0, 0] = float("nan")
    with pytest.raises(
        ValueError, match=r"finite weights, got nan or inf in the query projection of layers\.1"
    ):
        prober.probe(broken, torch.randn(4, 5, 24), **FEW)


def test_too_few_random_heads_are_a_warning():
    torch.manual_seed(0)
    model = encoder()
    with pytest.warns(UserWarning, match=r"9 random heads cannot reach p = 0\.05: the least p is 1/10; set"):
        few = prober.probe(model, batch(model), null=9, queries=12)
    assert len(few.notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough = prober.probe(model, batch(model), null=19, queries=12)
    assert enough.notes == []
    assert min(head.all.random.p for head in few.heads if head.all) >= 0.05
    assert min(one.p for head in few.heads if head.all for one in head.all.null.values()) >= 0.1


def test_a_head_of_zero_weights():
    model = encoder()
    model.layers[0].self_attn.in_proj_weight.data[:8] = 0.0  # the queries of head 0
    model.layers[0].self_attn.in_proj_bias.data[:8] = 0.0
    found = prober.probe(model, batch(model), **FEW)
    zero = found.heads[0]
    assert (zero.why, zero.gap, zero.hard) == ("its weights are zero: it looks at all tokens alike", 0.0, 0)
    assert zero.mass == pytest.approx(1 / 9)


def save_tiny_model(place):
    """Write a model as save_pretrained leaves it, with words that are markup; return model and tokenizer."""
    torch.manual_seed(0)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "<script>alert(1)</script>",
        "the",
        "cat",
        "dog",
        "sat",
    ]
    (place / "vocab.txt").write_text("\n".join(words))
    from tokenizers import Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="[UNK]", pad_token="[PAD]"
    )
    tokenizer.save_pretrained(place)
    config = transformers.BertConfig(**TINY, vocab_size=10)
    model = sharpened(transformers.BertModel(config))
    model.save_pretrained(place)
    return model, tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    save_tiny_model(place)
    return place


def test_the_command(folder, tmp_path, capsys):
    import jsonschema

    texts = tmp_path / "texts.txt"
    texts.write_text(
        "the cat sat\nthe dog <script>alert(1)</script> sat\ncat the dog sat the\ndog dog cat the sat\n" * 2
    )
    page = tmp_path / "page.html"
    arguments = ["probe", str(folder), "--texts", str(texts), "--null", "5", "--page", str(page)]
    assert cli.run([*arguments, "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["notes"] == [
        "5 random heads cannot reach p = 0.05: the least p is 1/6; set null to 19 or more (99 by default)"
    ]
    assert f"warning: {told['notes'][0]}" in printed.err
    assert "UserWarning" not in printed.err
    jsonschema.validate(
        told, json.loads((ROOT / "docs" / "reference" / "schemas" / "probe.schema.json").read_text())
    )
    assert (told["texts"], len(told["heads"])) == (8, 6)
    written = page.read_text()
    assert "<script>alert" not in written
    assert "\\u003cscript>alert" in written
    assert "http" not in written.replace("http-equiv", "")
    assert cli.run(arguments) == 0
    printed = capsys.readouterr().out
    assert "6 heads, hardest first, on 8 texts" in " ".join(printed.split())  # a long path wraps the line
    from hardmax.app.results.probe import probe as probe_file

    answer = probe_file(folder, texts, null=5)
    assert answer.json()["heads"] == told["heads"]
    assert answer.plot().axes


def test_the_command_refuses(folder, tmp_path, capsys):
    (tmp_path / "weights.bin").write_bytes(b"\x80\x04")
    (tmp_path / "config.json").write_text("{}")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(8))
    for arguments, sentence in [
        ([str(tmp_path / "none")], "No such file"),
        ([str(tmp_path)], "pickled weights"),
        ([str(tmp_path / "weights.bin")], "must be a GGUF file or a folder"),
        ([str(broken)], "must be a whole GGUF file"),
        ([str(folder), "--texts", str(tmp_path / "weights.bin")], "UTF-8"),
        ([str(folder), "--page", str(folder)], "--page"),
        ([str(folder), "--layer", "no.such"], "no.such"),
    ]:
        assert cli.run(["probe", *arguments]) == 2
        assert sentence in capsys.readouterr().err


@pytest.fixture(scope="session")
def real_models() -> Path:
    """Real weights, which examples/fetch_models.py fetches."""
    place = Path(os.environ.get("HARDMAX_MODELS", ROOT / "build" / "models"))
    if not place.is_dir():
        pytest.skip(f"no real models in {place}; python examples/fetch_models.py, or set HARDMAX_MODELS")
    return place


@pytest.mark.slow
def test_minilm(real_models):
    found = hm.probe(
        real_models / "all-MiniLM-L6-v2", null=3, queries=16, layers=["encoder.layer.0.attention.self"]
    ).heads
    assert {head.why for head in found.heads} == {""}
    hardest = found.ranked[0]
    assert (hardest.head, hardest.named) == (2, ("previous",))
    assert hardest.gap == pytest.approx(9.90, abs=0.01)
    assert all(head.all.status == "certified" for head in found.heads if head.all is not None)


@pytest.mark.slow
def test_smollm2(real_models):
    from hardmax.torch.probing.loading import load

    model, tokenizer = load(real_models / "SmolLM2-135M-Instruct.Q4_1.gguf")
    ids = torch.tensor(tokenizer("The capital of France is")["input_ids"])[None]
    with torch.no_grad():
        best = int((model.embed_tokens.weight @ model(ids).last_hidden_state[0, -1]).argmax())
    assert tokenizer.convert_ids_to_tokens([best]) == [
        "ĠParis"
    ]  # rows of queries and keys are in their places
    found = prober.probe(model, None, tokenizer, null=3, queries=16, layers=["layers.18.self_attn"])
    assert (len(found.heads), {head.layer for head in found.heads}) == (9, {18})
    assert {head.why for head in found.heads} == {""}
    assert found.ranked[0].named[0] == "first"
    assert "induction" in found.heads[6].named


@pytest.mark.parametrize(
    "name, layers, heads", [("all-MiniLM-L6-v2", 6, 12), ("SmolLM2-135M-Instruct.Q4_1.gguf", 30, 9)]
)
def test_watching_the_real_models(real_models, name, layers, heads):
    """The weights that `watch` records are those of the model's own forward pass: their rows sum to one."""
    from hardmax.torch.probing.loading import load

    model, _ = load(real_models / name)
    ids = torch.arange(5, 17)[None]
    with hm.torch.watch(model, every=1) as seen, torch.no_grad():
        model(input_ids=ids)
        seen.step()
    table = seen.table
    assert (len(set(table["layer"])), len(table["head"])) == (layers, layers * heads)
    assert np.isfinite(table["sparsity"]).all()
    assert ((table["top"] > 1 / 12) & (table["top"] <= 1)).all()
    assert (table["spectral"] <= table["frobenius"] * (1 + 1e-6)).all()
    assert (table["frobenius"] <= table["nuclear"] * (1 + 1e-6)).all()
