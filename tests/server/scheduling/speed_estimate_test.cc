#include "server/scheduling/speed_estimate.h"

#include "gtest/gtest.h"

namespace attention {
namespace {

constexpr double kFlopsPerNs = 100;
const BatchKey kKey = {.num_heads = 2, .head_dim = 16};

// With the first batches, which do not count, behind it.
class Begun : public SpeedEstimate {
 public:
  Begun() : SpeedEstimate(2, kFlopsPerNs) {
    Observe(kKey, 1e6, 1'000'000'000);
    Observe(kKey, 1e6, 1'000'000'000);
  }
};

TEST(SpeedEstimateTest, KnowsNothingOfWhatNeverRan) {
  const WorkEstimate work = SpeedEstimate(2, kFlopsPerNs).Estimate(kKey, 1e6);
  EXPECT_EQ(work.alone_ns, 0);
  EXPECT_EQ(work.added_ns, 5000);
}

TEST(SpeedEstimateTest, GuessesByWhatTheProcessorCanDo) {
  EXPECT_NEAR(FastFlopsPerNs({.isa = Isa::kSse41, .vector_bits = 128}), 51, 1);
  EXPECT_NEAR(FastFlopsPerNs({.isa = Isa::kAvx2, .vector_bits = 256}), 102, 1);
  EXPECT_NEAR(FastFlopsPerNs({.isa = Isa::kAvx512, .vector_bits = 512}), 205, 1);
  EXPECT_NEAR(
      FastFlopsPerNs({.isa = Isa::kAvx512Bf16, .vector_bits = 512, .bf16 = Products::kMatrixUnit}),
      3277, 1);
}

TEST(SpeedEstimateTest, DoesNotCountTheFirstBatches) {
  EXPECT_EQ(Begun().Estimate(kKey, 1e6).alone_ns, 0);
}

TEST(SpeedEstimateTest, TellsTheBeginOfABatchFromItsWork) {
  Begun speed;
  for (int i = 1; i <= 20; ++i) {
    speed.Observe(kKey, i * 1e6, 7000 + i * 20'000);
  }
  const WorkEstimate work = speed.Estimate(kKey, 5e6);
  EXPECT_NEAR(static_cast<double>(work.added_ns), 100'000, 10);
  EXPECT_NEAR(static_cast<double>(work.alone_ns), 107'000, 10);
}

TEST(SpeedEstimateTest, LearnsFromBatchesOfOneSize) {
  Begun speed;
  speed.Observe(kKey, 1e9, 30'000'000);
  speed.Observe(kKey, 1e9, 30'000'000);
  EXPECT_NEAR(static_cast<double>(speed.Estimate(kKey, 2e9).alone_ns), 60'000'000, 10);
}

TEST(SpeedEstimateTest, DoesNotTakeTheBeginOfSmallBatchesForWork) {
  Begun speed;
  speed.Observe(kKey, 2e6, 80'000);
  speed.Observe(kKey, 2e6, 80'000);
  const WorkEstimate prompt = speed.Estimate(kKey, 3e8);
  EXPECT_NEAR(static_cast<double>(prompt.added_ns), 1'500'000, 10);
  EXPECT_NEAR(static_cast<double>(prompt.alone_ns), 1'570'000, 10);
}

// Steps of a large model wait for its weights, however many operations they have: a line through
// them would expect 10 s for a prompt of 0.5 s.
TEST(SpeedEstimateTest, StepsDoNotMakePromptsLong) {
  Begun speed;
  for (int i = 0; i < 200; ++i) {
    const double flops = 4e9 * (1 + 0.1 * (i % 5));
    speed.Observe(kKey, flops, 20'000'000 + (i % 3 == 0 ? 500'000 : 0));
  }
  const double prompt = 2e12;
  const double guess = prompt / kFlopsPerNs / 2;
  EXPECT_NEAR(static_cast<double>(speed.Estimate(kKey, 4e9).alone_ns), 20'000'000, 5'000'000);
  EXPECT_LT(static_cast<double>(speed.Estimate(kKey, prompt).alone_ns), guess + 50'000'000);
  EXPECT_GT(static_cast<double>(speed.Estimate(kKey, prompt).alone_ns), guess / 2);
}

TEST(SpeedEstimateTest, LargeBatchesAreRememberedBesideSmallOnes) {
  Begun speed;
  for (int i = 0; i < 40; ++i) {
    const double flops = i % 8 == 0 ? 1e11 : 1e9;
    speed.Observe(kKey, flops, static_cast<int64_t>(1'000'000 + flops * 0.02));
  }
  EXPECT_NEAR(static_cast<double>(speed.Estimate(kKey, 1e11).alone_ns), 2'001'000'000, 100'000'000);
}

TEST(SpeedEstimateTest, ABatchWithoutOperationsTeachesNothing) {
  Begun speed;
  speed.Observe(kKey, 1e9, 30'000'000);
  for (int i = 0; i < 20; ++i) {
    speed.Observe(kKey, 0, 200'000'000);
  }
  EXPECT_NEAR(static_cast<double>(speed.Estimate(kKey, 1e9).alone_ns), 30'000'000, 10);
}

TEST(SpeedEstimateTest, KeepsKindsApart) {
  Begun speed;
  speed.Observe(kKey, 1e6, 30'000);
  EXPECT_EQ(speed.Estimate({.num_heads = 4, .head_dim = 16}, 1e6).alone_ns, 0);
}

TEST(SpeedEstimateTest, FollowsAMachineThatBecomesSlower) {
  Begun speed;
  for (int i = 0; i < 300; ++i) {
    speed.Observe(kKey, 1e6, i < 250 ? 10'000 : 40'000);
  }
  EXPECT_GT(speed.Estimate(kKey, 1e6).alone_ns, 38'000);
}

TEST(SpeedEstimateTest, AHiccupIsOutweighedByAFewBatchesThatRun) {
  Begun speed;
  speed.Observe(kKey, 1e6, 5'000'000'000);
  for (int i = 0; i < 10; ++i) {
    speed.Observe(kKey, 1e6, 10'000);
  }
  EXPECT_LT(speed.Estimate(kKey, 1e6).alone_ns, 10'000'000);
}

TEST(SpeedEstimateTest, ShapesThatCallersChooseForgetNoModel) {
  SpeedEstimate speed(2, kFlopsPerNs);
  const BatchKey model = {.model = reinterpret_cast<const Model*>(0x1000)};
  const auto observe = [&speed](const BatchKey& key) {
    for (int i = 0; i < 3; ++i) {
      speed.Observe(key, 1e6, 30'000);
    }
  };
  observe(model);
  for (int64_t width = 1; width <= 10'000; ++width) {
    observe({.num_heads = 1, .head_dim = width});
  }
  EXPECT_GT(speed.Estimate(model, 1e6).alone_ns, 0);
}

TEST(SpeedEstimateTest, AModelThatTakesTheMemoryOfAnotherIsAnother) {
  SpeedEstimate speed(2, kFlopsPerNs);
  const auto* const address = reinterpret_cast<const Model*>(0x1000);
  for (int i = 0; i < 3; ++i) {
    speed.Observe({.model = address, .model_number = 1}, 1e6, 30'000);
  }
  EXPECT_GT(speed.Estimate({.model = address, .model_number = 1}, 1e6).alone_ns, 0);
  EXPECT_EQ(speed.Estimate({.model = address, .model_number = 2}, 1e6).alone_ns, 0);
}

TEST(SpeedEstimateTest, ForgetsTheLeastUsedAndNeverAll) {
  SpeedEstimate speed(2, kFlopsPerNs);
  const auto kind = [](int64_t width) { return BatchKey{.num_heads = 1, .head_dim = width}; };
  const auto observe = [&](int64_t width) {
    for (int i = 0; i < 3; ++i) {
      speed.Observe(kind(width), 1e6, 30'000);
    }
  };
  observe(1);
  observe(2);
  for (size_t width = 3; width <= SpeedEstimate::kMaxKinds; ++width) {
    observe(static_cast<int64_t>(width));
  }
  observe(1);
  observe(SpeedEstimate::kMaxKinds + 1);
  EXPECT_GT(speed.Estimate(kind(1), 1e6).alone_ns, 0);
  EXPECT_EQ(speed.Estimate(kind(2), 1e6).alone_ns, 0) << "it ran least recently";
  EXPECT_GT(speed.Estimate(kind(3), 1e6).alone_ns, 0);
  EXPECT_GT(speed.Estimate(kind(SpeedEstimate::kMaxKinds), 1e6).alone_ns, 0);
}

TEST(SpeedEstimateTest, NothingTakesLessAloneThanItAdds) {
  Begun speed;
  speed.Observe(kKey, 1e9, 10'000'000);
  speed.Observe(kKey, 2e9, 40'000'000);  // a line that would begin below zero
  const WorkEstimate work = speed.Estimate(kKey, 5e8);
  EXPECT_GE(work.alone_ns, work.added_ns);
}

TEST(SpeedEstimateTest, AMachineFasterThanTheGuessIsBelieved) {
  Begun speed;
  for (int i = 0; i < 3; ++i) {
    speed.Observe(kKey, 1e9, 1'000'000);
  }
  EXPECT_NEAR(static_cast<double>(speed.Estimate(kKey, 1e11).alone_ns), 1e8, 1e5);
}

TEST(SpeedEstimateTest, ALargeBatchOfLongAgoIsForgotten) {
  Begun speed;
  speed.Observe(kKey, 1e11, 2'000'000'000);
  for (int i = 0; i < 200; ++i) {
    speed.Observe(kKey, 1e9, 20'000'000);
  }
  EXPECT_LT(static_cast<double>(speed.Estimate(kKey, 1e11).alone_ns), 1e9);
}

}  // namespace
}  // namespace attention
