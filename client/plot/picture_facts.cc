#include "client/plot/picture_facts.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/plot/token_text.h"
#include "core/runtime/json_text.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

using nlohmann::json;

std::string PackedMask(const std::vector<uint8_t>& hidden) {
  std::string bytes((hidden.size() + 7) / 8, '\0');
  for (size_t i = 0; i < hidden.size(); ++i) {
    bytes[i / 8] = static_cast<char>(bytes[i / 8] | (hidden[i] != 0 ? 1 << i % 8 : 0));
  }
  return absl::Base64Escape(bytes);
}

/// The index of `entry` in `list`, to which it is added if it is missing.
int64_t IndexIn(json& list, const json& entry) {
  const auto found = std::find(list.begin(), list.end(), entry);
  const int64_t index = std::distance(list.begin(), found);
  if (found == list.end()) {
    list.push_back(entry);
  }
  return index;
}

json LayerFacts(const LayerPicture& layer, json& facts) {
  const int64_t cells = std::ssize(layer.rows) * std::ssize(layer.keys);
  return {{"name", layer.name},
          {"number", layer.number},
          {"heads", layer.heads},
          {"rows", IndexIn(facts["texts"], layer.rows)},
          {"keys", IndexIn(facts["texts"], layer.keys)},
          {"mask", layer.hidden.empty() ? -1 : IndexIn(facts["masks"], PackedMask(layer.hidden))},
          {"maskHeads", cells == 0 ? 0 : std::ssize(layer.hidden) / cells},
          {"tensor", layer.tensor_name}};
}

/// Returns a text of a file, whoever wrote it, in a form that a terminal only shows.
std::string TextOf(const json& text) { return ShownLine(text.get<std::string>()); }

std::vector<std::string> TextsOf(const json& texts) {
  std::vector<std::string> read;
  for (const json& text : texts) {
    read.push_back(TextOf(text));
  }
  return read;
}

/// Reads facts. Missing members and other types throw json::exception, which PictureFrom reports.
class FactsReader {
 public:
  FactsReader(const json& facts, NamedTensors& tensors) : facts_(facts), tensors_(tensors) {}

  absl::StatusOr<AttentionPicture> Read() {
    AttentionPicture picture = {.title = TextOf(facts_.at("title")),
                                .source = TextOf(facts_.at("source")),
                                .hidden_by = TextOf(facts_.at("hiddenBy"))};
    for (const json& sequence : facts_.at("sequences")) {
      SequencePicture& read = picture.sequences.emplace_back();
      read.name = TextOf(sequence.at("name"));
      for (const json& layer : sequence.at("layers")) {
        ASSIGN_OR_RETURN(LayerPicture made, ReadLayer(layer));
        read.layers.push_back(std::move(made));
      }
      if (read.layers.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("sequence ", read.name, ": expected layers, found none"));
      }
    }
    return picture;
  }

 private:
  absl::StatusOr<LayerPicture> ReadLayer(const json& layer) {
    LayerPicture read = {.name = TextOf(layer.at("name")),
                         .number = layer.at("number"),
                         .heads = layer.at("heads"),
                         .rows = TextsOf(facts_.at("texts").at(layer.at("rows").get<size_t>())),
                         .keys = TextsOf(facts_.at("texts").at(layer.at("keys").get<size_t>())),
                         .tensor_name = layer.at("tensor")};
    const auto tensor = tensors_.find(read.tensor_name);
    const Shape expected = {std::ssize(read.heads), std::ssize(read.rows), std::ssize(read.keys)};
    if (tensor == tensors_.end() || tensor->second.shape() != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", read.tensor_name, "\": expected ", ShapeText(expected),
          ", as the file's own description says, found ",
          tensor == tensors_.end() ? std::string("none") : ShapeText(tensor->second.shape())));
    }
    read.weights = tensor->second.ConvertedTo(Dtype::kF32);
    ASSIGN_OR_RETURN(read.hidden, ReadMask(layer, expected));
    return read;
  }

  absl::StatusOr<std::vector<uint8_t>> ReadMask(const json& layer, const Shape& shape) const {
    std::vector<uint8_t> hidden;
    if (layer.at("mask").get<int64_t>() < 0) {
      return hidden;
    }
    std::string bytes;
    const int64_t heads = layer.at("maskHeads");
    if (heads != 1 && heads != shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat(layer.at("name").get<std::string>(),
                                                     ": maskHeads: expected 1 or ", shape[0],
                                                     ", found ", heads));
    }
    const int64_t cells = heads * shape[1] * shape[2];
    if (!absl::Base64Unescape(
            facts_.at("masks").at(layer.at("mask").get<size_t>()).get<std::string>(), &bytes) ||
        std::ssize(bytes) != (cells + 7) / 8) {
      return absl::InvalidArgumentError(
          absl::StrCat(layer.at("name").get<std::string>(), ": expected a mask of ",
                       (cells + 7) / 8, " bytes for ", heads, " heads, found ", bytes.size()));
    }
    for (int64_t i = 0; i < cells; ++i) {
      hidden.push_back(static_cast<uint8_t>(bytes[i / 8]) >> i % 8 & 1);
    }
    return hidden;
  }

  const json& facts_;
  NamedTensors& tensors_;
};

}  // namespace

json PictureFacts(const AttentionPicture& picture) {
  json facts = {{"title", picture.title},        {"source", picture.source},
                {"hiddenBy", picture.hidden_by}, {"texts", json::array()},
                {"masks", json::array()},        {"sequences", json::array()}};
  for (const SequencePicture& sequence : picture.sequences) {
    json layers = json::array();
    for (const LayerPicture& layer : sequence.layers) {
      layers.push_back(LayerFacts(layer, facts));
    }
    facts["sequences"].push_back({{"name", sequence.name}, {"layers", std::move(layers)}});
  }
  return facts;
}

absl::StatusOr<AttentionPicture> PictureFrom(const std::string& facts, NamedTensors tensors) {
  ASSIGN_OR_RETURN(const json parsed, ParseJsonObject(facts, kPictureFacts));
  try {  // json throws if a member is missing or has another type
    return FactsReader(parsed, tensors).Read();
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(kPictureFacts, ": expected a description of a picture: ", error.what()));
  }
}

}  // namespace attention
