"""Times whole models in transformers and PyTorch, in turn with attend-kernel-bench.

  compare_models.py --folder FOLDER [--python COMMAND] [--python-folder FOLDER] [--ours PROGRAM]
                    [--threads N] [--cpus LIST] [--rounds N] [--seconds S]

Makes FOLDER/bert-base and FOLDER/gpt2-small, random weights in the shapes of those models, unless
they are there. In every round, for each model and dtype, COMMAND (default python3; `chroot ROOT
python3` will do, --python-folder is what FOLDER is called in there) times its forward passes for S
seconds a shape, then PROGRAM times ours, pinned to the same cpus. Prints medians over the rounds,
and the median of the rounds' ratios theirs / ours beside the bar that it has to reach.

Theirs is the best that PyTorch offers as it comes: scaled_dot_product_attention, inference_mode, no
cache, no pooler. COMMAND's python needs torch, transformers and safetensors. The exit status is 1
only if something cannot be run.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = ("bert-base", "gpt2-small")
SHAPES = ((1, 128), (8, 128))
BARS = {"f32": 1.5, "bf16": 1.2}


# ---- in COMMAND's python, which reads this file from its standard input


def make_checkpoint(folder, name):
    """Writes a checkpoint with the family's own initialisation; one that is there stays."""
    import torch
    import transformers

    folder = pathlib.Path(folder) / name
    if (folder / "model.safetensors").exists():
        return
    torch.manual_seed(0)
    if name == "bert-base":
        model = transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False)
    else:
        model = transformers.GPT2Model(transformers.GPT2Config())
    model.save_pretrained(folder)


def median_ns(call, seconds):
    call()
    call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times)


def time_checkpoint(folder, name, dtype, threads, seconds):
    """Prints {shape: median ns} as JSON."""
    import torch
    import transformers

    torch.set_num_threads(int(threads))
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    bert = name == "bert-base"
    options = {"add_pooling_layer": False} if bert else {}
    path = pathlib.Path(folder) / name
    model = transformers.AutoModel.from_pretrained(path, dtype=dtype, **options).eval()
    call = {} if bert else {"use_cache": False}
    medians = {}
    with torch.inference_mode():
        for batch, seq_len in SHAPES:
            ids = torch.randint(model.config.vocab_size, (batch, seq_len))
            median = median_ns(lambda: model(ids, **call), float(seconds))
            medians[shape_name(batch, seq_len)] = median
    print(json.dumps(medians))


# ---- here


def shape_name(batch, seq_len):
    return f"B{batch}_S{seq_len}"


def run(command, **options):
    """The standard output of `command`; the program ends if it fails."""
    done = subprocess.run(command, text=True, capture_output=True, **options)
    if done.returncode != 0:
        said = done.stdout + done.stderr
        sys.exit(f"{shlex.join(command)}: exit status {done.returncode}\n{said}")
    return done.stdout


def in_python(options, job, *arguments):
    """Runs a function of this file in COMMAND's python; returns the last line that it prints."""
    threads = str(options.threads)
    command = ["taskset", "-c", options.cpus, *shlex.split(options.python), "-"]
    command += [job, options.python_folder or str(options.folder), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"}
    source = pathlib.Path(__file__).read_text()
    return run(command, input=source, env=environment).strip().rpartition("\n")[2]


def theirs(options, name, dtype):
    """{shape: median ns} of PyTorch."""
    how = (dtype, str(options.threads), str(options.seconds))
    return json.loads(in_python(options, "time", name, *how))


def ours(options, name, dtype):
    """{shape: median ns} of attend-kernel-bench."""
    shapes = [shape_name(*shape) for shape in SHAPES]
    cases = {f"model/{dtype}/{shape}/threads{options.threads}": shape for shape in shapes}
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run(["taskset", "-c", options.cpus, options.ours, "--model", str(options.folder / name),
             "--filter", f"^({'|'.join(cases)})$", "--threads", str(options.threads),
             "--json", file.name])
        results = {r["name"]: r for r in json.loads(pathlib.Path(file.name).read_text())}
    missing = [case for case in cases if case not in results]
    if missing:
        found = ", ".join(results) or "nothing"
        sys.exit(f"{options.ours}: expected {', '.join(missing)}, found {found}")
    return {shape: results[case]["median_ns"] for case, shape in cases.items()}


def measure(options):
    """{(model, dtype, shape): [(theirs ns, ours ns) of each round]}."""
    pairs = {}
    for number in range(options.rounds):
        for name in MODELS:
            for dtype in BARS:
                print(f"round {number + 1}: {name} {dtype}", file=sys.stderr, flush=True)
                their, our = theirs(options, name, dtype), ours(options, name, dtype)
                for shape in their:
                    pairs.setdefault((name, dtype, shape), []).append((their[shape], our[shape]))
    return pairs


def print_table(pairs, threads):
    print(f"{'model':12} {'dtype':5} {'shape':8} {'threads':>7} {'theirs ms':>10} {'ours ms':>10} "
          f"{'ratio':>6} {'bar':>4}")
    for (name, dtype, shape), rounds in pairs.items():
        their, our = (statistics.median(column) / 1e6 for column in zip(*rounds))
        ratio = statistics.median(t / o for t, o in rounds)
        verdict = "reached" if ratio >= BARS[dtype] else "missed"
        print(f"{name:12} {dtype:5} {shape:8} {threads:7} {their:10.2f} {our:10.2f} {ratio:6.2f} "
              f"{BARS[dtype]:4.1f} {verdict}")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--python", default="python3")
    parser.add_argument("--python-folder", default="")
    parser.add_argument("--ours", default="build/release/bin/attend-kernel-bench")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpus", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    options.cpus = options.cpus or f"0-{options.threads - 1}"
    return options


def main():
    options = parse_options()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        in_python(options, "make", name)
    print_table(measure(options), options.threads)


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make_checkpoint(*sys.argv[2:])
    elif sys.argv[1:2] == ["time"]:
        time_checkpoint(*sys.argv[2:])
    else:
        main()
