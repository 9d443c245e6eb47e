# Provides what scripts/rack and scripts/test need on a machine: Deno, nats-server, the npm packages
# of deno.lock. Both source this file, with `root` set to the repository. Uses installed programs;
# fetches missing ones into one cache folder, with a message on stderr; silent where nothing is
# missing.
#
# Exports RACKMESH_DENO and RACKMESH_NATS_SERVER, the paths of the two programs.
# shellcheck shell=bash

readonly DENO_VERSION=2.9.6
# SHA-512 of npm's packages of that version, as the registry has them (dist.integrity, here in hex).
# Of the platforms that are missing, npm's own check against the registry is the only one.
readonly DENO_LINUX_X64_GLIBC=de67784ca2c2bb3b0b0e67cea02e4a37b34065ac525643209bae2f83a7e80f4d090400c2a584b6ff942a5dfce09cfe59433de22cff6f05026d120735d7a380a1
# For machines without a packaged nats-server. Older versions work as well (Debian 12 has 2.9.10).
readonly NATS_VERSION=2.10.22
# EX_SOFTWARE of sysexits.h, which every entry point of the project uses for "this cannot work".
readonly EXIT_SETUP=70

readonly DENO_SITE=${RACKMESH_DENO_SITE:-https://dl.deno.land/release}
readonly NATS_SITE=${RACKMESH_NATS_SITE:-https://github.com/nats-io/nats-server/releases/download}

# EX_USAGE: the command line or the environment is wrong.
readonly EXIT_USAGE=64

say() {
  printf 'rackmesh: %s\n' "$*" >&2
}

if [ -z "${XDG_CACHE_HOME:-}${HOME:-}" ]; then
  say "There is no place for a cache: expected HOME or XDG_CACHE_HOME to be set"
  exit "$EXIT_USAGE"
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rackmesh
tried=()

# Exits with a list of the attempts. $1: what is missing; $2: what the user can do.
give_up() {
  say "Cannot set up $1. Tried:"
  local attempt
  for attempt in "${tried[@]}"; do say "  - $attempt"; done
  say "$2"
  say "Details: $cache/setup.log"
  exit "$EXIT_SETUP"
}

# Runs a command with its output in the log. $1: its purpose, for the list of attempts.
attempt() {
  local what=$1 status
  shift
  tried+=("$what")
  say "$what"
  printf '\n== %s\n' "$what" >>"$cache/setup.log"
  "$@" </dev/null >>"$cache/setup.log" 2>&1
  status=$?
  if [ "$status" -ne 0 ]; then
    tried[${#tried[@]} - 1]="$what: failed ($(tail -n 1 "$cache/setup.log" | cut -c 1-160))"
  fi
  return "$status"
}

have() {
  command -v "$1" >/dev/null 2>&1
}

# Only one setup at a time: another invocation waits, then finds everything installed. An open file
# holds the lock, so a killed setup leaves none behind. Without flock two setups do the same work,
# each in its own folder, and move the result into place.
lock_cache() {
  if ! mkdir -p "$cache" 2>/dev/null || ! [ -w "$cache" ]; then
    tried=("to write to $cache")
    say "Cannot set up: $cache cannot be written to; set XDG_CACHE_HOME to a folder that can"
    exit "$EXIT_SETUP"
  fi
  have flock || return 0
  exec 9>"$cache/setup.lock"
  if ! flock --nonblock 9; then
    say "waiting for another setup on this machine"
    flock 9
  fi
}

unlock_cache() {
  exec 9>&-
}

# Downloads $1 to $2 with the first available program.
download() {
  if have curl; then
    curl --fail --silent --show-error --location --retry 2 --connect-timeout 20 --output "$2" "$1"
  elif have wget; then
    wget --quiet --timeout=20 --tries=3 --output-document="$2" "$1"
  elif have python3; then
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' \
      "$1" "$2"
  else
    echo "there is no curl, wget or python3 to download with" >&2
    return 1
  fi
}

# Prints the hash of the file $2 in hex. $1: 256 or 512, of SHA-2.
hash_of() {
  if have "sha$1sum"; then "sha$1sum" <"$2"; else shasum -a "$1" <"$2"; fi | cut -d ' ' -f 1
}

# Fails where the file $2 does not have the hash $3, of so many bits ($1).
check_hash() {
  local found
  found=$(hash_of "$1" "$2")
  [ "$found" = "$3" ] && return 0
  echo "${2##*/} is not what it should be: SHA-$1 is ${found:-unknown}, expected ${3:-a known one}"
  return 1
}

# Downloads $1 to $2 and checks it against the site's list of hashes $3, by its name in there.
download_checked() {
  download "$1" "$2" && download "$3" "$2.sums" &&
    check_hash 256 "$2" "$(grep -F "${1##*/}" "$2.sums" | grep -oiE '\b[0-9a-f]{64}\b' | head -n 1)"
}

# Makes the folder `work` for downloads, which is gone however this subshell ends. The caller holds
# the lock: folders of others belong to set-ups that were killed.
begin_work() {
  ! have flock || rm -rf "$cache"/fetch.*
  work=$cache/fetch.$$
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  rm -rf "$work" && mkdir -p "$work"
}

# Unpacks the zip file $1 into the folder $2.
unzip_into() {
  if have unzip; then
    unzip -q -o "$1" -d "$2"
  elif have python3; then
    python3 -m zipfile -e "$1" "$2"
  else
    echo "there is no unzip or python3 to unpack with" >&2
    return 1
  fi
}

# Runs apt-get as root, or fails at once where sudo would ask for a password.
apt_get() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    have sudo && sudo -n true 2>/dev/null || {
      echo "neither root nor sudo without a password" >&2
      return 1
    }
    as_root=(sudo -n)
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@"
}

apt_updated=no
apt_install() {
  if [ "$apt_updated" = no ]; then
    apt_get update || echo "apt-get update failed; going on with the lists there are"
    apt_updated=yes
  fi
  apt_get install -y --no-install-recommends "$@"
}

# Prints the path of program $1, also where Debian installs daemons outside users' PATH.
# RACKMESH_PROGRAM_PATH replaces the searched folders.
find_program() {
  local folder folders
  IFS=: read -ra folders <<<"${RACKMESH_PROGRAM_PATH-$PATH:/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin}"
  for folder in "${folders[@]}"; do
    if [ -n "$folder" ] && [ -f "$folder/$1" ] && [ -x "$folder/$1" ]; then
      printf '%s\n' "$folder/$1"
      return 0
    fi
  done
  return 1
}

# ensure_apt_tool NAME PACKAGE…: installs the program NAME from Debian's PACKAGE (and what else is
# named) where it is missing. Fails where that is impossible; the caller reports the consequence.
ensure_apt_tool() {
  find_program "$1" >/dev/null && return 0
  if ! have apt-get; then
    tried+=("apt-get install $2: there is no apt-get here")
    return 1
  fi
  attempt "$1 is missing: installing Debian's package $2 with apt-get" apt_install "${@:2}" &&
    find_program "$1" >/dev/null
}

# ── Deno ─────────────────────────────────────────────────────────────────────────────────────────

# True where $1 is a usable Deno: DENO_VERSION or newer, of the same major version.
deno_fits() {
  local version
  version=$("$1" --version 2>/dev/null | sed -n '1s/^deno \([0-9.]*\).*/\1/p')
  [ "${version%%.*}" = "${DENO_VERSION%%.*}" ] &&
    [ "$(printf '%s\n' "$DENO_VERSION" "$version" | sort -V | head -n 1)" = "$DENO_VERSION" ]
}

# Moves the program $1 to its place in the cache, after a test run of it.
keep_deno() {
  chmod +x "$1" && deno_fits "$1" && mkdir -p "$cache/deno-$DENO_VERSION" &&
    mv -f "$1" "$cache/deno-$DENO_VERSION/deno"
}

# The install script of npm's package `deno` may be forbidden, so the program is taken from the
# platform's package, which contains it.
deno_from_npm() {
  local work=$1 platform expected
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) platform=linux-x64-glibc ;;
    Linux-aarch64) platform=linux-arm64-glibc ;;
    Darwin-x86_64) platform=darwin-x64 ;;
    Darwin-arm64) platform=darwin-arm64 ;;
    *) echo "no package for $(uname -sm)" && return 1 ;;
  esac
  (cd "$work" && npm pack "@deno/$platform@$DENO_VERSION") || return 1
  expected=DENO_$(printf '%s' "$platform" | tr '[:lower:]-' '[:upper:]_')
  [ -z "${!expected:-}" ] || check_hash 512 "$work"/deno-*.tgz "${!expected}" || return 1
  tar -xzf "$work"/deno-*.tgz -C "$work" && keep_deno "$work/package/deno"
}

deno_from_release() {
  local work=$1 target
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
    Linux-aarch64) target=aarch64-unknown-linux-gnu ;;
    Darwin-x86_64) target=x86_64-apple-darwin ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    *) echo "no release for $(uname -sm)" && return 1 ;;
  esac
  local archive=$DENO_SITE/v$DENO_VERSION/deno-$target.zip
  download_checked "$archive" "$work/deno.zip" "$archive.sha256sum" &&
    unzip_into "$work/deno.zip" "$work" && keep_deno "$work/deno"
}

fetch_deno() (
  begin_work
  if [ -e "$cache/deno-$DENO_VERSION/deno" ]; then
    say "$cache/deno-$DENO_VERSION/deno does not run; it is fetched again"
  else
    say "Deno $DENO_VERSION is missing; it goes to $cache"
  fi
  tried=()
  if have npm && attempt "fetching Deno with npm" deno_from_npm "$work"; then exit; fi
  have npm || tried+=("npm: not installed")
  if ! have curl && ! have wget && ! have python3; then ensure_apt_tool curl curl || true; fi
  if ! have unzip && ! have python3; then ensure_apt_tool unzip unzip || true; fi
  if attempt "fetching Deno from $DENO_SITE" deno_from_release "$work"; then exit; fi
  give_up "Deno $DENO_VERSION" "Install it (https://docs.deno.com/runtime/) so that it is on PATH."
)

# Sets RACKMESH_DENO.
find_deno() {
  local installed
  RACKMESH_DENO=$cache/deno-$DENO_VERSION/deno
  # An empty file would run as a shell script that does nothing.
  [ -x "$RACKMESH_DENO" ] && deno_fits "$RACKMESH_DENO" && return 0
  if installed=$(find_program deno) && deno_fits "$installed"; then
    RACKMESH_DENO=$installed
    return 0
  fi
  return 1
}

# ── nats-server ──────────────────────────────────────────────────────────────────────────────────

# Unpacks Debian's package into the cache: needs no root, and starts no service.
nats_from_package() {
  local work=$1
  (cd "$work" && apt-get -q download nats-server) &&
    dpkg-deb -x "$work"/nats-server_*.deb "$work/package" &&
    keep_nats_server "$work/package/usr/sbin/nats-server"
}

nats_from_release() {
  local work=$1 arch name
  case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) echo "no release for $(uname -m)" && return 1 ;;
  esac
  name=nats-server-v$NATS_VERSION-$(uname -s | tr '[:upper:]' '[:lower:]')-$arch
  download_checked "$NATS_SITE/v$NATS_VERSION/$name.tar.gz" "$work/nats.tar.gz" \
    "$NATS_SITE/v$NATS_VERSION/SHA256SUMS" &&
    tar -xzf "$work/nats.tar.gz" -C "$work" && keep_nats_server "$work/$name/nats-server"
}

keep_nats_server() {
  chmod +x "$1" && "$1" --version && mkdir -p "$cache/nats-server" &&
    mv -f "$1" "$cache/nats-server/nats-server"
}

fetch_nats_server() (
  begin_work
  [ ! -e "$cache/nats-server/nats-server" ] ||
    say "$cache/nats-server/nats-server does not run; it is fetched again"
  tried=()
  ensure_apt_tool nats-server nats-server ||
    { have apt-get && have dpkg-deb &&
      attempt "unpacking Debian's nats-server into $cache" nats_from_package "$work"; } ||
    attempt "fetching nats-server $NATS_VERSION from $NATS_SITE" nats_from_release "$work" ||
    give_up nats-server "Install it (https://github.com/nats-io/nats-server) so that it is on PATH."
)

# Sets RACKMESH_NATS_SERVER, unless the caller has set it.
find_nats_server() {
  [ -x "${RACKMESH_NATS_SERVER:-}" ] && return 0
  RACKMESH_NATS_SERVER=$(find_program nats-server) && return 0
  RACKMESH_NATS_SERVER=$cache/nats-server/nats-server
  # An empty file would run as a shell script that does nothing.
  [ -x "$RACKMESH_NATS_SERVER" ] && [ -n "$("$RACKMESH_NATS_SERVER" --version 2>/dev/null)" ]
}

# ── tshark ───────────────────────────────────────────────────────────────────────────────────────

# Only tests use it; they report a missing one. Its package asks whether ordinary users may capture
# on this machine's network; apt_get answers with the default.
ensure_tshark() {
  find_program tshark >/dev/null && return 0
  lock_cache
  tried=()
  ensure_apt_tool tshark tshark || {
    local attempt
    say "no tshark, so nothing tests how Wireshark reads our captures. Tried:"
    for attempt in "${tried[@]}"; do say "  - $attempt"; done
  }
  unlock_cache
}

# ── rumur ────────────────────────────────────────────────────────────────────────────────────────

# Only one test uses it, with a C compiler; the test reports a missing one.
ensure_rumur() {
  find_program rumur >/dev/null && find_program gcc >/dev/null && return 0
  lock_cache
  tried=()
  { ensure_apt_tool rumur rumur && ensure_apt_tool gcc gcc libc6-dev; } || {
    local attempt
    say "no rumur, so nothing checks the Murphi model of coherence. Tried:"
    for attempt in "${tried[@]}"; do say "  - $attempt"; done
  }
  unlock_cache
}

# ── native programs ──────────────────────────────────────────────────────────────────────────────

# True where one of the words is the file of a scenario with native programs.
asks_for_native() {
  local word
  for word in "$@"; do
    case $word in
      *.yaml | *.yml)
        [ -f "$word" ] && grep -Eq '^[^#]*[{,[:space:]]native:[[:space:]]*(\[|$)' "$word" && return 0
        ;;
    esac
  done
  return 1
}

# The library that is preloaded into them is built by the machine's C compiler. Where this fails, the command
# says what is missing.
ensure_native() {
  local compiler
  compiler=$(find_program cc) &&
    echo '#include <infiniband/verbs.h>' | "$compiler" -fsyntax-only -x c - 2>/dev/null && return 0
  have apt-get || return 0
  lock_cache
  attempt "a scenario has native programs: installing Debian's packages gcc, libc6-dev and libibverbs-dev" \
    apt_install gcc libc6-dev libibverbs-dev || say "${tried[-1]}"
  unlock_cache
}

# rdma-core's own tests and the Python that runs them, for `rack verbs-test`, which reports missing ones.
ensure_verbs_tests() {
  [ -f /usr/share/doc/rdma-core/tests/run_tests.py ] &&
    [ -d /usr/lib/python3/dist-packages/pyverbs ] && return 0
  have apt-get || return 0
  lock_cache
  attempt "installing Debian's packages rdma-core and python3-pyverbs, which have the tests" \
    apt_install rdma-core python3-pyverbs || say "${tried[-1]}"
  unlock_cache
}

# Only tests use these programs; they report missing ones.
ensure_native_tests() {
  find_program ib_write_lat >/dev/null && find_program ibv_rc_pingpong >/dev/null &&
    find_program ucx_perftest >/dev/null && find_program fi_pingpong >/dev/null &&
    find_program bwrap >/dev/null && find_program fio >/dev/null && find_program rping >/dev/null &&
    find_program valgrind >/dev/null || {
    lock_cache
    tried=()
    { ensure_apt_tool ib_write_lat perftest && ensure_apt_tool ibv_rc_pingpong ibverbs-utils &&
      ensure_apt_tool ucx_perftest ucx-utils && ensure_apt_tool fi_pingpong libfabric-bin &&
      ensure_apt_tool bwrap bubblewrap && ensure_apt_tool fio fio &&
      ensure_apt_tool rping rdmacm-utils && ensure_apt_tool valgrind valgrind; } || {
      local attempt
      say "not all programs over verbs are here, so tests of native programs leave some out. Tried:"
      for attempt in "${tried[@]}"; do say "  - $attempt"; done
    }
    unlock_cache
  }
  ensure_verbs_tests
  ensure_native
}

# ── a browser ────────────────────────────────────────────────────────────────────────────────────

# Only tests of the console's page use it; they report a missing one. The package of the headless
# shell is a third of the whole browser's; Ubuntu has neither but as a snap, which finds no file of
# ours. Without a font there would be no text in pictures.
ensure_browser() {
  find_program chromium-headless-shell >/dev/null && return 0
  find_program chromium >/dev/null && return 0
  lock_cache
  tried=()
  ensure_apt_tool chromium-headless-shell chromium-headless-shell fonts-dejavu-core || {
    local attempt
    say "no Chromium, so nothing tests the console's page in a browser. Tried:"
    for attempt in "${tried[@]}"; do say "  - $attempt"; done
  }
  unlock_cache
}

# ── npm packages ─────────────────────────────────────────────────────────────────────────────────

# A mark in Deno's own cache: the packages of this deno.lock are in the cache. It is removed with
# the cache.
packages_mark() {
  local deno_dir=${DENO_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/deno}
  printf '%s/rackmesh-%s\n' "$deno_dir" "$(cksum <"$root/deno.lock" | tr ' ' -)"
}

fetch_packages() {
  local mark
  mark=$(packages_mark)
  tried=()
  attempt "fetching the npm packages of deno.lock" \
    "$RACKMESH_DENO" install --config "$root/deno.json" --frozen ||
    give_up "the npm packages" "Is the npm registry within reach? It is needed once."
  mkdir -p "${mark%/*}" && : >"$mark"
}

# ── all of it ────────────────────────────────────────────────────────────────────────────────────

setup() {
  # Deno and npm have their own lists of certificate authorities; behind a company's proxy the
  # machine's list is needed, too.
  export DENO_TLS_CA_STORE=${DENO_TLS_CA_STORE:-mozilla,system}
  local authorities=/etc/ssl/certs/ca-certificates.crt
  [ ! -r "$authorities" ] || export NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-$authorities}
  if ! { find_deno && find_nats_server && [ -e "$(packages_mark)" ]; }; then
    lock_cache
    find_deno || { fetch_deno || exit; find_deno; }
    find_nats_server || { fetch_nats_server || exit; find_nats_server; }
    [ -e "$(packages_mark)" ] || fetch_packages
    unlock_cache
  fi
  export RACKMESH_DENO RACKMESH_NATS_SERVER
}
