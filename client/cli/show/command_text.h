// The command line of the program, for reports.
#pragma once

#include <string>
#include <vector>

namespace attention {

/// Quotes `word`, so that a shell reads it back unchanged.
std::string ShellQuoted(const std::string& word);

/// Returns `words` as a command line, quoted for a shell, without the values of --metadata, however
/// the parser accepts them: -m A=B C=D, -mA=B, --metadata=A=B.
std::string WithoutSecrets(const std::vector<std::string>& words);

/// Returns the command line of this program, WithoutSecrets; empty if unknown.
std::string CommandLine();

}  // namespace attention
