#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/model_admin.h"
#include "client/cli/server_flags.h"
#include "client/cli/text_table.h"

namespace attention {
namespace {

/// 0 means that there is no such thing.
std::string CountOrDash(int64_t count) { return count == 0 ? "-" : absl::StrCat(count); }

/// "12", or "12 / 4" with fewer key/value heads.
std::string HeadsText(const v1::Model& model) {
  return model.num_heads() == model.num_kv_heads()
             ? absl::StrCat(model.num_heads())
             : absl::StrCat(model.num_heads(), " / ", model.num_kv_heads());
}

/// "bf16 237.5 MiB".
std::string WeightsText(const v1::Model& model) {
  return absl::StrFormat("%s %.1f MiB", model.weights_dtype(),
                         static_cast<double>(model.weights_bytes()) / (1 << 20));
}

std::string ToTable(const std::vector<v1::Model>& models) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "VERSION", "TYPE", "LAYERS", "D_MODEL",
                                                 "HEADS", "WEIGHTS", "CAUSAL", "VOCABULARY",
                                                 "POSITIONS"}};
  for (const v1::Model& model : models) {
    rows.push_back({model.name(), absl::StrCat(model.version()), model.model_type(),
                    absl::StrCat(model.num_layers()), absl::StrCat(model.d_model()),
                    HeadsText(model), WeightsText(model), model.causal() ? "yes" : "no",
                    CountOrDash(model.vocab_size()), CountOrDash(model.max_positions())});
  }
  return TextTable(rows);
}

nlohmann::json ToJson(const v1::Layer& layer) {
  return {{"d_model", layer.d_model()},
          {"d_memory", layer.d_memory()},
          {"d_memory_value", layer.d_memory_value()},
          {"num_heads", layer.num_heads()},
          {"num_kv_heads", layer.num_kv_heads()},
          {"head_dim", layer.head_dim()},
          {"value_head_dim", layer.value_head_dim()},
          {"causal", layer.causal()},
          {"is_cross", layer.is_cross()},
          {"extra_keys", layer.extra_keys()}};
}

nlohmann::json ToJson(const v1::Model& model) {
  nlohmann::json json = {{"name", model.name()},
                         {"version", model.version()},
                         {"model_type", model.model_type()},
                         {"num_layers", model.num_layers()},
                         {"has_stack", model.has_stack()},
                         {"has_encoder", model.has_encoder()},
                         {"has_logits", model.has_logits()},
                         {"has_tokenizer", model.has_tokenizer()},
                         {"num_token_types", model.num_token_types()},
                         {"weights_dtype", model.weights_dtype()},
                         {"weights_bytes", model.weights_bytes()},
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
  for (const v1::Layer& layer : model.layers()) {
    json["layers"].push_back(ToJson(layer));
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
                    "A JSON array instead of a table; adds layers, limits and the seed");
  AddModelAdminFlags(*command, flags->admin);
  command->callback([flags, &exit_code] {
    exit_code = flags->admin.is_given() ? RunModelAdmin(flags->server, flags->admin, flags->json)
                                        : PrintModels(flags->server, flags->json);
  });
}

}  // namespace attention
