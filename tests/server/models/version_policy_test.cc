#include "server/models/version_policy.h"

#include "gmock/gmock.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::ElementsAre;
using ::testing::Eq;
using Kind = VersionPolicy::Kind;

TEST(VersionPolicyTest, IsLatestUnlessSaidOtherwise) {
  EXPECT_EQ(VersionPolicies().Of("any").kind, Kind::kLatest);
}

TEST(VersionPolicyTest, IsSaidOfAllModelsAndOfSome) {
  VersionPolicies policies;
  for (const char* text : {"all", "a=3,1", "b=latest"}) {
    ASSERT_THAT(AddVersionPolicy(text, policies), IsOk()) << text;
  }
  EXPECT_EQ(policies.Of("a").kind, Kind::kSpecific);
  EXPECT_THAT(policies.Of("a").versions, ElementsAre(1, 3));
  EXPECT_EQ(policies.Of("b").kind, Kind::kLatest);
  EXPECT_EQ(policies.Of("c").kind, Kind::kAll);
}

TEST(VersionPolicyTest, RefusesWhatIsNoPolicy) {
  for (const std::string text : {"", "newest", "1,3", "a=", "=all", "a=0", "a=1,,3", "a=-1", "a=+1",
                                 "a=9223372036854775808", "a=all,1"}) {
    VersionPolicies policies;
    EXPECT_THAT(AddVersionPolicy(text, policies),
                StatusIs(kInvalid, Eq("expected latest, all, NAME=latest, NAME=all or NAME=1,3, "
                                      "found '" +
                                      text + "'")));
  }
}

TEST(VersionPolicyTest, RefusesToBeToldTwice) {
  VersionPolicies policies;
  ASSERT_THAT(AddVersionPolicy("all", policies), IsOk());
  ASSERT_THAT(AddVersionPolicy("a=1", policies), IsOk());
  EXPECT_THAT(AddVersionPolicy("a=2", policies),
              StatusIs(kInvalid, Eq("expected one policy for a, found a second: 'a=2'")));
  EXPECT_THAT(AddVersionPolicy("latest", policies),
              StatusIs(kInvalid, Eq("expected one policy for models that are not named, found a "
                                    "second: 'latest'")));
}

}  // namespace
}  // namespace attention
