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

}  // namespace
}  // namespace attention
