// What shells complete, and what a mistyped word was meant to be.
#include "client/manual/completion.h"

#include <string>
#include <vector>

#include "client/cli/flags/help.h"
#include "core/runtime/nearest_name.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
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
    app_.add_subcommand("wash", "Washes up");
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

TEST_F(CompletionTest, TypesSayWhatCompletesAValue) {
  const auto assigned = [](const std::string& type, const std::string& name = "--x") {
    CLI::App app("A tool.", "tool");
    std::string value;
    app.add_option(name, value)->type_name(type);
    const std::string script = BashCompletion(app);
    const size_t begin = script.find(name + "') ") + name.size() + 3;
    return script.substr(begin, script.find(";;", begin) - begin);
  };
  EXPECT_EQ(assigned("soup|roast"), "choices='soup roast' ");
  EXPECT_EQ(assigned("[last|all]"), "choices='last all' ");
  EXPECT_EQ(assigned("ones|TENSOR"), "choices='ones' kinds='files' ");
  EXPECT_EQ(assigned("N"), ": ");
  EXPECT_EQ(assigned("DIR"), "kinds='folders' ");
  EXPECT_EQ(assigned("NAME", "--model"), "kinds='models' ");
  EXPECT_EQ(assigned("NAME[:VERSION]"), "kinds='models' ");
  EXPECT_EQ(assigned("NAME"), ": ");
}

TEST_F(CompletionTest, ScriptsKnowEveryCommandAndFlag) {
  for (const std::string& script : {BashCompletion(app_), ZshCompletion(app_)}) {
    EXPECT_THAT(script, AllOf(HasSubstr("serve | wash)"), HasSubstr("' '*) choices='"),
                              HasSubstr("-t --table"), HasSubstr("--a-very-long-name-of-a-flag"),
                              HasSubstr("'serve --dish=' | 'serve --dish') choices='soup roast'"),
                              HasSubstr("'serve --a-very-long-name-of-a-flag') kinds='files'"),
                              HasSubstr("'serve --order') choices='now later'"),
                              Not(ContainsRegex("@[A-Z]+@"))));
  }
  EXPECT_THAT(BashCompletion(app_), HasSubstr("\ncomplete -F _tool tool\n"));
  EXPECT_THAT(ZshCompletion(app_), StartsWith("#compdef tool\n"));
}

TEST_F(CompletionTest, AMistypedWordIsToldWhatItMayHaveMeant) {
  EXPECT_EQ(Complaint({"srve"}),
            "tool: unknown command srve; did you mean serve?\nSee tool --help.\n");
  EXPECT_EQ(Complaint({"serve", "ann", "--tabel=3"}),
            "tool serve: unknown flag --tabel; did you mean --table?\nSee tool serve --help.\n");
  EXPECT_EQ(
      Complaint({"serve", "ann", "--no-slat"}),
      "tool serve: unknown flag --no-slat; did you mean --no-salt?\nSee tool serve --help.\n");
  EXPECT_EQ(Complaint({"wash", "plates"}),
            "tool wash: unexpected word plates\nSee tool wash --help.\n");
  EXPECT_EQ(Complaint({"dance"}), "tool: unknown command dance\nSee tool --help.\n");
  EXPECT_THAT(Complaint({"serve"}), HasSubstr("guest is required"));
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
}

}  // namespace
}  // namespace attention
