// The two programs as a person uses them: attend-server on a free port, and attend.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/e2e/process.h"
#include "tests/support/temp_folder.h"

namespace attention {

inline constexpr std::chrono::milliseconds kPatience = std::chrono::minutes(5);
inline constexpr char kCheckpoints[] = ATTEND_TEST_DATA "/models/";

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Runs `attend` to its end; exit code -1 if it does not come to one.
inline Outcome RunAttend(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), ATTEND_BINARY);
  Process process(arguments);
  const int exit_code = process.WaitForExit(kPatience).value_or(-1);
  return {exit_code, process.out(), process.err()};
}

/// A started server, ready to answer.
class ServerProcess {
 public:
  explicit ServerProcess(std::vector<std::string> arguments = {},
                         const std::string& listen = "127.0.0.1:0") {
    arguments.insert(arguments.begin(), {ATTEND_SERVER_BINARY, "--listen", listen,
                                         "--admin-listen=127.0.0.1:0", "--metrics-listen=none"});
    process_ = std::make_unique<Process>(arguments);
    address_ = AddressAfter("attend-server listening on ");
    admin_address_ = AddressAfter("attend-server admin on ");
  }

  const std::string& address() const { return address_; }
  /// Where administrators are served.
  const std::string& admin_address() const { return admin_address_; }
  Process& process() { return *process_; }

 private:
  std::string AddressAfter(const std::string& words) {
    EXPECT_TRUE(process_->WaitForStdout(words, kPatience)) << process_->err();
    const size_t begin = process_->out().find(words) + words.size();
    EXPECT_TRUE(process_->WaitForStdout("\n", kPatience)) << process_->err();
    return process_->out().substr(begin, process_->out().find('\n', begin) - begin);
  }

  std::unique_ptr<Process> process_;
  std::string address_;
  std::string admin_address_;
};

/// A server with the built-in model and a bf16 one, and a folder for files.
class ProgramsTest : public ::testing::Test {
 protected:
  Outcome Attend(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin() + 1, "--server=" + server_.address());
    return RunAttend(std::move(arguments));
  }
  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }

  ServerProcess server_{
      {"--random-model", "small:d_model=64,num_heads=4,num_kv_heads=2,dtype=bf16,causal=true"}};
  const TempFolder folder_;
};

}  // namespace attention
