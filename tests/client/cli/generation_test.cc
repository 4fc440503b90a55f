// `attend generate`: which token comes next, and where the text ends.
#include "client/cli/generate/generation.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/client/lib/fake_decode_server.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

v1::TopLogits Logits(const std::vector<float>& logits) {
  v1::TopLogits top;
  for (const float logit : logits) {
    top.add_ids(top.ids_size());
    top.add_logits(logit);
  }
  return top;
}

std::vector<int> Choices(const SamplerOptions& options, const v1::TopLogits& top, int count) {
  TokenSampler sampler(options);
  std::vector<int> choices;
  for (int i = 0; i < count; ++i) {
    choices.push_back(sampler.Choose(top));
  }
  return choices;
}

std::set<int> Distinct(const std::vector<int>& choices) { return {choices.begin(), choices.end()}; }

TEST(TokenSamplerTest, WithoutTemperatureItIsTheLikeliest) {
  EXPECT_EQ(TokenSampler({}).num_logits(), 1);
  EXPECT_EQ(Distinct(Choices({}, Logits({1, 1, 1}), 20)), std::set<int>{0});
}

TEST(GenerationTest, RefusesIdsWithoutLogits) {
  FakeDecodeServer server;
  v1::OpenSession open;
  open.set_model("ids");
  const auto stream = DecodeStream::Open({.connection = {.server = server.address()}}, open);
  ASSERT_THAT(stream, IsOk());
  const Tensor prompt(Dtype::kF32, {2, 1});
  Generation generation(**stream, {.sampler = {.temperature = 1}});
  EXPECT_THAT(generation.Continue(HiddenStatesInput{&prompt}, [](int32_t, const std::string&) {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("malformed answer")));
}

TEST(TokenSamplerTest, TheSameSeedMakesTheSameChoices) {
  const v1::TopLogits top = Logits({2, 1.5, 1, 0.5, 0});
  const auto with_seed = [&](uint64_t seed) {
    return Choices({.temperature = 1, .seed = seed}, top, 50);
  };
  EXPECT_EQ(with_seed(7), with_seed(7));
  EXPECT_NE(with_seed(7), with_seed(8));
}

TEST(TokenSamplerTest, ChoosesAsOftenAsTheProbabilitySays) {
  // Odds of 3 to 1, and at half the temperature of 9 to 1.
  const v1::TopLogits top = Logits({1.0986123f, 0});
  for (const auto& [temperature, share] : {std::pair(1.0, 0.75), std::pair(0.5, 0.9)}) {
    const std::vector<int> choices = Choices({.temperature = temperature, .seed = 1}, top, 4000);
    const double first = static_cast<double>(std::count(choices.begin(), choices.end(), 0));
    EXPECT_NEAR(first / 4000, share, 0.03);
  }
}

TEST(TokenSamplerTest, KeepsToTheLikeliest) {
  const v1::TopLogits top = Logits({0, 0, 0, 0});
  EXPECT_EQ(Distinct(Choices({.temperature = 1, .top_k = 2}, top, 200)), (std::set<int>{0, 1}));
  EXPECT_EQ(Distinct(Choices({.temperature = 1, .top_p = 0.75}, top, 200)),
            (std::set<int>{0, 1, 2}));
  EXPECT_EQ(Distinct(Choices({.temperature = 1, .top_p = 1e-6}, top, 50)), std::set<int>{0});
  EXPECT_EQ(TokenSampler({.temperature = 1, .top_k = 9}).num_logits(), 9);
}

/// Byte by byte, as a stream would be at its worst.
std::string Shown(std::vector<std::string> stops, const std::string& text) {
  StopTexts texts(std::move(stops));
  std::string shown;
  for (const char c : text) {
    shown += texts.Add(std::string(1, c));
  }
  return shown + texts.Rest();
}

TEST(StopTextsTest, EndBeforeTheFirstOne) {
  EXPECT_EQ(Shown({"END"}, "some ENtry END more"), "some ENtry ");
  EXPECT_EQ(Shown({"\n\n", "."}, "a\nb.c\n\n"), "a\nb");
  EXPECT_EQ(Shown({"aab"}, "aaab"), "a");
  EXPECT_EQ(Shown({"END"}, "nothing EN"), "nothing EN");
  EXPECT_EQ(Shown({}, "all of it"), "all of it");
}

TEST(StopTextsTest, WhatCannotBeginOneIsShownAtOnce) {
  StopTexts texts({"END"});
  EXPECT_EQ(texts.Add("the E"), "the ");
  EXPECT_EQ(texts.Add("N"), "");
  EXPECT_EQ(texts.Add("t"), "ENt");
  EXPECT_EQ(texts.Add("xENDy"), "x");
  EXPECT_TRUE(texts.is_over());
  EXPECT_EQ(texts.Add("more"), "");
  EXPECT_EQ(texts.Rest(), "");
}

}  // namespace
}  // namespace attention
