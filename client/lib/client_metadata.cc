#include "client/lib/client_metadata.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/lib/channel_target.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

constexpr char kAuthorization[] = "authorization";

class AddMetadata : public grpc::experimental::Interceptor {
 public:
  explicit AddMetadata(const ClientMetadata& metadata) : metadata_(metadata) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert(metadata_.begin(), metadata_.end());
    }
    methods->Proceed();
  }

 private:
  const ClientMetadata& metadata_;
};

/// Adds the metadata to each call. It lives as long as its channel, and so longer than the calls.
class AddMetadataFactory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit AddMetadataFactory(const ClientMetadata& metadata) : metadata_(metadata) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new AddMetadata(metadata_);
  }

 private:
  const ClientMetadata metadata_;
};

/// Returns INVALID_ARGUMENT for metadata that gRPC does not accept: gRPC would end the process.
absl::Status Check(const std::string& name, const std::string& value) {
  const grpc_slice name_slice = grpc_slice_from_static_buffer(name.data(), name.size());
  const grpc_slice value_slice = grpc_slice_from_static_buffer(value.data(), value.size());
  if (!grpc_header_key_is_legal(name_slice) || absl::StartsWith(name, "grpc-")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "metadata: expected a name of a-z, 0-9, \"-\", \"_\" and \".\" that does not begin with "
        "\"grpc-\", found \"",
        name, "\""));
  }
  if (!grpc_is_binary_header(name_slice) && !grpc_header_nonbin_value_is_legal(value_slice)) {
    // The text leaves out the value, which may be a secret.
    return absl::InvalidArgumentError(
        absl::StrCat("metadata: expected printable ASCII as the value of \"", name,
                     "\" (names that end in \"-bin\" take any bytes), found something else"));
  }
  return absl::OkStatus();
}

absl::Status CheckSecrecy(const ConnectionOptions& options) {
  if (options.tls.has_value()) {
    return absl::OkStatus();
  }
  for (const absl::string_view server : absl::StrSplit(options.server, ',')) {
    if (!IsOnThisMachine(server)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "token: expected TLS (--tls) to another machine, found a plaintext connection to ",
          server, ", which would disclose it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClientMetadata> MetadataOf(const ConnectionOptions& options) {
  ClientMetadata metadata = options.metadata;
  if (!options.token.empty()) {
    metadata.emplace_back(kAuthorization, absl::StrCat("Bearer ", options.token));
  }
  for (const auto& [name, value] : metadata) {
    RETURN_IF_ERROR(Check(name, value));
    if (name == kAuthorization) {
      RETURN_IF_ERROR(CheckSecrecy(options));
    }
  }
  return metadata;
}

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> InterceptorsFor(
    const ClientMetadata& metadata) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  if (!metadata.empty()) {
    factories.push_back(std::make_unique<AddMetadataFactory>(metadata));
  }
  return factories;
}

}  // namespace attention
