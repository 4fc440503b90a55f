#!/bin/sh
# sbom.sh NAME VERSION [BUILT_IN_PACKAGE...] prints a software bill of materials, CycloneDX 1.6 in JSON: every Debian package
# that is installed here, and, as NAME=VERSION, those that were compiled into NAME.
#   docker run --rm --entrypoint cat attend /usr/share/doc/attend/sbom.cdx.json
set -eu
name=$1 version=$2
shift 2
arch=$(dpkg --print-architecture)
# shellcheck source=/dev/null
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-unknown}")

{
  for package; do printf '%s\t%s\t%s\n' "${package%%=*}" "${package#*=}" "compiled into $name"; done
  # shellcheck disable=SC2016 # dpkg's own fields
  dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n' |
    awk -F '\t' '$1 == "installed" { printf "%s\t%s\t%s\n", $2, $3, "installed" }'
} | awk -F '\t' -v name="$name" -v version="$version" -v arch="$arch" -v suite="$suite" '
  function escape(text) { gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); return text }
  # The characters that package versions have and package URLs do not.
  function url(text) { gsub(/%/, "%25", text); gsub(/\+/, "%2B", text); gsub(/:/, "%3A", text); return text }
  BEGIN {
    printf "{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.6\",\n  \"version\": 1,\n"
    printf "  \"metadata\": {\"component\": {\"type\": \"application\", \"bom-ref\": \"%s\", \"name\": \"%s\", \"version\": \"%s\"}},\n", name, name, version
    printf "  \"components\": ["
  }
  {
    purl = "pkg:deb/debian/" url($1) "@" url($2) "?arch=" arch "&distro=" suite
    if (seen[purl]++) next
    printf "%s\n    {\"type\": \"library\", \"bom-ref\": \"%s\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"%s\", \"description\": \"%s\"}",
      separator, purl, escape($1), escape($2), purl, $3
    separator = ","
  }
  END { printf "\n  ]\n}\n" }'
