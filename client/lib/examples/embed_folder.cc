// embed_folder FOLDER [MODEL [SERVER]]: embeds the texts of a folder with a model, and prints the
// nearest other text of each. The folder has at least two files *.txt.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "attend/client/lib/attention_client.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: embed_folder FOLDER [MODEL [SERVER]]\n";
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.path().extension() == ".txt") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  attention::TextInput input;
  for (const auto& path : files) {
    std::ifstream file(path);
    input.texts.emplace_back(std::istreambuf_iterator<char>(file),
                             std::istreambuf_iterator<char>());
  }

  const auto client = attention::AttentionClient::Connect(
      {.connection = {.server = argc > 3 ? argv[3] : "127.0.0.1:8001"}});
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  const auto result = (*client)->Attend({.model = argc > 2 ? argv[2] : "bert",
                                         .input = input,
                                         .model_output = attention::v1::MEAN_POOLED});
  if (!result.ok()) {
    std::cerr << result.status() << "\n";
    return 1;
  }
  const attention::Tensor rows = result->output.ConvertedTo(attention::Dtype::kF32);  // [N, E]
  const int64_t width = rows.shape()[1];
  const auto dot = [&](size_t a, size_t b) {
    const float* const first = rows.as<float>() + a * width;
    return std::inner_product(first, first + width, rows.as<float>() + b * width, 0.0);
  };
  for (size_t i = 0; i < files.size(); ++i) {
    size_t nearest = i;
    double highest = -1;
    for (size_t j = 0; j < files.size(); ++j) {
      const double cosine = dot(i, j) / std::sqrt(dot(i, i) * dot(j, j));
      if (j != i && cosine > highest) {
        nearest = j;
        highest = cosine;
      }
    }
    std::cout << files[i].filename().string() << " is nearest to "
              << files[nearest].filename().string() << " (cosine " << highest << ")\n";
  }
}
