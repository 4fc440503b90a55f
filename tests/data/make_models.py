"""Makes tests/data/models: tiny random checkpoints of every family, and what PyTorch answers.

  make_models.py FOLDER [NAME...]     writes FOLDER/NAME for all names, or for those given

Needs python3 with torch 2.14, transformers 5.12 and safetensors 0.8; no network. Each folder is
written first and then loaded again with transformers' own from_pretrained, which must find every
tensor it wants and none that it does not know; the answers are computed by that loaded model in
float64, rounded once, and compared with a plain float32 run.
"""

import contextlib
import pathlib
import sys

import torch
import transformers
from golden_case import (Float64, generator, randomise, token_ids, write_cases, write_config,
                         write_weights)
from torch_models import TORCH_MODELS

VOCAB = 47
BATCH, SEQ_LEN = 2, 17
LENGTHS = (5, 1, 17, 4)
ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert")
HEADS = dict.fromkeys(ENCODERS, "MaskedLM")
PADDED = ("roberta", "xlm-roberta")  # whose padding tokens do not advance the positions

# The module whose input enters the projections, and the one whose output has left the last of them.
ATTENTION = {
    "gpt2": ("h.{}.attn",) * 2,
    "bert": ("encoder.layer.{}.attention.self", "encoder.layer.{}.attention.output.dense"),
    "roberta": ("encoder.layer.{}.attention.self", "encoder.layer.{}.attention.output.dense"),
    "xlm-roberta": ("encoder.layer.{}.attention.self", "encoder.layer.{}.attention.output.dense"),
    "distilbert": ("transformer.layer.{}.attention",) * 2,
    "gpt_neox": ("layers.{}.attention",) * 2,
}

GPT2 = dict(model_type="gpt2", n_embd=36, n_head=3, n_layer=2, n_positions=24)
BERT = dict(model_type="bert", hidden_size=40, num_attention_heads=4, num_hidden_layers=2,
            intermediate_size=44, max_position_embeddings=24)
ROBERTA = dict(BERT, model_type="roberta", layer_norm_eps=0.03, pad_token_id=3)
DISTILBERT = dict(model_type="distilbert", dim=40, n_heads=4, n_layers=2, hidden_dim=44,
                  max_position_embeddings=24, sinusoidal_pos_embds=False)
LLAMA = dict(model_type="llama", hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
             num_hidden_layers=2, intermediate_size=40, max_position_embeddings=64,
             rms_norm_eps=1e-5)
LLAMA_1 = dict(LLAMA, num_hidden_layers=1)
MISTRAL = dict(LLAMA, model_type="mistral", rms_norm_eps=1e-6)
QWEN2 = dict(LLAMA, model_type="qwen2", rope_theta=1000000.0, rms_norm_eps=1e-6)
QWEN3 = dict(QWEN2, model_type="qwen3", head_dim=12)
GEMMA2 = dict(model_type="gemma2", hidden_size=36, num_attention_heads=2, num_key_value_heads=1,
              head_dim=16, num_hidden_layers=4, intermediate_size=24,
              max_position_embeddings=64, query_pre_attn_scalar=11, sliding_window=6,
              attn_logit_softcapping=2.5, final_logit_softcapping=3.0,
              hidden_activation="gelu_pytorch_tanh")
PHI3 = dict(LLAMA, model_type="phi3", pad_token_id=0, bos_token_id=1, eos_token_id=2)
GPT_NEOX = dict(model_type="gpt_neox", hidden_size=32, num_attention_heads=2, num_hidden_layers=2,
                intermediate_size=40, max_position_embeddings=64)

# name: (config.json, how the folder is made). `full` writes every key as transformers 5 does;
# otherwise the keys stand as they are here, in the spelling of transformers 4 where that differs.
FULL = {"full": True}
MODELS = {
    "gpt2": (GPT2, FULL),
    "gpt2-scaled-by-layer": (
        dict(GPT2, n_inner=60, scale_attn_by_inverse_layer_idx=True, activation_function="gelu",
             layer_norm_epsilon=0.03), {"base": True, "masks": True}),
    "gpt2-unscaled": (dict(GPT2, n_layer=1, scale_attn_weights=False),
                      {"scales": {"c_attn.weight": 0.15}}),
    "gpt2-bf16": (dict(GPT2, n_layer=1, torch_dtype="bfloat16"), {"dtype": torch.bfloat16}),
    "gpt2-f16": (dict(GPT2, n_layer=1, torch_dtype="float16"), {"dtype": torch.float16}),
    "bert": (BERT, FULL),
    "bert-unprefixed": (dict(BERT, num_hidden_layers=1, hidden_act="gelu_new", layer_norm_eps=0.03),
                        {"base": True, "legacy": True}),
    "roberta": (ROBERTA, FULL),
    "xlm-roberta": (
        dict(ROBERTA, model_type="xlm-roberta", num_hidden_layers=1, pad_token_id=1,
             type_vocab_size=1, layer_norm_eps=1e-5), {"full": True, "base": True}),
    "distilbert": (DISTILBERT, FULL),
    "llama": (LLAMA, FULL),
    "llama-unprefixed": (dict(LLAMA_1), {"base": True}),
    "llama-not-causal": (dict(LLAMA_1, is_causal=False), {}),
    "llama-sharded": (dict(LLAMA_1, tie_word_embeddings=True), {"shards": 2}),
    "llama-bias": (
        dict(LLAMA_1, attention_bias=True, mlp_bias=True, head_dim=12, rms_norm_eps=0.03), {}),
    "llama-rope-llama3": (
        dict(LLAMA_1, head_dim=16, rope_theta=500.0, rope_scaling=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=24)), {}),
    "llama-rope-linear": (
        dict(LLAMA_1, rope_theta=100.0, rope_scaling=dict(type="linear", factor=2.5)), {}),
    "llama-rope-yarn": (
        dict(LLAMA_1, head_dim=16, rope_parameters=dict(
            rope_type="yarn", rope_theta=100.0, factor=4.0, beta_fast=4.0, beta_slow=0.5,
            original_max_position_embeddings=16)), {}),
    "llama-rope-yarn-mscale": (
        dict(LLAMA_1, head_dim=16, rope_theta=100.0, rope_scaling=dict(
            type="yarn", factor=4.0, mscale=1.5, mscale_all_dim=0.5, truncate=False,
            original_max_position_embeddings=16)), {}),
    "llama-rope-dynamic": (
        dict(LLAMA_1, rope_theta=100.0, rope_scaling=dict(rope_type="dynamic", factor=2.0)), {}),
    "llama-rope-longrope": (
        dict(LLAMA_1, rope_scaling=dict(
            rope_type="longrope", factor=4.0, original_max_position_embeddings=12,
            short_factor=[1.0, 1.125, 1.25, 1.5], long_factor=[1.0, 2.0, 3.5, 5.25])), {}),
    "mistral": (dict(MISTRAL, sliding_window=5), FULL),
    "mistral-layer-types": (
        dict(MISTRAL, head_dim=8, sliding_window=5,
             layer_types=["full_attention", "sliding_attention"]), {}),
    "mistral-head-dim": (
        dict(MISTRAL, num_hidden_layers=1, sliding_window=None, head_dim=20,
             rms_norm_eps=0.03), {}),
    "qwen2": (dict(QWEN2, tie_word_embeddings=True), FULL),
    "qwen2-window": (dict(QWEN2, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                          rms_norm_eps=0.03), {}),
    "qwen2-layer-types": (
        dict(QWEN2, use_sliding_window=True, sliding_window=4,
             layer_types=["sliding_attention", "full_attention"]), {}),
    "qwen2-window-unused": (
        dict(QWEN2, num_hidden_layers=1, use_sliding_window=False, sliding_window=4,
             max_window_layers=0), {}),
    "qwen3": (QWEN3, FULL),
    "qwen3-bias-window": (
        dict(QWEN3, attention_bias=True, use_sliding_window=True, sliding_window=4,
             max_window_layers=1, tie_word_embeddings=True, rms_norm_eps=0.03), {}),
    "gemma2": (GEMMA2, {}),
    "gemma2-layer-types": (
        dict(GEMMA2, num_hidden_layers=2, attention_bias=True, attn_logit_softcapping=None,
             layer_types=["full_attention", "sliding_attention"], rms_norm_eps=0.03), FULL),
    "phi3": (dict(PHI3, sliding_window=5, rope_theta=10000.0, rope_scaling=None), {}),
    "phi3-partial-rotary": (
        dict(PHI3, num_hidden_layers=1, num_attention_heads=2, rms_norm_eps=0.03,
             partial_rotary_factor=0.75), FULL),
    "phi3-longrope": (
        dict(PHI3, num_hidden_layers=1, original_max_position_embeddings=12, rope_scaling=dict(
            type="longrope", short_factor=[1.0, 1.125, 1.25, 1.5],
            long_factor=[1.0, 2.0, 3.5, 5.25])), {}),
    "phi3-longrope-as-yarn": (
        dict(PHI3, num_hidden_layers=1, original_max_position_embeddings=12, rope_scaling=dict(
            type="yarn", short_factor=[1.0, 1.125, 1.25, 1.5],
            long_factor=[1.0, 2.0, 3.5, 5.25])), {}),
    "gpt_neox": (dict(GPT_NEOX, rotary_pct=0.25, rotary_emb_base=500), {}),
    "gpt_neox-sequential": (
        dict(GPT_NEOX, num_hidden_layers=1, use_parallel_residual=False, attention_bias=False,
             hidden_act="gelu_new", layer_norm_eps=0.03, rope_parameters=dict(
                 rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)), FULL),
    "gpt_neox-odd-rotary": (
        dict(GPT_NEOX, hidden_size=24, num_hidden_layers=1, rotary_pct=0.25, rotary_emb_base=50),
        {}),
    "gpt_neox-no-rotary": (
        dict(GPT_NEOX, num_hidden_layers=1, rotary_pct=0.05), {}),
}


def auto_class(family, options):
    head = "" if options.get("base") else "For" + HEADS.get(family, "CausalLM")
    return getattr(transformers, "AutoModel" + head)


def renamed(path):
    """The names of LayerNorm's tensors in checkpoints converted from TensorFlow."""
    gamma = path.replace("LayerNorm.weight", "LayerNorm.gamma")
    return gamma.replace("LayerNorm.bias", "LayerNorm.beta")


def write_checkpoint(folder, config, options):
    """config.json and model.safetensors of a model that has never run."""
    write_config(folder, dict(config, vocab_size=VOCAB))
    loaded = transformers.AutoConfig.from_pretrained(folder)
    model = auto_class(config["model_type"], options).from_config(loaded)
    randomise(model, folder.name, options.get("scales"))
    if options.get("full"):
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
    dtype = options.get("dtype", torch.float32)
    weights = {n: p.data.to(dtype) for n, p in model.named_parameters()}
    if options.get("legacy"):
        weights = {renamed(n): t for n, t in weights.items()}
        weights["embeddings.position_ids"] = torch.arange(loaded.max_position_embeddings)[None]
    if options.get("masks"):
        mask = torch.ones(loaded.n_positions, loaded.n_positions).tril()[None, None]
        weights.update({f"h.{n}.attn.bias": mask.clone() for n in range(loaded.n_layer)})
    write_weights(folder, weights, options.get("shards", 1))


def load(folder, family, options, dtype):
    """The folder as transformers reads it, in `dtype`."""
    model, info = auto_class(family, options).from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    unknown = set(info["unexpected_keys"]) - {"embeddings.position_ids"}
    assert not info["missing_keys"] and not unknown and not info["mismatched_keys"], (folder, info)
    return model.eval()


@contextlib.contextmanager
def recorded(base, family, record):
    """Within it `record` receives each attention's input and output and the last hidden state."""
    first, last = ATTENTION.get(family, ("layers.{}.self_attn",) * 2)
    hooks = []

    def keep(name, tensor):
        record[name] = tensor[0] if isinstance(tensor, tuple) else tensor

    def watch(path, name, of_input):
        def hook(module, args, kwargs, output):
            keep(name, (args[0] if args else kwargs["hidden_states"]) if of_input else output)
        hooks.append(base.get_submodule(path).register_forward_hook(hook, with_kwargs=True))

    for layer in range(base.config.num_hidden_layers):
        watch(first.format(layer), f"layers.{layer}.attention.input", True)
        watch(last.format(layer), f"layers.{layer}.attention.output", False)
    hooks.append(base.register_forward_hook(
        lambda module, args, output: keep("last_hidden_state", output.last_hidden_state)))
    yield
    for hook in hooks:
        hook.remove()


def answer(model, family, input_ids, **inputs):
    """The named tensors of one forward pass."""
    record = {}
    use_cache = {} if family in ENCODERS else {"use_cache": False}
    with recorded(model.base_model, family, record):
        out = model(input_ids=input_ids, output_attentions=True, **use_cache, **inputs)
    record["attentions.0"] = out.attentions[0]
    if family not in ENCODERS and "logits" in out:
        record["logits"] = out.logits
    return record


def extra_cases(model, family, ids, seeded):
    """Cases that only some families have: token types, and padding ids inside a sequence."""
    cases = {}
    if family in ("bert", *PADDED):
        types = torch.randint(model.config.type_vocab_size, ids.shape, generator=seeded)
        cases["token_types.token_type_ids"] = types
        typed = answer(model, family, ids, token_type_ids=types)
        cases["token_types.last_hidden_state"] = typed["last_hidden_state"]
    if family in PADDED:
        padded = ids.clone()
        padded[0, 4:6] = padded[1, 0] = padded[1, -1] = model.config.pad_token_id
        cases["padding.input_ids"] = padded
        cases["padding.last_hidden_state"] = answer(model, family, padded)["last_hidden_state"]
    return cases


def reference(model, family, name):
    """All tensors of cases.safetensors."""
    seeded = generator(name + "/cases")
    pad = model.config.pad_token_id if family in PADDED else None
    ids = token_ids((BATCH, SEQ_LEN), VOCAB, seeded, without=pad)
    packed = token_ids((sum(LENGTHS),), VOCAB, seeded, without=pad)
    cases = {"input_ids": ids, **answer(model, family, ids)}
    if name != family:
        del cases["attentions.0"]
    alone = [answer(model, family, part[None]) for part in packed.split(LENGTHS)]
    cases |= {"ragged.input_ids": packed, "ragged.lengths": torch.tensor(LENGTHS),
              "ragged.last_hidden_state": torch.cat([a["last_hidden_state"][0] for a in alone])}
    return cases | extra_cases(model, family, ids, seeded)


def check(name, cases, plain):
    """The largest difference from a float32 run; it must be rounding."""
    worst = max((cases[n] - plain[n]).abs().max().item() / cases[n].std().item()
                for n in cases if cases[n].is_floating_point())
    assert worst < 2e-4, (name, worst)
    return worst


def make(folder, config, options):
    folder.mkdir(parents=True, exist_ok=True)
    family = config["model_type"]
    write_checkpoint(folder, config, options)
    plain = reference(load(folder, family, options, torch.float32), family, folder.name)
    model = load(folder, family, options, torch.float64)
    with Float64():
        if hasattr(model.base_model, "rotary_emb"):
            model.base_model.rotary_emb = type(model.base_model.rotary_emb)(model.config)
        cases = reference(model, family, folder.name)
    write_cases(folder, cases)
    return check(folder.name, cases, plain)


def main(out, names):
    unknown = set(names) - set(MODELS) - set(TORCH_MODELS)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}\n{__doc__}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with torch.no_grad():
        for name, (config, options) in MODELS.items():
            if not names or name in names:
                error = make(out / name, config, options)
                print(f"{name:28} float32 differs by {error:.1e}", flush=True)
        for name, make_torch in TORCH_MODELS.items():
            if not names or name in names:
                make_torch(out / name)
                print(name, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
