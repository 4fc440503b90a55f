#!/usr/bin/env python3
"""Makes a Python that takes this processor for one with AVX2 alone, to measure ONNX Runtime and PyTorch beside
ONEDNN_MAX_CPU_ISA=AVX2: ONNX Runtime asks the processor and has no setting.

  avx2_peer.py [ROOT]     ROOT is the tree that holds the packages python3-onnxruntime and python3-torch; / unless told

Copies onnxruntime and libcpuinfo into ROOT/avx2, their `cpuid` instructions replaced by an invalid one that
cpuid_without_avx512.c answers. Prints the environment to run python3 with, in ROOT. Needs gcc and objdump.
"""

import pathlib
import re
import shutil
import subprocess
import sys

CPUID, UD2 = b"\x0f\xa2", b"\x0f\x0b"


def objdump(flag, file):
    return subprocess.run(["objdump", flag, "-j", ".text", file], check=True, capture_output=True, text=True).stdout


def replace_cpuid(source, target):
    """Writes `source` to `target` with its cpuid instructions replaced; their number."""
    size, address, load, offset = (int(word, 16) for word in re.search(
        r"\.text +(\w+) +(\w+) +(\w+) +(\w+)", objdump("-h", source)).groups())
    del size, load
    code = bytearray(source.read_bytes())
    found = re.findall(r"^ *(\w+):\s0f a2\s+cpuid", objdump("-d", source), re.MULTILINE)
    for place in found:
        at = int(place, 16) - address + offset
        assert code[at:at + 2] == CPUID, f"{source}: expected cpuid at {place}"
        code[at:at + 2] = UD2
    target.write_bytes(code)
    return len(found)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/")
    if not (root / "usr/lib/python3/dist-packages/onnxruntime").is_dir():
        sys.exit(f"avx2_peer.py: {root}: expected a tree with the package python3-onnxruntime, found none\n{__doc__}")
    place = root / "avx2"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root / "usr/lib/python3/dist-packages/onnxruntime", place / "onnxruntime", symlinks=True)
    (place / "lib").mkdir()
    for source in (place / "onnxruntime/capi").glob("onnxruntime_pybind11_state*.so"):
        print(f"# {source.name}: {replace_cpuid(source, source)} times cpuid")
    cpuinfo = root / "usr/lib/x86_64-linux-gnu/libcpuinfo.so.0"
    print(f"# {cpuinfo.name}: {replace_cpuid(cpuinfo, place / 'lib' / cpuinfo.name)} times cpuid")
    handler = pathlib.Path(__file__).with_name("cpuid_without_avx512.c")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", place / "lib/cpuid.so", handler], check=True)
    print("LD_PRELOAD=/avx2/lib/cpuid.so LD_LIBRARY_PATH=/avx2/lib PYTHONPATH=/avx2 ATEN_CPU_CAPABILITY=avx2 "
          "ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell")


if __name__ == "__main__":
    main()
