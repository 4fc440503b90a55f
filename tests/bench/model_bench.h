// How fast a checkpoint is loaded, and a whole model run.
#pragma once

#include <regex>
#include <string>

#include "nlohmann/json.hpp"

namespace attention::bench {

struct ModelBenchOptions {
  /// Holds config.json and the weights.
  std::string folder;
  /// Of the cases' names, such as model/bf16/B8_S128/threads1.
  std::regex filter;
  int threads = 1;
  double seconds = 1;
};

/// Prints a line for each weights dtype (read and pack MB/s, memory) and for each case, and answers
/// the cases as the other benchmarks do; `checked`: the first sequence of the batch has the bits it
/// has alone, and its last hidden states are those of the f32 weights within the dtype's error.
nlohmann::json BenchModel(const ModelBenchOptions& options);

}  // namespace attention::bench
