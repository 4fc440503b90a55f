// What a program's help is made into: parts, manual pages, completions, and what was meant.
#include <string>
#include <vector>

#include "client/cli/flags/help.h"
#include "client/manual/completion.h"
#include "client/manual/man_page.h"
#include "core/runtime/nearest_name.h"
#include "gmock/gmock.h"

namespace attention {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ManualTest : public ::testing::Test {
 protected:
  ManualTest() {
    app_.failure_message(UsageError);
    CLI::App* const serve = app_.add_subcommand("serve", "Serves dishes\n\nHot ones first.");
    serve->add_option("-t,--table", table_, "Which table;\nall of them otherwise")
        ->type_name("N")
        ->capture_default_str()
        ->group("Where");
    serve->add_option("--dish", dish_, "What: don't say [all]")->type_name("soup|roast");
    serve->add_option("--a-very-long-name-of-a-flag", dish_, "Long")->type_name("FILE");
    serve->add_flag("--salt,!--no-salt", salt_, "With salt");
    serve->add_option("guest", guest_, "For whom")->type_name("TEXT")->required();
    serve->footer(
        "Some words.\n\nExamples:\n  tool serve ann  hot\n  .dots at the front\n\nExit codes: 0 "
        "eaten, 1 not.");
    app_.add_subcommand("wash", "Washes up")->footer("");
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

TEST_F(ManualTest, PartsOfAProgramAreThoseOfItsParser) {
  const CommandHelp help = Describe(app_);
  EXPECT_EQ(help.name, "tool");
  ASSERT_EQ(help.commands.size(), 2u);
  const CommandHelp& serve = help.commands[0];
  EXPECT_EQ(serve.name, "tool serve");
  ASSERT_EQ(serve.groups.size(), 2u);
  EXPECT_EQ(serve.groups[1].title, "Where");
  const FlagHelp& table = serve.groups[1].flags[0];
  EXPECT_THAT(table.names, ElementsAre("-t", "--table"));
  EXPECT_EQ(table.type, "N");
  EXPECT_EQ(table.default_value, "4");
  const FlagHelp& guest = serve.groups[0].flags.back();
  EXPECT_TRUE(guest.is_word());
  EXPECT_FALSE(guest.value_is_optional);
  EXPECT_EQ(Describe(CLI::App("tool: A tool.", "tool")).description, "A tool.");
}

TEST_F(ManualTest, APageHasAllSectionsAndEscapesWhatRoffWouldRead) {
  const std::string page = ManPage(Describe(app_).commands[0],
                                   {.section = 1, .source = "Tool 1", .see_also = {"tool(1)"}});
  EXPECT_THAT(
      page,
      AllOf(HasSubstr(".SH NAME\ntool\\-serve \\- Serves dishes\n"),
            HasSubstr(".SH SYNOPSIS\n.B tool serve\n[\\fIFLAG\\fR...]\n\\fIguest\\fR\n"),
            HasSubstr(".SH DESCRIPTION\nHot ones first.\n"),
            HasSubstr(".SS Where\n.TP\n\\fB\\-t\\fR, \\fB\\-\\-table\\fR \\fIN\\fR\n"
                      "Which table;\nall of them otherwise\n.br\nDefault: 4\n"),
            HasSubstr(".SH NOTES\nSome words.\n"),
            HasSubstr(".SH EXAMPLES\n.nf\n  tool serve ann  hot\n"),
            HasSubstr(".SH EXIT STATUS\n0 eaten, 1 not.\n"), HasSubstr(".SH SEE ALSO\ntool(1)\n")));
  const std::string top = ManPage(Describe(app_), {});
  EXPECT_THAT(top, HasSubstr("\\fBwash\\fR\nWashes up\nSee \\fBtool\\-wash\\fR(1).\n"));
  EXPECT_EQ(PageName(Describe(app_).commands[1]), "tool-wash");
}

TEST_F(ManualTest, TypesSayWhatCompletesAValue) {
  const auto hint = [](const std::string& type, const std::string& name = "--x") {
    return HintOf({.names = {name}, .type = type});
  };
  EXPECT_THAT(hint("soup|roast").words, ElementsAre("soup", "roast"));
  EXPECT_THAT(hint("[last|all]").words, ElementsAre("last", "all"));
  EXPECT_THAT(hint("ones|TENSOR").words, ElementsAre("ones"));
  EXPECT_TRUE(hint("ones|TENSOR").takes_files);
  EXPECT_THAT(hint("N").words, IsEmpty());
  EXPECT_TRUE(hint("DIR").takes_folders);
  EXPECT_TRUE(hint("NAME", "--model").takes_models);
  EXPECT_TRUE(hint("NAME[:VERSION]").takes_models);
  EXPECT_FALSE(hint("NAME").takes_models);
}

TEST_F(ManualTest, CompletionsKnowEveryCommandAndFlag) {
  const CommandHelp help = Describe(app_);
  for (const std::string& script : {BashCompletion(help), ZshCompletion(help)}) {
    EXPECT_THAT(script, AllOf(HasSubstr("serve | wash)"), HasSubstr("' '*) choices='"),
                              HasSubstr("--a-very-long-name-of-a-flag"),
                              HasSubstr("'serve --dish=' | 'serve --dish') choices='soup roast'"),
                              HasSubstr("'serve --a-very-long-name-of-a-flag') kinds='files"),
                              Not(ContainsRegex("@[A-Z]+@"))));
  }
  EXPECT_THAT(BashCompletion(help), HasSubstr("\ncomplete -F _tool tool\n"));
  EXPECT_THAT(ZshCompletion(help), StartsWith("#compdef tool\n"));
}

TEST_F(ManualTest, AMistypedWordIsToldWhatItMayHaveMeant) {
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
