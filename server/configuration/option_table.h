// Every option of the server, each in one place.
#pragma once

#include <string>
#include <vector>

#include "server/configuration/option.h"

namespace attention {

struct OptionSection {
  /// What the help calls it.
  std::string title;
  std::vector<Option> options;
};

/// In the order of the help.
const std::vector<OptionSection>& OptionSections();

}  // namespace attention
