// attend-manual: pages and completions of a program that is not linked here, from its help text.
// Run by the build, for attend-server.
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/manual/completion.h"
#include "client/manual/help_text.h"
#include "client/manual/man_page.h"

namespace attention {
namespace {

constexpr char kUsage[] =
    "usage: attend-manual PROGRAM HELP_FILE bash|zsh|man [SECTION SOURCE [PAGE...]]\n";

int Print(const std::vector<std::string>& arguments) {
  int section = 1;
  if (arguments.size() < 3 || arguments.size() == 4 ||
      (arguments.size() > 4 && !absl::SimpleAtoi(arguments[3], &section))) {
    std::cerr << kUsage;
    return 2;
  }
  std::ifstream file(arguments[1]);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const absl::StatusOr<CommandHelp> help = ReadHelpText(arguments[0], text);
  if (!help.ok()) {
    std::cerr << "attend-manual: " << help.status().message() << "\n";
    return 1;
  }
  if (arguments[2] == "bash" || arguments[2] == "zsh") {
    std::cout << (arguments[2] == "bash" ? BashCompletion(*help) : ZshCompletion(*help));
    return 0;
  }
  ManPageOptions options = {.section = section};
  if (arguments.size() > 4) {
    options.source = arguments[4];
    options.see_also.assign(arguments.begin() + 5, arguments.end());
  }
  std::cout << ManPage(*help, options);
  return 0;
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) {
  return attention::Print(std::vector<std::string>(argv + 1, argv + argc));
}
