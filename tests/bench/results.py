"""Makes the tables of RESULTS.md: attend-kernel-bench for each instruction set, as Markdown.

  results.py [--program PROGRAM] [--old PROGRAM] [--prefix COMMAND] [--isas NAME,...]
             [--filter REGEX] [--seconds S] [--rounds N]

For each ONEDNN_MAX_CPU_ISA in --isas, and N rounds, runs PROGRAM --filter REGEX --seconds S behind
COMMAND (say `taskset -c 1`). Where --old names an old program, each case is taken in turn with it.
Prints the median of the rounds: milliseconds, the share of the matrix peak or of a plain read, and with
--old what the new program takes of the time that the old one took just before, where both have the case.
The last rows are the medians of the matrix peak of f32 and of the plain read. The exit status is 1 when an answer is wrong.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

ISAS = "SSE41,AVX2,AVX2_VNNI,AVX512_CORE,AVX512_CORE_VNNI,AVX512_CORE_BF16"


def run(options, program, isa, pattern, seconds):
    """The results of one run by name of the case."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = shlex.split(options.prefix) + [program, "--filter", pattern]
        command += ["--seconds", str(seconds), "--json", file.name]
        environment = dict(os.environ, ONEDNN_MAX_CPU_ISA=isa)
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        results = json.load(open(file.name))
    wrong = [result["name"] for result in results if not result["checked"]]
    if wrong:
        sys.exit(f"{isa}: wrong answers: {', '.join(wrong)}")
    return {result["name"]: result for result in results}


def pairs(options, isa, name):
    """The results of a case in all rounds, new and old; no old ones if the old program lacks it."""
    new, old = [], []
    for _ in range(options.rounds):
        for program, runs in ((options.old, old), (options.program, new)):
            results = run(options, program, isa, f"^{re.escape(name)}$", options.seconds)
            runs += [results[name]] if name in results else []
    return new, old


def median(runs, field):
    return statistics.median(result[field] for result in runs)


def cell(new, old):
    text = f"{median(new, 'median_ns') / 1e6:.3g} ms, {100 * median(new, 'share'):.0f} %"
    if old:
        text += f", x{statistics.median(n['median_ns'] / o['median_ns'] for n, o in zip(new, old)):.2f}"
    return text


def peak(runs, field):
    """The median of a rate that all f32 cases of an instruction set were compared with."""
    rates = [run[field] for run in runs if field in run and "/f32/" in run["name"]]
    return f"{statistics.median(rates):.3g}" if rates else ""


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
    rounds = []
    for _ in range(1 if options.old else options.rounds):
        seconds = 1e-3 if options.old else options.seconds
        rounds.append({isa: run(options, options.program, isa, options.filter, seconds) for isa in isas})
    print("| case | " + " | ".join(isas) + " |")
    print("|---" * (len(isas) + 1) + "|")
    runs = {isa: [] for isa in isas}
    for name in rounds[0][isas[0]]:
        cells = []
        for isa in isas:
            new, old = pairs(options, isa, name) if options.old else ([r[isa][name] for r in rounds], [])
            cells.append(cell(new, old))
            runs[isa] += new
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    for title, field in (("matrix peak, GFLOP/s", "peak_gflops"), ("plain read, GB/s", "read_gb_per_s")):
        print(f"| {title} | " + " | ".join(peak(runs[isa], field) for isa in isas) + " |")


if __name__ == "__main__":
    main()
