// attend-sharded-bench: the time of a token of a ShardedSession, against one server that holds all
// keys. sharded_session.py starts the servers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/lib/decode_stream.h"
#include "client/lib/sharded_session.h"
#include "core/runtime/status_macros.h"
#include "core/tensor/seeded.h"
#include "tests/bench/median.h"

namespace attention::bench {
namespace {

using std::chrono::steady_clock;

constexpr int64_t kHeads = 8, kKeyHeads = 2, kHeadDim = 64;
constexpr int64_t kRowsOfAppend = 16384;
constexpr absl::Duration kTimeout = absl::Minutes(5);

struct ShardedFlags {
  std::string one;
  std::vector<std::string> shards;
  int64_t tokens = 256 * 1024;
  int64_t page_tokens = kShardPageTokens;
  int steps = 20;
};

/// Query, key and value of new tokens; the query may have no rows.
struct Rows {
  Tensor query, key, value;
};

Rows MakeRows(uint64_t seed, int64_t num_queries, int64_t num_keys) {
  return {SeededTensor(seed, Dtype::kF32, {num_queries, kHeads, kHeadDim}),
          SeededTensor(seed + 1, Dtype::kF32, {num_keys, kKeyHeads, kHeadDim}),
          SeededTensor(seed + 2, Dtype::kF32, {num_keys, kKeyHeads, kHeadDim})};
}

v1::AttentionHeads Heads() {
  v1::AttentionHeads heads;
  heads.set_num_heads(kHeads);
  heads.set_num_kv_heads(kKeyHeads);
  heads.set_head_dim(kHeadDim);
  return heads;
}

absl::StatusOr<std::unique_ptr<DecodeStream>> OpenOne(const ShardedFlags& flags) {
  v1::OpenSession open;
  *open.mutable_heads() = Heads();
  open.mutable_options()->set_return_log_sum_exp(true);
  open.mutable_options()->set_causal(true);
  open.set_cache_dtype(v1::FP32);
  return DecodeStream::Open({.connection = {.server = flags.one}, .timeout = kTimeout}, open);
}

absl::StatusOr<std::unique_ptr<ShardedSession>> OpenSharded(const ShardedFlags& flags) {
  ShardedSessionOptions options;
  const int64_t pages = (flags.tokens + flags.page_tokens - 1) / flags.page_tokens;
  const auto num_shards = std::ssize(flags.shards);
  const int64_t share = (pages + num_shards - 1) / num_shards * flags.page_tokens;
  for (const std::string& server : flags.shards) {
    options.shards.push_back({{.server = server}, share});
  }
  options.shards.back().max_tokens = 0;
  options.heads = Heads();
  options.options.set_causal(true);
  options.page_tokens = flags.page_tokens;
  options.timeout = kTimeout;
  return ShardedSession::Open(options);
}

absl::StatusOr<StepResult> StepOne(DecodeStream& one, const Rows& rows) {
  QueryKeyValueInput input = {.query = &rows.query, .key = &rows.key, .value = &rows.value};
  if (rows.query.shape()[0] == 0) {
    input.query_offsets = {0};
  }
  return one.Step({.input = std::move(input)});
}

/// Returns |found - expected| / |expected|, of all elements.
double RelativeError(const Tensor& found, const Tensor& expected) {
  double difference = 0, length = 0;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double e = expected.as<float>()[i];
    difference += std::pow(found.as<float>()[i] - e, 2);
    length += e * e;
  }
  return std::sqrt(difference / length);
}

void PrintTimes(const char* name, std::vector<double> ms) {
  const auto [least, most] = std::minmax_element(ms.begin(), ms.end());
  std::printf("%s: %.2f ms a token (%.2f to %.2f)\n", name, MedianOf(ms), *least, *most);
}

absl::Status RunSharded(const ShardedFlags& flags) {
  ASSIGN_OR_RETURN(const std::unique_ptr<DecodeStream> one, OpenOne(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardedSession> sharded, OpenSharded(flags));
  for (int64_t first = 0; first < flags.tokens; first += kRowsOfAppend) {
    const Rows rows = MakeRows(first, 0, std::min(kRowsOfAppend, flags.tokens - first));
    RETURN_IF_ERROR(StepOne(*one, rows).status());
    RETURN_IF_ERROR(sharded->Append(rows.key, rows.value));
  }
  std::vector<double> one_ms, sharded_ms;
  double error = 0;
  for (int step = 0; step < flags.steps; ++step) {
    const Rows rows = MakeRows(1'000'000'000 + 3 * step, 1, 1);
    const auto begin = steady_clock::now();
    ASSIGN_OR_RETURN(const StepResult whole, StepOne(*one, rows));
    const auto middle = steady_clock::now();
    ASSIGN_OR_RETURN(const AttendResult merged, sharded->Step(rows.query, rows.key, rows.value));
    const auto end = steady_clock::now();
    using Ms = std::chrono::duration<double, std::milli>;
    one_ms.push_back(Ms(middle - begin).count());
    sharded_ms.push_back(Ms(end - middle).count());
    error = std::max(error, RelativeError(merged.output, whole.answer.output));
  }
  PrintTimes("one", one_ms);
  PrintTimes("sharded", sharded_ms);
  std::printf("largest relative error: %.2g\n", error);
  return absl::OkStatus();
}

}  // namespace
}  // namespace attention::bench

int main(int argc, char** argv) {
  attention::bench::ShardedFlags flags;
  CLI::App app(
      "Times a token of a session over several servers, and of one server that holds all.");
  app.add_option("--one", flags.one, "Address of the server that holds all keys")->required();
  app.add_option("--shards", flags.shards, "Addresses of the servers that share them, by commas")
      ->required()
      ->delimiter(',');
  app.add_option("--tokens", flags.tokens, "Tokens of the sequence")->check(CLI::PositiveNumber);
  app.add_option("--page-tokens", flags.page_tokens, "Tokens of a page, a multiple of 2048")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", flags.steps, "Single tokens that are timed")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = attention::bench::RunSharded(flags); !status.ok()) {
    std::fprintf(stderr, "attend-sharded-bench: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
