#!/usr/bin/env bash
# package_test.sh BUILD: makes the Debian packages of what BUILD holds and tries them, unpacked: their files, the unit by systemd's
# own checks, and its command, which a user without rights runs with the package's configuration on free ports, making no
# system call but those that the unit's filter allows.
set -euo pipefail
build=$1
# shellcheck source=tests/support/server_address.sh
. "$(dirname "$(readlink -f "$0")")/../support/server_address.sh"
root=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$root"
}
trap finish EXIT

fail() {
  echo "package_test.sh: $*" >&2
  exit 1
}

cpack --config "$build/CPackConfig.cmake" -B "$root/package" >"$root/cpack.log" || { cat "$root/cpack.log" >&2; fail "cpack failed"; }
packages=$(ls "$root"/package/*.deb)
[ "$(echo "$packages" | wc -l)" = 2 ] || fail "expected two packages, found $packages"
package=$(echo "$root"/package/attend-server_*.deb)
for name in attend-server attend; do
  dpkg-deb --extract "$root/package/$name"_*.deb "$root/tree"
  dpkg-deb --contents "$root/package/$name"_*.deb | sed -n 's/^-.* \.\//'"$name"' /p' >>"$root/files"
done
dpkg-deb --control "$package" "$root/control"

# Each file is in one package, which is this.
while read -r name files; do
  for file in $files; do
    [ -s "$root/tree/$file" ] || fail "the package $name lacks /$file"
    [ "$(grep " $file$" "$root/files")" = "$name $file" ] || fail "/$file: expected in $name alone, found $(grep " $file$" "$root/files")"
  done
done <<'END'
attend-server usr/bin/attend-server usr/share/man/man8/attend-server.8.gz usr/share/bash-completion/completions/attend-server
attend-server usr/share/zsh/vendor-completions/_attend-server etc/attend/attend.json usr/lib/systemd/system/attend-server.service
attend-server usr/share/doc/attend-server/copyright
attend usr/bin/attend usr/share/man/man1/attend.1.gz usr/share/bash-completion/completions/attend
attend usr/share/zsh/vendor-completions/_attend usr/share/doc/attend/copyright usr/share/attend/proto/attention/v1/attention.proto
END
[ -z "$(cut -d' ' -f2 "$root/files" | sort | uniq -d)" ] || fail "in both packages: $(cut -d' ' -f2 "$root/files" | sort | uniq -d)"
odd=$(for name in attend-server attend; do dpkg-deb --contents "$root/package/$name"_*.deb; done | grep -vE '^(-rw-r--r--|-rwxr-xr-x|drwxr-xr-x|lrwxrwxrwx) root/root ' || true)
[ -z "$odd" ] || fail "not owned by root, not readable by all, or writable by others: $odd"
for file in "$root"/tree/usr/local "$root"/tree/usr/include "$root"/tree/usr/lib/*/cmake; do
  [ ! -e "$file" ] || fail "the package has ${file#"$root/tree"}"
done
[ "$(cat "$root/control/conffiles")" = /etc/attend/attend.json ] || fail "conffiles: $(cat "$root/control/conffiles")"
for file in "$root"/package/*.deb; do
  dpkg-deb --field "$file" Depends | grep -q libgrpc++ || fail "Depends does not name gRPC: $(dpkg-deb --field "$file" Depends)"
done
for script in postinst prerm postrm; do
  sh -n "$root/control/$script" || fail "$script is no shell script"
done

# postinst restarts a running service, and starts one that has failed; the stub of systemctl says whether it has (0) or not (1).
mkdir "$root/stub"
# shellcheck disable=SC2016 # the stub reads them
printf '#!/bin/sh\necho "$*" >>"$SAID"\ncase "$*" in *is-failed*) exit "$FAILED" ;; esac\n' >"$root/stub/systemctl"
chmod +x "$root/stub/systemctl"
sed "s|/run/systemd/system|$root|" "$root/control/postinst" >"$root/postinst"
while IFS='|' read -r failed old expected; do
  DPKG_ROOT='' FAILED=$failed SAID=$root/said PATH=$root/stub:$PATH sh "$root/postinst" configure "$old" || fail "postinst ended with $?"
  said=$(grep -v is-failed "$root/said" | tr '\n' ';')
  [ "$said" = "$expected" ] || fail "postinst, failed=$failed, old version '$old': expected $expected, found $said"
  rm "$root/said"
done <<'END'
1||daemon-reload;
1|0.1.0|daemon-reload;--no-block try-restart attend-server.service;
0|0.1.0|daemon-reload;reset-failed attend-server.service;--no-block start attend-server.service;
END

unit=usr/lib/systemd/system/attend-server.service
mkdir -p "$root/tree/usr/lib/systemd/system"
cp /usr/lib/systemd/system/{basic,sysinit,shutdown,network-online,multi-user}.target "$root/tree/usr/lib/systemd/system/" 2>/dev/null ||
  cp /lib/systemd/system/{basic,sysinit,shutdown,network-online,multi-user}.target "$root/tree/usr/lib/systemd/system/"
said=$(systemd-analyze verify --man=no --recursive-errors=no --root="$root/tree" attend-server.service 2>&1) || fail "systemd-analyze verify: $said"
[ -z "$said" ] || fail "systemd-analyze verify: $said"
# 2.0 of 10, the most exposed; what is left is the network.
said=$(systemd-analyze security --no-pager --offline=true --threshold=20 --root="$root/tree" attend-server.service 2>&1) || fail "systemd-analyze security: $said"
! grep -q '^MemoryDenyWriteExecute=' "$root/tree/$unit" || fail "oneDNN generates code: MemoryDenyWriteExecute would stop it"

# A server that ends at once must fail the service, not start for ever: so many starts, of 2 s each and RestartSec, fit in the interval.
setting() { sed -n "s/^$1=//p" "$root/tree/$unit"; }
[ "$(setting StartLimitIntervalSec)" = 1min ] || fail "StartLimitIntervalSec: expected 1min, found $(setting StartLimitIntervalSec)"
burst=$(setting StartLimitBurst) pause=$(setting RestartSec)
[ $((burst * (pause + 2))) -lt 60 ] || fail "StartLimitBurst: expected fewer than $((60 / (pause + 2))) starts in a minute, found $burst"

command=$(sed -n 's/^ExecStart=//p' "$root/tree/$unit")
[ "$command" = '/usr/bin/attend-server --config=/etc/attend/attend.json' ] || fail "ExecStart: $command"
sed 's/:800[0-9]"/:0"/' "$root/tree/etc/attend/attend.json" >"$root/attend.json"
chmod -R go+rX "$root"
install -m 666 /dev/null "$root/trace"
as_service=()
[ "$(id -u)" != 0 ] || as_service=(setpriv --reuid=61184 --regid=61184 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all)
(cd / && exec env -i PATH=/usr/bin:/bin "${as_service[@]}" strace -D -f -qq -o "$root/trace" "$root/tree/usr/bin/attend-server" --config="$root/attend.json") >"$root/server.log" 2>&1 &
server=$!
address=$(server_address "$root/server.log" "$server")
"$root/tree/usr/bin/attend" run --server="$address" --random=1x4x512 --verify >"$root/run.log" 2>&1 || fail "attend run: $(cat "$root/run.log")"
kill -TERM "$server"
wait "$server" || fail "the server ended with $?: $(cat "$root/server.log")"
server=

# syscalls SET...: the system calls of systemd's sets, those of the sets within them too.
syscalls() {
  systemd-analyze --no-pager syscall-filter 2>/dev/null | awk -v wanted="$*" '
    function print_members(set, names, n, i) {
      n = split(members[set], names, " ")
      for (i = 1; i <= n; i++) if (names[i] ~ /^@/) print_members(names[i]); else print names[i]
    }
    /^@/ { set = $1 }
    /^ +[@a-z_]/ { members[set] = members[set] " " $1 }
    END { n = split(wanted, sets, " "); for (i = 1; i <= n; i++) print_members(sets[i]) }' | sort -u
}
filter=$(sed -n 's/^SystemCallFilter=//p' "$root/tree/$unit" | tr '\n' ' ')
[ "$filter" = '@system-service ~@privileged ' ] || fail "SystemCallFilter: $filter"
used=$(sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' "$root/trace" | sort -u)
[ "$(wc -l <<<"$used")" -gt 20 ] || fail "strace saw too little: $used"
refused=$(comm -23 <(echo "$used") <(comm -23 <(syscalls @system-service) <(syscalls @privileged)))
[ -z "$refused" ] || fail "the unit's SystemCallFilter forbids what the server does: $refused"

echo "$(basename "$package"): $(du -k "$package" | cut -f1) kB, exposure $(systemd-analyze security --no-pager --offline=true --root="$root/tree" attend-server.service | sed -n 's/.*attend-server.service: //p')"
