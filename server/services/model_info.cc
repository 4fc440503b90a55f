#include "server/services/model_info.h"

#include "proto/codec/tensor.h"

namespace attention {

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
  info.set_max_positions(model.info().max_positions);
  *info.mutable_limits() = limits;
  if (model.info().seeded.has_value()) {
    info.set_seed(model.info().seeded->seed);
  }
  return info;
}

}  // namespace attention
