#!/usr/bin/env bash
# Trains a job on machines that come and go, as spot and preemptible ones do: each machine of a file gets a
# worker with a server by ssh as soon as it can be reached, and again whenever it is back. The coordinator
# runs here, on a machine that stays. What follows goes to poseidon-train:
#   HOSTS=hosts HEAD=node0 configs/cluster/spot.sh configs/lenet-mnist.json --output runs/lenet
#   HOSTS    the machines, one a line, as ssh knows them; lines may be added while the job runs
#   HEAD     this machine's name or address, as the others know it; default: what hostname says
#   PORT     where the coordinator listens; default 7000
#   LEAST    the fewest workers that train; default 1. The job does not begin with fewer; when fewer are left
#            it ends with a checkpoint, and --resume in place of the job goes on
#   MOST     the most; default: the lines of HOSTS
#   GATHER   seconds that the job waits for all MOST before it begins with LEAST; default 60
#   SSH      what runs a command on a machine; default: ssh without questions
# The programs must be in PATH on all machines. Who is ended in an orderly way (SIGTERM, which most
# providers send two minutes before) costs no step, who vanishes costs one.

set -uo pipefail

hosts=${HOSTS:?names the file of machines} head=${HEAD:-$(hostname)} port=${PORT:-7000}
least=${LEAST:-1} most=${MOST:-$(grep -cvE '^ *(#|$)' "$hosts")} gather=${GATHER:-60}
ssh=${SSH:-ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5}

# A secret for this run. Machines get it through ssh, by standard input.
secret=$PWD/.poseidon-secret-$$
keepers=()
finish() {
  rm -f "$secret"
  [ "${#keepers[@]}" -eq 0 ] || kill "${keepers[@]}" 2>/dev/null
}
trap finish EXIT
(umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$secret") || exit 1

# With as many logical shards as workers at most, any number of them has whole shards.
poseidon-train "$@" --workers "$most" --servers "$most" --external --listen "0.0.0.0:$port" --secret-file "$secret" \
  --set "cluster.logical_shards=$most" --set "cluster.max_workers=$most" --set "cluster.min_workers=$least" \
  --set "cluster.gather_s=$gather" &
coordinator=$!
# Asked to end, the coordinator has all workers finish the same step, writes it as a checkpoint, and ends with 0.
trap 'kill -TERM "$coordinator" 2>/dev/null' INT TERM HUP

# Keeps a worker on one machine: starts it again when it has ended, as long as this script runs. The worker
# ends with the connection, so none is left on a machine that is not heard of any more.
keep() {
  while kill -0 "$coordinator" 2>/dev/null; do
    # The worker's standard input stays open behind the secret's line, until this script has ended.
    { cat "$secret"; echo; tail -f --pid="$coordinator" /dev/null; } |
      $ssh "$1" "exec poseidon-worker --coordinator $head:$port --secret-file - --end-with-stdin --once \
        --listen 0.0.0.0:0 --server-listen 0.0.0.0:0 --advertise ${1#*@}:0 --join-timeout 30" 2>&1 |
      sed -u "s/^/$1: /"
    sleep 5
  done
}

# Machines that are added to the file get a worker as well.
declare -A kept
while kill -0 "$coordinator" 2>/dev/null; do
  while read -r host _; do
    if [ -n "${kept[$host]:-}" ]; then continue; fi
    kept[$host]=yes
    keep "$host" &
    keepers+=($!)
  done < <(grep -vE '^ *(#|$)' "$hosts")
  sleep 2
done

wait "$coordinator"
status=$?
if [ "$status" -gt 128 ] && kill -0 "$coordinator" 2>/dev/null; then
  wait "$coordinator"
  status=$?
fi
exit "$status"
