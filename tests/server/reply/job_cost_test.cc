// Whatever takes time counts as work.
#include "server/services/reply/job_cost.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "proto/codec/envelope.h"
#include "server/services/plan/plan_request.h"
#include "server/services/reply/attend_job.h"
#include "tests/server/wire_options.h"
#include "tests/server/wire_tensors.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

/// Attention without a model.
struct BareShape {
  int64_t rows = 1;
  int64_t keys = 1;
  int64_t heads = 8;
  int64_t width = 64;
  int64_t value_width = 64;
  std::string options = {};
};

Received<v1::AttendRequest> RequestOf(const BareShape& s) {
  const Tensor query(Dtype::kF32, {s.rows, s.heads, s.width});
  const Tensor key(Dtype::kF32, {s.keys, s.heads, s.width});
  const Tensor value(Dtype::kF32, {s.keys, s.heads, s.value_width});
  v1::AttendRequest request = QkvRequest(query, key, value);
  *request.mutable_options() = Options(s.options);
  const grpc::Slice bytes(request.SerializeAsString());
  absl::StatusOr<Received<v1::AttendRequest>> received =
      Decode<v1::AttendRequest>(grpc::ByteBuffer(&bytes, 1));
  EXPECT_THAT(received.status(), IsOk());
  return *std::move(received);
}

JobDescription DescriptionOf(absl::StatusOr<AttendPlan> plan) {
  EXPECT_THAT(plan.status(), IsOk());
  return AttendJob(*std::move(plan), {}, nullptr).description();
}

JobDescription Describe(const BareShape& shape) {
  return DescriptionOf(PlanAttendOn(nullptr, RequestOf(shape), {.max_bytes = int64_t{1} << 30}));
}

double Flops(const BareShape& shape) { return Describe(shape).flops; }

/// Of a step that adds keys to a session, with or without rows that ask.
double StepFlops(BareShape shape, int64_t cached_len) {
  std::vector<KvCache> caches;
  Received<v1::AttendRequest> request = RequestOf(shape);
  request.message.mutable_query_key_value()->add_query_offsets(0);
  return DescriptionOf(PlanStep(request, {.caches = &caches, .cached_len = cached_len},
                                {.max_bytes = int64_t{1} << 30}))
      .flops;
}

TEST(JobCostTest, LongAttentionCostsAboutItsProducts) {
  const double products = 2.0 * 8 * (64 + 64) * 2048 * 2048;
  EXPECT_GE(Flops({.rows = 2048, .keys = 2048}), products);
  EXPECT_LE(Flops({.rows = 2048, .keys = 2048}), 1.05 * products);
}

TEST(JobCostTest, NarrowHeadsCostWhatTheirPaddedWidthsDo) {
  EXPECT_EQ(Flops({.heads = 100, .width = 1, .value_width = 1}),
            Flops({.heads = 100, .width = 16, .value_width = 16}));
}

TEST(JobCostTest, OneKeyCostsWhatABlockOfThemDoes) {
  EXPECT_GE(Flops({.keys = 1}), 0.9 * Flops({.keys = 32}));
  EXPECT_GT(Flops({.keys = 0}), 0);
}

TEST(JobCostTest, KeysWithoutRowsCostTheirBytes) {
  const double some = StepFlops({.rows = 0, .keys = 1024}, 0);
  EXPECT_GE(some, 1024 * 8 * 2 * 64) << "an operation for each of their numbers";
  EXPECT_EQ(StepFlops({.rows = 0, .keys = 4096}, 0), 4 * some);
  EXPECT_EQ(StepFlops({.rows = 0, .keys = 1024}, 64'000), some) << "which is not read";
}

TEST(JobCostTest, AKeyThatBeginsABlockCostsItsClearing) {
  const double numbers = 64.0 * 8'192 * (16 + 16);
  const auto flops = [](int64_t cached_len) {
    return StepFlops({.rows = 0, .heads = 8'192, .width = 1, .value_width = 1}, cached_len);
  };
  EXPECT_GE(flops(0), 10 * numbers) << "a cleared block is several operations for each number";
  EXPECT_LE(flops(1), 0.1 * flops(0));
  EXPECT_EQ(flops(63), flops(1));
  EXPECT_EQ(flops(64), flops(0));
}

TEST(JobCostTest, AWindowCostsTheKeysWithinIt) {
  const auto flops = [](int64_t rows, const char* options) {
    return Flops({.rows = rows, .keys = rows, .heads = 1, .options = options});
  };
  const double all = flops(16'384, "causal: true");
  EXPECT_LE(flops(16'384, "causal: true window: 64"), 0.05 * all);
  EXPECT_LE(flops(16'384, "window: 64 window_right: 64"), 0.05 * all);
  EXPECT_GE(flops(16'384, "causal: true window: 4096"), 0.4 * all);
  EXPECT_EQ(flops(16'384, "causal: true window: 99999"), all);
  EXPECT_EQ(flops(16'384, "window: 64"), flops(16'384, "")) << "later keys are visible";
  EXPECT_EQ(flops(16'384, "causal: true window: 64 global_tokens: 0"), all);
  EXPECT_EQ(flops(16'384, "causal: true window: 64 sequences { window: 0 }"), all);
}

TEST(JobCostTest, WeightsCostASecondPassAndTheirChoice) {
  const auto flops = [](const char* options) {
    return Flops({.rows = 2048, .keys = 2048, .heads = 1, .options = options});
  };
  const double plain = flops("");
  EXPECT_GE(flops("return_weights: true"), 2 * plain);
  EXPECT_GE(flops("weights_top_k: 1"), 1.9 * plain);
  EXPECT_GE(flops("weights_top_k: 100"), 4 * plain);
  EXPECT_GE(flops("weights_top_k: 2048"), 25 * plain);
  EXPECT_LE(flops("weights_top_k: 2048"), 50 * plain);
  EXPECT_EQ(flops("weights_top_k: 99999"), flops("weights_top_k: 2048"));
}

TEST(JobCostTest, SumsOfLinearAttentionCost) {
  EXPECT_GE(Flops({.keys = 0, .width = 512, .value_width = 512, .options = "similarity: LINEAR"}),
            8 * 512 * 512);
}

// A narrow head of many keys is packed as a whole, sixteen times as wide.
TEST(JobCostTest, ALargePackedHeadCountsInMemory) {
  constexpr int64_t kManyKeys = 1 << 20;
  EXPECT_GE(Describe({.keys = kManyKeys, .heads = 1, .width = 1, .value_width = 1}).size_bytes,
            kManyKeys * 2 * 16 * 4 - (16 << 20));
  EXPECT_LE(Describe({.keys = kManyKeys / 64, .heads = 1}).size_bytes, 10'000)
      << "which is as wide";
}

}  // namespace
}  // namespace attention
