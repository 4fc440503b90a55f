// on_isa ISA PROGRAM [ARGUMENT]...: becomes PROGRAM, limited to the instruction set ISA. Where the
// processor lacks ISA, PROGRAM would silently compute with a lesser one: on_isa says so instead and
// ends with status 77, which ctest counts as skipped.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "core/kernels/onednn/isa.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: on_isa ISA PROGRAM [ARGUMENT]...\n";
    return 2;
  }
  setenv("ONEDNN_MAX_CPU_ISA", argv[1], 1);
  const std::string_view in_use = Name(attention::CurrentIsa());
  if (in_use != argv[1]) {
    std::cout << "skipped " << std::filesystem::path(argv[2]).filename().string() << " on "
              << argv[1] << ": this processor lacks it, and would use " << in_use << "\n";
    return 77;
  }
  execv(argv[2], argv + 2);
  std::perror(argv[2]);
  return 1;
}
