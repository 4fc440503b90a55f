// The table of all options of the server.
#pragma once

#include <string>
#include <vector>

#include "server/configuration/option.h"

namespace attention {

struct OptionSection {
  /// The title in the help.
  std::string title;
  std::vector<Option> options;
};

/// Returns the options in the order of the help.
const std::vector<OptionSection>& OptionSections();

}  // namespace attention
