#include "server/observability/trace_context.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"

namespace attention {
namespace {

// The length of: version "-" trace-id "-" parent-id "-" flags
constexpr size_t kLength = 2 + 1 + 32 + 1 + 16 + 1 + 2;

constexpr size_t kMaxStateLength = 512;

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

std::mt19937_64 SeededGenerator() {
  std::random_device device;
  std::seed_seq seeds = {device(), device(), device(), device()};
  return std::mt19937_64(seeds);
}

uint64_t RandomNumber() {
  thread_local std::mt19937_64 generator = SeededGenerator();
  return generator();
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace_id = text.substr(3, 32);
  const std::string_view parent_id = text.substr(36, 16);
  const std::string_view flags = text.substr(53, 2);
  const bool is_longer = text.size() > kLength;
  if (!IsHex(version) || !IsHex(trace_id) || !IsHex(parent_id) || !IsHex(flags) ||
      version == "ff" || IsZero(trace_id) || IsZero(parent_id) ||
      (is_longer && (version == "00" || text[kLength] != '-'))) {
    return std::nullopt;
  }
  const char last = flags[1];
  const int digit = last <= '9' ? last - '0' : last - 'a' + 10;
  return TraceContext{.trace_id = std::string(trace_id),
                      .parent_id = std::string(parent_id),
                      .span_id = "",
                      .is_sampled = digit % 2 == 1};
}

std::string ParseTracestate(std::string_view text) {
  const bool is_printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return is_printable && text.size() <= kMaxStateLength ? std::string(text) : "";
}

std::string MakeTraceId() {
  return absl::StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16),
                      absl::Hex(RandomNumber() | 1, absl::kZeroPad16));
}

std::string MakeSpanId() { return absl::StrCat(absl::Hex(RandomNumber() | 1, absl::kZeroPad16)); }

}  // namespace attention
