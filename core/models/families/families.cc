#include "core/models/families/families.h"

#include <algorithm>
#include <utility>

namespace attention {
namespace {

#define ATTENTION_NAME_FAMILY(name) {#name, families::name},
constexpr std::pair<const char*, DescribeFamily> kFamilies[] = {
    // Those that differ from another family in name only.
    {"ministral", families::mistral},
    {"xlm-roberta", families::camembert},
    ATTENTION_FAMILIES(ATTENTION_NAME_FAMILY)};
#undef ATTENTION_NAME_FAMILY

}  // namespace

DescribeFamily FindFamily(const std::string& model_type) {
  for (const auto& [name, describe] : kFamilies) {
    if (model_type == name) {
      return describe;
    }
  }
  return nullptr;
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (const auto& [name, describe] : kFamilies) {
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace attention
