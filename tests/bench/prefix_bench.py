"""What the prefix cache gains: requests that have most of their tokens in common, with and without it.

  prefix_bench.py --folder FOLDER [--bin build/release/bin] [--threads N] [--requests 1000] [--requests-without 20]
                  [--streams 20] [--checked 3] [--common 1024] [--own 32] [-c 4] [--cache-bytes N]
                  [--output LAST_HIDDEN_STATES|LAST_LOGITS]

Makes FOLDER/gpt2-small, random weights in the shape of that model with 2,048 positions, unless it is there. Starts
attend-server without the cache, then with it, and sends requests of --common tokens that are the same in all and --own that
are not: -c at a time for requests/s, then --streams one after another for the time to the first block. Prints both, the
server's CPU time of a request, their ratios, and whether --checked answers had the same bits. The server and this client share
the machine: run it on an idle one. On a busy one only the CPU time has a meaning.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
WIDTH, LAYERS, VOCABULARY, POSITIONS = 768, 12, 50257, 2048
NORMS = ("ln_1", "ln_2", "ln_f")
CLOCK_HZ = os.sysconf("SC_CLK_TCK")


def tensor_shapes():
    shapes = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (POSITIONS, WIDTH)}
    for layer in range(LAYERS):
        for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                    ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            shapes[f"h.{layer}.{name}.weight"] = (rows, columns)
            shapes[f"h.{layer}.{name}.bias"] = (columns,)
        for norm in NORMS[:2]:
            shapes[f"h.{layer}.{norm}.weight"] = shapes[f"h.{layer}.{norm}.bias"] = (WIDTH,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (WIDTH,)
    return shapes


def num_elements(shape):
    return shape[0] * (shape[1] if len(shape) == 2 else 1)


def make_checkpoint(folder):
    """Writes a checkpoint of f32; one that is there stays."""
    if (folder / "model.safetensors").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": WIDTH, "n_head": 12, "n_layer": LAYERS,
              "n_positions": POSITIONS, "vocab_size": VOCABULARY, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, shape in tensor_shapes().items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + 4 * num_elements(shape)]}
        end += 4 * num_elements(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = random.Random(0)
    block = struct.pack("<65537f", *(generator.gauss(0, 0.02) for _ in range(65537)))  # an odd length: rows differ
    with open(folder / "part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensor_shapes().items():
            size = 4 * num_elements(shape)
            is_scale = name.endswith(".weight") and name.split(".")[-2] in NORMS
            source = struct.pack("<f", 1.0) if is_scale else block
            file.write((source * (size // len(source) + 1))[:size])
    (folder / "part").rename(folder / "model.safetensors")


def message_classes():
    """The messages of attention.v1, from protoc's descriptors."""
    with tempfile.NamedTemporaryFile() as output:
        subprocess.run(["protoc", "-I", REPOSITORY / "proto", f"--descriptor_set_out={output.name}",
                        "attention/v1/attention.proto"], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(output.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(f"attention.v1.{name}"))
            for name in ("AttendRequest", "AttendResponse", "AttendStreamResponse")}


class Server:
    """attend-server over the checkpoint, until the end of the block."""

    def __init__(self, options, cache_bytes):
        command = [f"{options.bin}/attend-server", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
                   "--metrics-listen=none", "--log-requests=none", f"--models={options.folder}",
                   f"--threads={options.threads}", f"--max-cache-bytes={max(2 * cache_bytes, 1 << 30)}",
                   f"--prefix-cache-bytes={cache_bytes}", "--max-queue-wait=600s"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        begin = "attend-server listening on "
        self.address = next(line.split()[-1] for line in self.process.stdout if line.startswith(begin))

    def cpu_ms(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return 1e3 * (int(fields[11]) + int(fields[12])) / CLOCK_HZ

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Client:
    def __init__(self, options, address, classes):
        self.options, self.classes = options, classes
        limits = [("grpc.max_receive_message_length", -1)]
        self.channel = grpc.insecure_channel(address, options=limits)
        path = "/attention.v1.AttentionService/"
        encode = classes["AttendRequest"].SerializeToString
        self.attend = self.channel.unary_unary(path + "Attend", encode, classes["AttendResponse"].FromString)
        self.stream = self.channel.unary_stream(path + "AttendStream", encode, classes["AttendStreamResponse"].FromString)
        self.wait_for_model()

    def request(self, number):
        common, own = random.Random(1), random.Random(1000 + number)
        request = self.classes["AttendRequest"](model="gpt2-small")
        outputs = request.DESCRIPTOR.fields_by_name["model_output"].enum_type.values_by_name
        request.model_output = outputs[self.options.output].number
        request.token_ids.ids.extend(common.randrange(VOCABULARY) for _ in range(self.options.common))
        request.token_ids.ids.extend(own.randrange(VOCABULARY) for _ in range(self.options.own))
        return request

    def wait_for_model(self):
        """Also asks for the first time, which fills the cache."""
        while True:
            try:
                return self.attend(self.request(-1), wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                time.sleep(0.2)

    def requests_per_s(self, count):
        requests = [self.request(number) for number in range(count)]
        cached = []
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(self.options.concurrency) as callers:
            for answer in callers.map(lambda request: self.attend(request).summary, requests):
                cached.append(answer.cached_tokens)
        return count / (time.perf_counter() - begin), statistics.mean(cached)

    def first_block_ms(self):
        times = []
        for number in range(self.options.streams):
            request = self.request(10_000 + number)
            begin = time.perf_counter()
            blocks = self.stream(request)
            next(blocks)
            times.append(1e3 * (time.perf_counter() - begin))
            for _ in blocks:
                pass
        return statistics.median(times)

    def outputs(self):
        return [self.attend(self.request(20_000 + number)).output.data for number in range(self.options.checked)]


def measure(options, classes, cache_bytes, count):
    with Server(options, cache_bytes) as server:
        client = Client(options, server.address, classes)
        before = server.cpu_ms()
        rate, cached = client.requests_per_s(count)
        cpu = (server.cpu_ms() - before) / count
        first = client.first_block_ms()
        print(f"{'with' if cache_bytes else 'without'} the cache: {rate:.2f} requests/s over {count}, {cached:.0f} cached "
              f"tokens and {cpu:.0f} ms of CPU a request, first block after {first:.1f} ms", flush=True)
        return rate, cpu, first, client.outputs()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--bin", default=str(REPOSITORY / "build/release/bin"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--requests-without", type=int, default=20)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--checked", type=int, default=3)
    parser.add_argument("--common", type=int, default=1024)
    parser.add_argument("--own", type=int, default=32)
    parser.add_argument("-c", "--concurrency", type=int, default=4)
    parser.add_argument("--output", choices=("LAST_HIDDEN_STATES", "LAST_LOGITS"), default="LAST_HIDDEN_STATES")
    parser.add_argument("--cache-bytes", type=int, default=1 << 30)
    options = parser.parse_args()
    if shutil.which("protoc") is None:
        sys.exit("protoc is not installed")
    make_checkpoint(options.folder / "gpt2-small")
    classes = message_classes()
    slow_rate, slow_cpu, slow_first, expected = measure(options, classes, 0, options.requests_without)
    rate, cpu, first, found = measure(options, classes, options.cache_bytes, options.requests)
    print(f"{rate / slow_rate:.1f} times the requests/s, CPU time / {slow_cpu / cpu:.1f}, first block "
          f"{slow_first / first:.1f} times as early, bits {'the same' if found == expected else 'DIFFERENT'}")
    sys.exit(0 if found == expected else 1)


if __name__ == "__main__":
    main()
