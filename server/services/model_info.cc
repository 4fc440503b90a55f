#include "server/services/model_info.h"

#include "proto/codec/tensor.h"

namespace attention {

v1::Model DescribeModel(const Model& model, const v1::ModelLimits& limits) {
  const SeededModelSpec& spec = model.spec();
  const MultiHeadAttentionShape& shape = model.layer().shape();
  v1::Model info;
  info.set_name(model.name());
  info.set_d_model(shape.d_model);
  info.set_num_heads(shape.num_heads);
  info.set_num_kv_heads(shape.num_kv_heads);
  info.set_head_dim(shape.head_dim);
  info.set_value_head_dim(shape.value_head_dim);
  info.set_dtype(ToWire(model.layer().dtype()));
  info.set_causal(spec.causal);
  info.set_vocab_size(spec.vocab_size);
  info.set_max_positions(spec.max_positions);
  *info.mutable_limits() = limits;
  info.set_seed(spec.seed);
  return info;
}

}  // namespace attention
