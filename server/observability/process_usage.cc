#include "server/observability/process_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/runtime/mutex.h"

namespace attention {
namespace {

// Fields of /proc/PID/stat, numbered as in proc(5), where the state is field 3.
constexpr size_t kStartTimeField = 22;

// Returns the fields from 3 on. Field 2, the program's name, may contain anything and ends with the
// last ')'.
std::vector<std::string> ReadStat() {
  std::ifstream file("/proc/self/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? std::vector<std::string>()
                                       : absl::StrSplit(text.substr(name_end + 2), ' ');
}

int64_t FieldOf(const std::vector<std::string>& stat, size_t number) {
  int64_t value = 0;
  return number - 3 < stat.size() && absl::SimpleAtoi(stat[number - 3], &value) ? value : 0;
}

int64_t BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    int64_t seconds = 0;
    if (word == "btime" && file >> seconds) {
      return seconds;
    }
  }
  return 0;
}

std::optional<double> ReadStartTime() {
  const std::vector<std::string> stat = ReadStat();
  if (stat.empty()) {
    return std::nullopt;
  }
  return static_cast<double>(BootTime()) + static_cast<double>(FieldOf(stat, kStartTimeField)) /
                                               static_cast<double>(sysconf(_SC_CLK_TCK));
}

// What stays open until the process ends.
struct ProcFiles {
  const int statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  Mutex mutex;
  DIR* const descriptors ABSL_PT_GUARDED_BY(mutex) = opendir("/proc/self/fd");
};

void ReadMemory(int statm, ProcessUsage& usage) {
  char text[256] = {};
  int64_t virtual_pages = 0;
  int64_t resident_pages = 0;
  if (pread(statm, text, sizeof(text) - 1, 0) <= 0) {
    return;
  }
  const std::vector<std::string> pages = absl::StrSplit(text, ' ');
  if (pages.size() > 1 && absl::SimpleAtoi(pages[0], &virtual_pages) &&
      absl::SimpleAtoi(pages[1], &resident_pages)) {
    usage.virtual_bytes = virtual_pages * sysconf(_SC_PAGESIZE);
    usage.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  }
}

std::optional<int64_t> CountOpenFiles(ProcFiles& files) {
  MutexLock lock(files.mutex);
  if (files.descriptors == nullptr) {
    return std::nullopt;
  }
  int64_t count = -2;  // "." and ".."
  rewinddir(files.descriptors);
  while (readdir(files.descriptors) != nullptr) {
    ++count;
  }
  return count;
}

}  // namespace

ProcessUsage ReadProcessUsage() {
  static ProcFiles& files = *new ProcFiles;
  static const std::optional<double> start_time_seconds = ReadStartTime();
  ProcessUsage usage = {.start_time_seconds = start_time_seconds};
  timespec cpu = {};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0) {
    usage.cpu_ns = int64_t{cpu.tv_sec} * 1'000'000'000 + cpu.tv_nsec;
  }
  ReadMemory(files.statm, usage);
  usage.open_files = CountOpenFiles(files);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    usage.max_open_files = static_cast<int64_t>(limit.rlim_cur);
  }
  return usage;
}

}  // namespace attention
