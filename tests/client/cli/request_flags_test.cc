#include "client/cli/flags/request_flags.h"

#include <string>
#include <utility>
#include <vector>

#include "client/cli/flags/server_flags.h"
#include "gmock/gmock.h"
#include "tests/client/cli/parse_flags.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_folder.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RequestFlagsTest : public ::testing::Test {
 protected:
  RequestFlagsTest() { AddRequestFlags(app_, flags_); }

  std::string Parse(std::vector<std::string> arguments) {
    return ParseFlags(app_, std::move(arguments));
  }

  absl::StatusOr<Workload> Make(std::vector<std::string> arguments) {
    EXPECT_EQ(Parse(std::move(arguments)), "");
    EXPECT_THAT(CheckRequestFlags(flags_), IsOk());
    const auto client = AttentionClient::Connect({});  // connects with the first call only
    return MakeWorkload(flags_, **client);
  }

  CLI::App app_;
  RequestFlags flags_;
};

TEST_F(RequestFlagsTest, TakesValuesWithAndWithoutEqualsSign) {
  EXPECT_EQ(Parse({"--random=2x5x512", "--seed", "3", "--query-offsets", "-2,0", "--scale=-0.5"}),
            "");
  EXPECT_THAT(flags_.random, ElementsAre(2, 5, 512));
  EXPECT_EQ(flags_.seed, 3u);
  EXPECT_THAT(flags_.query_offsets, ElementsAre(-2, 0));
  EXPECT_EQ(flags_.attention.options.scale(), -0.5);
  EXPECT_FALSE(flags_.attention.options.has_causal());
}

TEST_F(RequestFlagsTest, TextsAreUtf8) {
  EXPECT_THAT(Parse({"--text", "caf\xe9"}),
              HasSubstr("--text: expected UTF-8, found byte 0xe9 at offset 3"));
  EXPECT_THAT(Parse({"--model", "\xff"}), HasSubstr("--model: expected UTF-8, found byte 0xff"));
}

TEST_F(RequestFlagsTest, AnOptionalChoiceNamesWhatCanBeChosen) {
  EXPECT_THAT(Parse({"--logits", "first"}),
              HasSubstr("expected one of last, all, found \"first\""));
}

TEST_F(RequestFlagsTest, CausalHasThreeStates) {
  const struct {
    const char* argument;
    bool causal;
  } cases[] = {{"--causal", true},
               {"--no-causal", false},
               {"--causal=false", false},
               {"--causal=true", true}};
  for (const auto& [argument, causal] : cases) {
    EXPECT_EQ(Parse({argument}), "");
    EXPECT_TRUE(flags_.attention.options.has_causal());
    EXPECT_EQ(flags_.attention.options.causal(), causal) << argument;
  }
}

TEST_F(RequestFlagsTest, TheLastOfContradictorySwitchesCounts) {
  EXPECT_EQ(Parse({"--no-causal", "--causal"}), "");
  EXPECT_TRUE(flags_.attention.options.causal());
  EXPECT_EQ(Parse({"--causal", "--causal", "--no-causal"}), "");
  EXPECT_FALSE(flags_.attention.options.causal());
}

TEST_F(RequestFlagsTest, RefusesTextsThatDoNotParse) {
  EXPECT_THAT(Parse({"--random=2xx5"}), HasSubstr("2xx5"));
  EXPECT_THAT(Parse({"--tokens=1,b"}), HasSubstr("found \"b\""));
  EXPECT_THAT(Parse({"--random-tokens=2"}), HasSubstr("expected BxS"));
  EXPECT_THAT(Parse({"--lengths=3;4"}), HasSubstr("3;4"));
  EXPECT_THAT(Parse({"--dtype=int8"}), HasSubstr("int8"));
  for (const std::string text : {"-1", "x", "1.5"}) {
    EXPECT_EQ(Parse({"--seed=" + text}),
              "--seed: expected an integer of at least 0, found \"" + text + "\"");
  }
  EXPECT_EQ(Parse({"--seed=18446744073709551616"}),
            "--seed: expected an integer below 2^64, found \"18446744073709551616\"");
  EXPECT_EQ(Parse({"--seed=18446744073709551615", "--random=1x1x1"}), "");
  EXPECT_THAT(Parse({"--pool=mean", "--logits"}), HasSubstr("only one of --pool and --logits"));
}

TEST_F(RequestFlagsTest, SaysWhichFlagsDoNotGoTogether) {
  const struct {
    std::vector<std::string> arguments;
    const char* text;
  } cases[] = {
      {{}, "--random 2x5x512"},
      {{"--random=2x5x512", "--tokens=1"}, "only one of"},
      {{"--query=q.npy"}, "need each other"},
      {{"--random=1x1x1", "--key=k.npy"}, "need each other"},
      {{"--tokens=1", "--memory=m.npy"}, "--memory needs"},
      {{"--tokens=1", "--dtype=bf16"}, "--dtype needs --input"},
      {{"--random=1x1x1", "--norm-epsilon=1e-3"}, "--norm-epsilon needs --query-norm"},
      {{"--random=1x1x1", "--memory-lengths=1"}, "--memory-lengths needs"},
      {{"--random=1x1x1", "--kv-lengths=1"}, "--kv-lengths needs"},
      {{"--random=1x1x1", "--query-offsets=1"}, "--query-offsets needs"},
      {{"--tokens=1", "--lengths=1"}, "--tokens and --text set lengths themselves"},
      {{"--text=a", "--tokens=1"}, "only one of"},
      {{"--text=a", "--memory=m.npy"}, "--memory needs"},
      {{"--random=1x1x1", "--memory-values=m.npy"}, "--memory-values needs"},
      {{"--random=1x1x1", "--type-ids=1"}, "--type-ids needs"},
      {{"--tokens=1", "--no-special-tokens"}, "--no-special-tokens needs"},
      {{"--tokens=1", "--layer=0", "--pool=mean"}, "without --layer"},
      {{"--tokens=1", "--weights-heads=1"}, "--weights-heads needs"},
      {{"--query=q", "--key=k", "--value=v", "--layer=0"}, "--query runs no model"},
  };
  for (const auto& [arguments, text] : cases) {
    flags_ = RequestFlags();
    ASSERT_EQ(Parse(arguments), "");
    EXPECT_THAT(CheckRequestFlags(flags_),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

TEST_F(RequestFlagsTest, MakesRandomHiddenStatesInTheDtypeOfTheWire) {
  const auto workload =
      Make({"--random=2x5x8", "--lengths=3,5", "--dtype=bf16", "--model=m", "--causal"});
  ASSERT_THAT(workload, IsOk());
  const auto& input = std::get<HiddenStatesInput>(workload->request.input);
  EXPECT_THAT(input.tensor->shape(), ElementsAre(2, 5, 8));
  EXPECT_EQ(input.tensor->dtype(), Dtype::kBf16);
  EXPECT_THAT(input.lengths, ElementsAre(3, 5));
  EXPECT_EQ(input.memory, nullptr);
  EXPECT_EQ(workload->request.model, "m");
  EXPECT_TRUE(workload->request.options.causal());
}

TEST_F(RequestFlagsTest, QueryKeyAndValueNeedNoModelAndDiffer) {
  const auto workload =
      Make({"--query=random:1x2x4x3", "--key=random:1x2x4x3", "--value=random:1x2x4x3"});
  ASSERT_THAT(workload, IsOk());
  const auto& input = std::get<QueryKeyValueInput>(workload->request.input);
  EXPECT_EQ(workload->request.model, "");
  EXPECT_NE(input.query->as<float>()[0], input.key->as<float>()[0]);
  EXPECT_NE(input.key->as<float>()[0], input.value->as<float>()[0]);
}

TEST_F(RequestFlagsTest, TokensBecomeARaggedBatch) {
  const auto workload = Make({"--tokens", "17,4,250;3,9"});
  ASSERT_THAT(workload, IsOk());
  const auto& input = std::get<TokenIdsInput>(workload->request.input);
  EXPECT_THAT(input.ids, ElementsAre(17, 4, 250, 3, 9));
  EXPECT_THAT(input.lengths, ElementsAre(3, 2));
}

TEST_F(RequestFlagsTest, TextsStayApart) {
  const auto workload =
      Make({"--text", "The cat, sat", "--text=on", "--no-special-tokens", "--model=m"});
  ASSERT_THAT(workload, IsOk());
  const auto& input = std::get<TextInput>(workload->request.input);
  EXPECT_THAT(input.texts, ElementsAre("The cat, sat", "on"));
  EXPECT_TRUE(input.no_special_tokens);
}

TEST_F(RequestFlagsTest, SaysWhatOfTheModelRuns) {
  auto workload = Make({"--tokens=1,2;3", "--type-ids=0,1;1", "--layer=0", "--model-version=2"});
  ASSERT_THAT(workload, IsOk());
  EXPECT_EQ(workload->request.layer, 0);
  EXPECT_EQ(workload->request.model_version, 2);
  EXPECT_THAT(std::get<TokenIdsInput>(workload->request.input).type_ids, ElementsAre(0, 1, 1));
}

TEST_F(RequestFlagsTest, SaysWhatTheWholeModelIsToLeave) {
  auto workload = Make({"--tokens=1", "--pool=cls", "--weights-layers=0,3", "--weights-heads=1"});
  ASSERT_THAT(workload, IsOk());
  EXPECT_FALSE(workload->request.layer.has_value());
  EXPECT_EQ(workload->request.model_output, v1::CLS_POOLED);
  EXPECT_THAT(workload->request.weights_choice.layers(), ElementsAre(0, 3));
  EXPECT_THAT(workload->request.weights_choice.heads(), ElementsAre(1));
}

TEST_F(RequestFlagsTest, LogitsAreThoseOfTheLastRowUnlessAllAreAsked) {
  const std::pair<std::vector<std::string>, v1::ModelOutput> cases[] = {
      {{"--logits", "--tokens=1"}, v1::LAST_LOGITS},
      {{"--tokens=1", "--logits"}, v1::LAST_LOGITS},
      {{"--tokens=1", "--logits", "last"}, v1::LAST_LOGITS},
      {{"--logits=all", "--tokens=1"}, v1::LOGITS}};
  for (const auto& [arguments, output] : cases) {
    flags_ = RequestFlags();
    const auto workload = Make(arguments);
    ASSERT_THAT(workload, IsOk());
    EXPECT_EQ(workload->request.model_output, output);
  }
  EXPECT_THAT(Parse({"--logits=first"}), HasSubstr("first"));
}

TEST_F(RequestFlagsTest, TypeIdsThatDoNotFitTheTokens) {
  EXPECT_THAT(
      Make({"--tokens=1,2;3", "--type-ids=0;1,1"}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          "--type-ids: expected as many types as --tokens has ids in each sequence (2;1), found "
          "1;2"));
}

TEST_F(RequestFlagsTest, MemoryAloneIsForAnEncoder) {
  const auto workload = Make({"--memory=random:2x5x8", "--memory-lengths=5,3", "--model=m"});
  ASSERT_THAT(workload, IsOk());
  const auto& input = std::get<HiddenStatesInput>(workload->request.input);
  EXPECT_EQ(input.tensor, nullptr);
  EXPECT_THAT(input.memory->shape(), ElementsAre(2, 5, 8));
  EXPECT_THAT(input.memory_lengths, ElementsAre(5, 3));
}

TEST_F(RequestFlagsTest, NamesAFileThatIsMissing) {
  EXPECT_THAT(Make({"--input=absent.npy"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent.npy")));
}

TEST(ParseDurationTest, TakesUnitsAndPlainSeconds) {
  EXPECT_EQ(*ParseDuration("1.5"), absl::Milliseconds(1500));
  EXPECT_EQ(*ParseDuration("500ms"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseDuration("1m30s"), absl::Seconds(90));
  for (const char* text : {"", "fast", "-1s", "inf", "nan", "10 parsecs"}) {
    EXPECT_THAT(ParseDuration(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

}  // namespace
}  // namespace attention
