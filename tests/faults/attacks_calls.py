"""Hostile calls: messages that are well formed, few bytes long, and ask for much."""

import functools
import json
import pathlib
import shutil
import tempfile

from attack import SERVICE, attack, drain
from harness import SOURCE, pb

# In the flags of an attack it stands for the folder that small_models makes.
MODELS = "--models=SMALL"


@functools.lru_cache(maxsize=None)
def small_models():
    """A folder with `gpt2`, two layers over 96 positions, which reads texts of the letters a and b."""
    folder = tempfile.TemporaryDirectory()
    place = pathlib.Path(folder.name) / "gpt2"
    shutil.copytree(SOURCE / "tests/data/golden/gpt2", place, ignore=shutil.ignore_patterns("cases*"))
    (place / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "aa": 2, "aaaa": 3},
                  "merges": [["a", "a"], ["aa", "aa"]]}}))
    return folder


def at_once(target, count, method, message):
    """The same call so many times at once, each on a connection of its own; waits for all. Their codes."""
    calls = [target.call(target.channel(), method, message) for _ in range(count)]
    return [call.code() for call in calls]


@attack("a million empty sequences of attention without a model")
def empty_sequences(target):
    empty = pb.Tensor(dtype=pb.FP32, shape=[1 << 20, 0, 1, 1])
    request = pb.AttendRequest(query_key_value=pb.QueryKeyValue(query=empty, key=empty, value=empty),
                               options=pb.AttentionOptions(return_weights=True, return_log_sum_exp=True))
    at_once(target, 3, SERVICE + "Attend", request.SerializeToString())


@attack("a million empty sequences for a model", flags=(MODELS,))
def empty_sequences_of_a_model(target):
    request = pb.AttendRequest(
        model="gpt2", hidden_states=pb.HiddenStates(tensor=pb.Tensor(dtype=pb.FP32, shape=[1 << 20, 0, 48])),
        weights_choice=pb.WeightsChoice(layers=[0, 1]))
    at_once(target, 3, SERVICE + "Attend", request.SerializeToString())


@attack("one text of 8 MiB for 96 positions", flags=(MODELS,))
def long_text(target):
    request = pb.AttendRequest(model="gpt2", text=pb.TextInput(texts=["a" * (8 << 20)]))
    at_once(target, 3, SERVICE + "Attend", request.SerializeToString())


@attack("as many empty sequences as a request may have")
def most_empty_sequences(target):
    empty = pb.Tensor(dtype=pb.FP32, shape=[4096, 0, 1, 1])
    request = pb.AttendRequest(
        query_key_value=pb.QueryKeyValue(query=empty, key=empty, value=empty),
        options=pb.AttentionOptions(return_weights=True, return_log_sum_exp=True, weights_top_k=1))
    at_once(target, 8, SERVICE + "Attend", request.SerializeToString())


@attack("a session's step of 4,096 heads with tables")
def step_of_many_heads(target):
    rows = pb.Tensor(dtype=pb.FP32, shape=[1, 4096, 1], data=bytes(4 * 4096))
    messages = [
        pb.DecodeRequest(id=1, open=pb.OpenSession(
            heads=pb.AttentionHeads(num_heads=4096, head_dim=1),
            options=pb.AttentionOptions(return_weights=True, return_log_sum_exp=True))),
        *[pb.DecodeRequest(id=2, step=pb.DecodeStep(query_key_value=pb.QueryKeyValue(query=rows, key=rows, value=rows)))] * 4]
    drain([target.stream(target.channel(), SERVICE + "Decode", [one.SerializeToString() for one in messages])])
