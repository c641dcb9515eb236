"""exact_attention inside models of PyTorch, and attn_implementation="hardmax" in those of transformers."""

import threading
import warnings

import pytest

import hardmax as hm

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
pytestmark = pytest.mark.extra

from torch.nn.functional import scaled_dot_product_attention as imported_alias  # noqa: E402

from hardmax.torch import replacement  # noqa: E402


@pytest.fixture
def calls(monkeypatch):
    """Count the calls that hardmax computes instead of PyTorch, by name."""
    counts = {"product": 0, "module": 0}

    def counting(name, function):
        def count(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return count

    for name, theirs in (
        ("product", torch.nn.functional.scaled_dot_product_attention),
        ("module", torch.nn.functional.multi_head_attention_forward),
    ):
        ours = replacement.REPLACEMENTS[theirs]
        monkeypatch.setitem(replacement.REPLACEMENTS, theirs, counting(name, ours))
    return counts


def encoder(layers=2, **options):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options)
    return torch.nn.TransformerEncoder(layer, layers)


class ByAlias(torch.nn.Module):
    """Attention through a name that was imported before any context was entered."""

    num_heads = 2

    def __init__(self, broken=False):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(8, 8) for _ in range(3))
        self.broken = broken

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = imported_alias(q, k, v)
        if self.broken:
            raise RuntimeError("broken inside")
        return out


def inactive():
    """No mode is left on the stack of this thread."""
    return torch.overrides._get_current_function_mode() is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_an_encoder_in_training_and_eval(calls, training, padded):
    """In eval PyTorch's encoder has a fused path without any function of Python; it must not be taken."""
    model = encoder().train(training)
    x = torch.randn(3, 5, 8)
    options = {}
    if padded:
        options["src_key_padding_mask"] = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 5])
    with torch.set_grad_enabled(training):
        wanted = model(x, **options)
        with hm.torch.exact_attention(model) as same:
            assert same is model
            exact = model(x, **options)
    assert calls["module"] == 2
    seen = ~options.get("src_key_padding_mask", torch.zeros(3, 5, dtype=torch.bool))
    torch.testing.assert_close(exact[seen], wanted[seen], rtol=1e-5, atol=1e-5)
    assert inactive()
    model(x)
    assert calls["module"] == 2  # outside nothing is replaced


@pytest.mark.parametrize("need_weights", [True, False])
def test_need_weights_and_gradients(calls, need_weights):
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    found = {}
    for exact in (False, True):
        if exact:
            with hm.torch.exact_attention(model):
                out, weights = model(x, x, x, need_weights=need_weights)
        else:
            out, weights = model(x, x, x, need_weights=need_weights)
        found[exact] = [out, *torch.autograd.grad(out.square().sum(), model.parameters())]
        found[exact] += [weights] if need_weights else []
    assert calls["module"] == 1
    assert (weights is None) != need_weights
    for ours, theirs in zip(found[True], found[False], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_saturated_layer_gets_its_gradient_back():
    """The context changes what it is for: the gradient of a hard head in float32."""
    gradients = {}
    for name, kind in (("truth", torch.float64), ("exact", torch.float32), ("plain", torch.float32)):
        torch.manual_seed(2)
        model = torch.nn.MultiheadAttention(8, 1, batch_first=True)
        model.in_proj_weight.data[:8] *= 300
        model = model.to(kind)
        torch.manual_seed(1)
        x = torch.randn(1, 6, 8).to(kind)
        if name == "plain":
            out = model(x, x, x, need_weights=False)[0]
        else:
            with hm.torch.exact_attention(model):
                out = model(x, x, x, need_weights=False)[0]
        out.square().sum().backward()
        gradients[name] = model.in_proj_weight.grad[8:16].double().numpy().ravel()
    assert hm.cosine_distance(gradients["exact"], gradients["truth"]) < 1e-8
    assert hm.cosine_distance(gradients["plain"], gradients["truth"]) > 1e-2


def test_an_imported_alias(calls):
    model = ByAlias()
    x = torch.randn(2, 3, 8)
    wanted = model(x)
    with hm.torch.exact_attention(model):
        torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-6)
    assert calls == {"product": 1, "module": 0}


def test_a_second_model_and_another_thread(calls):
    model, other = ByAlias(), ByAlias()
    x = torch.randn(2, 3, 8)
    inside, done = threading.Event(), threading.Event()
    counts = []

    def run():
        inside.wait()
        other(x)
        counts.append(dict(calls))
        done.set()

    class Slow(torch.nn.Module):
        num_heads = 2

        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            inside.set()
            done.wait()  # the other model runs in its thread while this one is inside its forward pass
            return self.inner(x)

    slow = Slow()
    thread = threading.Thread(target=run)
    thread.start()
    with hm.torch.exact_attention(slow):
        other(x)
        assert calls["product"] == 0  # inside the block, but another model
        slow(x)
    thread.join()
    assert counts == [{"product": 0, "module": 0}]
    assert calls["product"] == 1
    # In a thread of its own a model is replaced as well.
    with hm.torch.exact_attention(model):
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join()
    assert calls["product"] == 2


def test_an_error_inside_forward_turns_the_mode_off(calls):
    model = ByAlias(broken=True)
    x = torch.randn(2, 3, 8)
    with hm.torch.exact_attention(model):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="broken inside"):
                model(x)
            assert inactive()
    assert calls["product"] == 2

    class Interrupted(ByAlias):
        def forward(self, x):
            raise KeyboardInterrupt

    interrupted = Interrupted()
    with pytest.raises(KeyboardInterrupt), hm.torch.exact_attention(interrupted):
        interrupted(x)  # PyTorch runs no hook after this one
    assert inactive()
    assert not interrupted._forward_hooks
    assert not interrupted._forward_pre_hooks


def test_checkpointing_recomputes_with_exact_attention(calls):
    """The recomputation of a layer runs outside the forward pass of the model."""

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = ByAlias()

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    model = Checkpointed()
    with hm.torch.exact_attention(model):
        model(torch.randn(2, 3, 8)).sum().backward()
    assert calls["product"] == 2
    assert inactive()


def test_contexts_nest_and_can_be_watched(calls):
    model = encoder(layers=1)
    x = torch.randn(3, 5, 8)
    with hm.torch.exact_attention(model), hm.torch.exact_attention(model), hm.torch.watch(model) as seen:
        model(x)
        seen.step()
    assert inactive()
    assert calls["module"] == 1
    assert (seen.table["top"] > 0.2).all()


class ByHand(ByAlias):
    def forward(self, x):
        return torch.softmax(self.q_proj(x) @ self.k_proj(x).transpose(-2, -1), dim=-1) @ self.v_proj(x)


def test_attention_that_is_not_replaced_is_reported_once():
    model = torch.nn.Sequential(ByHand(), ByHand())
    with hm.torch.exact_attention(model):
        with pytest.warns(UserWarning, match="layer 0 computes its attention without scaled_dot_product"):
            model(torch.randn(2, 3, 8))
        model(torch.randn(2, 3, 8))  # a second warning would be an error


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_models_that_are_refused():
    with (
        pytest.raises(
            ValueError,
            match=r"got Linear without any that is known.*q_proj.*c_attn.*where layers= is an option",
        ),
        hm.torch.exact_attention(torch.nn.Linear(2, 2)),
    ):
        pass
    compiled = torch.compile(encoder(), backend="eager")
    in_place = encoder()
    in_place.layers[1].compile(backend="eager")
    for model, name in ((compiled, "the model"), (in_place, "layers.1")):
        with (
            pytest.raises(ValueError, match=f"must not be compiled, but {name} is.*before torch.compile"),
            hm.torch.exact_attention(model),
        ):
            pass
        with pytest.raises(ValueError, match=f"must not be compiled, but {name} is.*compile it afterwards"):
            hm.torch.watch(model)  # it would record nan


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_that_is_compiled_inside_the_block_has_exact_attention():
    calls = []

    def backend(graph, _):
        calls.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    model = encoder(1)
    x = torch.randn(2, 3, 8)
    with hm.torch.exact_attention(model):
        out = torch.compile(model, backend=backend)(x)
    assert "hardmax.attention.default" in calls
    torch.testing.assert_close(out, model(x))


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


def tiny(name, implementation):
    """A model of transformers with random weights."""
    tr = pytest.importorskip("transformers", reason="real architectures need it: make test-extras")
    torch.manual_seed(0)
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    if name == "BERT":
        config = tr.BertConfig(
            vocab_size=50, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0, **SIZES
        )
        model = tr.BertModel(config)
    elif name == "GPT-2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4}
        dropouts = dict.fromkeys(("attn_pdrop", "resid_pdrop", "embd_pdrop"), 0.0)
        model = tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=50, **sizes, **dropouts, **special))
    elif name == "Mistral":
        config = tr.MistralConfig(vocab_size=50, num_key_value_heads=2, sliding_window=3, **special, **SIZES)
        model = tr.MistralForCausalLM(config)
    elif name == "gpt-oss":
        experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8, "sliding_window": 3}
        config = tr.GptOssConfig(vocab_size=50, num_key_value_heads=2, **experts, **special, **SIZES)
        config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
        model = tr.GptOssForCausalLM(config)
        for layer in model.model.layers:
            torch.nn.init.normal_(layer.self_attn.sinks)
    else:
        config = tr.LlamaConfig(vocab_size=50, num_key_value_heads=2, **special, **SIZES)
        model = tr.LlamaForCausalLM(config)
    model.set_attn_implementation(implementation)
    return model


MODELS = ["BERT", "GPT-2", "Llama", "Mistral", "gpt-oss"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("masked", [None, "right", "left"])
@pytest.mark.parametrize("name", MODELS)
def test_transformers_against_eager(name, masked):
    """Outputs and gradients of all parameters: padding on either side, causal masks, windows, sinks."""
    ids = torch.randint(3, 50, (3, 7), generator=torch.Generator().manual_seed(1))
    given = {"input_ids": ids}
    kept = torch.ones(3, 7, dtype=torch.long)
    if masked:
        kept[1, slice(4, None) if masked == "right" else slice(None, 3)] = 0
        given["attention_mask"] = kept
    found = {}
    for implementation in ("eager", hm.torch.register_with_transformers()):
        model = tiny(name, implementation)
        out = model(**given)[0][kept.bool()]
        out.square().sum().backward()
        gradients = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
        found[implementation] = {"output": out, **gradients}
    assert list(found["eager"]) == list(found["hardmax"])
    assert name != "gpt-oss" or any("sinks" in key and p.abs().max() > 0 for key, p in gradients.items())
    for key, theirs in found["eager"].items():
        size = theirs.abs().max()
        assert (found["hardmax"][key] - theirs).abs().max() <= 2e-5 * size + 1e-7, key


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Mistral", "gpt-oss"])
def test_generation_with_a_cache(name):
    ids = torch.randint(3, 50, (2, 5), generator=torch.Generator().manual_seed(1))
    kept = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    options = {"max_new_tokens": 6, "do_sample": False, "attention_mask": kept, "pad_token_id": 0}
    found = {}
    for implementation in ("eager", hm.torch.register_with_transformers()):
        model = tiny(name, implementation).eval()
        found[implementation] = model.generate(ids, **options, use_cache=True)
        with torch.no_grad():
            torch.testing.assert_close(
                model.generate(ids, **options, use_cache=False), found[implementation], rtol=0, atol=0
            )
    torch.testing.assert_close(found["hardmax"], found["eager"], rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_model_of_transformers_is_compiled_in_one_graph():
    model = tiny("Llama", hm.torch.register_with_transformers())
    ids = torch.randint(3, 50, (2, 6))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(
        compiled(input_ids=ids, use_cache=False).logits, model(input_ids=ids, use_cache=False).logits
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_context_and_watch_on_transformers(calls):
    ids = torch.randint(3, 50, (2, 6))
    model = tiny("Llama", "sdpa")
    wanted = model(input_ids=ids).logits
    with hm.torch.exact_attention(model):
        torch.testing.assert_close(model(input_ids=ids).logits, wanted)
    assert calls["product"] == 2
    model.set_attn_implementation(hm.torch.register_with_transformers())
    with warnings.catch_warnings(), hm.torch.exact_attention(model), hm.torch.watch(model) as seen:
        warnings.simplefilter("error")  # already exact: nothing to report
        model(input_ids=ids)
        seen.step()
    assert (seen.table["top"] > 0.1).all()


def test_softcap_is_refused():
    q = torch.zeros(1, 2, 3, 4)
    with pytest.raises(ValueError, match="does not support softcap; choose 'eager'"):
        replacement._attention_forward(torch.nn.Identity(), q, q, q, None, softcap=30.0)


def test_a_position_bias_is_added_to_the_mask():
    """As T5 passes it: with a mask, without one, and causal."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64)
    bias = torch.randn(1, 2, 5, 5, dtype=torch.float64)
    lower = torch.ones(5, 5, dtype=torch.bool).tril()
    hidden = bias.masked_fill(~lower, -torch.inf)
    module = torch.nn.Identity()
    for mask, causal, wanted in (
        (None, False, bias),
        (None, True, hidden),
        (lower, False, hidden),
        (torch.zeros(5, 5, dtype=torch.float64).masked_fill(~lower, -torch.inf), False, hidden),
    ):
        out, _ = replacement._attention_forward(module, q, k, v, mask, is_causal=causal, position_bias=bias)
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, wanted)
        torch.testing.assert_close(out, theirs.transpose(1, 2))
