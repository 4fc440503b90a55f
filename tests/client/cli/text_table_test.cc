#include "client/cli/show/text_table.h"

#include "gtest/gtest.h"

namespace attention {
namespace {

TEST(TextTableTest, AlignsTheFirstColumnLeftAndTheOthersRight) {
  EXPECT_EQ(TextTable({{"NAME", "N"}, {"a", "12"}, {"longer", "3"}}),
            "NAME     N\n"
            "a       12\n"
            "longer   3\n");
}

TEST(TextTableTest, ACellOfAnotherCannotBreakALine) {
  EXPECT_EQ(TextTable({{"NAME", "N"}, {"a\nb\x1b", "12"}}),
            "NAME   N\n"
            "a↵b␛  12\n");
}

}  // namespace
}  // namespace attention
