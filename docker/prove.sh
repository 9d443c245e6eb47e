#!/usr/bin/env bash
# Proves on a machine with a Docker engine that a rack in containers is the same rack:
#   - it runs a scenario to the digest that `rack run --pack all` gives, killed and started by the scenario,
#     over cables that do wrong, or not;
#   - nor does it matter that its timekeeper and its nats-server are killed and started;
#   - `docker kill` of a host's container is its power failure, `docker start` its return: everything
#     confirmed is in the SCM on its volume, the rest of the rack goes on, and the run can be replayed;
#   - native programs come to the digest that they have in one process and as processes, of this machine's binaries and
#     of one's own; what they left in the SCM is there behind `docker kill`;
#   - the console in its container shows the rack and drives it: power without the Docker socket, cables, time,
#     replay and a campaign, for an operator and for no viewer;
#   - a checkpoint of it, and any instant, is brought up again as a rack of processes in the console's container,
#     every device with the run's digest: by the API and by the command;
#   - chaos on a rack that stays up, from the console's container: a round over the bus, judged by a replay; a capture
#     of its devices, brought together over the bus;
#   - as a stack on a Docker Swarm of this one node it is the same rack, too, to which `docker kill` and a moved task are
#     power failures; where there is no Swarm, one is made for that time.
# Takes away all that it made.  Exit code: 0 proved; 1 not; 2 there is nothing to prove it on.
#   docker/prove.sh [--base IMAGE --nats-image IMAGE] [--keep]
# --base, --nats-image: public images instead of a base made of this machine's files
# --keep: leave the images
set -uo pipefail
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
base='' nats_image='' keep=no
# For anything that is waited for, in s: a busy machine is slow, not wrong.
patience=600
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=$2 && shift 2 ;;
    --nats-image) nats_image=$2 && shift 2 ;;
    --keep) keep=yes && shift ;;
    *) echo "Usage: docker/prove.sh [--base IMAGE --nats-image IMAGE] [--keep]" >&2 && exit 64 ;;
  esac
done

if ! why=$(docker info 2>&1 >/dev/null); then
  echo "No Docker engine: ${why:-docker info failed}" >&2
  exit 2
fi
if docker compose version >/dev/null 2>&1; then
  compose_command=(docker compose)
elif docker-compose version >/dev/null 2>&1; then
  compose_command=(docker-compose)
else
  echo "No docker compose and no docker-compose" >&2
  exit 2
fi

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
setup
work=$(mktemp -d)
image=rackmesh-prove:$$
base_image=rackmesh-prove-base:$$
console_port=$("$RACKMESH_DENO" eval 'console.log(Deno.listen({ hostname: "127.0.0.1", port: 0 }).addr.port)')
failed=0
projects=()
stack='' layer='' own_swarm=no

compose() {
  (cd "$project" && "${compose_command[@]}" "$@")
}

clean_up() {
  local project
  for project in ${projects[@]+"${projects[@]}"}; do
    compose down --volumes --remove-orphans --timeout 5 >/dev/null 2>&1
  done
  [ -z "$stack" ] || remove_stack
  [ "$own_swarm" = no ] || docker swarm leave --force >/dev/null 2>&1
  if [ "$keep" = no ]; then
    docker rmi --force "$image" >/dev/null 2>&1
    [ -n "$base" ] || docker rmi --force "$base_image" >/dev/null 2>&1
  fi
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

die() {
  echo "FAIL $*"
  exit 1
}

# check WHAT FOUND EXPECTED
check() {
  if [ "$2" = "$3" ]; then
    echo "ok   $1"
  else
    echo "FAIL $1: found $2, expected $3"
    failed=1
  fi
}

# An expression over the JSON document `r` in file $1.
json() {
  "$RACKMESH_DENO" eval "
    const r = JSON.parse(Deno.readTextFileSync(Deno.args[0]));
    console.log($2);" -- "$1"
}

rack() {
  "$root/scripts/rack" "$@"
}

# make NAME SCENARIO OPTION…: a compose project, in $project, of a shipped scenario or of a file.
make() {
  local scenario=$2
  [ -e "$scenario" ] || scenario=$root/scripts/scenarios/$2.yaml
  project=$work/$1
  rack compose "$scenario" --out "$project" --image "$image" \
    --nats-image "${nats_image:-$image}" --console-port "$console_port" "${@:3}" 2>"$work/$1.compose.log" ||
    die "rack compose $2: $(cat "$work/$1.compose.log")"
  projects+=("$project")
}

# Waits for the end of $project's run. The report is in $1.json, what people read in $1.log.
report() {
  (cd "$project" && exec timeout 240 "${compose_command[@]}" run --rm -T "${@:2}" report) \
    </dev/null >"$1.json" 2>"$1.log"
}

container() {
  compose ps -a -q "$1" 2>/dev/null || compose ps -q "$1"
}

# Every container of $project but that of $1 runs, and has never been started again.
others() {
  local service
  for service in $(compose config --services); do
    case $service in report | console | "$1") continue ;; esac
    docker inspect --format '{{.State.Running}} {{.RestartCount}}' "$(container "$service")"
  done | sort -u | tr '\n' ' '
}

# Whether the SCM of host $1, as it lies on the volume, holds the first $2 bytes of file $3.
in_scm() {
  compose stop --timeout 10 "$1" >/dev/null 2>&1
  rm -rf "$work/scm"
  docker cp "$(container "$1"):/var/lib/rackmesh/scm" "$work/scm" >/dev/null || return
  "$RACKMESH_DENO" eval '
    import { Buffer } from "node:buffer";
    const [scm, bytes, file] = Deno.args;
    const data = Deno.readFileSync(file).subarray(0, Number(bytes));
    console.log(data.length > 0 && Buffer.from(Deno.readFileSync(scm)).includes(data));
  ' -- "$work/scm/$1.scm" "$2" "$3"
}

take_down() {
  compose down --volumes --timeout 5 >/dev/null 2>&1
}

# ── images ───────────────────────────────────────────────────────────────────────────────────────

if [ -z "$base" ]; then
  base_image=$("$root/docker/base.sh" "$base_image") || die "docker/base.sh"
fi
docker build --quiet --tag "$image" --file "$root/docker/Dockerfile" \
  --build-arg BASE="${base:-$base_image}" --build-arg NATS="${nats_image:-$base_image}" "$root" >"$work/build.log" 2>&1 ||
  die "docker build: $(tail -n 5 "$work/build.log")"
echo "ok   image of $(docker image inspect --format '{{.Size}}' "$image" | numfmt --to=iec)B"

readonly SIZE=4096
head -c 300000 /dev/urandom >"$work/small.bin"
head -c 4194304 /dev/urandom >"$work/middle.bin"
head -c 33554432 /dev/urandom >"$work/large.bin"
cell=(--method persist-opcode --ddio off --size "$SIZE")

# ── the same digest ──────────────────────────────────────────────────────────────────────────────

make plain persist_pair "${cell[@]}" --input "$work/small.bin"
report "$work/plain" || die "the run in containers: $(tail -n 20 "$work/plain.log")"
rack run "$root/scripts/scenarios/persist_pair.yaml" "${cell[@]}" --input "$work/small.bin" \
  --pack all --json >"$work/packed.json" || die "rack run --pack all"
digest=$(json "$work/packed.json" r.digest)
check "digest of the run in one process" "$(json "$work/plain.json" r.digest)" "$digest"
check "the timekeeper's log has it" \
  "$(compose logs timekeeper 2>&1 | grep -o "digest $digest")" "digest $digest"
check "the file is on the volume" "$(in_scm b 300000 "$work/small.bin")" true
take_down

# ── cables that do wrong: the same draws, whoever draws ─────────────────────────────────────────────

make lossy lossy_pair "${cell[@]}" --input "$work/small.bin"
report "$work/lossy" || die "the run over bad cables: $(tail -n 20 "$work/lossy.log")"
rack run "$root/scripts/scenarios/lossy_pair.yaml" "${cell[@]}" --input "$work/small.bin" \
  --pack all --json >"$work/packed_lossy.json" || die "rack run --pack all of lossy_pair"
check "digest over cables with faults" "$(json "$work/lossy.json" r.digest)" \
  "$(json "$work/packed_lossy.json" r.digest)"
counted='JSON.stringify(r.faults) + r.faults.some(({ hit }) => hit > 0)'
check "what they did to how many frames" "$(json "$work/lossy.json" "$counted")" \
  "$(json "$work/packed_lossy.json" "$counted" | sed 's/false$/true/')"
take_down

# ── a scripted power failure: the process dies by itself, the container comes back ───────────────

make scripted persist_pair_kill "${cell[@]}" --input "$work/small.bin"
report "$work/scripted" || die "the run with a scripted kill: $(tail -n 20 "$work/scripted.log")"
rack run "$root/scripts/scenarios/persist_pair_kill.yaml" "${cell[@]}" --input "$work/small.bin" \
  --pack all --json >"$work/packed_kill.json"
check "digest with a scripted power failure" "$(json "$work/scripted.json" r.digest)" \
  "$(json "$work/packed_kill.json" r.digest)"
check "the scripted failure and return were recorded" \
  "$(json "$work/scripted.json" 'r.powerFailures.map((f) => f.action + f.scripted).join(" ")')" \
  "killtrue starttrue"
take_down

# ── native programs ──────────────────────────────────────────────────────────────────────────────

# same_native NAME SCENARIO: in containers as in one process and as processes.
same_native() {
  local digest packing
  make "$1" "$2"
  report "$work/$1" || die "$1 in containers: $(tail -n 20 "$work/$1.log")"
  digest=$(json "$work/$1.json" r.digest)
  for packing in all node; do
    rack run "$2" --pack "$packing" --json >"$work/$1.$packing" 2>/dev/null || die "rack run --pack $packing of $1"
    check "$1: digest with --pack $packing" "$(json "$work/$1.$packing" r.digest)" "$digest"
  done
  check "$1: ends of programs" "$(json "$work/$1.json" 'r.natives.map(({ node, code }) => node + code).sort().join()')" a0,b0
}

# Of this machine, for native programs.
lacking() {
  command -v cc >/dev/null || { echo "a C compiler" && return; }
  command -v rping >/dev/null || { echo "rping (Debian's package rdmacm-utils)" && return; }
  command -v ib_write_lat >/dev/null || echo "ib_write_lat (Debian's package perftest)"
}

# Two lives of a program of one's own, between them docker kill.
lives_of_native() {
  local deadline=$((SECONDS + patience))
  cc -O2 -o "$work/my_lives" "$root/tests/native/programs/lives.c" || die "cc lives.c"
  cat >"$work/lives.yaml" <<'EOF'
name: lives
hosts: { a: {}, b: { scm: { size: 1MiB, regions: { lives: { at: 0, size: 64KiB } } } } }
programs:
  - { on: b, native: [./my_lives, "40000"], restart: true }
  - { on: a, native: [sleep, "200"] }
EOF
  # Nothing goes on until b is back: its return tells of the kill.
  make lives "$work/lives.yaml" --liveness 600000
  report "$work/lives" &
  reporter=$!
  until compose logs b 2>/dev/null | grep -q 'life 1,'; do
    kill -0 "$reporter" 2>/dev/null || die "lives ended before it could be killed: $(tail -n 20 "$work/lives.log")"
    [ "$SECONDS" -lt "$deadline" ] || die "lives does not begin: $(tail -n 20 "$work/lives.log")"
    sleep 0.1
  done
  docker kill "$(container b)" >/dev/null || die "docker kill of b"
  docker start "$(container b)" >/dev/null || die "docker start of b"
  wait "$reporter" || die "lives: $(tail -n 20 "$work/lives.log")"
  check "lives: the record of docker kill and start" \
    "$(json "$work/lives.json" 'r.powerFailures.map((f) => f.action + " " + f.nodes).join(", ")')" "kill b, start b"
  check "lives: the second life finds the steps of the first" \
    "$(compose logs b 2>&1 | grep -c 'life 2, behind one of [1-9][0-9]* steps')" 1
  check "lives: nobody else died" "$(others b)" "true 0 "
  {
    cat "$work/lives.yaml"
    echo faults:
    # shellcheck disable=SC2016  # no variable of this shell
    json "$work/lives.json" 'r.powerFailures.map((f) => `  - { at: ${f.at}ps, ${f.action}: b }`).join("\n")'
  } >"$work/lives_scripted.yaml"
  rack run "$work/lives_scripted.yaml" --pack all --json >"$work/lives_scripted.json" 2>/dev/null
  check "lives: the same power failure by the scenario, the same digest" \
    "$(json "$work/lives_scripted.json" r.digest)" "$(json "$work/lives.json" r.digest)"
  take_down
}

if [ -n "$(lacking)" ]; then
  echo "skip native programs: there is no $(lacking)"
else
  same_native write_lat "$root/scripts/scenarios/native_write_lat.yaml"
  check "write_lat: its container has the lines" "$(compose logs a 2>&1 | grep -c 'RDMA_Write Latency Test')" 1
  # A file that is no longer what the run is about.
  printf '\0' >>"$project/native/usr/bin/mkfifo"
  check "write_lat: nothing starts of what has changed" \
    "$(compose run --rm -T --no-deps a 2>&1 </dev/null | grep -o 'Found that .*')" \
    "Found that /usr/bin/mkfifo has changed, expected it as rack compose has copied it"
  take_down
  cat >"$work/rping.yaml" <<'EOF'
name: rping
hosts: { a: {}, b: {} }
programs:
  - { on: b, native: [rping, -s, -v, -C, "10"] }
  - { on: a, native: [rping, -c, -v, -C, "10", -a, b], at: 1ms }
EOF
  same_native rping "$work/rping.yaml"
  take_down
  lives_of_native
fi

# ── docker kill, in the middle ───────────────────────────────────────────────────────────────────

# await WHAT LOG: until it stands in the log of the reporter, which must not end before.
await() {
  local deadline=$((SECONDS + patience))
  until grep -q "$1" "$2" 2>/dev/null; do
    kill -0 "$reporter" 2>/dev/null || die "the run ended before it could be broken: $(cat "$2")"
    [ "$SECONDS" -lt "$deadline" ] || die "the run does not get on: $(cat "$2")"
    sleep 0.05
  done
}

# Runs $project in the background, with its report in $1, and returns when the first bytes are written.
# b comes last, as nothing happens without it: somebody is to see how far the run is.
run_until_writing() {
  local others
  others=$(compose config --services | grep -vxE 'b|report|console')
  # shellcheck disable=SC2086  # names of services, several
  compose up -d $others >/dev/null 2>&1 || die "docker-compose up"
  report "$1" --no-deps &
  reporter=$!
  await 'Waiting for the end' "$1.log"
  compose up -d --no-deps b >/dev/null 2>&1 || die "docker-compose up b"
  await ' [0-9]* %' "$1.log"
}

# check_broken LOG KIND FAULTS: the report on a run in which b was killed.
check_broken() {
  local confirmed
  confirmed=$(json "$1.json" 'r.methods[0].confirmed')
  echo "     $confirmed of $(json "$1.json" 'r.methods[0].messages') messages were confirmed"
  check "$2: some were confirmed, not all" \
    "$(json "$1.json" 'r.methods[0].confirmed > 0 && r.methods[0].confirmed < r.methods[0].messages')" true
  check "$2: everything confirmed survived" "$(json "$1.json" 'r.methods[0].loss')" null
  check "$2: the record of it" \
    "$(json "$1.json" 'r.powerFailures.map((f) => f.action + " " + f.nodes).join(", ")')" "$3"
  check "$2: nobody else died" "$(others b)" "true 0 "
  json "$1.json" 'r.powerFailures.map((f) => JSON.stringify(f)).join("\n")' >"$1.faults"
  rack run "$root/scripts/scenarios/persist_pair.yaml" "${cell[@]}" --input "$work/large.bin" \
    --pack all --json --faults "$1.faults" >"$1.replay"
  check "$2: replayed in one process, the same digest" "$(json "$1.json" r.digest)" \
    "$(json "$1.replay" r.digest)"
}

# check_gone LOG KIND TIMEKEEPER [INPUT]: the run whose b is dead for good, by the report's log and the timekeeper's record.
check_gone() {
  docker cp "$3:/var/lib/rackmesh/faults.jsonl" "$1.faults" >/dev/null || die "the record of $2"
  check "$2: the record of it" "$(sed -n 's/.*"action":"\([a-z]*\)".*/\1/p' "$1.faults" | tr '\n' ' ')" "kill "
  rack run "$root/scripts/scenarios/persist_pair.yaml" "${cell[@]}" --input "${4:-$work/large.bin}" \
    --pack all --json --faults "$1.faults" >"$1.replay"
  check "$2: everything confirmed survived, in its replay" "$(json "$1.replay" 'r.methods[0].loss')" null
  check "$2: replayed in one process, the same digest" \
    "$(grep -o 'digest [0-9a-f]*' "$1.log" | tail -n 1)" "digest $(json "$1.replay" r.digest)"
}

make services persist_pair "${cell[@]}" --input "$work/middle.bin"
run_until_writing "$work/services"
# The switch's own credential says what only a's card may.
# shellcheck disable=SC2016  # no variable of this shell
docker exec "$(container tor)" deno eval --quiet --cached-only '
  import { connectNats } from "/opt/rackmesh/fabric/bus/nats_bus.ts";
  import { subjectOf } from "/opt/rackmesh/fabric/bus/subjects.ts";
  import { busAddressFrom } from "/opt/rackmesh/fabric/rack/assembly/run_file.ts";
  const [run] = Deno.args;
  const address = busAddressFrom((name) => Deno.env.get(name));
  const bus = await connectNats({ ...address, run, name: "tor", onError() {} });
  bus.publish(subjectOf({ kind: "wire", run, from: "a-rnic", to: "a" }), new Uint8Array(1));
  await bus.close();
' -- "$(sed -n 's/^COMPOSE_PROJECT_NAME=//p' "$project/.env")" >"$work/forged.log" 2>&1 || die "a forged message: $(cat "$work/forged.log")"
for service in timekeeper nats; do
  docker kill "$(container "$service")" >/dev/null || die "docker kill of $service"
  docker start "$(container "$service")" >/dev/null || die "docker start of $service"
done
wait "$reporter" || die "the run after docker kill of its services: $(tail -n 20 "$work/services.log")"
rack run "$root/scripts/scenarios/persist_pair.yaml" "${cell[@]}" --input "$work/middle.bin" \
  --pack all --json >"$work/packed_middle.json"
check "digest with timekeeper and nats-server killed and started" \
  "$(json "$work/services.json" r.digest)" "$(json "$work/packed_middle.json" r.digest)"
check "what the server refused is in its log" \
  "$(compose logs nats 2>&1 | grep -o 'Publish Violation - User "tor", Subject "rack\..*\.wire\.a-rnic\.a"' | sed 's/rack\.[^.]*//')" \
  'Publish Violation - User "tor", Subject ".wire.a-rnic.a"'
take_down

# The rack is to wait for it, however long a busy machine takes to start a container.
make return persist_pair "${cell[@]}" --liveness 120000 --input "$work/large.bin"
run_until_writing "$work/return"
docker kill "$(container b)" >/dev/null || die "docker kill"
sleep 1
docker start "$(container b)" >/dev/null || die "docker start"
wait "$reporter" || die "the run after docker start: $(tail -n 20 "$work/return.log")"
check_broken "$work/return" "docker kill and start" "kill b, start b"
confirmed=$(json "$work/return.json" 'r.methods[0].confirmed')
check "docker kill and start: what was confirmed is on the volume" \
  "$(in_scm b $((confirmed * SIZE)) "$work/large.bin")" true
take_down

make gone persist_pair "${cell[@]}" --input "$work/large.bin"
run_until_writing "$work/gone"
docker kill "$(container b)" >/dev/null || die "docker kill"
wait "$reporter"
check "docker kill for good: the report says what nobody can show it" \
  "$? $(grep -o 'Found no files of b' "$work/gone.log")" "2 Found no files of b"
check_gone "$work/gone" "docker kill for good" "$(container timekeeper)"
check "docker kill for good: nobody else died" "$(others b)" "true 0 "
take_down

# ── the console ──────────────────────────────────────────────────────────────────────────────────

# api KEY METHOD PATH EXPRESSION [BODY]: an expression over the console's answer `r`, a JSON document, and its `status`.
api() {
  "$RACKMESH_DENO" eval '
    const [key, method, path, expression, body] = Deno.args;
    const headers = { authorization: `Bearer ${key}`, "x-rackmesh": "1", "content-type": "application/json" };
    const request = { method, headers, ...(body && { body }), signal: AbortSignal.timeout(10 * 60_000) };
    const response = await fetch(path, request).catch((error) => ({ status: 0, text: () => `${error}` }));
    const text = await response.text(), { status } = response;
    let r;
    try {
      r = JSON.parse(text);
    } catch {
      r = text;
    }
    try {
      console.log(new Function("r", "status", `return ${expression}`)(r, status));
    } catch {
      console.log(`status ${status}: ${text.slice(0, 400)}`);
    }' -- "$1" "$2" "http://127.0.0.1:$console_port$3" "${@:4}"
}

# ended JOB: waits for the end of a job of the console.
ended() {
  local deadline=$((SECONDS + patience))
  until [ "$(api "$key" GET "/api/v1/jobs/$1" '/running|ending/.test(r.job.state)')" = false ]; do
    [ "$SECONDS" -lt "$deadline" ] || die "$1 does not end: $(api "$key" GET "/api/v1/jobs/$1" 'JSON.stringify(r)')"
    sleep 0.5
  done
}
# The command `rack` in the console's container.
in_console() {
  compose exec -T console rack "$@" 2>>"$work/in_console.log" </dev/null
}

make page persist_pair "${cell[@]}" --input "$work/large.bin"
run=$(sed -n 's/^COMPOSE_PROJECT_NAME=//p' "$project/.env")
key=$(sed -n 's/^RACKMESH_CONSOLE_KEY=//p' "$project/.env")
check "the console's key is the owner's alone" "$(stat -c %a "$project/.env") ${#key}" "600 64"
check "the console is published on loopback alone, without the Docker socket" \
  "$(compose config | grep -cE "docker\.sock|0\.0\.0\.0:$console_port")" 0
compose up -d --no-deps console >/dev/null 2>&1 || die "docker-compose up console"
run_until_writing "$work/page"
deadline=$((SECONDS + patience))
until [ "$(api none GET /healthz r.ok)" = true ]; do
  [ "$SECONDS" -lt "$deadline" ] || die "the console does not answer: $(compose logs console 2>&1)"
  sleep 0.1
done
rack_api=/api/v1/racks/$run
check "console: the page is there" "$(api none GET / 'r.includes("<title>Rackmesh console")')" true
# shellcheck disable=SC2016  # no variable of this shell
check "console: no device reaches it" \
  "$(docker exec "$(container tor)" deno eval --quiet '
    const reached = (hostname) => Deno.connect({ hostname, port: Number(Deno.args[0]) }).then(() => true, () => false);
    console.log(await reached("console"), await reached("console_page"));' -- "$console_port")" "false false"
check "console: nothing without its key" "$(api none GET /api/v1/runs status)" 401
check "console: the rack is in the list, up" \
  "$(api "$key" GET /api/v1/runs 'r.runs.map(({ id, state, scenario }) => [id, state, scenario]).join(" ")')" \
  "$run,up,persist-pair"
check "console: pause" "$(api "$key" POST "$rack_api/time" r.clock.paused '{"order":"pause"}')" true
viewer=$(api "$key" POST /api/v1/links 'r.url.replace(/.*token=/, "")' '{"role":"viewer"}')
viewer=$(api none POST /api/v1/session r.key "{\"token\":\"$viewer\"}")
check "console: a viewer sees that the rack is paused" \
  "$(api "$viewer" GET "$rack_api/why" r.clock.paused)" true
check "console: a viewer may not kill" \
  "$(api "$viewer" POST "$rack_api/power" 'status + " " + r.kind' '{"action":"kill","node":"b"}')" \
  "403 not-allowed"
check "console: a fault of a cable" \
  "$(api "$key" POST "$rack_api/links" r.fault '{"action":"cut","target":"b"}')" 0
check "console: heal" "$(api "$key" POST "$rack_api/heal" 'r.healed.join()')" "b-rnic/tor"
check "console: another fault" \
  "$(api "$key" POST "$rack_api/links" 'r.fault > 0' '{"action":"loss","value":"1%","target":"b"}')" true
check "console: the fault is on its cable" \
  "$(api "$key" GET "$rack_api/links" 'r.faults.map(({ action, target }) => action + " " + target).join()')" \
  "cut b-rnic/tor,loss b-rnic/tor"
check "console: kill" \
  "$(api "$key" POST "$rack_api/power" 'r.nodes + " " + (r.atPs > 0)' '{"action":"kill","node":"b"}')" "b true"
check "console: killed once" \
  "$(api "$key" POST "$rack_api/power" r.detail '{"action":"kill","node":"b"}')" \
  "Cannot kill b: it has no power"
check "console: the container of b runs, its device does not" \
  "$(docker inspect --format '{{.State.Running}}' "$(container b)") $(api "$key" GET "$rack_api/processes" \
    'r.processes.filter(({ alive }) => !alive).map(({ name }) => name).join()')" "true b"
check "console: start" \
  "$(api "$key" POST "$rack_api/power" 'r.nodes + " " + (r.atPs > 0)' '{"action":"start","node":"b"}')" "b true"
# A kill, a return and two faults of a cable are on record: all that has to be repeated. The digest of a device
# is not known before the instant at which it has lost its power: so a little later.
api "$key" POST "$rack_api/time" status '{"order":"step","events":100}' >/dev/null
cut=$(api "$key" POST "/api/v1/runs/$run/checkpoints" 'r.atPs + "ps " + r.digest' '{"name":"cut"}')
check "console: pace" \
  "$(api "$key" POST "$rack_api/time" r.clock.psPerSecond '{"order":"pace","psPerSecond":1000000000}')" 1000000000
check "console: go on" "$(api "$key" POST "$rack_api/time" r.clock.paused '{"order":"resume"}')" false
wait "$reporter" || die "the run that the console drove: $(tail -n 20 "$work/page.log")"
check "console: the report has the failure and the return" \
  "$(json "$work/page.json" 'r.powerFailures.map((f) => f.action + " " + f.nodes).join(", ")')" "kill b, start b"
check "console: everything confirmed survived" \
  "$(json "$work/page.json" 'r.methods[0].confirmed > 0 && r.methods[0].loss === null')" true
check "console: nobody else died" "$(others b)" "true 0 "
docker cp "$(container timekeeper):/var/lib/rackmesh/faults.jsonl" "$work/page.faults" >/dev/null
rack run "$root/scripts/scenarios/persist_pair.yaml" "${cell[@]}" --input "$work/large.bin" \
  --pack all --json --faults "$work/page.faults" >"$work/page.replay"
digest=$(json "$work/page.json" r.digest)
check "console: replayed in one process, the same digest" "$(json "$work/page.replay" r.digest)" "$digest"
check "console: its own replay of the rack is exact" \
  "$(api "$key" GET "/api/v1/runs/$run/timeline" '[r.exactness.state, r.exactness.digest].join(" ")')" "equal $digest"
check "console: behind the end of a run, nothing is killed" \
  "$(api "$key" POST "$rack_api/power" r.kind '{"action":"kill","node":"b"}')" refused
job=$(api "$key" POST /api/v1/jobs r.id \
  '{"kind":"chaos","scenario":{"shipped":"persist_pair"},"method":"persist-opcode","ddio":"off","rounds":2}')
ended "$job"
check "console: a campaign of two rounds" \
  "$(api "$key" GET "/api/v1/jobs/$job" '[r.job.state, r.result.campaign.held, r.result.campaign.broken].join(" ")')" \
  "done 2 0"
check "console: its runs are in the list beside the rack" \
  "$(api "$key" GET /api/v1/runs 'r.runs.map(({ id, state }) => id.replace(/-.*/, "") + " " + state).sort().join(", ")')" \
  "chaos kept, persist up"
in_console checkpoint "$run" --list --json >"$work/checkpoints.json"
check "the command in the console's container has the checkpoint that the API has made" \
  "$(json "$work/checkpoints.json" 'r.checkpoints.map((c) => c.atPs + "ps " + c.digest).join()')" "$cut"
job=$(api "$key" POST /api/v1/jobs r.id "{\"kind\":\"resume\",\"run\":\"$run\",\"at\":\"cut\"}")
ended "$job"
check "console: as it stood there, as processes, with the digest of every device" \
  "$(api "$key" GET "/api/v1/jobs/$job" '[r.job.state, r.result.atPs + "ps", r.result.digest].join(" ")')" "done $cut"
resumed=$(api "$key" GET "/api/v1/jobs/$job" r.result.run)
check "console: time stands there, and goes on by order" \
  "$(api "$key" POST "/api/v1/racks/$resumed/time" "r.clock.virtualPs > ${cut%ps *}" '{"order":"step","events":100}')" true
in_console down --run "$resumed" >/dev/null || die "rack down: $(cat "$work/in_console.log")"
in_console resume "$run" --at "${cut% *}" --json >"$work/resumed.json" ||
  die "rack resume: $(cat "$work/in_console.log")"
check "the same by the command, at that time" "$(json "$work/resumed.json" 'r.atPs + "ps " + r.digest')" "$cut"
take_down

# ── chaos on a rack that stays up, and its capture ───────────────────────────────────────────────

make stays persist_pair --method persist-opcode --ddio off --up --pcap
compose up -d >/dev/null 2>&1 || die "docker-compose up: $(compose logs --tail 5 2>&1)"
run=$(sed -n 's/^COMPOSE_PROJECT_NAME=//p' "$project/.env")
deadline=$((SECONDS + patience))
# Devices come one after the other.
until in_console ps --json >"$work/stays.json" 2>/dev/null &&
  [ "$(json "$work/stays.json" 'r.processes.filter((p) => p.kind === "partition" && p.status === "idle").length')" = 5 ]; do
  [ "$SECONDS" -lt "$deadline" ] || die "the rack does not come up: $(cat "$work/in_console.log")"
  sleep 0.5
done
# Of this seed, this round puts objects, and kills a host, its card and the other's.
in_console chaos --run "$run" --seed 7 --from 3 --rounds 1 --json >"$work/chaos.json"
check "chaos on the rack that is up: a round over the bus holds, and replays to the rack's digest" \
  "$(json "$work/chaos.json" '[r.rounds, r.held, r.replayed, r.hits > 0].join(" ")')" "1 1 1 true"
in_console down --run "$run" --json >"$work/captured.json"
capture=$(json "$work/captured.json" 'r[0].captures[0]')
docker cp "$(container console):$capture" "$work/capture.pcapng" >/dev/null 2>&1
check "its capture came over the bus" \
  "$("$RACKMESH_DENO" eval 'console.log(Deno.readFileSync(Deno.args[0]).length > 20_000)' -- "$work/capture.pcapng")" true
take_down

# ── a stack on Docker Swarm ──────────────────────────────────────────────────────────────────────

# await_task SERVICE STATE: until the last task of a service of $stack is in that state.
await_task() {
  local deadline=$((SECONDS + patience)) state
  until state=$(docker service ps --format '{{.CurrentState}}' "${stack}_$1" 2>/dev/null | head -n 1) &&
    [[ $state == $2* ]]; do
    case $state in Failed* | Rejected* | Complete*) break ;; esac
    [ "$SECONDS" -lt "$deadline" ] || die "$1 of the stack is $state, not $2: $(docker service logs "${stack}_$1" 2>&1 | tail -n 5)"
    sleep 0.2
  done
  [[ $state == $2* ]] || die "$1 of the stack has ended: $state: $(docker service logs "${stack}_$1" 2>&1 | tail -n 5)"
}

# The container of a service of $stack that runs.
task() {
  docker ps -q --filter "label=com.docker.swarm.service.name=${stack}_$1"
}

# deploy NAME SCENARIO OPTION…: in $project and $stack.
deploy() {
  project=$work/$1
  rack compose "$root/scripts/scenarios/$2.yaml" --format stack --out "$project" --image "$image" \
    --nats-image "${nats_image:-$image}" "${@:3}" --json >"$work/$1.made" 2>"$work/$1.compose.log" ||
    die "rack compose --format stack: $(cat "$work/$1.compose.log")"
  layer=$(json "$work/$1.made" 'r.layerImage ?? ""')
  [ -z "$layer" ] || docker build --quiet -t "$layer" "$project/layer" >"$work/build.log" 2>&1 ||
    die "docker build of the layer: $(tail -n 5 "$work/build.log")"
  stack=$(json "$work/$1.made" r.run)
  docker stack deploy --resolve-image never --detach=true -c "$project/stack.yaml" "$stack" >"$work/$1.deploy.log" 2>&1 ||
    die "docker stack deploy: $(cat "$work/$1.deploy.log")"
}

# The report of $stack, at its end: $1.json, $1.log.
stack_report() {
  await_task report Complete
  docker service logs --raw "${stack}_report" >"$1.json" 2>"$1.log"
}

# Until b of $stack has written something.
await_writing() {
  local deadline=$((SECONDS + patience))
  until docker service logs --raw "${stack}_report" 2>&1 | grep -q ' [0-9]* %'; do
    [ "$SECONDS" -lt "$deadline" ] || die "the stack does not get on: $(docker service logs "${stack}_report" 2>&1 | tail -n 5)"
    sleep 0.1
  done
}

remove_stack() {
  local deadline=$((SECONDS + patience)) label=label=com.docker.stack.namespace=$stack
  docker stack rm --detach=true "$stack" >/dev/null 2>&1
  until [ -z "$(docker ps -aq --filter "$label")$(docker network ls -q --filter "$label")" ] ||
    [ "$SECONDS" -ge "$deadline" ]; do
    sleep 0.2
  done
  docker volume ls -q --filter "$label" | xargs -r docker volume rm >/dev/null
  [ -z "$layer" ] || docker rmi --force "$layer" >/dev/null 2>&1
  stack=''
}

# check_stack LOG KIND FAULTS: the report on a stack whose b was killed.
check_stack() {
  check "$2: everything confirmed survived" \
    "$(json "$1.json" 'r.methods[0].confirmed > 0 && r.methods[0].loss === null')" true
  check "$2: the record of it" \
    "$(json "$1.json" 'r.powerFailures.map((f) => f.action + " " + f.nodes).join(", ")')" "$3"
  json "$1.json" 'r.powerFailures.map((f) => JSON.stringify(f)).join("\n")' >"$1.faults"
  rack run "$root/scripts/scenarios/persist_pair.yaml" "${cell[@]}" --input "$work/middle.bin" \
    --pack all --json --faults "$1.faults" >"$1.replay"
  check "$2: replayed in one process, the same digest" "$(json "$1.json" r.digest)" "$(json "$1.replay" r.digest)"
}

# Why there can be no stack here; nothing where there can.
no_swarm() {
  case $(docker info --format '{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}}') in
    "active true") return ;;
    inactive*) ;;
    *) echo "this node is of a Swarm and no manager of it" && return ;;
  esac
  docker swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1 2>&1 >/dev/null | tail -n 1
}

was_swarm=$(docker info --format '{{.Swarm.LocalNodeState}}')
if why=$(no_swarm) && [ -n "$why" ]; then
  echo "skip a stack on Docker Swarm: $why"
else
  [ "$was_swarm" = active ] || own_swarm=yes
  deploy stack_plain persist_pair_kill "${cell[@]}" --input "$work/small.bin"
  stack_report "$work/stack_plain"
  check "stack: digest of the run in one process, killed and started by the scenario" \
    "$(json "$work/stack_plain.json" r.digest)" "$(json "$work/packed_kill.json" r.digest)"
  check "stack: nothing is open, and no task has a socket of the engine" \
    "$(docker service inspect $(docker stack services -q "$stack") | grep -cE '"PublishedPort"|docker\.sock')" 0
  remove_stack
  deploy stack_gone persist_pair "${cell[@]}" --input "$work/middle.bin" --liveness 60000
  await_writing
  docker kill "$(task b)" >/dev/null || die "docker kill of b in the stack"
  await_task report Failed
  docker service logs --raw "${stack}_report" >"$work/stack_gone.json" 2>"$work/stack_gone.log"
  check "stack: docker kill: the report says what nobody can show it" \
    "$(grep -o 'Found no files of b' "$work/stack_gone.log")" "Found no files of b"
  check_gone "$work/stack_gone" "stack: docker kill" "$(task timekeeper)" "$work/middle.bin"
  check "stack: docker kill: Swarm starts nothing again" "$(task b)" ""
  remove_stack
  # It waits for b's return.
  deploy stack_moved persist_pair "${cell[@]}" --input "$work/middle.bin" --liveness 600000
  await_writing
  docker service update --force --detach=true "${stack}_b" >/dev/null || die "docker service update of b"
  stack_report "$work/stack_moved"
  check_stack "$work/stack_moved" "stack: a task that Swarm starts anew" "kill b, start b"
  remove_stack
fi

exit "$failed"
