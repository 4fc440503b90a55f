// on_isa ISA PROGRAM [ARGUMENT]...: becomes PROGRAM, limited to the instruction set ISA. Where the
// processor lacks ISA, PROGRAM would silently compute with a lesser one; where PROGRAM uses ISA
// without a limit too, its tests have run. on_isa says so instead, and ends with status 77, which
// ctest counts as skipped.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include "core/kernels/onednn/isa.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: on_isa ISA PROGRAM [ARGUMENT]...\n";
    return 2;
  }
  const std::string_view isa = argv[1];
  const std::string program = std::filesystem::path(argv[2]).filename().string();
  const attention::Abilities& abilities = attention::CurrentAbilities();
  const std::string_view in_use = Name(abilities.isa);
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (limit == nullptr || limit != isa) {
    // A matrix unit, and the choice of f32 where it is faster, end with a limit of
    // AVX512_CORE_BF16.
    const bool keeps_bf16 = abilities.isa != attention::Isa::kAvx512Bf16 ||
                            abilities.bf16 == attention::Products::kVectors;
    if (in_use == isa && keeps_bf16) {
      std::cout << "skipped " << program << " on " << isa << ": it uses that without a limit too\n";
      return 77;
    }
    // oneDNN reads the limit once in the life of a process.
    setenv("ONEDNN_MAX_CPU_ISA", argv[1], 1);
    execv("/proc/self/exe", argv);
    std::perror("/proc/self/exe");
    return 1;
  }
  if (in_use != isa) {
    std::cout << "skipped " << program << " on " << isa
              << ": this processor lacks it, and would use " << in_use << "\n";
    return 77;
  }
  execv(argv[2], argv + 2);
  std::perror(argv[2]);
  return 1;
}
