"""The families of make_models.py that are plain PyTorch modules.

  torch_mha              torch.nn.MultiheadAttention
  causal_self_attention  the attention of minGPT and nanoGPT: one projection for query, key, value
  self_attention         the attention of Aladdin Persson's tutorial: [D, D] matrices for all heads
  torch_transformer      torch.nn.Transformer
"""

import functools

import torch
from golden_case import generator, randomise, write_cases, write_config, write_weights
from torch import nn

BATCH, QUERY_LEN, KV_LEN = 2, 17, 11
LENGTHS = (5, 1, 17, 4)
torch.backends.mha.set_fastpath_enabled(False)


def future(seq_len):
    """True where row i must not see column j."""
    return torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1)


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size, bias=True):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=bias)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=bias)
        self.n_head = n_head
        self.register_buffer("bias", (~future(block_size))[None, None].float())

    def forward(self, x, causal=True):
        batch, seq_len, width = x.shape
        split = (batch, seq_len, self.n_head, width // self.n_head)
        parts = self.c_attn(x).split(width, dim=2)
        query, key, value = (part.view(split).transpose(1, 2) for part in parts)
        logits = query @ key.transpose(-1, -2) / (width // self.n_head) ** 0.5
        if causal:
            logits = logits.masked_fill(self.bias[:, :, :seq_len, :seq_len] == 0, float("-inf"))
        return self.c_proj((logits.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


class SelfAttention(nn.Module):
    def __init__(self, embed_size, heads):
        super().__init__()
        head_dim = embed_size // heads
        self.values = nn.Linear(head_dim, head_dim, bias=False)
        self.keys = nn.Linear(head_dim, head_dim, bias=False)
        self.queries = nn.Linear(head_dim, head_dim, bias=False)
        self.fc_out = nn.Linear(embed_size, embed_size)
        self.heads = heads

    def forward(self, x, memory=None, causal=False):
        memory = x if memory is None else memory
        targets, sources = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in (x, memory))
        query, key, value = self.queries(targets), self.keys(sources), self.values(sources)
        logits = query @ key.transpose(-1, -2) / x.shape[2] ** 0.5
        if causal:
            logits = logits.masked_fill(future(x.shape[1]), float("-inf"))
        return self.fc_out((logits.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


def save(folder, model, config, scales=None):
    """Writes a randomised `model`; returns it in float64 with the generator of its inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    randomise(model, folder.name, scales)
    write_config(folder, config)
    write_weights(folder, model.state_dict())
    return model.double().eval(), generator(folder.name + "/cases")


def normal(seeded, *shape):
    """Inputs that float32 holds exactly."""
    return torch.randn(*shape, generator=seeded).double()


def ragged(width, call, seeded):
    """Packed sequences, each answered alone."""
    packed = normal(seeded, sum(LENGTHS), width)
    parts = [call(part[None])[0] for part in packed.split(LENGTHS)]
    lengths = torch.tensor(LENGTHS)
    return {"ragged.x": packed, "ragged.lengths": lengths, "ragged.self": torch.cat(parts)}


def make_mha(folder, **options):
    embed_dim, num_heads = 24, 4
    config = {"model_type": "torch_mha", "embed_dim": embed_dim, "num_heads": num_heads, **options}
    module = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True, **options)
    model, seeded = save(folder, module, config)
    kdim, vdim = options.get("kdim", embed_dim), options.get("vdim", embed_dim)
    x, memory = normal(seeded, BATCH, QUERY_LEN, embed_dim), normal(seeded, BATCH, KV_LEN, kdim)
    cases = {"x": x, "memory": memory}
    if vdim != kdim:
        cases["memory_values"] = normal(seeded, BATCH, KV_LEN, vdim)
    cases["cross"] = model(x, memory, cases.get("memory_values", memory))[0]
    if kdim == vdim == embed_dim:
        mask = future(QUERY_LEN)
        cases["self"] = model(x, x, x)[0]
        cases["causal"] = model(x, x, x, attn_mask=mask)[0]
        cases |= ragged(embed_dim, lambda part: model(part, part, part)[0], seeded)
    write_cases(folder, cases)


def make_causal_self_attention(folder, bias=True):
    config = {"model_type": "causal_self_attention", "n_embd": 30, "n_head": 3, "block_size": 24}
    shape = {k: v for k, v in config.items() if k != "model_type"}
    model, seeded = save(folder, CausalSelfAttention(bias=bias, **shape), dict(config, bias=bias))
    x = normal(seeded, BATCH, QUERY_LEN, 30)
    cases = {"x": x, "causal": model(x), "self": model(x, causal=False)}
    cases |= ragged(30, model, seeded)
    cases["ragged.causal"] = cases.pop("ragged.self")
    write_cases(folder, cases)


def make_self_attention(folder):
    config = {"model_type": "self_attention", "embed_size": 32, "heads": 4}
    scales = dict.fromkeys(("values", "keys", "queries"), 0.8)
    model, seeded = save(folder, SelfAttention(32, 4), config, scales)
    x, memory = normal(seeded, BATCH, QUERY_LEN, 32), normal(seeded, BATCH, KV_LEN, 32)
    cases = {"x": x, "memory": memory, "self": model(x), "causal": model(x, causal=True),
             "cross": model(x, memory), **ragged(32, model, seeded)}
    write_cases(folder, cases)


def watch_attention(model, cases):
    """Records the encoder's attentions, then every decoder block's self- and cross-attention."""
    layers = [layer.self_attn for layer in model.encoder.layers]
    for block in model.decoder.layers:
        layers += [block.self_attn, block.multihead_attn]

    def hook(name, module, args, output):
        cases[name + "input"], cases[name + "output"] = args[0], output[0]
        if args[1] is not args[0]:
            cases[name + "memory"] = args[1]

    for number, layer in enumerate(layers):
        layer.register_forward_hook(functools.partial(hook, f"layers.{number}.attention."))


def make_transformer(folder, **options):
    config = dict(d_model=24, nhead=3, num_encoder_layers=2, num_decoder_layers=2,
                  dim_feedforward=40, activation="relu", norm_first=False, layer_norm_eps=1e-5,
                  bias=True) | options
    module = nn.Transformer(batch_first=True, **config)
    model, seeded = save(folder, module, {"model_type": "torch_transformer", **config})
    width = config["d_model"]
    source, target = (normal(seeded, BATCH, length, width) for length in (KV_LEN, QUERY_LEN))
    cases = {"source": source, "target": target}
    watch_attention(model, cases)
    cases["encoder.output"] = model.encoder(source)
    mask = future(QUERY_LEN)
    cases["output"] = model.decoder(target, cases["encoder.output"], tgt_mask=mask)
    write_cases(folder, cases)


TORCH_MODELS = {
    "torch_mha-kdim": functools.partial(make_mha, kdim=18, vdim=18),
    "torch_mha-kdim-vdim": functools.partial(make_mha, kdim=18, vdim=30),
    "torch_mha-kdim-no-bias": functools.partial(make_mha, kdim=24, vdim=10, bias=False),
    "torch_mha-no-bias": functools.partial(make_mha, bias=False),
    "torch_mha-bias-kv": functools.partial(make_mha, add_bias_kv=True),
    "torch_mha-zero-attn": functools.partial(make_mha, add_zero_attn=True),
    "torch_mha-all": functools.partial(make_mha, kdim=18, vdim=30, add_bias_kv=True,
                                       add_zero_attn=True),
    "causal_self_attention": make_causal_self_attention,
    "causal_self_attention-no-bias": functools.partial(make_causal_self_attention, bias=False),
    "self_attention": make_self_attention,
    "torch_transformer": make_transformer,
    "torch_transformer-norm-first": functools.partial(make_transformer, activation="gelu",
                                                      norm_first=True, layer_norm_eps=0.03),
    "torch_transformer-no-bias": functools.partial(make_transformer, d_model=16, nhead=2,
                                                   num_encoder_layers=1, num_decoder_layers=1,
                                                   bias=False),
}
