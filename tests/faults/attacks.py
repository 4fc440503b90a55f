"""What hostile callers send, and what it costs: a table of attack, bytes sent, memory grown and an honest caller's longest wait.

    ATTEND_SOURCE=. ATTEND_SERVER_BINARY=build/release/bin/attend-server /usr/bin/python3 tests/faults/attacks.py

Each attack meets a server process of its own, and is repeated until an honest caller was answered beside it. Fails when memory
grew by more than 128 MiB, 20 times the bytes of a round and once what they inflate to, or when an honest caller got anything but
the right bits, during the attack or after it; with --idle also when one waited longer than 0.5 s, which no machine promises while
it does other things.
"""

import argparse
import sys

import attacks_calls
import attacks_frames  # noqa: F401  (adds its attacks to the table)
import attacks_messages  # noqa: F401
import attacks_work  # noqa: F401
from attack import ATTACKS
from edge import Edge
from harness import Server
from measure import MIB, faults, measure

HEADING = (f"{'attack':44} {'where':6} {'rounds':>6} {'sent MiB':>9} {'grown MiB':>9} {'cpu s':>5} "
           f"{'p99 ms':>7} {'longest ms':>10}")


def line(row, where):
    return (f"{row.name:44} {where:6} {row.rounds:6} {row.sent / MIB:9.3f} {row.grown_mib + row.proxy_mib:9.1f} "
            f"{row.cpu_s + row.proxy_cpu_s:5.1f} {1e3 * row.p99_s():7.1f} {1e3 * row.longest_s():10.1f}")


def flags_of(attack):
    models = attacks_calls.MODELS
    return [f"--models={attacks_calls.small_models().name}" if flag == models else flag for flag in attack.flags]


def try_directly(attack, options):
    """Prints the row; what is wrong with it."""
    with Server(*flags_of(attack)) as server:
        row = measure(attack, server, options.seconds)
        found = faults(row, options.idle)
        if attack.not_held:
            print(f"{line(row, 'direct')}  {attack.not_held}", flush=True)
            return []
        print(line(row, "direct"), flush=True)
        return found


def try_through_edge(attack, options):
    """The same through the proxy of deploy/edge, which has to hold what the server alone does not."""
    with Server(*flags_of(attack)) as server, Edge(server) as edge:
        row = measure(attack, server, options.seconds, proxy=edge)
        print(line(row, "edge"), flush=True)
        return faults(row, options.idle)


def chosen(options):
    """The attacks of that name, or all."""
    found = [one for one in ATTACKS if not options.only or any(words in one.name for words in options.only)]
    if not found:
        sys.exit(f"--only: expected a part of an attack's name, found {options.only}; --list prints the names")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="WORDS",
                        help="attacks whose name has these words; repeatable")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each attack is repeated, at least")
    parser.add_argument("--idle", action="store_true", help="nothing else runs here: fail when an honest caller waits too long")
    parser.add_argument("--list", action="store_true", help="print the names of all attacks")
    options = parser.parse_args()
    if options.list:
        print("\n".join(one.name for one in ATTACKS))
        return 0
    print(HEADING, flush=True)
    wrong = []
    for one in chosen(options):
        for where, tried in (("directly", try_directly), ("through the edge", try_through_edge)):
            if tried is try_through_edge and not one.frames:
                continue
            try:
                wrong += [f"{one.name}, {where}: {fault}" for fault in tried(one, options)]
            except AssertionError as error:
                wrong.append(f"{one.name}, {where}: {error}")
    for fault in wrong:
        print(f"failed: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
