#include "client/cli/show/file_picture.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/tensor_file.h"
#include "client/cli/files/token_file.h"
#include "client/cli/show/hidden_keys.h"
#include "client/plot/picture_facts.h"
#include "client/plot/token_text.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

/// "layer.2" before "layer.10": digits compare as numbers.
bool NaturallyBefore(const std::string& a, const std::string& b) {
  size_t i = 0, j = 0;
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto number = [&is_digit](const std::string& text, size_t& at) {
    std::string digits;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      digits += digits == "0" ? "" : std::string(1, text[at]);
    }
    return digits;
  };
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string left = number(a, i), right = number(b, j);
      if (left != right) {
        return left.size() != right.size() ? left.size() < right.size() : left < right;
      }
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

using NamedTensor = std::pair<std::string, Tensor>;

/// [L, N, H, Sq, Sk] of one tensor, whatever it leaves out.
struct FullShape {
  int64_t layers = 1, sequences = 1, heads = 1, rows = 1, keys = 1;
};

absl::StatusOr<FullShape> FullShapeOf(const NamedTensor& tensor, bool has_sequences,
                                      bool is_one_layer) {
  const Shape& shape = tensor.second.shape();
  const size_t most = is_one_layer ? 4 : 5;
  if (shape.size() < 2 || shape.size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor \"", tensor.first, "\": expected ",
        is_one_layer ? "[H, Sq, Sk] or [N, H, Sq, Sk], a layer in each tensor of the file"
                     : "[Sq, Sk], [H, Sq, Sk], [L, H, Sq, Sk] or [L, N, H, Sq, Sk]",
        ", found ", ShapeText(shape), is_one_layer ? "; FILE:TENSOR chooses one tensor" : ""));
  }
  const size_t rank = shape.size();
  FullShape full = {.rows = shape[rank - 2], .keys = shape[rank - 1]};
  full.heads = rank > 2 ? shape[rank - 3] : 1;
  const bool is_batch = is_one_layer || has_sequences;
  full.sequences = rank == 5 || (rank == 4 && is_batch) ? shape[rank - 4] : 1;
  full.layers = rank == 5 ? shape[0] : rank == 4 && !is_batch ? shape[0] : 1;
  return full;
}

/// A layer and sequence of `tensor`.
LayerPicture Slice(const Tensor& tensor, const FullShape& full, int64_t layer, int64_t sequence) {
  LayerPicture picture = {.weights = Tensor(Dtype::kF32, {full.heads, full.rows, full.keys}),
                          .rows = NumberedTokens(full.rows),
                          .keys = NumberedTokens(full.keys)};
  for (int64_t head = 0; head < full.heads; ++head) {
    picture.heads.push_back(head);
  }
  const int64_t elements = picture.weights.num_elements();
  Convert(tensor.dtype(),
          ElementAt(tensor.data(), tensor.dtype(), (layer * full.sequences + sequence) * elements),
          Dtype::kF32, picture.weights.data(), elements);
  return picture;
}

absl::Status AddTensor(const NamedTensor& tensor, const FullShape& full, const std::string& name,
                       AttentionPicture& picture) {
  if (!picture.sequences.empty() && std::ssize(picture.sequences) != full.sequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", tensor.first, "\": expected ", picture.sequences.size(),
                     " sequences as in the others, found ", ShapeText(tensor.second.shape())));
  }
  picture.sequences.resize(full.sequences);
  for (int64_t s = 0; s < full.sequences; ++s) {
    SequencePicture& sequence = picture.sequences[s];
    sequence.name = absl::StrCat("sequence ", s);
    for (int64_t l = 0; l < full.layers; ++l) {
      LayerPicture& layer = sequence.layers.emplace_back(Slice(tensor.second, full, l, s));
      layer.number = std::ssize(sequence.layers) - 1;
      layer.name = name.empty() ? absl::StrCat("layer ", layer.number) : name;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AttentionPicture> PictureOfTensors(const std::vector<NamedTensor>& tensors,
                                                  bool has_sequences) {
  AttentionPicture picture;
  const bool is_several = tensors.size() > 1;
  for (const NamedTensor& tensor : tensors) {
    ASSIGN_OR_RETURN(const FullShape full, FullShapeOf(tensor, has_sequences, is_several));
    RETURN_IF_ERROR(
        AddTensor(tensor, full, is_several ? ShownToken(tensor.first) : std::string(), picture));
  }
  return picture;
}

/// Of weights from elsewhere.
absl::StatusOr<AttentionPicture> PictureOfWeights(const FilePictureOptions& options) {
  std::vector<NamedTensor> tensors;
  const bool is_whole = absl::EndsWith(options.path, ".safetensors");
  if (is_whole && FileExists(options.path)) {
    ASSIGN_OR_RETURN(NamedTensors named, ReadSafetensors(options.path));
    for (auto& [name, tensor] : named) {
      tensors.emplace_back(name, std::move(tensor));
    }
    std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
      return NaturallyBefore(a.first, b.first);
    });
  } else {
    ASSIGN_OR_RETURN(Tensor tensor, LoadTensor(options.path, 0));
    tensors.emplace_back(options.path, std::move(tensor));
  }
  ASSIGN_OR_RETURN(AttentionPicture picture, PictureOfTensors(tensors, options.has_sequences));
  picture.title = "Attention";
  picture.source = options.path;
  return picture;
}

/// The picture that the file describes itself; none when it does not.
absl::StatusOr<std::optional<AttentionPicture>> DescribedPicture(const std::string& path) {
  if (!absl::EndsWith(path, ".safetensors") || !FileExists(path)) {
    return std::optional<AttentionPicture>();
  }
  ASSIGN_OR_RETURN(const SafetensorsMetadata metadata, ReadSafetensorsMetadata(path));
  const auto facts = metadata.find(kPictureFacts);
  if (facts == metadata.end()) {
    return std::optional<AttentionPicture>();
  }
  ASSIGN_OR_RETURN(NamedTensors tensors, ReadSafetensors(path));
  ASSIGN_OR_RETURN(AttentionPicture picture, PictureFrom(facts->second, std::move(tensors)));
  return std::optional<AttentionPicture>(std::move(picture));
}

}  // namespace

absl::StatusOr<AttentionPicture> PictureOfFile(const FilePictureOptions& options) {
  ASSIGN_OR_RETURN(std::optional<AttentionPicture> described, DescribedPicture(options.path));
  const bool is_described = described.has_value();
  AttentionPicture picture;
  if (is_described) {
    picture = *std::move(described);
  } else {
    ASSIGN_OR_RETURN(picture, PictureOfWeights(options));
  }
  if (!options.tokens.empty()) {
    RETURN_IF_ERROR(NameTokens(options.tokens, picture));
  }
  if (options.visibility.ByteSizeLong() > 0) {
    RETURN_IF_ERROR(HideByOptions(options.visibility, picture));
  } else if (!is_described) {
    HidingRules rules;
    for (SequencePicture& sequence : picture.sequences) {
      for (LayerPicture& layer : sequence.layers) {
        HideZeros(layer, rules);
      }
    }
    picture.hidden_by = rules.Text();
  }
  return picture;
}

}  // namespace attention
