#include "server/services/admin/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/mutex.h"

namespace attention {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1::ErrorResponse;
using grpc::reflection::v1::ExtensionRequest;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetError(absl::StatusCode code, const std::string& text, ServerReflectionResponse& response) {
  ErrorResponse& error = *response.mutable_error_response();
  error.set_error_code(static_cast<int>(code));
  error.set_error_message(text);
}

// Returns the file as a FileDescriptorProto. Each is encoded once in the life of the process: a
// request of 30 bytes asks for all of them. There are as many as the generated pool has.
const std::string& Encoded(const FileDescriptor& file) {
  static Mutex mutex;
  static std::map<const FileDescriptor*, std::string> files;
  MutexLock lock(mutex);
  const auto found = files.find(&file);
  if (found != files.end()) {
    return found->second;  // which later files do not move
  }
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  return files.emplace(&file, proto.SerializeAsString()).first->second;
}

// Adds the file and its imports, each once, in the order in which they are found.
void AddFile(const FileDescriptor& file, std::set<const FileDescriptor*>& added,
             ServerReflectionResponse& response) {
  if (!added.insert(&file).second) {
    return;
  }
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(Encoded(file));
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), added, response);
  }
}

// Sets the file; it is null when no file declares `what`.
void SetFile(const FileDescriptor* file, const std::string& what,
             ServerReflectionResponse& response) {
  if (file == nullptr) {
    SetError(absl::StatusCode::kNotFound, absl::StrCat(what, ": not found"), response);
    return;
  }
  std::set<const FileDescriptor*> added;
  AddFile(*file, added, response);
}

const FileDescriptor* FindExtension(const ExtensionRequest& request) {
  const Descriptor* const type = Pool().FindMessageTypeByName(request.containing_type());
  const FieldDescriptor* const extension =
      type == nullptr ? nullptr : Pool().FindExtensionByNumber(type, request.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void SetExtensionNumbers(const std::string& type_name, ServerReflectionResponse& response) {
  const Descriptor* const type = Pool().FindMessageTypeByName(type_name);
  if (type == nullptr) {
    SetError(absl::StatusCode::kNotFound, absl::StrCat("type ", type_name, ": not found"),
             response);
    return;
  }
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* const extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
}

}  // namespace

ServerReflectionResponse AnswerReflection(const ServerReflectionRequest& request,
                                          const std::vector<std::string>& services) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      SetFile(Pool().FindFileByName(request.file_by_filename()),
              absl::StrCat("file ", request.file_by_filename()), response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      SetFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
              absl::StrCat("symbol ", request.file_containing_symbol()), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension: {
      const ExtensionRequest& extension = request.file_containing_extension();
      SetFile(FindExtension(extension),
              absl::StrCat("extension ", extension.extension_number(), " of ",
                           extension.containing_type()),
              response);
      break;
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensionNumbers(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::kListServices:
      for (const std::string& service : services) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    default:
      SetError(absl::StatusCode::kInvalidArgument,
               "message_request: expected one of its fields, found none", response);
  }
  return response;
}

}  // namespace attention
