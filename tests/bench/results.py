"""Makes the tables of RESULTS.md: attend-kernel-bench for each instruction set, as Markdown.

  results.py [--program PROGRAM] [--old PROGRAM] [--prefix COMMAND] [--isas NAME,...]
             [--filter REGEX] [--seconds S] [--rounds N]

For each ONEDNN_MAX_CPU_ISA in --isas, and N rounds, runs PROGRAM --filter REGEX --seconds S behind
COMMAND (say `taskset -c 1`), in turn with the old one where --old names it. Prints the median of the
rounds: milliseconds, the share of the matrix peak or of a plain read, and with --old what the new
program takes of the old one's time, where both have the case. The exit status is 1 when an answer is wrong.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

ISAS = "SSE41,AVX2,AVX2_VNNI,AVX512_CORE,AVX512_CORE_VNNI,AVX512_CORE_BF16"


def run(options, program, isa):
    """The results of one run by name of the case."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = shlex.split(options.prefix) + [program, "--filter", options.filter]
        command += ["--seconds", str(options.seconds), "--json", file.name]
        environment = dict(os.environ, ONEDNN_MAX_CPU_ISA=isa)
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        results = json.load(open(file.name))
    wrong = [result["name"] for result in results if not result["checked"]]
    if wrong:
        sys.exit(f"{isa}: wrong answers: {', '.join(wrong)}")
    return {result["name"]: result for result in results}


def median(runs, name, field):
    return statistics.median(results[name][field] for results in runs)


def cell(runs, old_runs, name):
    text = f"{median(runs, name, 'median_ns') / 1e6:.3g} ms, {100 * median(runs, name, 'share'):.0f} %"
    if old_runs and name in old_runs[0]:
        ratio = median(runs, name, "median_ns") / median(old_runs, name, "median_ns")
        text += f", x{ratio:.2f}"
    return text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default="build/release/bin/attend-kernel-bench")
    parser.add_argument("--old")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--isas", default=ISAS)
    parser.add_argument("--filter", default="threads1$")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    isas = options.isas.split(",")
    new, old = {isa: [] for isa in isas}, {isa: [] for isa in isas}
    for _ in range(options.rounds):
        for isa in isas:
            if options.old:
                old[isa].append(run(options, options.old, isa))
            new[isa].append(run(options, options.program, isa))
    print("| case | " + " | ".join(isas) + " |")
    print("|---" * (len(isas) + 1) + "|")
    for name in new[isas[0]][0]:
        cells = [cell(new[isa], old[isa], name) for isa in isas]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
