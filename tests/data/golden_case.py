"""What make_models.py and torch_models.py share: seeded weights, float64 arithmetic, the files."""

import json
import zlib

import safetensors.torch
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Float64(TorchDispatchMode):
    """Within it nothing is rounded to float32: a conversion that asks for it gives float64.

    Several models normalise, take softmax and compute rotary angles in float32 whatever the dtype
    of their weights.
    """

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.ops.aten._to_copy.default and kwargs.get("dtype") == torch.float32:
            kwargs["dtype"] = torch.float64
        return function(*args, **kwargs)


def generator(name):
    """A generator seeded by `name`, so that a folder does not depend on which others are made."""
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def randomise(model, name, scales=None):
    """Fills every parameter so that each matters: no norm is 1, no bias 0, no attention uniform.

    `scales` maps a part of a parameter's name to a standard deviation that replaces the usual one.
    """
    seeded = generator(name)
    zero_centred = type(model).__name__.startswith("Gemma2")
    for path, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=seeded)
        is_norm = any(part in path.lower() for part in ("norm", "ln_"))
        embeds = any(part in path for part in ("embed", "wte", "wpe"))
        std = 0.3 if parameter.ndim == 1 else 0.7 if embeds else 0.25
        std = next((scales[part] for part in scales or () if part in path), std)
        offset = 1.0 if is_norm and path.endswith("weight") and not zero_centred else 0.0
        parameter.data.copy_(offset + std * noise)


def token_ids(shape, vocab_size, seeded, without=None):
    """Random ids below `vocab_size`, never `without`."""
    ids = torch.randint(vocab_size, shape, generator=seeded)
    return ids if without is None else torch.where(ids == without, (without + 1) % vocab_size, ids)


def write_config(folder, config):
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def write_weights(folder, weights, shards=1):
    """model.safetensors, or `shards` files and their index."""
    weights = {name: tensor.contiguous() for name, tensor in weights.items()}
    if shards == 1:
        safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
        return
    names = sorted(weights)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard * len(names) // shards : (shard + 1) * len(names) // shards]
        safetensors.torch.save_file({n: weights[n] for n in part}, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(part, file))
    size = sum(t.numel() * t.element_size() for t in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def write_cases(folder, cases):
    """cases.safetensors: whole numbers as I32, everything else rounded once to F32."""
    dtypes = {True: torch.float32, False: torch.int32}
    rounded = {n: t.to(dtypes[t.is_floating_point()]).contiguous() for n, t in cases.items()}
    safetensors.torch.save_file(rounded, folder / "cases.safetensors")
