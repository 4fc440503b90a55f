#include "server/observability/trace_context.h"

#include "gmock/gmock.h"

namespace attention {
namespace {

constexpr char kHeaderTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kHeaderParent[] = "00f067aa0ba902b7";

std::string Header(const std::string& version, const std::string& trace, const std::string& parent,
                   const std::string& flags) {
  return version + "-" + trace + "-" + parent + "-" + flags;
}

TEST(TraceContextTest, ReadsIdsAndTheSampledFlag) {
  const auto sampled = ParseTraceparent(Header("00", kHeaderTrace, kHeaderParent, "01"));
  ASSERT_TRUE(sampled.has_value());
  EXPECT_EQ(sampled->trace_id, kHeaderTrace);
  EXPECT_EQ(sampled->parent_id, kHeaderParent);
  EXPECT_TRUE(sampled->is_sampled);
  EXPECT_FALSE(ParseTraceparent(Header("00", kHeaderTrace, kHeaderParent, "00"))->is_sampled);
}

TEST(TraceContextTest, OnlyTheLastFlagSaysSampled) {
  EXPECT_FALSE(ParseTraceparent(Header("00", kHeaderTrace, kHeaderParent, "fe"))->is_sampled);
  EXPECT_TRUE(ParseTraceparent(Header("00", kHeaderTrace, kHeaderParent, "ab"))->is_sampled);
}

TEST(TraceContextTest, ReadsTheBeginningOfLaterVersions) {
  EXPECT_TRUE(ParseTraceparent(Header("cc", kHeaderTrace, kHeaderParent, "01")).has_value());
  EXPECT_TRUE(ParseTraceparent(Header("cc", kHeaderTrace, kHeaderParent, "01-more")).has_value());
  EXPECT_FALSE(ParseTraceparent(Header("cc", kHeaderTrace, kHeaderParent, "01more")).has_value());
  EXPECT_FALSE(ParseTraceparent(Header("00", kHeaderTrace, kHeaderParent, "01-more")).has_value());
}

TEST(TraceContextTest, TakesWhatIsMalformedForNone) {
  for (const std::string& text :
       {std::string(), Header("ff", kHeaderTrace, kHeaderParent, "01"),
        Header("0", kHeaderTrace, kHeaderParent, "01"),
        Header("00", std::string(32, '0'), kHeaderParent, "01"),
        Header("00", kHeaderTrace, std::string(16, '0'), "01"),
        Header("00", "4BF92F3577B34DA6A3CE929D0E0E4736", kHeaderParent, "01"),
        Header("00", kHeaderTrace, "00f067aa0ba902b", "011"),
        Header("00", kHeaderTrace, kHeaderParent, "0g"),
        Header("00", kHeaderTrace, kHeaderParent, "1")}) {
    EXPECT_FALSE(ParseTraceparent(text).has_value()) << text;
  }
}

TEST(TraceContextTest, TheStateGoesOnAsItCameOrNotAtAll) {
  EXPECT_EQ(ParseTracestate("congo=t61rcWkgMzE,rojo=1"), "congo=t61rcWkgMzE,rojo=1");
  EXPECT_EQ(ParseTracestate(std::string(512, 'a')), std::string(512, 'a'));
  EXPECT_EQ(ParseTracestate(std::string(513, 'a')), "");
  EXPECT_EQ(ParseTracestate("a=\xff"), "");
}

TEST(TraceContextTest, MakesIdsThatAreValidAndUnlikeEachOther) {
  EXPECT_TRUE(ParseTraceparent(Header("00", MakeTraceId(), MakeSpanId(), "01")).has_value());
  EXPECT_NE(MakeTraceId(), MakeTraceId());
  EXPECT_NE(MakeSpanId(), MakeSpanId());
}

}  // namespace
}  // namespace attention
