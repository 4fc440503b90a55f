#include "server/services/admin/model_info.h"

#include <set>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "core/kernels/onednn/isa.h"
#include "proto/codec/tensor.h"

namespace attention {
namespace {

void DescribeStack(const Model& model, v1::Model& wire) {
  const ModelInfo& info = model.info();
  wire.set_version(info.version);
  wire.set_model_type(info.model_type);
  wire.set_num_layers(std::ssize(info.layers));
  wire.set_has_stack(info.has_stack);
  wire.set_has_encoder(info.has_encoder);
  wire.set_has_logits(info.has_logits);
  wire.set_num_token_types(info.num_token_types);
  wire.set_has_tokenizer(model.tokenizer() != nullptr);
  wire.set_weights_dtype(std::string(Name(info.weights_dtype)));
  wire.set_weights_bytes(info.weights_bytes);
}

bool IsEmulated(std::string_view dtype) {
  return dtype == "int8"
             ? !MultipliesInt8()
             : dtype == "fp16" || (dtype == "bf16" && ComputeDtype(Dtype::kBf16) != Dtype::kBf16);
}

void DescribeEmulation(const Model& model, v1::Model& wire) {
  const std::set<std::string> dtypes = {
      absl::AsciiStrToLower(std::string(Name(model.layer(0).dtype()))),
      std::string(Name(model.info().weights_dtype))};
  for (const std::string& dtype : dtypes) {
    if (IsEmulated(dtype)) {
      wire.add_emulated_dtypes(dtype);
    }
  }
}

void DescribeLayer(const ModelLayerInfo& layer, v1::Layer& wire) {
  wire.set_d_model(layer.shape.d_model);
  wire.set_d_memory(layer.shape.d_memory);
  wire.set_d_memory_value(layer.shape.has_memory_values() ? layer.shape.d_memory_value : 0);
  wire.set_num_heads(layer.shape.num_heads);
  wire.set_num_kv_heads(layer.shape.num_kv_heads);
  wire.set_head_dim(layer.shape.head_dim);
  wire.set_value_head_dim(layer.shape.value_head_dim);
  wire.set_causal(layer.causal);
  wire.set_is_cross(layer.is_cross);
  wire.set_extra_keys(layer.extra_keys);
  wire.set_window(layer.window);
}

}  // namespace

v1::Model DescribeModel(const Model& model, const v1::ModelLimits& limits) {
  const MultiHeadAttentionShape& shape = model.layer(0).shape();
  v1::Model info;
  info.set_name(model.name());
  info.set_d_model(shape.d_model);
  info.set_num_heads(shape.num_heads);
  info.set_num_kv_heads(shape.num_kv_heads);
  info.set_head_dim(shape.head_dim);
  info.set_value_head_dim(shape.value_head_dim);
  info.set_dtype(ToWire(model.layer(0).dtype()));
  info.set_causal(model.info().layers[0].causal);
  info.set_vocab_size(model.info().vocab_size);
  info.set_max_positions(model.info().max_positions.value_or(0));
  *info.mutable_limits() = limits;
  if (model.info().seeded.has_value()) {
    info.set_seed(model.info().seeded->seed);
  }
  DescribeStack(model, info);
  DescribeEmulation(model, info);
  for (const ModelLayerInfo& layer : model.info().layers) {
    DescribeLayer(layer, *info.add_layers());
  }
  return info;
}

}  // namespace attention
