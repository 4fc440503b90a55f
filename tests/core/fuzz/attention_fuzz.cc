// Random calls of attention against the double-precision reference, each in a random way. Ends with
// 1 at the first case that fails, made as simple as it stays failing and printed as the command
// that runs it alone.
//
//   attention_fuzz [--seed=N] [--cases=N] [--seconds=N]   default: a new seed, until stopped
//   attention_fuzz --case=query_len=70,causal=1,...
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/core/fuzz/fuzz_case.h"
#include "tests/core/fuzz/fuzz_run.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

/// A case that takes longer hangs.
constexpr unsigned kSecondsPerCase = 120;
/// Cases that one child process computes.
constexpr int64_t kCasesPerChild = 200;
/// A race does not show each time.
constexpr int kTriesOfSimpler = 2;

/// What a child tells its parent, whatever becomes of the child.
struct Progress {
  int64_t cases = 0;  // that are done and right
  char error[1000] = {};
};

Progress* SharedProgress() {
  static Progress* const progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return progress;
}

/// Runs case_of(0), case_of(1), ... in another process, since a fault ends it. What is wrong with
/// the case after the last right one, or nothing.
template <typename CaseOf>
std::string RunCases(int64_t count, Clock::time_point end, const CaseOf& case_of) {
  Progress& progress = *SharedProgress();
  progress = {};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (int64_t i = 0; i < count && Clock::now() < end; ++i) {
      alarm(kSecondsPerCase);
      const std::string error = RunFuzzCase(case_of(i));
      if (!error.empty()) {
        std::strncpy(progress.error, error.c_str(), sizeof(progress.error) - 1);
        _exit(1);
      }
      ++progress.cases;
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    return absl::StrCat("ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  return WEXITSTATUS(status) == 0 ? ""
         : progress.error[0] == 0 ? absl::StrCat("exit status ", WEXITSTATUS(status))
                                  : progress.error;
}

std::string RunOne(const FuzzCase& fuzz_case, int tries) {
  std::string error;
  for (int i = 0; i < tries && error.empty(); ++i) {
    error = RunCases(1, Clock::time_point::max(), [&](int64_t) { return fuzz_case; });
  }
  return error;
}

/// Takes simpler numbers as long as the case fails.
FuzzCase Shrink(FuzzCase fuzz_case, std::string& error) {
  for (bool is_simpler = true; is_simpler;) {
    is_simpler = false;
    for (const FuzzCase& candidate : SimplerCases(fuzz_case)) {
      const std::string found = RunOne(candidate, kTriesOfSimpler);
      if (!found.empty()) {
        fuzz_case = candidate;
        error = found;
        is_simpler = true;
        break;
      }
    }
  }
  return fuzz_case;
}

struct Flags {
  uint64_t seed = std::random_device()();
  int64_t cases = std::numeric_limits<int64_t>::max();
  int64_t seconds = std::numeric_limits<int64_t>::max();
  std::optional<FuzzCase> one;
};

std::optional<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    bool is_read = false;
    if (absl::ConsumePrefix(&text, "--seed=")) {
      is_read = absl::SimpleAtoi(text, &flags.seed);
    } else if (absl::ConsumePrefix(&text, "--cases=")) {
      is_read = absl::SimpleAtoi(text, &flags.cases);
    } else if (absl::ConsumePrefix(&text, "--seconds=")) {
      is_read = absl::SimpleAtoi(text, &flags.seconds);
    } else if (absl::ConsumePrefix(&text, "--case=")) {
      flags.one = ParseFuzzCase(std::string(text));
      is_read = flags.one.has_value();
    }
    if (!is_read) {
      std::fprintf(stderr,
                   "attention_fuzz: expected --seed=N, --cases=N, --seconds=N or "
                   "--case=NAME=N,..., found %s\n",
                   argv[i]);
      return std::nullopt;
    }
  }
  return flags;
}

int Report(const FuzzCase& fuzz_case, const std::string& error) {
  std::printf("attention_fuzz: %s\n  attention_fuzz --case=%s\n", error.c_str(),
              ToText(fuzz_case).c_str());
  return 1;
}

/// Case i of seed s is that of seed s + i.
int Fuzz(const Flags& flags) {
  std::printf("attention_fuzz: seed %llu\n", static_cast<unsigned long long>(flags.seed));
  const Clock::time_point end = flags.seconds == std::numeric_limits<int64_t>::max()
                                    ? Clock::time_point::max()
                                    : Clock::now() + std::chrono::seconds(flags.seconds);
  int64_t done = 0;
  while (done < flags.cases && Clock::now() < end) {
    std::string error = RunCases(std::min(kCasesPerChild, flags.cases - done), end, [&](int64_t i) {
      return MakeFuzzCase(flags.seed + static_cast<uint64_t>(done + i));
    });
    done += SharedProgress()->cases;
    if (!error.empty()) {
      const FuzzCase failing = MakeFuzzCase(flags.seed + static_cast<uint64_t>(done));
      std::printf("attention_fuzz: %s\n  attention_fuzz --case=%s\nattention_fuzz: simpler:\n",
                  error.c_str(), ToText(failing).c_str());
      return Report(Shrink(failing, error), error);
    }
  }
  std::printf("attention_fuzz: %lld cases agree\n", static_cast<long long>(done));
  return 0;
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) {
  const std::optional<attention::Flags> flags = attention::ParseFlags(argc, argv);
  if (!flags.has_value()) {
    return 2;
  }
  if (!flags->one.has_value()) {
    return attention::Fuzz(*flags);
  }
  const std::string error = attention::RunOne(*flags->one, 1);
  return error.empty() ? 0 : attention::Report(*flags->one, error);
}
