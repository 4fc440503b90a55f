// What a mistyped word was meant to be.
#include "client/cli/flags/help.h"

#include <optional>
#include <string>
#include <vector>

#include "core/runtime/nearest_name.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::HasSubstr;

class UsageErrorTest : public ::testing::Test {
 protected:
  UsageErrorTest() {
    app_.failure_message(UsageError);
    CLI::App* const serve = app_.add_subcommand("serve", "Serves dishes");
    serve->add_option("-t,--table", table_, "Which table")
        ->type_name("N")
        ->capture_default_str()
        ->group("Where");
    serve->add_option("--dish", dish_, "What: don't say [all]")->type_name("soup|roast");
    serve->add_option("--a-very-long-name-of-a-flag", dish_, "Long")->type_name("FILE");
    serve->add_flag("--salt,!--no-salt", salt_, "With salt");
    serve->add_option("guest", guest_, "For whom")->type_name("TEXT")->required();
    serve->add_option_group("When")->add_option("--order", dish_)->type_name("now|later");
    CLI::App* const wash = app_.add_subcommand("wash", "Washes up");
    wash->add_flag("--plates-and-cups");
    wash->add_flag("--plates");
  }

  /// What is said of a command line that is wrong.
  std::string Complaint(std::vector<std::string> arguments) {
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::ParseError& error) {
      return UsageError(&app_, error);
    }
    return "";
  }

  int table_ = 4;
  std::string dish_, guest_;
  bool salt_ = true;
  CLI::App app_{"A tool.", "tool"};
};

TEST_F(UsageErrorTest, AMistypedWordIsToldWhatItMayHaveMeant) {
  EXPECT_EQ(Complaint({"srve"}),
            "tool: unknown command srve; did you mean serve?\nSee tool --help.\n");
  EXPECT_EQ(Complaint({"serve", "ann", "--tabel=3"}),
            "tool serve: unknown flag --tabel; did you mean --table?\nSee tool serve --help.\n");
  EXPECT_EQ(
      Complaint({"serve", "ann", "--no-slat"}),
      "tool serve: unknown flag --no-slat; did you mean --no-salt?\nSee tool serve --help.\n");
  EXPECT_EQ(Complaint({"--table=3", "serve", "ann"}),
            "tool serve: flag --table comes after the command\nSee tool serve --help.\n");
  EXPECT_EQ(Complaint({"wash", "--plate"}),
            "tool wash: unknown flag --plate; did you mean --plates?\nSee tool wash --help.\n");
  EXPECT_EQ(Complaint({"wash", "plates"}),
            "tool wash: unexpected word plates\nSee tool wash --help.\n");
  EXPECT_EQ(Complaint({"dance"}), "tool: unknown command dance\nSee tool --help.\n");
  EXPECT_THAT(Complaint({"serve"}), HasSubstr("guest is required"));
}

TEST_F(UsageErrorTest, AWrongValueIsToldWhatWasExpected) {
  EXPECT_EQ(Complaint({"serve", "ann", "--table=3.5"}),
            "tool serve: --table: expected an integer, found \"3.5\"\nSee tool serve --help.\n");
  EXPECT_EQ(Complaint({"serve", "ann", "--salt=maybe"}),
            "tool serve: --salt: expected true or false, found \"maybe\"\n"
            "See tool serve --help.\n");
  EXPECT_EQ(Complaint({"serve", "ann", "--table", "3", "--table=4"}),
            "tool serve: --table: expected one value, found 2\nSee tool serve --help.\n");
}

TEST(NearestNameTest, CountsTypingErrors) {
  const std::vector<std::string> names = {"--tokens", "--top-k", "--timeout", "--tls"};
  EXPECT_EQ(NearestName("--token", names), "--tokens");
  EXPECT_EQ(NearestName("--tokesn", names), "--tokens");
  EXPECT_EQ(NearestName("--timout", names), "--timeout");
  EXPECT_EQ(NearestName("--topk", names), "--top-k");
  EXPECT_EQ(NearestName("--tim", names), "--timeout") << "its beginning";
  EXPECT_EQ(NearestName("--colour", names), std::nullopt);
  EXPECT_EQ(NearestName("", names), std::nullopt);
  EXPECT_EQ(NearestName("--x", {}), std::nullopt);
  EXPECT_EQ(NearestName("-v", {"-h", "-n", "--via"}), std::nullopt) << "another letter is no hint";
  EXPECT_EQ(NearestName("--n", {"-h", "-n"}), "-n");
}

TEST(EmptyValuesTest, AreRefusedBeforeTheyTakeTheNextWord) {
  EXPECT_THROW(RefuseEmptyValues({"run", "--model=", "--layer=0"}), CLI::ArgumentMismatch);
  EXPECT_NO_THROW(RefuseEmptyValues({"run", "--model", "", "--text=a=", "--", "--model="}));
}

}  // namespace
}  // namespace attention
