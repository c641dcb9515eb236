"""watch: what it records of real models is what the definitions give, and it touches nothing."""

import csv
import importlib.util
import warnings

import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
prober = pytest.importorskip("hardmax.torch.prober")
pytestmark = pytest.mark.extra

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


def real(name):
    """A model of transformers with random weights, and its inputs."""
    tr = pytest.importorskip("transformers", reason="real models: pip install transformers")
    torch.manual_seed(0)
    ids = {"input_ids": torch.randint(3, 40, (3, 7))}
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if name == "BERT":
        return tr.BertModel(tr.BertConfig(vocab_size=50, **SIZES)), ids
    if name == "GPT-2":
        config = tr.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, **special)
        return tr.GPT2LMHeadModel(config), ids
    if name == "Llama":
        return tr.LlamaForCausalLM(tr.LlamaConfig(vocab_size=50, num_key_value_heads=2, **SIZES)), ids
    if name == "Qwen3":
        return tr.Qwen3Model(tr.Qwen3Config(vocab_size=50, num_key_value_heads=2, head_dim=8, **SIZES)), ids
    if name == "GPT-NeoX":
        return tr.GPTNeoXModel(tr.GPTNeoXConfig(vocab_size=50, **special, **SIZES)), ids
    config = tr.ViTConfig(image_size=16, patch_size=8, **SIZES)
    return tr.ViTModel(config), {"pixel_values": torch.randn(3, 3, 16, 16)}


def defined(weights, visible=None):
    """tokens, sparsity, top and entropy of one head, query by query, by their definitions."""
    rows = []
    for image in weights:
        for i, s in enumerate(image):
            seen = len(s) if visible is None else visible[i]
            kept = s[s > 0]
            rows.append([1 / (s**2).sum(), 1 / (s**2).sum() / seen, s.max(), -(kept * np.log(kept)).sum()])
    return np.mean(rows, axis=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "ViT"])
def test_real_models_against_their_own_weights(name, kind):
    model, inputs = real(name)
    model.set_attn_implementation(kind)
    model.eval()
    with torch.no_grad(), hm.torch.watch(model) as seen:
        before = model(**inputs)[0]
        seen.step()
        model.set_attn_implementation("eager")
        attentions = model(**inputs, output_attentions=True).attentions
    model.set_attn_implementation(kind)
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs)[0], before, rtol=0, atol=0)
    table = seen.table
    assert table["layer"].size == 2 * 4
    causal = range(1, 8) if name in ("GPT-2", "Llama") else None
    names = list(dict.fromkeys(table["layer"].tolist()))
    for layer, weights in zip(names, attentions, strict=True):
        own = table["layer"] == layer
        found = np.column_stack([table[each][own] for each in ("tokens", "sparsity", "top", "entropy")])
        wanted = [defined(weights[:, h].double().numpy(), causal) for h in range(4)]
        np.testing.assert_allclose(found, wanted, rtol=2e-6)


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "ViT", "Qwen3", "GPT-NeoX"])
def test_norms_are_those_of_the_matrix(name):
    model, _ = real(name)
    config = model.config
    with hm.torch.watch(model) as seen:
        seen.step()
    layer = seen.layers[1]
    if name == "GPT-2":
        whole = model.transformer.h[1].attn.c_attn.weight.T.reshape(3, 4, 8, 32)
        Q, K = whole[0], whole[1]
    elif name == "GPT-NeoX":
        whole = model.layers[1].attention.query_key_value.weight.reshape(4, 3, 8, 32)
        Q, K = whole[:, 0], whole[:, 1]
    else:
        names = ("query", "key") if hasattr(layer.module, "query") else ("q_proj", "k_proj")
        Q, K = (getattr(layer.module, each).weight.unflatten(0, (-1, 8)) for each in names)
        K = K.repeat_interleave(4 // len(K), dim=0)
    assert layer.key_heads == getattr(config, "num_key_value_heads", 4)
    W = (K.transpose(1, 2) @ Q / 8**0.5).detach().double().numpy()
    table = {each: column[4:] for each, column in seen.table.items()}
    sigma = np.linalg.svd(W, compute_uv=False)[:, :8]
    np.testing.assert_allclose(table["frobenius"], np.linalg.norm(W, axis=(1, 2)), rtol=1e-5)
    np.testing.assert_allclose(table["nuclear"], sigma.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(table["spectral"], sigma[:, 0], rtol=1e-5)
    share = sigma / sigma.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(table["rank"], np.exp(-(share * np.log(share)).sum(axis=1)), rtol=1e-4)
    assert (layer.rotary, layer.normalized) == (name in ("Llama", "Qwen3", "GPT-NeoX"), name == "Qwen3")


def encoder(**options):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def trained(seen=None, steps=5):
    model = encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    torch.manual_seed(1)
    watching = None if seen is None else hm.torch.watch(model, every=2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(model(torch.randn(4, 5, 8)).square().mean())
        losses[-1].backward()
        optimizer.step()
        if watching is not None:
            watching.step()
    if watching is not None:
        watching.close()
    return [float(loss.detach()) for loss in losses], watching, model


def test_training_is_the_same_with_and_without():
    plain, _, _ = trained()
    watched, seen, model = trained(seen=True)
    assert plain == watched
    assert sorted(set(seen.table["step"].tolist())) == [0, 2, 4]
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("training", [True, False])
def test_an_encoder_of_pytorch_fused_or_not(training):
    model = encoder().train(training)
    x = torch.randn(3, 5, 8)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    with torch.no_grad(), hm.torch.watch(model) as seen:
        model(x, src_key_padding_mask=padding)
        seen.step()
    first = model.layers[0].self_attn
    weights = (
        first(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1].detach().double().numpy()
    )
    wanted = np.mean([defined(weights[i : i + 1, 1], [k] * 5) for i, k in enumerate((5, 3, 5))], axis=0)
    found = [seen.table[each][1] for each in ("tokens", "sparsity", "top", "entropy")]
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


def test_our_own_modules_are_seen():
    model = hm.torch.VisionTransformer(dim=16, depth=2, heads=2)
    with hm.torch.watch(model, max_inputs=2) as seen:
        model(torch.randn(4, 3, 32, 32))
        seen.step()
    assert seen.table["layer"].tolist() == ["blocks.0.attend"] * 2 + ["blocks.1.attend"] * 2
    np.testing.assert_allclose(seen.table["sparsity"], 1.0, atol=1e-3)  # it begins almost uniform


def test_logits_gaps_and_sinks_against_their_definitions():
    """One causal head written out query by query, with a learned sink in the second layer."""
    torch.manual_seed(3)
    q, k, v = torch.randn(3, 2, 2, 6, 4)
    sink = torch.tensor([0.5, -1.0])

    class Layer(torch.nn.Module):
        num_heads = 2

        def __init__(self, **options):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(8, 8) for _ in range(3))
            self.options = options

        def forward(self):
            return hm.torch.scaled_dot_product_attention(3 * q, k, v, is_causal=True, **self.options)

    model = torch.nn.ModuleDict({"plain": Layer(), "learned": Layer(sink=sink)})
    with hm.torch.watch(model, max_inputs=1) as seen:
        for layer in model.values():
            layer()
        seen.step()
    table = seen.table
    for row, (learned, head) in enumerate(((False, 0), (False, 1), (True, 0), (True, 1))):
        logits = (1.5 * q[0, head] @ k[0, head].T).double().numpy()
        gaps, sinks, highest = [], [], []
        for i in range(6):
            visible = np.sort(logits[i, : i + 1])[::-1]
            highest.append(visible[0])
            total = np.exp(logits[i, : i + 1]).sum() + (np.exp(float(sink[head])) if learned else 0.0)
            if i > 0:
                gaps.append(visible[0] - visible[1])
                extra = np.exp(float(sink[head])) if learned else 0.0
                sinks.append((np.exp(logits[i, 0]) + extra) / total)
        assert table["max_logit"][row] == pytest.approx(max(highest), rel=1e-5)
        assert table["gap"][row] == pytest.approx(np.mean(gaps), rel=1e-5)
        assert table["sink"][row] == pytest.approx(np.mean(sinks), rel=1e-5)


def test_a_gap_beyond_the_range_of_weights():
    """Weights of float32 are zero below exp(-103); the gap is read off the logits."""
    model = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    model.in_proj_weight.data = 20 * torch.eye(4).repeat(3, 1)
    x = torch.eye(4)[None]
    with hm.torch.watch(model) as seen:
        model(x, x, x, need_weights=False)
        seen.step()
    assert seen.table["max_logit"][0] == pytest.approx(200.0)  # 20 * 20 / sqrt(4)
    assert seen.table["gap"][0] == pytest.approx(200.0)
    assert seen.table["top"][0] == 1.0


class Lines:
    """A writer as TensorBoard's."""

    def __init__(self):
        self.lines = []

    def add_scalar(self, tag, value, step):
        self.lines.append((step, tag, value))


class Run:
    """A run as that of Weights & Biases."""

    def __init__(self):
        self.calls = []

    def log(self, values, step):
        self.calls.append((step, values))


def test_records_are_sent_to_writers():
    model = encoder()
    board, run = Lines(), Run()
    with hm.torch.watch(model, every=2) as seen:
        seen.log(board)
        for _ in range(3):
            model(torch.randn(4, 5, 8))
            seen.step()
        seen.log(run)  # late: it gets the records so far
    assert sorted({step for step, *_ in board.lines}) == [0, 2]
    found = {tag: value for step, tag, value in board.lines if step == 2}
    assert len(found) == 4 * 11
    assert found["layers.1.self_attn/head 1/max_logit"] == seen.table["max_logit"][-1]
    merged = {tag: value for step, values in run.calls for tag, value in values.items() if step == 2}
    assert merged == found
    with pytest.raises(TypeError, match="writer must have add_scalar or log, got dict"):
        seen.log({})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_callback_of_the_trainer():
    """The events of a training, as the Trainer of transformers sends them."""
    tr = pytest.importorskip("transformers", reason="the Trainer is one of transformers: make test-extras")
    from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState

    model = encoder()
    seen = hm.torch.watch(model, every=2)
    callback = seen.callback()
    assert isinstance(callback, tr.TrainerCallback)
    handler = CallbackHandler([callback], model, None, None, None)
    state, control = TrainerState(), TrainerControl()
    handler.on_train_begin(None, state, control)
    for _ in range(3):
        handler.on_step_begin(None, state, control)
        model(torch.randn(4, 5, 8))
        handler.on_step_end(None, state, control)
    handler.on_train_end(None, state, control)
    assert sorted(set(seen.table["step"].tolist())) == [0, 2]
    assert np.isfinite(seen.table["max_logit"]).all()
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="the Trainer needs accelerate")
@pytest.mark.filterwarnings("ignore")  # of libraries that disagree about deprecations
def test_the_trainer_itself(tmp_path):
    tr = pytest.importorskip("transformers", reason="the Trainer is one of transformers: make test-extras")
    model, _ = real("GPT-2")
    data = [{"input_ids": torch.randint(3, 40, (7,)), "labels": torch.randint(3, 40, (7,))} for _ in range(8)]
    seen = hm.torch.watch(model, every=2)
    options = tr.TrainingArguments(
        tmp_path,
        max_steps=3,
        per_device_train_batch_size=2,
        report_to=[],
        dataloader_pin_memory=False,
        disable_tqdm=True,
        use_cpu=True,
    )
    tr.Trainer(model, options, train_dataset=data, callbacks=[seen.callback()]).train()
    assert sorted(set(seen.table["step"].tolist())) == [0, 2]
    assert np.isfinite(seen.table["max_logit"]).all()
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_csv_and_picture(tmp_path):
    _, seen, _ = trained(seen=True)
    seen.save(tmp_path / "heads.csv")
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert len(rows) == 3 * 2 * 2
    assert float(rows[-1]["rank"]) == seen.table["rank"][-1]
    assert [len(axes.lines) for axes in seen.plot().axes] == [2] * 6
    assert "step" in seen._repr_html_()


class Fused(torch.nn.Module):
    """A layer whose kernel is not PyTorch's."""

    def __init__(self):
        super().__init__()
        self.num_heads = 2
        self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        return self.q_proj(x) * self.k_proj(x) + self.v_proj(x)


def test_a_kernel_that_hides_its_weights_is_told_once():
    model = Fused()
    seen = hm.torch.watch(model, every=1)
    with pytest.warns(UserWarning, match="hides its attention weights in a fused kernel"):
        model(torch.randn(2, 3, 8))
    seen.step()
    model(torch.randn(2, 3, 8))  # a second warning would be an error
    seen.step()
    seen.close()
    assert np.isnan(seen.table["top"]).all()
    assert (seen.table["frobenius"] > 0).all()


def test_a_layer_given_by_hand():
    class Other(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = torch.nn.Linear(6, 8), torch.nn.Linear(6, 8)

        def forward(self, x):
            q, k = (f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in (self.one, self.two))
            return torch.nn.functional.scaled_dot_product_attention(q, k, k)

    model = Other()
    with pytest.raises(ValueError, match=r"model must be one with attention layers, got Other without any"):
        hm.torch.watch(model)
    query, key = (hm.torch.Projection(each, heads=2) for each in (model.one, model.two))
    layer = hm.torch.AttentionLayer("mine", model, query, key, None, scale=0.5)
    with hm.torch.watch(model, layers=[layer]) as seen:
        model(torch.randn(2, 3, 6))
        seen.step()
    assert seen.table["layer"].tolist() == ["mine", "mine"]
    assert (seen.table["top"] >= 1 / 3).all()
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(query(x).flatten(-2), model.one(x))


def test_zero_weights_one_token_and_nan():
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    model.in_proj_weight.data.zero_()
    with hm.torch.watch(model) as seen:
        model(*(torch.randn(2, 1, 8) for _ in range(3)))
        seen.step()
    assert seen.table["rank"].tolist() == seen.table["frobenius"].tolist() == [0.0, 0.0]
    assert seen.table["sparsity"].tolist() == seen.table["top"].tolist() == [1.0, 1.0]
    assert seen.table["entropy"].tolist() == [0.0, 0.0]
    model.in_proj_weight.data[0, 0] = torch.nan
    seen = hm.torch.watch(model)
    with pytest.warns(UserWarning, match="has weights that are not finite at step 0"):
        seen.step()
    assert np.isnan(seen.table["frobenius"]).all()


class Uncounted(torch.nn.Module):
    """Attention written by hand, which keeps the number of its heads in a local variable."""

    def __init__(self, packed=False):
        super().__init__()
        self.packed = packed
        if packed:
            self.qkv = torch.nn.Linear(8, 24)
        else:
            self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(8, n) for n in (8, 4, 4))

    def forward(self, x):
        if self.packed:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k, v = (y.unflatten(-1, (-1, 2)).transpose(1, 2) for y in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("packed", [False, True])
def test_heads_that_a_module_does_not_declare(packed):
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"block": Uncounted(packed)})
    message = "layer block must declare its heads as num_heads, n_head or head_dim, got none of them; set one"
    for call in (
        lambda: hm.torch.watch(model),
        lambda: hm.torch.watch(model, layers=["block"]),
        lambda: prober.probe(model, torch.randn(4, 5, 8)),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"heads of layer block must divide its .* rows.*, got 5; correct"):
        hm.torch.watch(model, heads=5)
    with pytest.raises(ValueError, match="heads must be an integer of at least 1, got 0"):
        hm.torch.watch(model, heads=0)
    with hm.torch.watch(model, heads=4, every=1) as seen:
        model["block"](torch.randn(3, 5, 8))
        seen.step()
    [layer] = seen.layers
    assert (layer.heads, layer.key_heads, layer.head_dim) == (4, 4 if packed else 2, 2)
    assert seen.table["head"].tolist() == [0, 1, 2, 3]
    assert np.isfinite(seen.table["entropy"]).all()
    for name, value in (("num_heads", 4), ("n_head", 4), ("head_dim", 2)):
        declared = Uncounted(packed)
        setattr(declared, name, value)
        assert hm.torch.attention_layers(declared)[0].heads == 4
        assert hm.torch.attention_layers(declared, heads=1)[0].heads == 4  # declared heads win


def test_bad_input_is_refused_in_a_sentence():
    model = encoder()
    for message, make in [
        ("model must be a torch.nn.Module, got str; ", lambda: hm.torch.watch("bert")),
        (
            "got Linear without any that is known: no nn.MultiheadAttention.*c_attn.*describe its",
            lambda: hm.torch.watch(torch.nn.Linear(2, 2)),
        ),
        ("every must be ", lambda: hm.torch.watch(model, every=0)),
        (
            "layers must be names of attention layers, got 'layers.0.linear1'",
            lambda: hm.torch.watch(model, layers=["layers.0.linear1"]),
        ),
        ("layers must be names of modules, got 'nowhere'", lambda: hm.torch.watch(model, layers=["nowhere"])),
        (
            "heads=3 does not divide the 8 rows",
            lambda: hm.torch.Projection(torch.nn.Linear(6, 8), heads=3).weights(),
        ),
        ("nothing is recorded yet", lambda: hm.torch.watch(model).plot()),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(hm.torch.attention_layers(model, layers=["layers.1.self_attn"])) == 1
