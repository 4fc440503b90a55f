#include "client/cli/flags/attention_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "client/cli/files/npy.h"
#include "client/cli/flags/request_flags.h"
#include "gmock/gmock.h"
#include "tests/client/cli/parse_flags.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AttentionFlagsTest : public ::testing::Test {
 protected:
  AttentionFlagsTest() { AddRequestFlags(app_, flags_); }

  std::string Parse(std::vector<std::string> arguments) {
    return ParseFlags(app_, std::move(arguments));
  }

  /// A request of 2 sequences with 4 heads of 6 elements.
  absl::StatusOr<Workload> Make(std::vector<std::string> arguments) {
    flags_ = RequestFlags();
    arguments.insert(arguments.end(),
                     {"--query=random:2x3x4x6", "--key=random:2x5x2x6", "--value=random:2x5x2x6"});
    EXPECT_EQ(Parse(std::move(arguments)), "");
    const auto client = AttentionClient::Connect({});  // connects with the first call only
    return MakeWorkload(flags_, **client);
  }

  v1::AttentionOptions OptionsOf(std::vector<std::string> arguments) {
    const absl::StatusOr<Workload> workload = Make(std::move(arguments));
    EXPECT_THAT(workload, IsOk());
    return workload->request.options;
  }

  CLI::App app_;
  RequestFlags flags_;
  const TempFolder folder_;
};

TEST_F(AttentionFlagsTest, NothingSaidIsNothingSent) {
  EXPECT_EQ(OptionsOf({}).ByteSizeLong(), 0u);
}

TEST_F(AttentionFlagsTest, SwitchesThatAreOffSendNothing) {
  EXPECT_EQ(OptionsOf({"--rotary=false", "--rotary-interleaved=false"}).ByteSizeLong(), 0u);
}

TEST_F(AttentionFlagsTest, NumbersAreNotRounded) {
  EXPECT_THAT(Parse({"--rotary-scaling=llama3:8,1,4,8192.7"}),
              HasSubstr("POSITIONS: expected an integer, found 8192.7"));
  EXPECT_THAT(Parse({"--causal-each=0;7"}), HasSubstr("expected 0 or 1, found 7"));
}

TEST_F(AttentionFlagsTest, PlainValuesGoStraightToTheOptions) {
  const v1::AttentionOptions options =
      OptionsOf({"--causal", "--scale=0.5", "--window", "4", "--window-right=2",
                 "--window-dilation=3", "--prefix=3", "--global-tokens", "0,5", "--softcap=30",
                 "--similarity=gaussian", "--bandwidth", "2.5", "--sinks=0.5,-1,2,0"});
  EXPECT_TRUE(options.causal());
  EXPECT_EQ(options.scale(), 0.5);
  EXPECT_EQ(options.window(), 4);
  EXPECT_EQ(options.window_right(), 2);
  EXPECT_EQ(options.window_dilation(), 3);
  EXPECT_EQ(options.prefix(), 3);
  EXPECT_THAT(options.global_tokens(), ElementsAre(0, 5));
  EXPECT_EQ(options.softcap(), 30);
  EXPECT_EQ(options.similarity(), v1::GAUSSIAN);
  EXPECT_EQ(options.bandwidth(), 2.5);
  EXPECT_THAT(options.sinks(), ElementsAre(0.5f, -1.0f, 2.0f, 0.0f));
}

TEST_F(AttentionFlagsTest, SemicolonsSeparateSequences) {
  const v1::AttentionOptions options =
      OptionsOf({"--window=4;8", "--prefix=;2", "--global-tokens=0,5;", "--causal-each=;0"});
  EXPECT_EQ(options.window(), 0);
  ASSERT_EQ(options.sequences_size(), 2);
  EXPECT_FALSE(options.sequences(0).has_causal());
  EXPECT_FALSE(options.sequences(1).causal());
  EXPECT_TRUE(options.sequences(1).has_causal());
  EXPECT_EQ(options.sequences(0).window(), 4);
  EXPECT_EQ(options.sequences(1).window(), 8);
  EXPECT_FALSE(options.sequences(0).has_prefix());
  EXPECT_EQ(options.sequences(1).prefix(), 2);
  EXPECT_THAT(options.sequences(0).global_tokens(), ElementsAre(0, 5));
  EXPECT_THAT(options.sequences(1).global_tokens(), ElementsAre());
  EXPECT_THAT(
      Parse({"--window=4;8", "--prefix=1;2;3"}),
      HasSubstr(
          "expected one value, or 2 as the flags before it have (one for each sequence), found 3"));
}

TEST_F(AttentionFlagsTest, StandardSlopesFollowTheHeads) {
  EXPECT_THAT(OptionsOf({"--alibi", "standard"}).alibi_slopes(),
              ElementsAre(1.0f / 4, 1.0f / 16, 1.0f / 64, 1.0f / 256));
  EXPECT_THAT(OptionsOf({"--alibi=1,0.5,0,-1"}).alibi_slopes(), ElementsAre(1, 0.5f, 0, -1));
}

TEST_F(AttentionFlagsTest, AnyRotaryFlagTurnsItOn) {
  EXPECT_TRUE(OptionsOf({"--rotary"}).has_rotary());
  const v1::Rotary rotary =
      OptionsOf({"--rotary-base=5000", "--rotary-dim=4", "--rotary-interleaved",
                 "--rotary-offset=-3", "--rotary-scaling=llama3:8,1,4,8192"})
          .rotary();
  EXPECT_EQ(rotary.base(), 5000);
  EXPECT_EQ(rotary.dim(), 4);
  EXPECT_TRUE(rotary.interleaved());
  EXPECT_EQ(rotary.position_offset(), -3);
  EXPECT_EQ(rotary.scaling(), v1::Rotary::LLAMA3);
  EXPECT_EQ(rotary.factor(), 8);
  EXPECT_EQ(rotary.low_freq_factor(), 1);
  EXPECT_EQ(rotary.high_freq_factor(), 4);
  EXPECT_EQ(rotary.original_max_positions(), 8192);
  const v1::Rotary linear = OptionsOf({"--rotary-scaling=linear:4"}).rotary();
  EXPECT_EQ(linear.scaling(), v1::Rotary::LINEAR);
  EXPECT_EQ(linear.factor(), 4);
  EXPECT_FALSE(linear.has_low_freq_factor());
}

TEST_F(AttentionFlagsTest, NormsTakeOnesOrATensor) {
  const v1::AttentionOptions options =
      OptionsOf({"--query-norm=ones", "--key-norm=random:6", "--norm-epsilon=0.01"});
  EXPECT_TRUE(options.query_norm().weight().empty());
  EXPECT_EQ(options.query_norm().epsilon(), 0.01);
  EXPECT_EQ(options.key_norm().weight_size(), 6);
  EXPECT_FALSE(OptionsOf({"--query-norm=ones"}).has_key_norm());
}

TEST_F(AttentionFlagsTest, BiasAndMaskAreTensorsOfTheRequest) {
  Tensor seen(Dtype::kF32, {1, 1, 3, 5});
  for (int i = 0; i < 15; ++i) {
    seen.as<float>()[i] = i % 2 == 0 ? 0.0f : 1.0f;
  }
  const std::string path = folder_.path() + "/mask.npy";
  ASSERT_THAT(WriteNpy(path, seen), IsOk());
  const absl::StatusOr<Workload> workload =
      Make({"--bias=random:1x4x3x5", "--mask=" + path, "--dtype=bf16"});
  ASSERT_THAT(workload, IsOk());
  ASSERT_NE(workload->request.bias, nullptr);
  EXPECT_EQ(workload->request.bias->dtype(), Dtype::kF32) << "whatever the dtype of the rows";
  EXPECT_THAT(workload->request.bias->shape(), ElementsAre(1, 4, 3, 5));
  ASSERT_NE(workload->request.mask, nullptr);
  EXPECT_THAT(workload->request.mask->shape, ElementsAre(1, 1, 3, 5));
  EXPECT_THAT(workload->request.mask->values,
              ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0));
}

TEST_F(AttentionFlagsTest, ScoresOfOneSequenceOrHeadAreThoseOfAll) {
  const std::string path = folder_.path() + "/mask.npy";
  for (const Shape& shape : {Shape{3, 5}, Shape{1, 3, 5}}) {
    Tensor seen(Dtype::kF32, shape);
    std::fill_n(seen.as<float>(), 15, 1.0f);
    ASSERT_THAT(WriteNpy(path, seen), IsOk());
    const absl::StatusOr<Workload> workload = Make({"--bias=random:3x5", "--mask=" + path});
    ASSERT_THAT(workload, IsOk());
    EXPECT_THAT(workload->request.bias->shape(), ElementsAre(1, 1, 3, 5));
    EXPECT_THAT(workload->request.mask->shape, ElementsAre(1, 1, 3, 5));
  }
}

TEST_F(AttentionFlagsTest, AMaskOfNumbersToAddIsRefused) {
  const std::string path = folder_.path() + "/mask.npy";
  for (const float hides : {-std::numeric_limits<float>::infinity(), -1e9f, 0.5f, std::nanf("")}) {
    Tensor added(Dtype::kF32, {1, 1, 1, 2});
    added.as<float>()[0] = 0;
    added.as<float>()[1] = hides;
    ASSERT_THAT(WriteNpy(path, added), IsOk());
    EXPECT_THAT(Make({"--mask=" + path}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("--mask: expected 0 (hides a key) and 1, found "),
                               HasSubstr("--bias adds numbers"))));
  }
}

TEST_F(AttentionFlagsTest, RefusesTextsThatDoNotParse) {
  EXPECT_THAT(Parse({"--window=3,4"}), HasSubstr("expected N"));
  EXPECT_THAT(Parse({"--global-tokens=a"}), HasSubstr("found \"a\""));
  EXPECT_THAT(Parse({"--sinks=1,x"}), HasSubstr("found \"x\""));
  EXPECT_THAT(Parse({"--alibi=usual"}), HasSubstr("usual"));
  EXPECT_THAT(Parse({"--similarity=cosine"}), HasSubstr("cosine"));
  for (const char* scaling : {"linear", "linear:1,2", "llama3:8,1", "yarn:4", "llama3:8,1,4,inf"}) {
    EXPECT_THAT(Parse({std::string("--rotary-scaling=") + scaling}),
                HasSubstr("expected linear:FACTOR"));
  }
}

}  // namespace
}  // namespace attention
