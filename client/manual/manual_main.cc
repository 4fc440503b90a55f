// attend-manual prints the manual page and the completions of attend-server, from the parser of the
// server. Only the build runs it, so that the server does not link this code.
#include <iostream>
#include <string>

#include "client/manual/completion.h"
#include "client/manual/man_page.h"
#include "server/command_line.h"

namespace attention {
namespace {

int Print(const std::string& what) {
  const CommandHelp server = Describe(CommandLine().app());
  if (what == "bash") {
    std::cout << BashCompletion(server);
  } else if (what == "zsh") {
    std::cout << ZshCompletion(server);
  } else if (what == "man") {
    std::cout << ManPage(
        server, {.section = 8, .source = "Attend " ATTEND_VERSION, .see_also = {"attend(1)"}});
  } else {
    std::cerr << "usage: attend-manual bash|zsh|man\n";
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace attention

int main(int argc, char** argv) { return attention::Print(argc == 2 ? argv[1] : ""); }
