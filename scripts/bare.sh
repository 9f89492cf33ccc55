#!/bin/sh
# `make demo` and `make test` on a bare machine: a minimal Debian root with make and
# ca-certificates alone, where setup.sh has to install everything else.
#
#   1. As a user without sudo: the message names the missing packages.
#   2. As root, in a clone that belongs to another user, which git refuses to read.
#   3. As a user without sudo, and without git.
#
# Arguments are the targets of the third step, `demo test` by default.  The root takes package
# sources, certificates and pip's settings from this machine and is removed at the end.  Needs
# root, debootstrap and a package mirror; skipped without them.
. "$(dirname "$0")/common.sh"

skip() {
    say "skipped: $*"
    exit 0
}

[ "$(id -u)" -eq 0 ] || skip "making a root needs root"
command -v debootstrap >/dev/null || sh scripts/setup.sh bare || skip "there is no debootstrap"
unshare --mount --pid --fork true 2>/dev/null || skip "this machine allows no namespaces"

source=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
    grep -v -e security -e updates -e backports | head -n 1)
[ -n "$source" ] || skip "apt has no package source"

bare=$(mktemp -d)
chmod 755 "$bare"
trap 'rm -rf "$bare" "$bare.log"' EXIT
log=$bare.log
say "== a minimal root"
debootstrap --variant=minbase --include=make,ca-certificates "${source#* }" "$bare" \
    "${source% *}" >"$log" 2>&1 || {
    tail -n 3 "$log" >&2
    skip "debootstrap failed"
}
for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/pip.conf /etc/resolv.conf \
    /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e $path ] || cp -RL --remove-destination $path "$bare${path%/*}/"
done
apt-config dump | grep '^Acquire' >"$bare/etc/apt/apt.conf.d/99host"
echo force-unsafe-io >"$bare/etc/dpkg/dpkg.cfg.d/unsafe-io"
chroot "$bare" useradd --create-home plain
for clone in root plain; do
    git -c "safe.directory=*" clone --quiet --no-hardlinks "$root" "$bare/home/plain/$clone"
done
chroot "$bare" chown -R plain /home/plain

# inside USER CLONE TARGET..: runs make there, with no more of the environment than these.
inside() {
    user=$1
    clone=/home/plain/$2
    shift 2
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        GSPLAT_C_CUDA=0 GSPLAT_C_TORCH=0 GSPLAT_C_JAX=0 GSPLAT_C_RUST=0 \
        unshare --mount --pid --fork sh -ec '
            mount -t proc proc "$1/proc"
            mount --rbind /dev "$1/dev"
            exec chroot "$1" su "$2" -c "$3"' \
        sh "$bare" "$user" "cd $clone && make $*"
}

say "== a user without sudo, packages missing"
! inside plain plain demo >"$log" 2>&1 || die "make demo worked without packages"
cat "$log"
grep -q 'as root run: apt-get install .*gcc' "$log" || die "no word of what to install"
say "== root, in a clone of another user"
chroot "$bare" sh -c 'apt-get -q update && apt-get -q -y --no-install-recommends install git' \
    >"$log" 2>&1 || die "could not install git"
inside root root demo test
say "== a user without sudo or git"
chroot "$bare" apt-get -q -y purge git >"$log" 2>&1
inside plain plain "${@:-demo test}"
say "bare: clean"
