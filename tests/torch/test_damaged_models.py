"""Model files of strangers: every damage is one sentence with a remedy, and nothing outside is opened."""

import json
import resource
import shutil
import socket
import struct

import numpy as np
import pytest

import hardmax as hm
from hardmax.app import cli

torch = pytest.importorskip("torch", reason="this is about PyTorch: make test-extras")
transformers = pytest.importorskip("transformers", reason="real architectures need it: make test-extras")
gguf = pytest.importorskip("gguf", reason="GGUF files need it: make test-extras")
pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore")]

WORDS = ["<s>", "a", "b", "c", "ab", "\u0120", "\u0120a", "\u0120b"]
TEXTS = ["a b ab", "ab a b c", "c a b"]
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": 8,
    "max_position_embeddings": 16,
}
NO_MARKERS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
IMAGES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "image_size": 8,
    "patch_size": 4,
}
WRONG = ["abc", [], -1, 10**12]


def llama():
    return transformers.LlamaModel(transformers.LlamaConfig(**SIZES, **NO_MARKERS, num_key_value_heads=1))


def bert():
    return transformers.BertModel(transformers.BertConfig(**SIZES))


def gpt2():
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 8}
    return transformers.GPT2Model(transformers.GPT2Config(**sizes, bos_token_id=None, eos_token_id=None))


def saved(place, make):
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    make().save_pretrained(place)
    inner = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="c"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="c").save_pretrained(place)
    return place


def write_gguf(path):
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(16)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(8)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_merges(["a b", "\u0120 a", "\u0120 b"])
    square = ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {"token_embd": (8, 8), "output_norm": (8,), "blk.0.attn_norm": (8,), "blk.0.ffn_norm": (8,)}
    shapes |= {"blk.0.attn_k": (4, 8), "blk.0.attn_v": (4, 8)} | {f"blk.0.{name}": (8, 8) for name in square}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def outcome(place):
    """The sentence of a refusal, or None where the model was probed; any other error fails the test."""
    try:
        hm.probe(place, TEXTS, null=1, queries=4, workers=1)
    except ValueError as error:
        sentence = str(error)
        assert "; " in sentence, f"no remedy: {sentence}"
        assert len(sentence.splitlines()) == 1
        return sentence
    return None


@pytest.fixture(autouse=True)
def little_memory(tmp_path):
    """No case may take more than half a gigabyte beyond what was taken before."""
    outcome(saved(tmp_path / "first", llama))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024


@pytest.mark.parametrize(
    "make", [llama, *(pytest.param(each, marks=pytest.mark.slow) for each in (bert, gpt2))]
)
def test_wrong_values_of_every_setting(tmp_path, make):
    place = saved(tmp_path / "model", make)
    path = place / "config.json"
    config = json.loads(path.read_text())
    assert outcome(place) is None
    refused = 0
    for name in config:
        for value in WRONG:
            path.write_text(json.dumps({**config, name: value}))
            refused += outcome(place) is not None
    assert refused > 2 * len(config)  # most are sizes, functions or flags


def test_a_config_cannot_declare_more_than_the_weights(tmp_path):
    place = saved(tmp_path / "model", llama)
    path = place / "config.json"
    config = json.loads(path.read_text())
    for change, sentence in [
        (
            {"num_hidden_layers": 10**9},
            "must declare as many layers as its weights have, got num_hidden_layers",
        ),
        ({"num_hidden_layers": 1e9}, "must declare as many layers as its weights have"),
        ({"num_hidden_layers": 5}, "got none for layers.1"),
        ({"vocab_size": 10**9}, "must declare a model as large as its weights, 472 numbers in 11 tensors"),
        ({"model_type": "bert"}, "got none for embeddings.LayerNorm.bias"),
        ({"model_type": "no-such"}, "must be of a model type that transformers has, got 'no-such'"),
        ({"quantization_config": {"quant_method": "gptq"}}, "must describe weights that are not quantized"),
    ]:
        path.write_text(json.dumps({**config, **change}))
        assert sentence in (outcome(place) or "accepted")
    for text in ("", "{", "[]", "null", "{}", "[" * 100_000, '{"model_type": 3}', "\xff"):
        path.write_text(text, encoding="latin-1")
        assert str(path) in outcome(place)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (
            lambda: transformers.ViTModel(transformers.ViTConfig(**IMAGES)),
            "must be a model of texts, got one of pixel_values; pass it",
        ),
        (
            lambda: transformers.T5Model(
                transformers.T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=8)
            ),
            "must be an encoder or a decoder, got both in one model; save model.get_encoder() alone",
        ),
    ],
)
def test_models_that_do_not_read_texts_alone(tmp_path, make, sentence):
    assert sentence in outcome(saved(tmp_path / "model", make))


def test_damaged_weights(tmp_path):
    place = saved(tmp_path / "model", llama)
    path = place / "model.safetensors"
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(0)
    for cut in (0, 1, 7, 8, 9, header // 2, header - 1, header, header + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert f"{path} must be a whole safetensors file" in outcome(place)
    for where in rng.integers(0, header, 60):
        damaged = bytearray(whole)
        damaged[where] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        outcome(place)  # a flag of the metadata may change without harm
    exponents = bytearray(whole)
    exponents[-2:] = b"\xff\x7f"  # the last number becomes nan
    path.write_bytes(exponents)
    assert "must hold finite weights, got nan or inf in" in outcome(place)


def test_damaged_tokenizers(tmp_path):
    place = saved(tmp_path / "model", llama)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        whole = (place / name).read_bytes()
        for damaged in (b"", b"{", b"[]", b"\xff\xfe", whole[: len(whole) // 2]):
            (place / name).write_bytes(damaged)
            outcome(place)
        (place / name).write_bytes(whole)
    (place / "tokenizer.json").write_bytes(b"{")
    assert "must hold a tokenizer that transformers reads" in outcome(place)


def test_an_index_names_safetensors_files_of_its_folder_only(tmp_path):
    place = saved(tmp_path / "model", llama)
    path = place / "model.safetensors.index.json"
    part = (place / "model.safetensors").rename(place / "part.safetensors")
    shutil.copy(part, tmp_path / "outside.safetensors")
    (place / "pytorch_model.bin").write_bytes(b"\x80\x04")
    links = {"out": tmp_path / "outside.safetensors", "pickle": place / "pytorch_model.bin", "within": part}
    links["loop"] = place / "loop.safetensors"
    for name, target in links.items():
        (place / f"{name}.safetensors").symlink_to(target)
    (place / "folder.safetensors").mkdir()

    def named(file):
        path.write_text(json.dumps({"weight_map": {"norm.weight": file}}))
        return outcome(place)

    assert named("part.safetensors") is None
    assert named("within.safetensors") is None
    for file in ("pytorch_model.bin", 3, None, [], {}, ""):
        assert "must name *.safetensors files of the folder" in named(file)
    outside = str(tmp_path / "outside.safetensors")
    for file in (
        "../outside.safetensors",
        outside,
        "out.safetensors",
        "pickle.safetensors",
        "folder.safetensors",
    ):
        assert "as a file inside the folder" in named(file)
    for file in ("none.safetensors", "loop.safetensors", "a\0.safetensors", "x" * 5000 + ".safetensors"):
        assert "got no such file" in named(file)
    for text in (
        "",
        "{",
        "[]",
        "null",
        "3",
        '{"weight_map": []}',
        '{"weight_map": {}}',
        "[" * 100_000,
        "\xff",
    ):
        path.write_text(text, encoding="latin-1")
        assert str(path) in outcome(place)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_links_out_of_the_folder_are_refused(tmp_path, name):
    place = saved(tmp_path / "model", llama)
    (place / name).rename(tmp_path / name)
    (place / name).symlink_to(tmp_path / name)
    assert f"must hold '{name}' as a file inside the folder" in outcome(place)


def test_a_snapshot_of_the_hub_cache_is_read(tmp_path):
    model = tmp_path / "models--someone--tiny"
    place = saved(model / "snapshots" / "0f3a", llama)
    (model / "blobs").mkdir()
    for k, file in enumerate(sorted(place.iterdir())):
        file.rename(model / "blobs" / f"{k}")
        file.symlink_to(model / "blobs" / f"{k}")
    assert outcome(place) is None
    (place / "model.safetensors").unlink()
    (place / "model.safetensors").symlink_to(model / "blobs" / ".." / ".." / "x")
    (tmp_path / "x").write_bytes(b"")
    assert "as a file inside the folder" in outcome(place)


def test_damaged_gguf_files(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    assert outcome(path) is None
    header = whole.index(b"ffn_down.weight") + 40
    rng = np.random.default_rng(0)
    for cut in (4, 5, 8, 16, 23, 24, *rng.integers(24, len(whole), 24)):
        path.write_bytes(whole[:cut])
        assert "must be a whole GGUF file" in outcome(path)
    for where in rng.integers(4, header, 120):
        damaged = bytearray(whole)
        damaged[where] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        outcome(path)
    for where in range(8, header, 12):  # lengths and counts beyond any file
        damaged = bytearray(whole)
        damaged[where : where + 8] = b"\xff" * 7 + b"\x0f"
        path.write_bytes(damaged)
        outcome(path)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (
            (b"llama.block_count\x04\x00\x00\x00\x01", b"llama.block_count\x04\x00\x00\x00\x63"),
            "llama.block_count",
        ),
        (
            (b"head_count\x04\x00\x00\x00\x02", b"head_count\x04\x00\x00\x00\x00"),
            "llama.attention.head_count",
        ),
        (
            (b"embedding_length\x04\x00\x00\x00\x08", b"embedding_length\x04\x00\x00\x00\x09"),
            "= 8, as its tensors",
        ),
        (  # a float in place of the integer
            (
                b"embedding_length\x04\x00\x00\x00\x08\x00\x00\x00",
                b"embedding_length\x06\x00\x00\x00" + struct.pack("<f", 999.5),
            ),
            "= 8, as its tensors",
        ),
        ((b"llama", b"gemma"), "architecture llama, got 'gemma'"),
    ],
)
def test_settings_of_gguf_files_are_checked(tmp_path, change, sentence):
    path = write_gguf(tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    assert change[0] in whole
    path.write_bytes(whole.replace(*change, 1))
    assert sentence in outcome(path)


def test_nothing_reaches_a_hub(tmp_path, monkeypatch):
    import huggingface_hub
    from transformers import modeling_utils
    from transformers.integrations import hub_kernels

    reached = []

    def caught(name):
        def record(*args, **options):
            reached.append(name)
            raise OSError("the network is not there")

        return record

    monkeypatch.setattr(socket.socket, "connect", caught("connect"))
    monkeypatch.setattr(socket, "getaddrinfo", caught("getaddrinfo"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    for name in ("load_and_register_attn_kernel", "register_kernel_replacements_and_fusions"):
        monkeypatch.setattr(hub_kernels, name, caught(name))
    monkeypatch.setattr(modeling_utils, "get_hf_quantizer", _not_quantized(modeling_utils.get_hf_quantizer))
    place = saved(tmp_path / "model", llama)
    path = place / "config.json"
    config = json.loads(path.read_text())
    wanted = hm.probe(place, TEXTS, null=1, queries=4, workers=1).json()["heads"]
    for change in (
        {"_attn_implementation": "someone/kernel", "_attn_implementation_internal": "someone/kernel"},
        {"attn_implementation": "someone/kernel"},
        {"auto_map": {"AutoModel": "someone/repo--code.Model", "AutoConfig": "code.Config"}},
        {"trust_remote_code": True, "_name_or_path": "someone/repo", "name_or_path": "someone/repo"},
        {"_experts_implementation": "someone/kernel", "use_kernels": True},
        {"fusion_config": {"patch_embeddings": True}, "transformers_weights": "../model.safetensors"},
    ):
        path.write_text(json.dumps({**config, **change}))
        answer = hm.probe(place, TEXTS, null=1, queries=4, workers=1)
        assert answer.json()["heads"] == wanted
        assert huggingface_hub.constants.HF_HUB_OFFLINE is False  # as it was
    for hook in ({"quant_method": "gptq"}, {"quant_method": "no-such"}, "abc"):
        path.write_text(json.dumps({**config, "quantization_config": hook}))
        assert "must describe weights that are not quantized" in outcome(place)
    path.write_text(json.dumps(config))
    (place / "tokenizer_config.json").write_text(
        json.dumps({"auto_map": {"AutoTokenizer": ["someone/repo--code.Tokenizer", None]}})
    )
    outcome(place)
    assert reached == []


def _not_quantized(original):
    def checked(config, given, *args, **options):
        assert given is None
        assert getattr(config, "quantization_config", None) is None
        return original(config, given, *args, **options)

    return checked


def test_more_tokens_than_positions_and_bad_texts(tmp_path, capsys):
    place = saved(tmp_path / "model", gpt2)
    texts = tmp_path / "texts.txt"
    capsys.readouterr()
    for content, sentence in [
        ("a b " * 20, "its positions are enough for the length"),
        ("[]", "must be a JSON list of strings, got []; or give one text per line"),
        ('["a b",', "is not valid JSON"),
    ]:
        texts.write_text(content)
        assert cli.run(["probe", str(place), "--texts", str(texts), "--length", "30"]) == 2
        assert sentence in capsys.readouterr().err


def test_the_command_ends_with_2_and_one_line(tmp_path, capsys):
    place = saved(tmp_path / "model", llama)
    (place / "model.safetensors").write_bytes(b"abc")
    broken = write_gguf(tmp_path / "tiny.gguf")
    broken.write_bytes(broken.read_bytes()[:-100])
    capsys.readouterr()
    for path in (place, broken):
        assert cli.run(["probe", str(path)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert len(printed.err.splitlines()) == 1
        assert "fetch it again" in printed.err
