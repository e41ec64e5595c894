#!/usr/bin/env bash
# Trains a job with workers that Open MPI's mpirun starts: each is a worker with a server in its process,
# and the coordinator runs here. Nothing of MPI is used but that it starts processes on other machines.
# What follows goes to poseidon-train:
#   WORKERS=4 HOSTFILE=hosts configs/cluster/openmpi.sh configs/lenet-mnist.json --output runs/lenet
#   WORKERS    how many; default 2
#   HOSTFILE   the machines, one a line, as mpirun reads them; default: this machine only
#   HEAD       this machine's name or address, as the others know it; default: what hostname says
#   PORT       where the coordinator listens; default 7000
#   THREADS    of each worker; default 1
# The programs must be in PATH on all machines, and this folder must be shared by them, for the secret.

set -uo pipefail

workers=${WORKERS:-2} head=${HEAD:-$(hostname)} port=${PORT:-7000} threads=${THREADS:-1}

# A secret for this run, in a file that only its user can read and that goes with the run. It is never an
# argument or a variable, which others could see.
secret=$PWD/.poseidon-secret-$$
trap 'rm -f "$secret"' EXIT
(umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$secret") || exit 1

# With --external it starts no processes of its own, but waits for those that mpirun starts.
poseidon-train "$@" --workers "$workers" --servers "$workers" \
  --listen "0.0.0.0:$port" --external --secret-file "$secret" &
coordinator=$!

# Asked to end, the coordinator has all workers finish the same step, writes it as a checkpoint, and ends
# with 0. Workers that are dismissed end by themselves.
asked=
trap 'asked=yes; kill -TERM "$coordinator" 2>/dev/null' INT TERM HUP

# What one process does. A port of 0 is any that is free; the others reach it by the host's name, which
# on this machine is HEAD. The rank is OMPI_COMM_WORLD_RANK, which the worker reads by itself.
# --join-timeout: where the coordinator has refused the job, it is not looked for any longer.
process='name=$(hostname)
[ "$name" != "$3" ] || name=$4
exec poseidon-worker --coordinator "$0" --secret-file "$1" --threads "$2" --once \
  --listen 0.0.0.0:0 --server-listen 0.0.0.0:0 --advertise "$name:0" --join-timeout 30'

options=(
  -n "$workers"
  # One process on each machine in turn: two of them would share its link.
  --map-by node
  # By default each process is bound to one core, whatever its number of threads.
  --bind-to none
  # More workers than mpirun counts cores are no fault of theirs: they wait most of the time.
  --oversubscribe
)
[ -z "${HOSTFILE:-}" ] || options+=(--hostfile "$HOSTFILE")
# The folder of the data has the same name on all machines.
[ -z "${POSEIDON_DATA:-}" ] || options+=(-x POSEIDON_DATA)
# setsid: Ctrl-C in a terminal goes to all of its group, and mpirun would end the workers at once, before
# their step is saved. Where workers fail, the coordinator, which waits for its workers without a limit, is
# asked to end, too.
(setsid --wait mpirun "${options[@]}" bash -c "$process" "$head:$port" "$secret" "$threads" "$(hostname)" "$head" ||
  kill -TERM "$coordinator" 2>/dev/null) </dev/null &
launcher=$!

wait "$coordinator"
status=$?
# A signal to this script interrupts the wait (above 128); what it waited for still goes on.
if [ -n "$asked" ] && [ "$status" -gt 128 ]; then
  wait "$coordinator"
  status=$?
fi
# mpirun ends when its processes have: at once after a job, and after --join-timeout where the coordinator
# has refused it.
wait "$launcher"
exit "$status"
