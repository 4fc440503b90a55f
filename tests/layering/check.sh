#!/usr/bin/env bash
# check.sh ROOT: names every line under ROOT that breaks the layering, and exits 1 if there is one.
set -euo pipefail
cd "$1"

# shellcheck disable=SC2016 # the fields are awk's
find core proto server client tests -type f \( -name '*.h' -o -name '*.cc' -o -name CMakeLists.txt \) |
  sort | tr '\n' '\0' | xargs -0 -r awk '
  # Who may include whom, itself apart. A file belongs to the longest prefix listed; an unlisted folder may do nothing.
  BEGIN {
    base = "core/tensor core/runtime"
    may["core/runtime"] = ""
    may["core/tensor"] = "core/runtime"
    may["core/reference"] = ""
    may["core/kernels/onednn"] = base
    may["core/kernels/tile"] = base " core/kernels/onednn"
    may["core/kernels/gemm"] = base " core/kernels/onednn core/kernels/tile"
    products = "core/kernels/onednn core/kernels/tile core/kernels/gemm"
    may["core/kernels/linear"] = base " " products
    may["core/kernels/attention"] = base " " products
    kernels = products " core/kernels/linear core/kernels/attention"
    may["core/attention"] = base " " kernels " core/attention/merge.h"
    may["core/attention/merge.h"] = ""
    may["core/tokenizer"] = "core/runtime"
    may["core/layers"] = base " " kernels " core/attention"
    may["core/models"] = base " " kernels " core/attention core/layers core/tokenizer"
    may["proto"] = base
    below = may["core/models"] " core/models core/tokenizer"
    may["server/log"] = below
    may["server/health.h"] = below
    may["server/health.cc"] = below " server/health.h"
    may["server/scheduling"] = below " server/log"
    may["server/sockets"] = below " server/log"
    may["server/sessions"] = below " proto server/scheduling"
    may["server/models"] = below " server/log server/health.h server/scheduling"
    may["server/observability"] = below " server/log server/health.h server/scheduling server/sockets server/sessions server/models"
    may["server/server_options.h"] = may["server/observability"] " server/observability"
    may["server/security"] = may["server/server_options.h"] " server/server_options.h"
    may["server/configuration"] = may["server/security"]
    below = below " proto server/log server/health.h server/scheduling server/sockets server/sessions server/models server/observability"
    services_below = below " server/security"
    below = services_below " server/server_options.h server/configuration"
    rooms = "server/services/plan server/services/reply server/services/calls"
    upper_rooms = "server/services/admin server/services/decode server/services/open_inference"
    may["server"] = below " server/services " rooms " " upper_rooms
    may["server/services"] = services_below " " rooms " " upper_rooms
    may["server/services/plan"] = services_below
    may["server/services/reply"] = services_below " server/services/plan"
    may["server/services/calls"] = services_below " server/services/plan server/services/reply"
    may["server/services/admin"] = services_below " " rooms
    may["server/services/decode"] = services_below " " rooms
    may["server/services/open_inference"] = services_below " " rooms
    may["client/lib"] = base " core/attention/merge.h proto"
    may["client/page"] = "core/runtime"
    may["client/load"] = base " core/reference proto client/lib"
    may["client/plot"] = base " proto client/page client/load client/lib"
    may["client/report"] = may["client/plot"]
    libraries = "client/lib client/page client/load client/plot client/report"
    client_rooms = base " core/reference proto " libraries " client/cli/commands.h"
    may["client/cli"] = client_rooms " client/cli/flags client/cli/show client/cli/files"
    may["client/cli/commands.h"] = ""
    may["client/cli/generate"] = client_rooms " client/cli/flags client/cli/files"
    may["client/cli/top"] = client_rooms " client/cli/flags client/cli/show client/cli/files"
    may["client/cli/flags"] = client_rooms " client/cli/files"
    may["client/cli/show"] = client_rooms " client/cli/files"
    may["client/cli/files"] = client_rooms
    may["tests"] = "core/reference core/attention/merge.h server " libraries " client/cli/commands.h client/cli/generate client/cli/top client/cli/flags client/cli/show client/cli/files " may["server"]
    status = 0
  }

  function say(text) {
    print FILENAME ":" FNR ": " text
    status = 1
  }

  function layer(path) {
    while (!(path in may) && sub(/\/[^\/]*$/, "", path)) {}
    return (path in may) ? path : ""
  }

  function check_own(path,   from, to) {
    from = layer(FILENAME)
    to = layer(path)
    if (from == "") {
      say("tests/layering/check.sh does not list this folder")
    } else if (from != to && index(" " may[from] " ", " " to " ") == 0) {
      say(from " may not include " path)
    }
    includes[FILENAME] = includes[FILENAME] " " path
  }

  FILENAME ~ /^core\// && tolower($0) ~ /grpc|protobuf|\.pb\.h/ { say("core may not name grpc or protobuf") }
  FILENAME ~ /CMakeLists\.txt$/ { next }

  FILENAME ~ /^core\// && FILENAME !~ /^core\/(kernels\/onednn\/isa|runtime\/baseline)\.cc$/ && /__builtin_cpu_|cpuid/ {
    say("only core/kernels/onednn/isa.cc may ask which processor it is")
  }

  match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]*/) {
    path = substr($0, RSTART, RLENGTH)
    quoted = path ~ /"/
    sub(/.*["<]/, "", path)
    if (path ~ /(^|\/)(dnnl|mkldnn)[a-z_]*\.hp*$/ && FILENAME !~ /^core\/kernels\/onednn\//) {
      say("only core/kernels/onednn may include " path)
    }
    if (path ~ /^unicode\// && FILENAME !~ /^core\/tokenizer\//) say("only core/tokenizer may include " path)
    if (path ~ /grpc/) names_grpc[FILENAME] = path
    if (path ~ /^(core|proto|server|client|tests)\//) check_own(path)
    else if (path ~ /^\.\.?\// || (quoted && path !~ /\//)) say("include from the root of the repository: " path)
  }

  # Two types of one name in one namespace: the linker keeps the functions of one for both. core/kernels/tile has a file for each
  # instruction set, of which a program takes one by namespace.
  FILENAME ~ /\.h$/ && FILENAME !~ /^(tests|core\/kernels\/tile)\// {
    if ($0 ~ /^namespace [A-Za-z0-9_:]+ \{/) space = $2
    if ($0 ~ /^(struct|class|enum class) .*\{/) {
      type = space "::" $($1 == "enum" ? 3 : 2)
      if (type in home && home[type] != FILENAME) say(type " is also defined in " home[type])
      home[type] = FILENAME
    }
  }

  # The file that includes grpc, of those that `path` includes, however indirectly; empty if none.
  function grpc_behind(path,   next_files, count, i, found) {
    if (path in names_grpc) return path
    if (path in seen) return ""
    seen[path] = 1
    count = split(includes[path], next_files, " ")
    for (i = 1; i <= count && found == ""; ++i) found = grpc_behind(next_files[i])
    return found
  }

  END {
    for (file in includes) if (file ~ /^server\/scheduling\//) schedulers[file] = 1
    for (file in names_grpc) if (file ~ /^server\/scheduling\//) schedulers[file] = 1
    for (file in schedulers) {
      split("", seen)
      culprit = grpc_behind(file)
      if (culprit != "") {
        print file ": scheduling may not include grpc: " names_grpc[culprit] (culprit == file ? "" : ", through " culprit)
        status = 1
      }
    }
    exit status
  }'
