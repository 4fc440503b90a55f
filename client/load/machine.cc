#include "client/load/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace attention {
namespace {

/// The value of the first line of /proc/cpuinfo that starts with `key`; empty when there is none.
std::string CpuInfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

/// The instruction sets that decide the speed of attention.
std::vector<std::string> InstructionSets() {
  constexpr std::array kInteresting = {"avx2",     "fma",      "avx512f", "avx512_bf16",
                                       "avx_vnni", "amx_bf16", "amx_fp16"};
  std::vector<std::string> found;
  std::istringstream flags(CpuInfo("flags"));
  for (std::string flag; flags >> flag;) {
    if (std::find(kInteresting.begin(), kInteresting.end(), flag) != kInteresting.end()) {
      found.push_back(flag);
    }
  }
  return found;
}

}  // namespace

nlohmann::json DescribeMachine() {
  utsname kernel{};
  uname(&kernel);
  return {{"cpu", CpuInfo("model name")},
          {"cpus", std::thread::hardware_concurrency()},
          {"isa", InstructionSets()},
          {"kernel", std::string(kernel.sysname) + " " + kernel.release},
          {"version", ATTEND_VERSION},
          {"compiler", ATTEND_COMPILER},
          {"build_type", ATTEND_BUILD_TYPE}};
}

}  // namespace attention
