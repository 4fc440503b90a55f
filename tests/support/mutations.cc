#include "tests/support/mutations.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace attention {
namespace {

using nlohmann::json;

std::vector<json> Replacements(const json& value) {
  std::vector<json> all = {nullptr,
                           true,
                           0,
                           -1,
                           1,
                           2,
                           3,
                           0.5,
                           -0.5,
                           1e-300,
                           1e300,
                           -1e300,
                           4096,
                           int64_t{1} << 24,
                           int64_t{1} << 40,
                           INT64_MIN,
                           UINT64_MAX,
                           "",
                           "x",
                           std::string(1000, 'x'),
                           json::array(),
                           json::array({-1}),
                           json::object(),
                           {{"x", -1}}};
  const auto add = [&all](json replacement) { all.push_back(std::move(replacement)); };
  if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    add(number - 1);
    add(number + 1);
    add(2 * number);
    add(-number);
  } else if (value.is_number()) {
    add(-value.get<double>());
    add(1000 * value.get<double>());
  } else if (value.is_boolean()) {
    add(!value.get<bool>());
  } else if (value.is_array() && !value.empty()) {
    json longer = value;
    longer.push_back(value.back());
    add(longer);
  }
  return all;
}

class Mutator {
 public:
  Mutator(const json& original, const std::vector<std::string>& unchanged)
      : original_(original), unchanged_(unchanged) {}

  void Change(const json& value, const json::json_pointer& place, const std::string& key) {
    if (std::find(unchanged_.begin(), unchanged_.end(), key) != unchanged_.end()) {
      return;
    }
    if (!place.empty()) {
      Replace(value, place, key);
    }
    if (!value.is_structured()) {
      return;
    }
    for (const auto& [name, member] : value.items()) {
      Change(member, value.is_object() ? place / name : place / std::stoul(name),
             value.is_object() ? name : key);
    }
  }

  std::vector<Mutation> mutations;

 private:
  void Replace(const json& value, const json::json_pointer& place, const std::string& key) {
    for (const json& replacement : Replacements(value)) {
      if (replacement != value) {
        json changed = original_;
        changed[place] = replacement;
        mutations.push_back({changed.dump(), key, replacement.dump()});
      }
    }
    json parent_changed = original_;
    json& parent = parent_changed[place.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(place.back());
      mutations.push_back({parent_changed.dump(), key, "nothing"});
    } else {
      parent.erase(std::stoul(place.back()));
      mutations.push_back({parent_changed.dump(), key, "nothing"});
    }
    if (place.parent_pointer().empty()) {
      const std::string name = json(key).dump();
      mutations.push_back({"{" + name + ":-1," + original_.dump().substr(1), key, "twice"});
    }
  }

  const json& original_;
  const std::vector<std::string>& unchanged_;
};

}  // namespace

std::vector<Mutation> MutationsOf(const json& original, const std::vector<std::string>& unchanged) {
  Mutator mutator(original, unchanged);
  mutator.Change(original, json::json_pointer(), "");
  return std::move(mutator.mutations);
}

}  // namespace attention
