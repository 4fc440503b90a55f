#include "tests/support/golden.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "nlohmann/json.hpp"

namespace attention {
namespace {

const std::string kFolder = ATTEND_TEST_DATA "/golden/";

nlohmann::json LoadManifest(const std::string& name) {
  std::ifstream file(kFolder + "sdpa/manifest.json");
  return nlohmann::json::parse(file).at(name);
}

}  // namespace

std::vector<std::string> SdpaCaseNames() {
  return {"plain",    "causal",       "causal_bottom_right",
          "cross_dv", "gqa_causal",   "mqa_decode",
          "odd_dims", "one_key",      "ragged",
          "scale",    "large_logits", "window",
          "softcap",  "bias"};
}

SdpaCase LoadSdpaCase(const std::string& name) {
  NamedTensors tensors = LoadGolden("sdpa/" + name + ".safetensors");
  const nlohmann::json options = LoadManifest(name);
  SdpaCase result;
  result.query = std::move(tensors.at("query"));
  result.key = std::move(tensors.at("key"));
  result.value = std::move(tensors.at("value"));
  result.output = std::move(tensors.at("output"));
  if (tensors.contains("weights")) {
    result.weights = std::move(tensors.at("weights"));
  }
  result.kv_lens.assign(result.key.shape()[0], result.key.shape()[1]);
  if (tensors.contains("kv_lengths")) {
    const std::vector<double> kv_lens = ToDoubles(tensors.at("kv_lengths"));
    result.kv_lens.assign(kv_lens.begin(), kv_lens.end());
  }
  result.causal = options.value("causal", false);
  if (options.contains("scale")) {
    result.scale = options.at("scale").get<double>();
  }
  result.window = options.value("window", int64_t{0});
  result.softcap = options.value("softcap", 0.0);
  if (tensors.contains("bias")) {
    result.bias = std::move(tensors.at("bias"));
  }
  return result;
}

NamedTensors LoadGolden(const std::string& file) {
  absl::StatusOr<NamedTensors> tensors = ReadSafetensors(kFolder + file);
  if (!tensors.ok()) {
    std::fprintf(stderr, "%s\n", tensors.status().ToString().c_str());
    std::abort();
  }
  return *std::move(tensors);
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  const Tensor floats = tensor.ConvertedTo(Dtype::kF32);
  return {floats.as<float>(), floats.as<float>() + floats.num_elements()};
}

std::vector<double> ToDoubles(const Tensor& tensor, int64_t index) {
  const std::vector<double> all = ToDoubles(tensor);
  const int64_t size = std::ssize(all) / tensor.shape()[0];
  return {all.begin() + index * size, all.begin() + (index + 1) * size};
}

}  // namespace attention
