// What the fuzz targets of requests share.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "core/models/model_repository.h"
#include "core/models/seeded_model.h"
#include "server/services/plan/attend_plan.h"

namespace attention {

/// The bytes as a transport may cut them.
inline grpc::ByteBuffer CutBytes(const uint8_t* data, size_t size, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < size; begin += slice_bytes) {
    slices.emplace_back(data + begin, std::min(slice_bytes, size - begin));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

/// A repository with a small model that takes tensors and tokens.
inline const ModelRepository& FuzzedModels() {
  static const ModelRepository& models = *[] {
    auto* repository = new ModelRepository;
    const auto spec = ParseSeededModelSpec(
        "demo:d_model=16,num_heads=4,num_kv_heads=2,vocab_size=32,max_positions=64");
    if (!spec.ok() || !repository->AddSeeded(*spec).ok()) {
      abort();
    }
    return repository;
  }();
  return models;
}

/// Aborts unless the rows that the plan computes lie within its operands and its output.
inline void CheckPlan(const AttendPlan& plan) {
  const auto check = [](bool holds) {
    if (!holds) {
      abort();
    }
  };
  const auto rows_of = [&plan](size_t operand) {
    const Shape& shape = plan.operands[operand].shape;
    int64_t rows = shape.empty() ? 0 : shape[0];
    const bool is_padded = shape.size() == (plan.model == nullptr ? 4u : 3u);
    return is_padded ? rows * shape[1] : rows;
  };
  const int64_t query_rows =
      plan.is_token_request ? static_cast<int64_t>(plan.ids.size()) : rows_of(0);
  for (const PlannedSequence& sequence : plan.sequences) {
    check(sequence.query.first_row >= 0 && sequence.query.rows >= 0);
    check(sequence.query.first_row + sequence.query.rows <= query_rows);
    check(sequence.key.first_row >= 0 && sequence.key.rows >= 0);
    check(sequence.output.first_row >= 0 && sequence.output.rows >= 0);
  }
  int64_t elements = 1;
  for (const int64_t extent : plan.output_shape) {
    check(extent >= 0);
    check(!__builtin_mul_overflow(elements, extent, &elements));
  }
}

}  // namespace attention
