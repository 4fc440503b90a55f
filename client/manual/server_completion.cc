// attend-server-completion prints the completions of attend-server, from the parser of the server.
// Only the build runs it, so that the server does not link this code.
#include <iostream>
#include <string>

#include "client/manual/completion.h"
#include "server/command_line.h"

int main(int argc, char** argv) {
  const attention::CommandLine line;
  const std::string shell = argc == 2 ? argv[1] : "";
  if (shell != "bash" && shell != "zsh") {
    std::cerr << "usage: attend-server-completion bash|zsh\n";
    return 2;
  }
  std::cout << (shell == "bash" ? attention::BashCompletion(line.app())
                                : attention::ZshCompletion(line.app()));
  return 0;
}
