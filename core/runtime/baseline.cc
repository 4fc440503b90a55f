// Ends a program at its start, with an error, on an x86-64 processor that lacks instructions which
// every file may use (x86-64-v2, see CMakeLists.txt); it would end later, with SIGILL.
//
// This file alone is compiled for every x86-64 processor. It calls nothing but the system and has
// no inline function of a header, whose copy could come from another file.
#ifdef __x86_64__
#include <unistd.h>

namespace attention {
namespace {

constexpr char kError[] =
    "error: this processor is not supported: it has no SSE4.2 and POPCNT (x86-64-v2), which "
    "processors have since about 2010\n";

void RequireBaseline() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("x86-64-v2")) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kError, sizeof(kError) - 1);
    _exit(1);
  }
}

// The loader calls it before the constructors of the program and of its libraries.
[[gnu::section(".preinit_array"), gnu::used]] void (*require_baseline)() = RequireBaseline;

}  // namespace
}  // namespace attention
#endif
