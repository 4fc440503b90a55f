#!/usr/bin/env bash
# Makes the certificates beside it anew: keys of P-256, where their names do not say otherwise, valid from 2020 to 2120, for tests only.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"

# sign NAME AUTHORITY END EXTENSION...: signs request.pem; `openssl x509` cannot say when a certificate begins.
sign() {
  cat >ca.conf <<'CONF'
[ca]
default_ca = issuer
[issuer]
database = index.txt
rand_serial = yes
unique_subject = no
new_certs_dir = .
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
commonName = supplied
[extensions]
CONF
  printf '%s\n' "${@:4}" >>ca.conf
  : >index.txt
  local authority=(-cert "$2.pem" -keyfile "$2.key")
  [ "$1" != "$2" ] || authority=(-selfsign -keyfile "$2.key")
  openssl ca -batch -notext -config ca.conf "${authority[@]}" -startdate 20200101000000Z -enddate "$3" \
    -in request.pem -out "$1.pem"
  rm -f request.pem ca.conf index.txt* [0-9A-F][0-9A-F]*.pem
}

request() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -subj "/CN=$2" -keyout "$1.key" -out request.pem
}

# authority NAME SUBJECT
authority() {
  request "$1" "$2"
  sign "$1" "$1" 21200101000000Z 'basicConstraints=critical,CA:TRUE' 'keyUsage=critical,keyCertSign,cRLSign' \
    'subjectKeyIdentifier=hash'
}

# issue NAME SUBJECT AUTHORITY USAGE ALTERNATIVE_NAMES [END]
issue() {
  request "$1" "$2"
  sign "$1" "$3" "${6:-21200101000000Z}" 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' \
    "extendedKeyUsage=$4" "subjectAltName=$5" 'subjectKeyIdentifier=hash' 'authorityKeyIdentifier=keyid'
}

# self_signed NAME KEY...: for localhost, with a key that `openssl req` is told of, valid for a century from now on.
self_signed() {
  openssl req -x509 -nodes -sha256 -days 36500 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -newkey "${@:2}" -keyout "$1.key" -out "$1.pem"
}

readonly SERVER_NAMES=DNS:localhost,IP:127.0.0.1,IP:::1
authority ca 'Attend test authority'
authority other_ca 'Another test authority'
issue server localhost ca serverAuth "$SERVER_NAMES"
issue renewed_server localhost ca serverAuth "$SERVER_NAMES"
issue other_server localhost other_ca serverAuth "$SERVER_NAMES"
issue expired_server localhost ca serverAuth "$SERVER_NAMES" 20210101000000Z
issue client attend-test-client ca clientAuth DNS:attend-test-client,URI:spiffe://attend.test/client
issue other_client attend-test-client other_ca clientAuth DNS:attend-test-client
self_signed weak_server rsa:512
self_signed curve_server ec -pkeyopt ec_paramgen_curve:secp256k1
rm ca.key other_ca.key # nothing more is issued
