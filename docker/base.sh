#!/usr/bin/env bash
# Makes a base image without a registry: this machine's Deno, nats-server and what a rack of processes wants
# of a shell, the libraries they are linked with, and the npm packages of deno.lock. It stands for the public
# images of Deno and of nats-server. Prints the image's name on stdout.
#   docker/base.sh [NAME]      default: rackmesh-base:local
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
name=${1:-rackmesh-base:local}
# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
setup

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# What of the C library is loaded by name and not linked: how hosts are looked up. In it since 2.34.
readonly LOOKUP_LIBRARIES="libnss_files.so.2 libnss_dns.so.2 libresolv.so.2"

copy_library() {
  [ -e "$stage$1" ] || install -D --mode=755 "$(readlink -f "$1")" "$stage$1"
}

# Copies the program $1 to $2 of the image, and what it is linked with to where that is here.
copy_program() {
  local library part
  install -D --mode=755 "$1" "$stage$2"
  # A program that is linked with nothing makes ldd fail.
  for library in $(ldd "$1" 2>/dev/null | grep --only-matching '/[^ ]*' || true); do
    copy_library "$library"
    case $library in */libc.so.*)
      for part in $LOOKUP_LIBRARIES; do
        [ ! -e "${library%/*}/$part" ] || copy_library "${library%/*}/$part"
      done ;;
    esac
  done
}

# The Deno on PATH may be a small program that starts the real one.
copy_program "$("$RACKMESH_DENO" eval 'console.log(Deno.execPath())')" /usr/bin/deno
# Where the public image has it.
copy_program "$(readlink -f "$RACKMESH_NATS_SERVER")" /nats-server
# The console's racks of processes: a shell ends a broker whose parent has ended, and continues stopped processes.
copy_program "$(readlink -f "$(command -v sh)")" /usr/bin/sh
for program in tr grep; do
  copy_program "$(readlink -f "$(command -v "$program")")" "/usr/bin/$program"
done

# The packages as Deno caches them, by the name of the public registry whichever they came from.
npm_cache=$("$RACKMESH_DENO" eval '
  const { stdout } = new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).outputSync();
  console.log(JSON.parse(new TextDecoder().decode(stdout)).npmCache);')
packages=$("$RACKMESH_DENO" eval '
  const { npm } = JSON.parse(Deno.readTextFileSync(Deno.args[0]));
  for (const key of Object.keys(npm)) {
    const [, name, version] = /^(.+?)@([^_]+)/.exec(key);
    console.log(`${name} ${version}`);
  }' -- "$root/deno.lock")
while read -r package version; do
  # A package for another kind of machine is not here.
  for folder in "$npm_cache"/*/"$package/$version"; do
    [ -d "$folder" ] || continue
    to=$stage/deno-dir/npm/registry.npmjs.org/$package
    mkdir -p "$to"
    cp -r --no-preserve=ownership "$folder" "$to/"
    [ ! -e "${folder%/*}/registry.json" ] || cp "${folder%/*}/registry.json" "$to/"
    break
  done
done <<<"$packages"

mkdir -p "$stage/etc" "$stage/tmp"
chmod 1777 "$stage/tmp"
printf 'root:x:0:0::/:\ndeno:x:1993:1993::/:\n' >"$stage/etc/passwd"
printf 'root:x:0:\ndeno:x:1993:\n' >"$stage/etc/group"
printf 'hosts: files dns\n' >"$stage/etc/nsswitch.conf"

tar --create --owner=0 --group=0 --numeric-owner --directory="$stage" . |
  docker import \
    --change 'ENV PATH=/usr/bin' \
    --change 'ENV DENO_DIR=/deno-dir/' \
    --message 'Deno, nats-server, a shell and the npm packages of Rackmesh' \
    - "$name" >/dev/null
echo "$name"
