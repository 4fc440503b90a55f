#!/bin/sh
# Writes nginx.conf from nginx.conf.template in the folder of this script, then runs nginx in its place:
#   EDGE_CERTIFICATE=tls.crt EDGE_KEY=tls.key EDGE_SERVER=127.0.0.1:8001 deploy/edge/start.sh [NGINX-ARGUMENT...]
# With the argument -t or -T it only checks the configuration. README.md lists the variables.
set -eu
PATH=$PATH:/usr/sbin # where Debian has nginx, and the shells of users do not look

# Whether this machine has an IPv6 address: yes or no. The file is missing or empty where the kernel has no IPv6.
has_ipv6() { if [ -n "$(cat /proc/net/if_inet6 2>/dev/null)" ]; then echo yes; else echo no; fi; }

made= # the folder that this script made, until nginx runs in its place
trap '[ -z "$made" ] || rm -rf "$made"' EXIT
[ -n "${EDGE_FOLDER:-}" ] || made=$(mktemp -d)

: "${EDGE_LISTEN:=8443}"                                # [HOST:]PORT to serve on
: "${EDGE_IPV6:=$(has_ipv6)}"                           # yes: a PORT without HOST is served on IPv6, too; no: on IPv4 alone
: "${EDGE_CERTIFICATE:=/etc/attend-edge-tls/tls.crt}"   # certificate chain for clients and its key (PEM)
: "${EDGE_KEY:=/etc/attend-edge-tls/tls.key}"
: "${EDGE_SERVER:=127.0.0.1:8001}"                      # HOST:PORT of the server, or unix:/PATH
: "${EDGE_SERVER_CA:=}"                                 # authority of the server's certificate (PEM); empty: plaintext
: "${EDGE_SERVER_NAME:=attend}"                         # a name in that certificate
: "${EDGE_MESSAGE_BYTES:=268435456}"                    # --max-message-bytes of the server
: "${EDGE_CALLS:=256}"                                  # concurrent calls of one address; nginx takes at most 65535
: "${EDGE_CALLS_PER_SECOND:=1000}"                      # new calls of one address per second
: "${EDGE_WORKERS:=2}"                                  # processes
: "${EDGE_FOLDER:=$made}"                               # the folder for its configuration; nobody else may write to it
: "${EDGE_NGINX:=nginx}"

# nginx would look for relative files in EDGE_FOLDER.
absolute() {
  case $1 in
    "" | /*) echo "$1" ;;
    *) echo "$PWD/$1" ;;
  esac
}
EDGE_CERTIFICATE=$(absolute "$EDGE_CERTIFICATE")
EDGE_KEY=$(absolute "$EDGE_KEY")
EDGE_SERVER_CA=$(absolute "$EDGE_SERVER_CA")

mkdir -p "$EDGE_FOLDER"
EDGE_FOLDER=$(absolute "$EDGE_FOLDER")

script=
# replace NAME TEXT: replaces @NAME@ in the template by TEXT.
replace() { script="$script;s|@$1@|$2|g"; }
# fill NAME VALUE: does the same with a value that can change nothing else of the configuration.
fill() {
  check "$@"
  replace "$@"
}
# check NAME VALUE
check() {
  case $2 in
    *[[:space:]]* | *[\|\&\\\;{}\"\'\$\#]*)
      echo "start.sh: $1: expected no space, line break, |, &, \\, ;, {, }, \", ', \$ or #, found $2" >&2
      exit 1
      ;;
  esac
}
# check_number NAME VALUE MOST
check_number() {
  case $2 in
    0* | *[!0-9]* | ???????????*) valid=no ;;
    *) valid=$(($2 <= $3)) ;;
  esac
  if [ "$valid" != 1 ]; then
    echo "start.sh: $1: expected a whole number of 1 to $3, found $2" >&2
    exit 1
  fi
}

fill EDGE_LISTEN "$EDGE_LISTEN"
case $EDGE_IPV6 in
  yes | no) ;;
  *)
    echo "start.sh: EDGE_IPV6: expected yes or no, found $EDGE_IPV6" >&2
    exit 1
    ;;
esac
case $EDGE_IPV6:$EDGE_LISTEN in
  no:* | yes:*[!0-9]*) replace EDGE_LISTEN_IPV6 "" ;; # a HOST is one address, of IPv4 or IPv6
  *) replace EDGE_LISTEN_IPV6 "listen [::]:$EDGE_LISTEN ssl http2;" ;;
esac
fill EDGE_CERTIFICATE "$EDGE_CERTIFICATE"
fill EDGE_KEY "$EDGE_KEY"
fill EDGE_SERVER "$EDGE_SERVER"
check_number EDGE_MESSAGE_BYTES "$EDGE_MESSAGE_BYTES" 2147483647
fill EDGE_BODY_BYTES $((EDGE_MESSAGE_BYTES + 1048576))
check_number EDGE_CALLS "$EDGE_CALLS" 65535
fill EDGE_CALLS "$EDGE_CALLS"
fill EDGE_CALLS_PER_SECOND "$EDGE_CALLS_PER_SECOND"
fill EDGE_WORKERS "$EDGE_WORKERS"
fill EDGE_FOLDER "$EDGE_FOLDER"
if [ -n "$EDGE_SERVER_CA" ]; then
  fill EDGE_SCHEME grpcs
  check EDGE_SERVER_CA "$EDGE_SERVER_CA"
  check EDGE_SERVER_NAME "$EDGE_SERVER_NAME"
  replace EDGE_SERVER_TLS "grpc_ssl_verify on; grpc_ssl_trusted_certificate $EDGE_SERVER_CA; \
grpc_ssl_name $EDGE_SERVER_NAME; grpc_ssl_server_name on;"
else
  fill EDGE_SCHEME grpc
  replace EDGE_SERVER_TLS ""
fi

sed "${script#;}" "$(dirname "$0")/nginx.conf.template" >"$EDGE_FOLDER/nginx.conf"
set -- "$EDGE_NGINX" -e stderr -p "$EDGE_FOLDER/" -c "$EDGE_FOLDER/nginx.conf" -g 'daemon off;' "$@"
case " $* " in
  *' -'[?hTtVv]' '*) "$@" ;; # nginx ends at once, and the folder is removed
  *) exec "$@" ;;
esac
