#include "client/cli/flags/bench_flags.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/client/cli/parse_flags.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class BenchFlagsTest : public ::testing::Test {
 protected:
  BenchFlagsTest() { AddBenchFlags(app_, flags_); }

  std::string Parse(std::vector<std::string> arguments) {
    return ParseFlags(app_, std::move(arguments));
  }

  absl::StatusOr<RequestMix> Make(std::vector<std::string> arguments) {
    EXPECT_EQ(Parse(std::move(arguments)), "");
    EXPECT_THAT(CheckBenchFlags(flags_), IsOk());
    const auto client = AttentionClient::Connect({});  // connects with the first call only
    return MakeRequestMix(flags_, *PlanOf(flags_), **client);
  }

  CLI::App app_;
  BenchFlags flags_;
};

TEST_F(BenchFlagsTest, ConnectionTimeoutAndSamplesGoWithThePlan) {
  ASSERT_EQ(Parse({"--server=a:1", "-t", "1s", "--verify-sample=9", "--seed=7", "-m", "k=v"}), "");
  const auto plan = PlanOf(flags_);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->options.connection.server, "a:1");
  EXPECT_THAT(plan->options.connection.metadata, ElementsAre(Pair("k", "v")));
  EXPECT_EQ(plan->options.timeout, absl::Seconds(1));
  EXPECT_EQ(plan->options.num_samples, 9);
  EXPECT_EQ(plan->options.seed, 7u);
}

TEST_F(BenchFlagsTest, TagsAreKept) {
  ASSERT_EQ(Parse({"--tag=commit=abc=d", "--tag", "host=h"}), "");
  EXPECT_THAT(flags_.tags, ElementsAre(Pair("commit", "abc=d"), Pair("host", "h")));
  EXPECT_THAT(Parse({"--tag=x"}), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(Parse({"--tag=run=1", "--tag=run=2"}),
              HasSubstr("--tag: expected each key once, found \"run\" twice"));
}

TEST_F(BenchFlagsTest, OutputsHaveNames) {
  for (const char* const flag : {"--json", "--csv", "--html", "--records"}) {
    EXPECT_THAT(Parse({flag, ""}), HasSubstr("expected a file, found \"\"")) << flag;
  }
}

TEST_F(BenchFlagsTest, RefusesWhatDoesNotGoTogether) {
  EXPECT_THAT(Parse({"--lengths=uniform:9..8"}), HasSubstr("found 9 to 8"));
  EXPECT_THAT(Parse({"--lengths=3,b"}), HasSubstr("found \"b\""));
  flags_ = BenchFlags();
  ASSERT_EQ(Parse({"--tokens=1,2", "--lengths=uniform:8..9"}), "");
  EXPECT_THAT(CheckBenchFlags(flags_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs --shape")));
  flags_ = BenchFlags();
  ASSERT_EQ(Parse({"--tokens=1,2", "--lengths=2"}), "");
  EXPECT_THAT(CheckBenchFlags(flags_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("set lengths themselves")));
}

TEST_F(BenchFlagsTest, LengthsAreOfSequencesOrAMix) {
  const auto sequences = Make({"--shape=2x5x8", "--lengths=3,5", "--model=m"});
  ASSERT_THAT(sequences, IsOk());
  EXPECT_EQ(sequences->num_kinds(), 1u);
  EXPECT_THAT(std::get<HiddenStatesInput>(sequences->request().input).lengths, ElementsAre(3, 5));
  flags_ = BenchFlags();
  const auto mix = Make({"--shape=2x5x8", "--lengths=zipf:1.5:3..6", "--model=m", "--dtype=bf16"});
  ASSERT_THAT(mix, IsOk());
  EXPECT_EQ(mix->num_kinds(), 4u);
  EXPECT_EQ(mix->lengths_text(), "zipf:1.5:3..6");
  const Tensor& longest = *std::get<HiddenStatesInput>(mix->request().input).tensor;
  EXPECT_THAT(longest.shape(), ElementsAre(2, 6, 8));
  EXPECT_EQ(longest.dtype(), Dtype::kBf16);
}

TEST_F(BenchFlagsTest, TheProtocolIsChosen) {
  ASSERT_EQ(Parse({"--shape=1x5x8"}), "");
  EXPECT_EQ(ProtocolOf(flags_)->name(), "native");
  ASSERT_EQ(Parse({"--shape=1x5x8", "--protocol=oip"}), "");
  EXPECT_EQ(ProtocolOf(flags_)->name(), "oip");
  ASSERT_EQ(Parse({"--shape=1x5x8", "--protocol=oip", "--stream"}), "");
  EXPECT_THAT(CheckBenchFlags(flags_),
              StatusIs(absl::StatusCode::kInvalidArgument, "--stream needs --protocol native"));
  EXPECT_THAT(Parse({"--protocol=rest"}), HasSubstr("rest"));
}

TEST_F(BenchFlagsTest, ADecodePlanHasTheWidthsOfWhatWouldBeSent) {
  ASSERT_EQ(Parse({"--decode", "--prefill=16", "--steps=4", "--step-tokens=2", "--cache-dtype=int8",
                   "--shape=1x1x8", "--model=m", "-c", "7"}),
            "");
  ASSERT_THAT(CheckBenchFlags(flags_), IsOk());
  const auto client = AttentionClient::Connect({});
  const auto plan = MakeDecodePlan(flags_, *PlanOf(flags_), **client);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->open().model(), "m");
  EXPECT_EQ(plan->open().cache_dtype(), v1::INT8);
  EXPECT_EQ(plan->options().steps, 4);
  EXPECT_EQ(plan->Describe(),
            "4 steps of 2 after prompts of 16, each of hidden states [2, 8] FP32, cached in INT8");
  EXPECT_EQ(PlanOf(flags_)->options.concurrency, 7);
}

TEST_F(BenchFlagsTest, WhatDoesNotGoWithDecoding) {
  EXPECT_THAT(Parse({"--decode", "--rate=5"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--decode", "--ramp=1:5"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--decode", "--stream"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--decode", "--lengths=fixed:3"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--decode", "--protocol=oip"}), HasSubstr("excludes"));
  EXPECT_THAT(Parse({"--prefill=5"}), HasSubstr("requires --decode"));
  EXPECT_THAT(Parse({"--cache-dtype=bf16"}), HasSubstr("requires --decode"));
}

TEST_F(BenchFlagsTest, AMixNeedsAShapeThatHasALength) {
  EXPECT_THAT(Make({"--shape=8", "--lengths=fixed:3", "--model=m"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BxSxE")));
  flags_ = BenchFlags();
  EXPECT_THAT(Make({"--shape=5x8", "--lengths=fixed:3", "--model=m"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[B, S, d_model]")));
}

TEST_F(BenchFlagsTest, AScheduleBringsItsLengths) {
  const TempFolder folder;
  const std::string path = folder.path() + "/schedule";
  std::ofstream(path) << "0 3\n10 7\n20 3\n";
  const auto mix = Make({"--shape=1x1x8", "--model=m", "--schedule", path});
  ASSERT_THAT(mix, IsOk());
  EXPECT_THAT(mix->weights(), ElementsAre(2.0, 1.0));
  EXPECT_THAT(std::get<HiddenStatesInput>(mix->request().input).tensor->shape(),
              ElementsAre(1, 7, 8));
}

}  // namespace
}  // namespace attention
