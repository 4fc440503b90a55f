"""One contract, every language: runs the scenarios with a driver, prints what came out, and compares.

run.py PROTOC WORK DRIVER...: WORK is a folder for files; DRIVER is a command that reads lines and answers each with one:

  open SERVER TIMEOUT_S RETRIES TOKEN   a client (RETRIES 0 or 1, TOKEN - for none)
  attend, attend_stream                 hidden states FP32 [1, 2, 4] of 1 to 8 through model "m", causal
  text, text_stream                     "the cat" through model "m", with every field that the table of names has
  scores, scores_stream                 query, key and value FP32 [2, 2, 1] of 1 to 4, with all scores
  rows                                  the same streamed without `assemble`: the rows of its blocks, one after the other
  huge, huge_rows                       a stream of the logits of hidden states FP32 [2^31, 0] through model "m", also without `assemble`
  session                               opens one for model "m", makes a step of token ids 7 and 8, and closes it
  session_scores                        the same without a model, of query, key and value as in `scores`
  branches                              of a session for model "m": forks sequence 0 as 1; on 1 makes a step of token ids 7 and 8
                                        for the 2 largest logits, and one without output; truncates it to 2, releases it
  get_model, load_model                 of "m"
  ready                                 waits until the server is serving
  close

The answer is OK and the bytes of the answer in hexadecimal, or -: the output, weights, log-sum-exps, largest weights, their keys,
and the weights of layers; of `branches` the ids and logits, and as INT32 two lengths and the sequences of the last answer. An error
is its code's name and its text; REFUSED for an address or a token that the client itself refuses.
"""

import json
import pathlib
import re
import socket
import struct
import subprocess
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from scripted_server import OUTPUT, ScriptedServer

SCORES = OUTPUT[:16] + OUTPUT + OUTPUT[:16] * 3  # of `scores`: the output, weights, log-sum-exps, largest weights and their keys
BITS = {"attend": OUTPUT, "text": OUTPUT[:16] * 2, "scores": SCORES, "rows": OUTPUT[:16], "session": OUTPUT, "session_scores": SCORES}
BITS["branches"] = struct.pack("<2i2f3i", 8, 7, 2.5, -1, 2, 2, 1)
AS_TOLD = "as told"  # the text of the server's own errors
HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
MESSAGES = ("AttendRequest", "AttendResponse", "AttendStreamResponse", "DecodeRequest", "DecodeResponse", "GetModelRequest")


def messages(protoc, work):
    binary = work / "attention.binpb"
    command = [protoc, f"--proto_path={PROTO}", f"--descriptor_set_out={binary}", "attention/v1/attention.proto"]
    subprocess.run(command, check=True, timeout=600)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(binary.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    found = {name: pool.FindMessageTypeByName(f"attention.v1.{name}") for name in MESSAGES}
    if hasattr(message_factory, "GetMessageClass"):
        return {name: message_factory.GetMessageClass(kind) for name, kind in found.items()}
    return {name: message_factory.MessageFactory(pool).GetPrototype(kind) for name, kind in found.items()}


def expected_requests(kinds):
    """What a server must see, whatever the client's language."""
    rows = {"dtype": 1, "shape": [1, 2, 4], "data": struct.pack("<8f", *range(1, 9))}  # FP32
    attend = kinds["AttendRequest"](model="m", hidden_states={"tensor": rows}, options={"causal": True})
    text = kinds["AttendRequest"](
        model="m",
        model_version=3,
        text={"texts": ["the cat"], "no_special_tokens": True},
        options={"window": 2, "scale": 0.5},
        weights_choice={"layers": [1], "heads": [0]},
    )
    text.model_output = text.DESCRIPTOR.fields_by_name["model_output"].enum_type.values_by_name["MEAN_POOLED"].number
    opened, step = kinds["DecodeRequest"](id=1, open={"model": "m"}), kinds["DecodeRequest"](id=2)
    step.step.token_ids.ids.extend([7, 8])
    step.step.join_parts = True
    rows = {"dtype": 1, "shape": [2, 2, 1], "data": struct.pack("<4f", *range(1, 5))}
    options = {"return_weights": True, "return_log_sum_exp": True, "weights_top_k": 1}
    inputs = {"query_key_value": {"query": rows, "key": rows, "value": rows}}
    scores = kinds["AttendRequest"](options=options, **inputs)
    heads = kinds["DecodeRequest"](id=1, open={"heads": {"num_heads": 2, "head_dim": 1}, "options": options})
    ids = {"token_ids": {"ids": [7, 8]}, "join_parts": True}
    actions = [{"sequence": 0, "fork": {"new_sequence": 1}}, {"step": {"top_logits": 2, **ids}}, {"step": {"no_output": True, **ids}}]
    actions += [{"truncate": {"length": 2}}, {"release": {}}]
    return {
        "attend": [attend],
        "text": [text],
        "scores": [scores],
        "rows": [scores],
        "session": [opened, step],
        "session_scores": [heads, kinds["DecodeRequest"](id=2, step={"join_parts": True, **inputs})],
        "branches": [opened, *(kinds["DecodeRequest"](**{"id": 2 + i, "sequence": 1, **action}) for i, action in enumerate(actions))],
    }


class Driver:
    def __init__(self, command):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise SystemExit(f"the driver ended after {line!r}, with status {self._process.wait()}")
        return answer

    def end(self):
        self._process.stdin.close()
        if self._process.wait(600) != 0:
            raise SystemExit(f"the driver ended with status {self._process.returncode}")


def repeated(words):
    """["A", "B*2"] to ["A", "B", "B"]."""
    return [word.partition("*")[0] for word in words for _ in range(int(word.partition("*")[2] or 1))]


def run(scenario, driver, kinds):
    """Returns what came out and how often each server was asked; raises AssertionError when bits are wrong."""
    count = scenario.get("servers", 1)
    scripts = [repeated(script) for script in scenario.get("scripts", [])]
    scripts = scripts or [repeated(scenario.get("script", []))] * count
    health = scenario.get("health", [None] * count)
    absent = scenario.get("absent", [])
    # Each its own address, so that no connection of one is taken for one of another.
    servers = [
        ScriptedServer(kinds, f"127.0.0.{1 if 'target' in scenario else i + 1}", scripts[i], health[i], i not in absent)
        for i in range(count)
    ]
    ports = [server.wire.port for server in servers]
    target = ",".join(f"{server.wire.host}:{server.wire.port}" for server in servers)
    target = scenario.get("target", target).format(*ports)
    retries = int(scenario.get("retries", True))
    outcomes, calls = [], []
    try:
        opened = driver.ask(f"open {target} {scenario.get('timeout', 60)} {retries} {scenario.get('token', '-')}")
        for word in repeated(scenario["calls"]):
            if word == "move":
                servers[1].start()
                servers[0].stop()
            elif word == "restart":
                servers[0].stop()
                servers[0].start()
            elif word == "ready":
                assert driver.ask(word) == "OK -", "expected a server that is ready"
            else:
                code, _, output = (driver.ask(word) if opened == "OK" else f"{opened} -").partition(" ")
                outcomes.append(code)
                calls.append(word)
                if code == "OK":
                    check_bits(word, output)
                else:
                    check_text(code, output, scenario.get("says", ""))
        driver.ask("close")
        if len(calls) == 1 and outcomes == ["OK"] and count == 1:
            check_requests(calls[0], servers[0], kinds)
    finally:
        for server in servers:
            server.close()
    return outcomes, [len(server.calls) for server in servers]


def whole(call):
    """The call of which `call` is the streamed form."""
    return call.removesuffix("_stream")


def check_bits(call, output):
    expected = BITS[whole(call)].hex() if whole(call) in BITS else "-"
    assert output == expected, f"output: expected {expected}, found {output}"


def check_text(code, text, says):
    """A malformed answer is INTERNAL, and the text names the field, in the language's own case, what was expected and what was found."""
    if code == "INTERNAL" and text != AS_TOLD:
        plain = text.replace("_", "").lower()
        names = re.fullmatch(r"malformed answer: .*expected .*", text) and says.replace("_", "").lower() in plain
        assert names, f"text: expected 'malformed answer: ', {says!r}, what was expected and found; found {text!r}"


def check_requests(call, server, kinds):
    """Checks the messages of all attempts of a call whose requests are known."""
    of_attempt = expected_requests(kinds).get(whole(call))
    if of_attempt is None:
        return
    expected, found = of_attempt * len(server.calls), server.requests
    assert len(found) == len(expected), f"messages: expected {len(expected)}, found {len(found)}"
    for message, data in zip(expected, found):
        seen = type(message).FromString(data)
        assert seen == message, f"request: expected {message}, found {seen}"


def is_as_told(scenario, outcomes, attempts):
    if outcomes != repeated(scenario["outcomes"]):
        return False
    if "total" in scenario:
        return sum(attempts) == scenario["total"]
    return all(wanted is None or wanted == found for wanted, found in zip(scenario["attempts"], attempts))


def short(words):
    return words[0] + f" × {len(words)}" if len(words) > 1 and len(set(words)) == 1 else ", ".join(words[:3]) + ("…" if len(words) > 3 else "")


def knows_localhost():
    try:
        return bool(socket.getaddrinfo("localhost", None))
    except socket.gaierror:
        return False


def main():
    protoc, work, *command = sys.argv[1:]
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)
    kinds = messages(protoc, work)
    driver = Driver(command)
    failed = 0
    scenarios = json.loads((HERE / "scenarios.json").read_text())
    if not knows_localhost():
        left_out = [scenario["name"] for scenario in scenarios if "localhost" in scenario.get("target", "")]
        scenarios = [scenario for scenario in scenarios if scenario["name"] not in left_out]
        print(f"left out, since the system does not know the name localhost: {'; '.join(left_out)}")
    for scenario in scenarios:
        reason = ""
        try:
            outcomes, attempts = run(scenario, driver, kinds)
            if not is_as_told(scenario, outcomes, attempts):
                reason = f"expected {short(repeated(scenario['outcomes']))} after {scenario.get('attempts', scenario.get('total'))}"
        except AssertionError as error:
            outcomes, attempts, reason = ["?"], [], str(error)
        failed += bool(reason)
        name = scenario["name"]
        print(f"{'FAIL' if reason else 'ok':4}  {name:72}  {short(outcomes):32}  {attempts}  {reason}", flush=True)
    driver.end()
    print(f"{len(scenarios) - failed} of {len(scenarios)} scenarios as the contract says")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
