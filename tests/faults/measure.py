"""One attack on one server: bytes sent, memory grown, and how long an honest caller waited meanwhile."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import threading
import time

import honest_caller
from attack import Target
from harness import PATIENCE_S, eventually

MIB = 1 << 20
# The limit of memory: this, and this many times the bytes of a round.
ALLOWED_MIB = 128
ALLOWED_TIMES = 20
# The limit of waiting. It holds on an idle machine, so only `--idle` asserts it.
ALLOWED_WAIT_S = 0.5
# After so long a caller that was not answered is taken for one that never will be.
GIVE_UP_S = PATIENCE_S


class HonestCaller:
    """honest_caller.py beside an attack; knows each of its calls as (start, end, what it got)."""

    def __init__(self, address, ca_file=None):
        command = [sys.executable, honest_caller.__file__, address, *([ca_file] if ca_file else [])]
        self._process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._calls = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            start, end, got = line.split()
            self._calls.append((float(start), float(end), got))

    def calls(self, begun_after=0.0, over_after=0.0):
        return [call for call in list(self._calls) if call[0] >= begun_after and call[1] >= over_after]

    def wait_for(self, number, begun_after=0.0):
        eventually(f"an honest caller is answered {number} times", lambda: len(self.calls(begun_after)) >= number, GIVE_UP_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()


class Footprint:
    """Memory and processor time of some processes, from here on."""

    def __init__(self, pids):
        self._pids = pids
        for pid in pids:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        self._memory = self._read("VmRSS:")
        self._cpu = self._read_cpu()

    def _read(self, key):
        texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in self._pids]
        return sum(int(text.split(key)[1].split()[0]) / 1024 for text in texts)

    def _read_cpu(self):
        fields = [pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self._pids]
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    def grown_mib(self):
        return max(0.0, self._read("VmHWM:") - self._memory)

    def cpu_s(self):
        return self._read_cpu() - self._cpu


@dataclasses.dataclass
class Row:
    """What was seen of one attack."""
    name: str
    rounds: int
    sent: int  # in the round that sent most
    inflated_mib: int
    grown_mib: float
    cpu_s: float
    proxy_mib: float
    proxy_cpu_s: float
    waits_s: list
    failures: list

    def longest_s(self):
        return max(self.waits_s)

    def p99_s(self):
        return sorted(self.waits_s)[int(0.99 * (len(self.waits_s) - 1))]

    def allowed_mib(self):
        return ALLOWED_MIB + ALLOWED_TIMES * self.sent / MIB + self.inflated_mib


def _repeat(attack, target, honest, seconds):
    """Rounds until that time is over and an honest caller was answered; how many, and the bytes of the largest."""
    begin, rounds, most = time.monotonic(), 0, 0
    while True:
        target.sent = 0
        try:
            attack.run(target)
        finally:
            target.close()
        rounds, most = rounds + 1, max(most, target.sent)
        now = time.monotonic()
        if now >= begin + seconds and honest.calls(begin):
            return rounds, most
        if now >= begin + GIVE_UP_S:
            raise AssertionError(f"an honest caller is answered during {rounds} rounds of {attack.name}: it was not")


def measure(attack, server, seconds, proxy=None):
    """Attacks `server`, through `proxy` where there is one, for at least so long."""
    place = proxy or server
    ca_file = getattr(place, "ca_file", None)
    with HonestCaller(place.address, ca_file) as honest:
        honest.wait_for(50)
        right = honest.calls()[0][2]
        footprint, of_proxy = Footprint([server.process.pid]), Footprint(proxy.pids() if proxy else [])
        begin = time.monotonic()
        rounds, sent = _repeat(attack, Target(place.address, ca_file, server), honest, seconds)
        end = time.monotonic()
        honest.wait_for(1, begun_after=end)
        calls = honest.calls(over_after=begin)
        row = Row(name=attack.name, rounds=rounds, sent=sent, inflated_mib=attack.inflated_mib,
                  grown_mib=footprint.grown_mib(), cpu_s=footprint.cpu_s(),
                  proxy_mib=of_proxy.grown_mib(), proxy_cpu_s=of_proxy.cpu_s(),
                  waits_s=[stop - start for start, stop, _ in calls],
                  failures=sorted({got for _, _, got in calls if got != right}))
    with honest_caller.connect(place.address, ca_file) as newcomer:
        got = honest_caller.Caller(newcomer).ask()
    row.failures += [f"{got} afterwards"] if got != right else []
    return row


def faults(row, idle):
    """What this row shows that must not be, in words."""
    found = [f"an honest caller got {got}" for got in row.failures]
    if row.grown_mib > row.allowed_mib():
        found.append(f"memory grew by {row.grown_mib:.0f} MiB, at most {row.allowed_mib():.0f} are allowed")
    if row.proxy_mib > row.allowed_mib():
        found.append(f"the proxy's memory grew by {row.proxy_mib:.0f} MiB, at most {row.allowed_mib():.0f} are allowed")
    if idle and row.longest_s() > ALLOWED_WAIT_S:
        found.append(f"an honest caller waited {row.longest_s():.2f} s, at most {ALLOWED_WAIT_S} s are allowed")
    return found
