#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/model_admin.h"
#include "client/cli/server_flags.h"

namespace attention {
namespace {

using Row = std::array<std::string, 9>;

/// 0 means that there is no such thing.
std::string CountOrDash(int64_t count) { return count == 0 ? "-" : absl::StrCat(count); }

std::string ToTable(const std::vector<v1::Model>& models) {
  std::vector<Row> rows = {{"NAME", "D_MODEL", "HEADS", "KV_HEADS", "HEAD_DIM", "DTYPE", "CAUSAL",
                            "VOCABULARY", "POSITIONS"}};
  for (const v1::Model& model : models) {
    const std::string head_dim =
        model.head_dim() == model.value_head_dim()
            ? absl::StrCat(model.head_dim())
            : absl::StrCat(model.head_dim(), " / ", model.value_head_dim());
    rows.push_back({model.name(), absl::StrCat(model.d_model()), absl::StrCat(model.num_heads()),
                    absl::StrCat(model.num_kv_heads()), head_dim, v1::DataType_Name(model.dtype()),
                    model.causal() ? "yes" : "no", CountOrDash(model.vocab_size()),
                    CountOrDash(model.max_positions())});
  }
  std::array<int, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], static_cast<int>(row[i].size()));
    }
  }
  std::string text;
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "%-*s", widths[0], row[0]);
    for (size_t i = 1; i < row.size(); ++i) {
      absl::StrAppendFormat(&text, "  %*s", widths[i], row[i]);
    }
    text.push_back('\n');
  }
  return text;
}

nlohmann::json ToJson(const v1::Model& model) {
  nlohmann::json json = {{"name", model.name()},
                         {"d_model", model.d_model()},
                         {"num_heads", model.num_heads()},
                         {"num_kv_heads", model.num_kv_heads()},
                         {"head_dim", model.head_dim()},
                         {"value_head_dim", model.value_head_dim()},
                         {"dtype", v1::DataType_Name(model.dtype())},
                         {"causal", model.causal()},
                         {"vocab_size", model.vocab_size()},
                         {"max_positions", model.max_positions()},
                         {"limits",
                          {{"max_message_bytes", model.limits().max_message_bytes()},
                           {"max_queue_bytes", model.limits().max_queue_bytes()},
                           {"max_tokens", model.limits().max_tokens()}}}};
  if (model.has_seed()) {
    json["seed"] = model.seed();
  }
  return json;
}

int PrintModels(const ServerFlags& flags, bool as_json) {
  const auto client = ConnectTo(flags);
  if (!client.ok()) {
    return Fail(client.status());
  }
  const auto models = (*client)->ListModels();
  if (!models.ok()) {
    return Fail(models.status());
  }
  if (!as_json) {
    std::cout << ToTable(*models);
    return 0;
  }
  nlohmann::json json = nlohmann::json::array();
  for (const v1::Model& model : *models) {
    json.push_back(ToJson(model));
  }
  std::cout << json.dump(2) << "\n";
  return 0;
}

}  // namespace

void AddModelsCommand(CLI::App& app, int& exit_code) {
  struct Flags {
    ServerFlags server;
    ModelAdminFlags admin;
    bool json = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* const command = app.add_subcommand("models", "List the server's models");
  AddServerFlags(*command, flags->server);
  command->add_flag("--json", flags->json,
                    "A JSON array instead of a table; adds the limits and the seed");
  AddModelAdminFlags(*command, flags->admin);
  command->callback([flags, &exit_code] {
    exit_code = flags->admin.is_given() ? RunModelAdmin(flags->server, flags->admin, flags->json)
                                        : PrintModels(flags->server, flags->json);
  });
}

}  // namespace attention
