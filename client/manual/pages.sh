#!/usr/bin/env bash
# Makes the manual pages of PROGRAM and of its commands in FOLDER, of their --help, by help2man: pages.sh PROGRAM SECTION FOLDER
set -euo pipefail
program=$1 section=$2 folder=$3
name=${program##*/}
text=$(mktemp)
trap 'rm -f "$text" "$text.names"' EXIT

# Names the sections of a help as help2man knows them. CLI11 2.5 has no "Usage:", and writes titles in capitals.
sections() {
  awk -v name="$name" '
    !past_options && index($0, name " ") == 1 { $0 = "Usage: " $0 }
    /^OPTIONS:/ { $0 = "Options:" }
    /^Options:/ { past_options = 1 }
    /^(Positionals|POSITIONALS):/ { $0 = "*Arguments*" }
    /^Commands:/ { $0 = "*Commands*" }
    /^ +-/ { gsub(/, *--/, ", --") }
    /^Start here:/ { $0 = "Examples:" }
    sub(/^Exit codes: */, "") { $0 = "*Exit status*\n" $0; in_examples = 0 }
    past_options && last == "" && /^[^ *].*[^:]$/ && !has_notes++ { print "*Notes*" }
    in_examples { sub(/^  /, "  $ ") }
    /^Examples:/ { in_examples = 1 }
    { print; last = $0 }'
}

# page COMMAND...: the page of the program, or of one of its commands.
page() {
  local title=$name${1:+-$1} summary
  # --help-expert has the flags that --help leaves out, where there are some.
  { "$program" "$@" --help-expert 2>/dev/null || "$program" "$@" --help; } | sections >"$text"
  summary=$(sed -n "1{s/^$name: //;s/\.\$//;p}" "$text")
  printf '[NAME]\n%s \\- %s\n[SEE ALSO]\n%s\n' "$title" "$summary" "attend(1), attend-server(8)" >"$text.names"
  help2man --no-info --section="$section" --source="Attend $version" --manual=Attend --version-string="$version" \
    --include="$text.names" --help-option="$text" cat |
    sed -E '/^\.TH/s/"[^"]*"/""/2; /^\\f\(CW/s/-/\\-/g; /^[^ .][^ ]*\[,[^ ]*$/s/.*/.br\n&/' >"$folder/$title.$section"
}

version=$("$program" --version)
version=${version##* }
page
for command in $("$program" --help | awk '/^Commands:/ { on = 1; next } on && !NF { exit } on { print $1 }'); do
  page "$command"
done
