#!/usr/bin/env bash
# Shows that check.sh accepts a good tree and refuses each kind of bad one, for the reason it should.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
trees=$(mktemp -d)
readonly good=$trees/good tree=$trees/tree
trap 'rm -rf "$trees"' EXIT
failures=0

# put ROOT FILE LINE...
put() {
  mkdir -p "$1/${2%/*}"
  printf '%s\n' "${@:3}" >"$1/$2"
}

make_good_tree() {
  put "$good" core/tensor/tensor.h '#include "core/runtime/aligned_buffer.h"'
  put "$good" core/reference/reference.h '#include <vector>'
  put "$good" core/kernels/onednn/gemm.cc '#include <oneapi/dnnl/dnnl.hpp>' '#include "core/runtime/thread_pool.h"'
  put "$good" core/kernels/onednn/isa.cc 'return __builtin_cpu_is("intel");'
  put "$good" core/runtime/baseline.cc 'if (!__builtin_cpu_supports("x86-64-v2")) {'
  put "$good" core/tokenizer/unicode.cc '#include <unicode/uchar.h>' '#include "core/runtime/status_macros.h"'
  put "$good" core/models/one.h 'namespace attention {' 'struct State {' '}' '}'
  put "$good" core/models/model.h '#include "core/layers/layer.h"' '#include "absl/status/status.h"'
  put "$good" proto/codec/tensor.cc '#include "grpcpp/support/slice.h"' '#include "core/tensor/tensor.h"'
  put "$good" server/log/log.h '#include <atomic>'
  put "$good" server/scheduling/queue.cc '#include "server/log/log.h"' '#include "core/models/model.h"'
  put "$good" server/observability/metrics.h '#include "server/scheduling/queue.h"' '#include "server/health.h"'
  put "$good" server/configuration/settings.h '#include "server/server_options.h"'
  put "$good" server/command_line.cc '#include "server/configuration/settings.h"'
  put "$good" server/services/service.cc '#include "server/services/calls/call.h"' '#include "proto/codec/tensor.h"'
  put "$good" server/services/calls/call.h '#include "server/services/plan/plan.h"' '#include "server/scheduling/queue.h"'
  put "$good" client/lib/client.cc '#include "core/tensor/tensor.h"' '#include "proto/codec/tensor.h"'
  put "$good" client/load/load.cc '#include "client/lib/client.h"' '#include "core/reference/reference.h"'
  put "$good" client/report/report.cc '#include "client/load/load.h"' '#include "client/page/page.h"'
  put "$good" tests/e2e/test.cc '#include "server/server.h"' '#include "client/lib/client.h"'
}

# refuses REASON FILE LINE...: a good tree with this file added is refused with REASON.
refuses() {
  local reason=$1 said
  rm -rf "$tree"
  cp -r "$good" "$tree"
  put "$tree" "${@:2}"
  if said=$("$here/check.sh" "$tree"); then
    echo "accepted, but should not: $2: ${*:3}"
  elif [[ $said != *"$reason"* || $said != *"$2"* || $said == *$'\n'* ]]; then
    echo "$2: expected one line with '$reason' that names it, found: $said"
  else
    return 0
  fi
  failures=$((failures + 1))
}

make_good_tree
"$here/check.sh" "$good" || { echo "a good tree was refused" && failures=1; }

refuses 'core may not name grpc' core/tensor/bad.h '// As in GRPC.'
refuses 'core may not name grpc' core/CMakeLists.txt 'target_link_libraries(x PUBLIC protobuf::libprotobuf)'
refuses 'only core/kernels/onednn may include' core/kernels/linear/bad.cc '#include <oneapi/dnnl/dnnl_ukernel.hpp>'
refuses 'only core/kernels/onednn may include' tests/bench/bad.cc '#include <dnnl.h>'
refuses 'only core/tokenizer may include' core/models/bad.h '#include <unicode/uchar.h>'
refuses 'only core/kernels/onednn/isa.cc may ask' core/kernels/tile/bad.h 'bool b = __builtin_cpu_supports("avx512f");'
refuses 'only core/kernels/onednn/isa.cc may ask' core/kernels/onednn/bad.cc '#include <cpuid.h>'
refuses 'core/runtime may not include core/tensor' core/runtime/bad.h '#include "core/tensor/tensor.h"'
refuses 'core/tensor may not include core/kernels/linear' core/tensor/bad.h '#include "core/kernels/linear/linear.h"'
refuses 'core/kernels/tile may not include core/kernels/gemm' core/kernels/tile/bad.cc '#include "core/kernels/gemm/gemm.h"'
refuses 'core/kernels/onednn may not include core/attention' core/kernels/onednn/bad.cc '  #  include "core/attention/attention.h"'
refuses 'core/attention may not include core/layers' core/attention/bad.h '#include "core/layers/layer.h"'
refuses 'core/tokenizer may not include core/models' core/tokenizer/bad.h '#include "core/models/model.h"'
refuses 'core/layers may not include core/models' core/layers/bad.h '#include "core/models/model.h"'
refuses 'core/models may not include core/reference' core/models/bad.h '#include "core/reference/reference.h"'
refuses 'core/reference may not include core/tensor' core/reference/bad.h '#include "core/tensor/tensor.h"'
refuses 'core/models may not include server' core/models/bad.h '#include "server/server.h"'
refuses 'attention::State is also defined in core/models/one.h' core/models/two.h 'namespace attention {' 'class State final {'
refuses 'does not list this folder' core/util/bad.h '#include "core/tensor/tensor.h"'
refuses 'proto may not include core/attention' proto/codec/bad.h '#include "core/attention/attention.h"'
refuses 'client/lib may not include core/models' client/lib/bad.h '#include "core/models/model.h"'
refuses 'client/lib may not include client/load' client/lib/bad.h '#include "client/load/load.h"'
refuses 'client/load may not include client/report' client/load/bad.cc '#include "client/report/report_page.h"'
refuses 'client/page may not include client/plot' client/page/bad.h '#include "client/plot/picture.h"'
refuses 'client/cli may not include server' client/cli/bad.cc '#include "server/server.h"'
refuses 'client/cli/files may not include client/cli/flags' client/cli/files/bad.h '#include "client/cli/flags/help.h"'
refuses 'client/cli/flags may not include client/cli/show' client/cli/flags/bad.h '#include "client/cli/show/text_table.h"'
refuses 'server may not include client' server/bad.cc '#include "client/lib/client.h"'
refuses 'server may not include core/reference' server/bad.cc '#include "core/reference/reference.h"'
refuses 'server/scheduling may not include proto' server/scheduling/bad.h '#include "proto/other.h"'
refuses 'server/scheduling may not include server/services/plan' server/scheduling/bad.h '#include "server/services/plan/plan.h"'
refuses 'server/services/plan may not include server/services/reply' server/services/plan/bad.h '#include "server/services/reply/reply.h"'
refuses 'server/services/calls may not include server/services/decode' server/services/calls/bad.h '#include "server/services/decode/call.h"'
refuses 'server/services/decode may not include server/services/admin' server/services/decode/bad.h '#include "server/services/admin/info.h"'
refuses 'server/services/admin may not include server/services/service.h' server/services/admin/bad.h '#include "server/services/service.h"'
refuses 'scheduling may not include grpc' server/scheduling/bad.h '#include <grpcpp/grpcpp.h>'
refuses 'through server/log/log.h' server/log/log.h '#include <grpcpp/grpcpp.h>'
refuses 'include from the root' core/kernels/linear/bad.cc '#include "linear.h"'
refuses 'include from the root' core/kernels/linear/bad.cc '#include "../tensor/tensor.h"'

[ "$failures" = 0 ]
