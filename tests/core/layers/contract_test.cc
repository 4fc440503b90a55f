// The contract of bits as a table: every kind of attention x every way to compute it gives the same
// bits. A failure reads "KIND x WAY".
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/layers/multi_head_attention.h"
#include "gtest/gtest.h"
#include "tests/core/layers/test_layer.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using Storage = KeyValueStorage;

/// More than a tile of 512 keys, and no multiple of a block of 64.
constexpr int64_t kLength = 540;
constexpr MultiHeadAttentionShape kContractShape{64, 64, 4, 2, 20, 24};
constexpr MultiHeadAttentionShape kWiderMemoryShape{64, 80, 4, 2, 20, 24};

struct Kind {
  std::string name;
  AttentionOptions options;
  Extras extras = {};
  /// Keys of a memory; 0: self-attention.
  int64_t memory_len = 0;
  bool has_wide_memory = false;
  int64_t length = kLength;

  int64_t kv_len() const { return memory_len == 0 ? length : memory_len; }
  /// Whether rows see no key of a later row, so that they may come in steps.
  bool takes_a_cache() const {
    return options.causal && options.window_right == 0 && options.prefix == 0 &&
           extras.global_tokens.empty() && options.similarity != Similarity::kLinear &&
           memory_len == 0;
  }
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

AttentionOptions Of(Similarity similarity, double bandwidth, bool causal) {
  return {.causal = causal, .similarity = similarity, .bandwidth = bandwidth};
}

const Kind kKinds[] = {
    {"Plain", {}},
    {"Causal", {.causal = true}},
    {"CausalOffset", {.causal = true, .query_offset = -70}},
    {"Window", {.causal = true, .window = 100}},
    {"WindowBothSides", {.window = 20, .window_right = 130}},
    {"WindowDilated", {.causal = true, .window = 100, .window_dilation = 3}},
    {"WindowDilatedWide",
     {.causal = true, .window = 500, .window_right = 20, .window_dilation = 64, .prefix = 9},
     {.global_tokens = {77, 300}}},
    {"Prefix", {.causal = true, .window = 90, .prefix = 70}},
    {"GlobalTokens", {.causal = true, .window = 16}, {.global_tokens = {0, 77, 512}}},
    {"Bias", {.causal = true}, {.bias = true}},
    {"Mask", {.causal = true}, {.mask = true}},
    {"MaskNotCausal", {}, {.mask = true}},
    {"Softcap", {.causal = true, .softcap = 5}},
    {"NegativeScale", {.causal = true, .scale = -0.3f}},
    {"Alibi", {.causal = true}, {.alibi = true}},
    {"Sinks", {.causal = true, .window = 200}, {.sinks = true}},
    {"Norms", {.causal = true}, {.query_norm = true, .key_norm = true}},
    {"Rotary", {.causal = true, .rotary = Rotary{}}},
    {"RotaryOfAPart", {.rotary = Rotary{.dim = 12, .interleaved = true}}},
    {"Everything",
     {.causal = true, .window = 300, .softcap = 30, .rotary = Rotary{.dim = 16}},
     {.shared_bias = true,
      .mask = true,
      .alibi = true,
      .sinks = true,
      .query_norm = true,
      .key_norm = true}},
    {"Gaussian", Of(Similarity::kGaussian, 20, true)},
    {"Box", Of(Similarity::kBox, 6, true)},
    {"Triangular", Of(Similarity::kTriangular, 8, false)},
    {"Linear", Of(Similarity::kLinear, 0, false)},
    {"LinearCausal", Of(Similarity::kLinear, 0, true)},
    {"LinearCausalNormsRotary",
     {.causal = true, .rotary = Rotary{}, .similarity = Similarity::kLinear},
     {.query_norm = true, .key_norm = true}},
    {"Memory", {}, {}, 700},
    {"MemoryCausalMask", {.causal = true}, {.mask = true}, 600},
    {"MemoryLinearCausal", Of(Similarity::kLinear, 0, true), {}, 600},
    {"WiderMemory", {.causal = true, .query_offset = 3}, {}, 130, true},
};

/// More than a key section of 2,048 keys and a page of a cache.
constexpr int64_t kLongLength = 2200;

const Kind kLongKinds[] = {
    {"Causal", {.causal = true}, {}, 0, false, kLongLength},
    {"Window", {.causal = true, .window = 2100}, {}, 0, false, kLongLength},
    {"Everything",
     {.causal = true, .softcap = 30, .rotary = Rotary{.dim = 16}},
     {.alibi = true, .sinks = true, .query_norm = true, .key_norm = true},
     0,
     false,
     kLongLength},
};

/// Of a slice whose stages hold 178 rows of a causal sequence: three pieces of 128, then 128 + 28.
constexpr double kStageRows = 178;
double StageFlops(const MultiHeadAttention& layer) {
  const double one_row = layer.Flops(1, kLength, 1) - layer.Flops(0, 0, 1);
  const double query = layer.Flops(1, 0, 1) - layer.Flops(0, 0, 1);
  return kStageRows * (one_row - query / 2);
}

struct Way {
  std::string name;
  int threads = 1;
  bool has_mates = false;
  int64_t block_rows = 0;            // of a streamed block; 0: not streamed
  double slice_rows = 0;             // of StageFlops, about; 0: not sliced
  bool is_interrupted = false;       // by another call on the same threads, when asked to go on
  bool follows_a_cancelled = false;  // call on the same workspace
  std::vector<int64_t> cuts = {};    // rows of each step of a cache; empty: no cache
};

const Way kWays[] = {
    {"TwoThreads", 2},
    {"FourThreads", 4},
    {"Batched", 2, true},
    {"Streamed", 2, false, 64},
    {"StreamedInWideBlocks", 4, true, 192},
    {"SlicedThin", 2, false, 0, 1},
    {"Sliced", 4, false, 0, kStageRows},
    {"SlicedStreamedBatched", 3, true, 128, kStageRows},
    {"Interrupted", 2, false, 0, 1, true},
    {"AfterACancelledOne", 4, true, 128, kStageRows, false, true},
};

const std::vector<int64_t> kOneCut = {kLength};
const std::vector<int64_t> kManyPieces = {1, 1, 62, 1, 64, 130, 281};

const Way kCachedWays[] = {
    {"CachedInPieces", 1, false, 0, 0, false, false, kManyPieces},
    {"CachedByBlocks", 2, false, 0, 0, false, false, {256, 1, 283}},
    {"CachedInPiecesBatched", 2, true, 0, 0, false, false, kManyPieces},
    {"CachedStreamed", 2, false, 64, 0, false, false, {3, 537}},
    {"CachedSliced", 4, false, 0, kStageRows, false, false, kOneCut},
    {"CachedSlicedStreamedBatched", 3, true, 128, kStageRows, false, false, {65, 475}},
    {"CachedInterrupted", 2, false, 0, 1, true, false, {130, 410}},
    {"CachedAfterACancelledOne", 2, true, 128, 1, false, true, {130, 410}},
};

/// The last steps of one row, few rows and many rows attend to keys of two sections.
const Way kLongWays[] = {
    {"CachedInPieces", 4, false, 0, 0, false, false, {1900, 147, 1, 3, 64, 84, 1}},
    {"CachedInPiecesBatched", 2, true, 0, 0, false, false, {2047, 1, 1, 150, 1}},
    {"CachedSlicedStreamedBatched", 3, true, 128, kStageRows, false, false, {2100, 100}},
};

struct ContractAnswer {
  std::vector<uint8_t> output;
  /// Empty with a cache.
  std::vector<uint8_t> weights, log_sum_exp;

  bool operator==(const ContractAnswer&) const = default;
};

/// One sequence of a kind, and its answers.
class Subject {
 public:
  Subject(const Kind& kind, WeightsDtype weights)
      : kind_(kind),
        layer_(kind.has_wide_memory ? kWiderMemoryShape : kContractShape, weights),
        problem_(7, Dtype::kF32,
                 {kind.length, kind.kv_len(), kContractShape.num_heads, kContractShape.num_kv_heads,
                  kContractShape.head_dim, kContractShape.value_head_dim},
                 kind.options),
        rows_(SeededTensor(1, dtype(), {kind.length, kContractShape.d_model})),
        memory_(SeededTensor(2, dtype(), {kind.memory_len, layer_.shape.d_memory})),
        mates_(SeededTensor(3, dtype(), {kMatesBefore + kMatesAfter, kContractShape.d_model})),
        mate_memory_(SeededTensor(4, dtype(), {kMateMemory, layer_.shape.d_memory})) {
    problem_.Add(kind.extras);
  }

  const MultiHeadAttention& layer() const { return *layer_.layer; }
  Dtype dtype() const { return layer().dtype(); }

  ContractAnswer Compute(const Way& way, Storage storage = Storage::kF32) const {
    ThreadPool pool(way.threads);
    Workspace workspace(pool);
    std::optional<KvCache> cache;
    if (!way.cuts.empty()) {
      cache = *KvCache::Create(*layer().CacheShape(storage));
    }
    ContractAnswer answer;
    for (const int64_t count : cache.has_value() ? way.cuts : std::vector{kind_.length}) {
      const Step step{cache.has_value() ? cache->length() : 0, count,
                      cache.has_value() ? &*cache : nullptr};
      if (way.follows_a_cancelled) {
        RunStep(way, step, workspace, /*is_cancelled=*/true);
        EXPECT_THAT(cache.has_value() ? cache->Truncate(step.first) : absl::OkStatus(), IsOk());
      }
      const ContractAnswer part = RunStep(way, step, workspace, /*is_cancelled=*/false);
      answer.output.insert(answer.output.end(), part.output.begin(), part.output.end());
      answer.weights = part.weights;
      answer.log_sum_exp = part.log_sum_exp;
    }
    return answer;
  }

 private:
  static constexpr int64_t kMatesBefore = 37;
  static constexpr int64_t kMatesAfter = 70;
  static constexpr int64_t kMateMemory = 50;

  struct Step {
    int64_t first = 0;
    int64_t count = 0;
    KvCache* cache = nullptr;
  };

  static Tensor Stack(const std::vector<MatrixView>& parts) {
    int64_t rows = 0;
    for (const MatrixView& part : parts) {
      rows += part.rows;
    }
    Tensor stacked(parts[0].dtype, {rows, parts[0].cols});
    auto* target = static_cast<std::byte*>(stacked.data());
    for (const MatrixView& part : parts) {
      const size_t bytes = part.rows * part.cols * SizeOf(part.dtype);
      if (bytes > 0) {
        std::memcpy(target, part.data, bytes);
      }
      target += bytes;
    }
    return stacked;
  }

  /// The options of rows [first, ..).
  AttentionOptions OptionsFrom(int64_t first) const {
    AttentionOptions options = problem_.options;
    if (options.query_offset.has_value()) {
      *options.query_offset += first;
    }
    const auto skip = [first](auto& view) {
      view.data = view.data == nullptr ? nullptr : view.Row(0, first);
    };
    skip(options.bias);
    skip(options.mask);
    return options;
  }

  ContractAnswer RunStep(const Way& way, const Step& step, Workspace& workspace,
                         bool is_cancelled) const {
    const int64_t before = way.has_mates ? kMatesBefore : 0;
    const int64_t after = way.has_mates ? kMatesAfter : 0;
    const Tensor input =
        Stack({SliceRows(View(mates_), 0, before), SliceRows(View(rows_), step.first, step.count),
               SliceRows(View(mates_), kMatesBefore, after)});
    const int64_t mate_memory = way.has_mates ? kMateMemory : 0;
    const Tensor memory = Stack({SliceRows(View(mate_memory_), 0, mate_memory), View(memory_)});
    Tensor output(dtype(), input.shape());
    const auto sequence = [&](int64_t first, int64_t rows, const AttentionOptions& options) {
      const int64_t width = kContractShape.d_model;
      return LayerSequence{
          .first_row = first,
          .query_len = rows,
          .output = {ElementAt(output.data(), dtype(), first * width), dtype(), rows, width, width},
          .options = options};
    };
    const bool is_whole = step.cache == nullptr;
    const int64_t scores = is_whole ? kContractShape.num_heads * kind_.length : 0;
    Tensor weights(Dtype::kF32, {scores, kind_.kv_len()});
    Tensor log_sum_exp(Dtype::kF32, {scores});
    LayerSequence subject = sequence(before, step.count, OptionsFrom(step.first));
    subject.cache = step.cache;
    subject.weights = is_whole ? weights.as<float>() : nullptr;
    subject.log_sum_exp = is_whole ? log_sum_exp.as<float>() : nullptr;
    subject.first_memory_row = mate_memory;
    subject.memory_len = kind_.memory_len;
    std::vector<LayerSequence> sequences = {subject};
    if (way.has_mates) {
      sequences.insert(sequences.begin(), sequence(0, before, {.causal = true}));
      sequences.front().memory_len = kind_.memory_len == 0 ? 0 : kMateMemory;
      sequences.push_back(sequence(before + step.count, after,
                                   {.causal = true, .similarity = Similarity::kLinear}));
      sequences.back().first_memory_row = mate_memory + kind_.memory_len;
    }
    LayerCall call{.hidden_states = View(input), .sequences = sequences};
    if (kind_.memory_len > 0) {
      call.memory = View(memory);
    }
    Run(way, call, workspace, is_cancelled);
    const auto* first = static_cast<const uint8_t*>(subject.output.data);
    return {{first, first + step.count * kContractShape.d_model * SizeOf(dtype())},
            Bytes(weights),
            Bytes(log_sum_exp)};
  }

  void Run(const Way& way, LayerCall& call, Workspace& workspace, bool is_cancelled) const {
    int asked = 0;
    const auto yield = [&] { return ++asked < 5 || !is_cancelled; };
    if (way.block_rows > 0) {
      call.on_rows = [&](const RowRange&) { return yield(); };
      call.block_rows = way.block_rows;
    }
    if (way.slice_rows > 0) {
      call.slice_flops = StageFlops(layer()) * way.slice_rows / kStageRows / way.threads;
      call.yield = [&] {
        if (way.is_interrupted && asked % 3 == 0) {
          RunAnother(workspace.pool());
        }
        return yield();
      };
    }
    EXPECT_THAT(layer().Run(call, workspace),
                StatusIs(is_cancelled ? absl::StatusCode::kCancelled : absl::StatusCode::kOk,
                         ::testing::_));
    if (way.slice_rows == 1 && call.hidden_states.rows > kStageRows) {
      EXPECT_GT(asked, 3) << "is it sliced?";
    }
  }

  void RunAnother(ThreadPool& pool) const {
    Workspace workspace(pool);
    Tensor output(dtype(), mates_.shape());
    const LayerSequence all{.query_len = mates_.shape()[0],
                            .memory_len = mate_memory_.shape()[0],
                            .output = {output.data(), dtype(), output.shape()[0],
                                       kContractShape.d_model, kContractShape.d_model},
                            .options = {.causal = true, .similarity = Similarity::kLinear}};
    LayerCall call{.hidden_states = View(mates_), .sequences = {&all, 1}};
    if (kind_.memory_len > 0) {
      call.memory = View(mate_memory_);
    }
    EXPECT_THAT(layer().Run(call, workspace), IsOk());
  }

  const Kind& kind_;
  TestLayer layer_;
  AttentionProblem problem_;
  Tensor rows_, memory_, mates_, mate_memory_;
};

class LayerContractTest : public ::testing::TestWithParam<std::tuple<WeightsDtype, Kind>> {
 protected:
  const Kind& kind() const { return std::get<1>(GetParam()); }
  Subject subject_{std::get<1>(GetParam()), std::get<0>(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(All, LayerContractTest,
                         ::testing::Combine(::testing::Values(WeightsDtype::kF32,
                                                              WeightsDtype::kBf16),
                                            ::testing::ValuesIn(kKinds)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(LayerContractTest, EveryWayGivesTheSameBits) {
  const ContractAnswer expected = subject_.Compute({"Alone"});
  for (const Way& way : kWays) {
    const ContractAnswer actual = subject_.Compute(way);
    EXPECT_TRUE(actual.output == expected.output) << kind().name << " x " << way.name;
    EXPECT_TRUE(actual.weights == expected.weights) << kind().name << " x " << way.name;
    EXPECT_TRUE(actual.log_sum_exp == expected.log_sum_exp) << kind().name << " x " << way.name;
  }
}

TEST_P(LayerContractTest, EveryWayToFillACacheGivesTheSameBits) {
  if (!kind().takes_a_cache()) {
    return;
  }
  const std::pair<const char*, Storage> storages[] = {
      {"F32", Storage::kF32}, {"Bf16", Storage::kBf16}, {"Int8", Storage::kInt8}};
  for (const auto& [name, storage] : storages) {
    const ContractAnswer expected =
        storage == Storage::kF32 && subject_.layer().compute() == Dtype::kF32
            ? subject_.Compute({"Alone"})
            : subject_.Compute({"Alone", 1, false, 0, 0, false, false, kOneCut}, storage);
    for (const Way& way : kCachedWays) {
      EXPECT_TRUE(subject_.Compute(way, storage).output == expected.output)
          << kind().name << " x " << way.name << name;
    }
  }
}

class LongCacheContractTest : public LayerContractTest {};

INSTANTIATE_TEST_SUITE_P(All, LongCacheContractTest,
                         ::testing::Combine(::testing::Values(WeightsDtype::kF32,
                                                              WeightsDtype::kBf16),
                                            ::testing::ValuesIn(kLongKinds)),
                         [](const auto& p) {
                           return std::string(Name(std::get<0>(p.param))) + "_" +
                                  std::get<1>(p.param).name;
                         });

TEST_P(LongCacheContractTest, EveryWayToFillACacheGivesTheSameBits) {
  for (const Storage storage : {Storage::kF32, Storage::kBf16, Storage::kInt8}) {
    const ContractAnswer expected =
        subject_.Compute({"AtOnce", 1, false, 0, 0, false, false, {kLongLength}}, storage);
    for (const Way& way : kLongWays) {
      EXPECT_TRUE(subject_.Compute(way, storage).output == expected.output)
          << kind().name << " x " << way.name << ", storage " << static_cast<int>(storage);
    }
  }
}

// Lengths whose last slice has room for two pieces, which must not be computed side by side: long
// ones, so that threads would meet.
TEST(LongLinearContractTest, SlicesOfACausalSequenceFollowEachOther) {
  const TestLayer layer({64, 64, 4, 1, 64, 64}, Dtype::kF32);
  ThreadPool pool(2);
  Workspace workspace(pool);
  for (int64_t length = 2316; length <= 2354; length += 2) {
    Batch whole(layer, Dtype::kF32, {length}, /*causal=*/true);
    Batch sliced(layer, Dtype::kF32, {length}, /*causal=*/true);
    whole.sequences[0].options.similarity = Similarity::kLinear;
    sliced.sequences[0].options.similarity = Similarity::kLinear;
    ASSERT_THAT(whole.Run(workspace, {}), IsOk());
    ASSERT_THAT(sliced.Run(workspace, {.yield = [] { return true; }}), IsOk());
    ASSERT_TRUE(Bytes(sliced.output) == Bytes(whole.output)) << length << " rows";
  }
}

}  // namespace
}  // namespace attention
