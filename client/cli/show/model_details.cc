#include "client/cli/show/model_details.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/show/text_table.h"
#include "core/runtime/counted.h"

namespace attention {
namespace {

std::string InputText(const v1::Model& model) {
  std::vector<std::string> inputs = {absl::StrCat("hidden states of ", model.d_model())};
  if (model.vocab_size() > 0) {
    inputs.push_back(absl::StrCat("token ids below ", model.vocab_size()));
  }
  if (model.num_token_types() > 0) {
    inputs.push_back(absl::StrCat("token types below ", model.num_token_types()));
  }
  if (model.has_tokenizer()) {
    inputs.push_back("texts");
  }
  return absl::StrJoin(inputs, ", ");
}

std::string OutputText(const v1::Model& model) {
  return !model.has_stack()
             ? "attention of its layer"
             : absl::StrCat("hidden states, pooled rows", model.has_logits() ? ", logits" : "",
                            ", attention of each layer");
}

std::string StackText(const v1::Model& model) {
  const std::string count = Counted(model.num_layers(), "layer");
  return !model.has_stack()    ? absl::StrCat(count, ", no stack around it")
         : model.has_encoder() ? absl::StrCat(count, ", a decoder over an encoder")
         : model.causal()      ? absl::StrCat(count, ", a decoder")
                               : absl::StrCat(count, ", an encoder");
}

std::string StateText(const v1::ModelState& state) {
  std::string text = v1::ModelState::Phase_Name(state.phase());
  if (state.load_ns() > 0) {
    absl::StrAppendFormat(&text, ", %s read in %.2f s", Mebibytes(state.read_bytes()),
                          1e-9 * static_cast<double>(state.load_ns()));
  }
  if (state.num_unused_tensors() > 0) {
    absl::StrAppend(&text, ", ", Counted(state.num_unused_tensors(), "tensor"), " unused");
  }
  return state.error().empty() ? text : absl::StrCat(text, ": ", state.error());
}

std::string YesOrNo(bool is_so) { return is_so ? "yes" : "no"; }

/// The cells of a layer in its row, without its number.
std::vector<std::string> LayerCells(const v1::Layer& layer) {
  return {absl::StrCat(layer.d_model()),
          HeadsText(layer.num_heads(), layer.num_kv_heads()),
          absl::StrCat(layer.head_dim()),
          absl::StrCat(layer.value_head_dim()),
          YesOrNo(layer.causal()),
          layer.window() == 0 ? "all keys" : absl::StrCat(layer.window()),
          layer.is_cross() ? absl::StrCat("memory of ", layer.d_memory()) : "own rows",
          absl::StrCat(layer.extra_keys())};
}

std::string LayersTable(const v1::Model& model) {
  std::vector<std::vector<std::string>> rows = {{"LAYER", "D_MODEL", "HEADS", "HEAD_DIM",
                                                 "VALUE_DIM", "CAUSAL", "WINDOW", "KEYS FROM",
                                                 "EXTRA KEYS"}};
  for (int first = 0; first < model.layers_size();) {
    std::vector<std::string> cells = LayerCells(model.layers(first));
    int end = first + 1;
    while (end < model.layers_size() && LayerCells(model.layers(end)) == cells) {
      ++end;
    }
    cells.insert(cells.begin(),
                 end - first == 1 ? absl::StrCat(first) : absl::StrCat(first, " to ", end - 1));
    rows.push_back(std::move(cells));
    first = end;
  }
  return TextTable(rows);
}

}  // namespace

std::string HeadsText(int64_t num_heads, int64_t num_kv_heads) {
  return num_heads == num_kv_heads ? absl::StrCat(num_heads)
                                   : absl::StrCat(num_heads, " / ", num_kv_heads);
}

std::string EmulationWarning(const v1::Model& model) {
  if (model.emulated_dtypes_size() == 0) {
    return "";
  }
  return absl::StrCat("the server's processor has no fast instructions for products of ",
                      absl::StrJoin(model.emulated_dtypes(), " and "),
                      "; it computes them as fp32, which is faster for few rows only");
}

std::string ModelDetails(const v1::Model& model, const std::optional<v1::ModelState>& state) {
  std::vector<std::pair<const char*, std::string>> lines = {
      {"model",
       absl::StrCat(model.name(), ", version ", model.version(), ", ", model.model_type())},
      {"stack", StackText(model)},
      {"takes", InputText(model)},
      {"gives", OutputText(model)},
      {"weights", absl::StrCat(Mebibytes(model.weights_bytes()), " of ", model.weights_dtype(),
                               ", activations in ", v1::DataType_Name(model.dtype()))},
      {"longest", model.max_positions() == 0
                      ? "any number of tokens a sequence"
                      : absl::StrCat(model.max_positions(), " tokens a sequence")},
      {"limits", absl::StrCat(model.limits().max_tokens(), " rows, ",
                              model.limits().max_sequences(), " sequences and ",
                              Mebibytes(model.limits().max_message_bytes()), " a request")}};
  if (model.has_seed()) {
    lines.emplace_back("seed", absl::StrCat(model.seed()));
  }
  if (model.emulated_dtypes_size() > 0) {
    lines.emplace_back("warning", EmulationWarning(model));
  }
  if (state.has_value()) {
    lines.emplace_back("loading", StateText(*state));
  }
  std::string text;
  for (const auto& [name, value] : lines) {
    absl::StrAppendFormat(&text, "%-9s %s\n", name, value);
  }
  return absl::StrCat(text, "\n", LayersTable(model));
}

}  // namespace attention
