// Preloaded into a peer whose `cpuid` instructions avx2_peer.py has replaced by `ud2`: answers them as a processor would that has
// AVX2 and neither AVX-512, AVX-VNNI nor AMX. ONNX Runtime has no setting for it.
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

static uint32_t bits(const int* numbers, int count) {
  uint32_t all = 0;
  for (int i = 0; i < count; ++i) {
    all |= UINT32_C(1) << numbers[i];
  }
  return all;
}
#define BITS(...) bits((const int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

static void answer(int signal_number, siginfo_t* info, void* context) {
  (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  const uint8_t* code = (const uint8_t*)registers[REG_RIP];
  if (code[0] != 0x0f || code[1] != 0x0b) {
    signal(signal_number, SIG_DFL);
    return;
  }
  const uint32_t leaf = (uint32_t)registers[REG_RAX];
  const uint32_t subleaf = (uint32_t)registers[REG_RCX];
  uint32_t a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(leaf, subleaf, a, b, c, d);
  if (leaf == 7 && subleaf == 0) {  // Intel's manual, volume 2, CPUID: Structured Extended Feature Flags
    b &= ~BITS(16, 17, 21, 26, 27, 28, 30, 31);
    c &= ~BITS(1, 6, 11, 12, 14);
    d &= ~BITS(2, 3, 8, 22, 23, 24, 25);
  } else if (leaf == 7 && subleaf == 1) {
    a &= ~BITS(4, 5, 21, 23);
    d = 0;
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void install(void) {
  struct sigaction action = {0};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, 0);
}
