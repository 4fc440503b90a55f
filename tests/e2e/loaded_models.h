// A server with three loaded models, of which gpt2 takes texts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/programs.h"
#include "tests/support/eventually.h"
#include "tests/support/temp_folder.h"
#include "tests/support/word_tokenizer.h"

namespace attention {

/// Tests of the command `attend` against gpt2, gemma2 and torch_transformer, with a folder for
/// files.
class LoadedModelsTest : public ::testing::Test {
 protected:
  LoadedModelsTest() {
    for (const std::string model : {"gpt2", "gemma2", "torch_transformer"}) {
      std::filesystem::copy(kCheckpoints + model, models_.path() + "/" + model);
    }
    models_.Write("gpt2/tokenizer.json", kWordTokenizer);
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{"--models", models_.path()});
    EXPECT_TRUE(Eventually([this] { return Attend({"health"}).exit_code == 0; }));
  }

  Outcome Attend(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin() + 1, "--server=" + server_->address());
    return RunAttend(std::move(arguments));
  }
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  const TempFolder models_;
  const TempFolder folder_;
  std::unique_ptr<ServerProcess> server_;
};

}  // namespace attention
