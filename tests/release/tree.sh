# shellcheck shell=bash
# Sourced: bare Debian trees, each with what is committed in /project.
# REQUIRES: the checkout as working directory; fail TEXT, which ends the script. Whoever sources it calls end_tree at its end.

# shellcheck source=core/kernels/onednn/debian_13.sh
. core/kernels/onednn/debian_13.sh

[ "$(id -u)" = 0 ] || fail "needs root, to make a tree and to enter it"
for tool in debootstrap git; do
  command -v "$tool" >/dev/null || fail "$tool is missing: install it"
done
mirror=${ATTEND_DEBIAN_MIRROR:-$(debian_mirror)}
[ -n "$mirror" ] || fail "this machine's apt names no Debian mirror: set ATTEND_DEBIAN_MIRROR to one"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/attend-tree.XXXXXX")
tree=$work/tree
machine= # the process that runs in the tree

# make_tree SUITE: a bare machine with what is committed in /project.
make_tree() {
  local base=$work/$1
  [ -e "$base" ] || debootstrap --variant=minbase "$1" "$base" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    fail "debootstrap of $1 from $mirror failed: $(tail -n 5 "$work/debootstrap.log")"
  rm -rf --one-file-system "$tree"
  cp -a "$base" "$tree"
  cp --remove-destination /etc/resolv.conf "$tree/etc/resolv.conf"
  # Every installed machine and every container has this file; debootstrap leaves it to the installer.
  printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' >"$tree/etc/hosts"
  # Where a network's registries have certificates of their own, npm in the tree needs them too.
  [ -z "${NODE_EXTRA_CA_CERTS:-}" ] || cp "$NODE_EXTRA_CA_CERTS" "$tree/etc/extra-ca.crt"
  mkdir "$tree/project"
  git archive HEAD | tar -x -C "$tree/project"
}

# in_tree COMMAND...: becomes it, in the tree, with processes and mounts of its own, so that nothing outlives it.
in_tree() {
  local variables=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8)
  [ -z "${NODE_EXTRA_CA_CERTS:-}" ] || variables+=(NODE_EXTRA_CA_CERTS=/etc/extra-ca.crt)
  # shellcheck disable=SC2016 # the shells inside read these
  exec env -i "${variables[@]}" unshare --mount --pid --fork --kill-child sh -c 'cd "$0" || exit
    mount -t proc proc proc && mount --rbind /sys sys && mount --rbind /dev dev || exit
    chroot . sh -c "cd /project && exec \"\$@\"" sh "$@"' "$tree" "$@"
}

# run_in_tree LOG COMMAND...: runs it in the tree, with its output in LOG, and returns its status.
run_in_tree() {
  local log=$1 status=0
  shift
  in_tree "$@" >"$log" 2>&1 </dev/null &
  machine=$!
  wait "$machine" || status=$?
  machine=
  return "$status"
}

# end_tree: ends what runs in the tree, and removes the tree.
end_tree() {
  [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
  [ -z "$machine" ] || wait "$machine" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
