// What a picture of a file leaves nothing to choose of.
#include "client/cli/flags/plot_flags.h"

#include "gmock/gmock.h"
#include "tests/client/cli/parse_flags.h"
#include "tests/support/matchers.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

absl::Status Checked(const std::vector<std::string>& arguments) {
  CLI::App app;
  PlotFlags flags;
  AddPlotFlags(app, flags);
  EXPECT_EQ(ParseFlags(app, arguments), "");
  return CheckPlotFlags(flags);
}

TEST(PlotFlagsTest, AFlagOfTheRequestIsRefusedBesideAFile) {
  for (const char* const flag :
       {"--layer=1", "--model=demo", "--causal", "--seed=3", "--dtype=bf16"}) {
    EXPECT_THAT(Checked({"a.safetensors", flag}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("needs something to send; a FILE has the weights")))
        << flag;
  }
  EXPECT_THAT(Checked({"a.safetensors", "--tokens=1"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("found both")));
  EXPECT_THAT(Checked({"a.safetensors", "--server=a:1", "--weights-layers=1", "--weights-heads=0",
                       "--mean", "--width=40"}),
              IsOk());
}

}  // namespace
}  // namespace attention
