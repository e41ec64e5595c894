# Sourced by .ci/run and .ci/nightly: stages, each with its own time limit, and the table of their results.
#   stages_begin WHOLE_LIMIT [STAGE...]   the limit of all stages together in seconds, and the stages to run; none: all
#   stage NAME LIMIT COMMAND...           runs the command for at most LIMIT seconds
#   ahead NAME LIMIT COMMAND...           runs the command at the lowest priority until the stage NAME, which waits for it
#   stages_end                            prints the table; its status is 0 if every stage passed
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The compiler cache stores paths relative to this folder, so that clones of the repository share cached objects.
export TERM=dumb CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=true
# ctest writes its results to this folder (ctest_results); .ci/count_tests adds them up.
CI_RESULTS=$(mktemp -d)
export CI_RESULTS
trap 'rm -rf "$CI_RESULTS"; kill $(jobs -p) 2>/dev/null' EXIT
exec </dev/null

stages_begin() {
  whole_limit=$1
  shift
  wanted=("$@")
  names=() seconds=() processor=() results=()
  passed=0 failed=0
  declare -gA ahead_of=()
}
is_wanted() { [ "${#wanted[@]}" -eq 0 ] || [[ " ${wanted[*]} " == *" $1 "* ]]; }

# Runs a stage. Later stages run even if this one fails.
stage() {
  local name=$1 limit=$2 begin=$SECONDS status=0 used
  shift 2
  is_wanted "$name" || return
  [ "$limit" -le $((whole_limit - SECONDS)) ] || limit=$((whole_limit - SECONDS > 1 ? whole_limit - SECONDS : 1))
  printf '\n==== %s (limit %d s)\n' "$name" "$limit"
  processor_seconds
  used=$REPLY
  [ -z "${ahead_of[$name]-}" ] || wait "${ahead_of[$name]}"
  timeout --kill-after=20 "$limit" "$@" 2>&1 || status=$?
  case $status in
    0) results+=(passed) ;;
    124 | 137) results+=("FAILED: over its limit of $limit s") ;;
    *) results+=("FAILED: exit $status") ;;
  esac
  processor_seconds
  names+=("$name")
  seconds+=($((SECONDS - begin)))
  processor+=($((REPLY - used)))
  printf '==== %s: %s, %d s, %d processor seconds\n' "$name" "${results[-1]}" "${seconds[-1]}" "${processor[-1]}"
  count_tests
}

# Builds a preset ahead of its stage: tests that wait leave processors idle. The stage reports the errors.
ahead() {
  local name=$1 limit=$2
  shift 2
  is_wanted "$name" || return
  timeout --kill-after=20 "$limit" nice -n 19 "$@" >/dev/null 2>&1 &
  ahead_of[$name]=$!
}

# Sets REPLY to the processor seconds of all commands that have ended. It writes `times` to a file, because in a
# subshell `times` reports only the subshell.
processor_seconds() {
  times >"$CI_RESULTS/times"
  REPLY=$(awk -F'[ms ]+' 'NR == 2 { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$CI_RESULTS/times")
}

count_tests() {
  local good bad
  read -r good bad < <(.ci/count_tests "$CI_RESULTS"/*.xml)
  rm -f "$CI_RESULTS"/*.xml
  passed=$((passed + good))
  failed=$((failed + bad))
}

stages_end() {
  local bad_stages=0 i all=0
  printf '\n%-12s %8s %10s  %s\n' stage seconds processor result
  for i in "${!names[@]}"; do
    printf '%-12s %8d %10d  %s\n' "${names[i]}" "${seconds[i]}" "${processor[i]}" "${results[i]}"
    [ "${results[i]}" = passed ] || bad_stages=$((bad_stages + 1))
    all=$((all + processor[i]))
  done
  printf '%-12s %8d %10d\n\n' together "$SECONDS" "$all"
  [ "$bad_stages" -eq 0 ] || echo "$bad_stages stages failed"
  echo "$passed passed, $failed failed"
  [ "$bad_stages" -eq 0 ]
}

# build_preset PRESET: builds the preset's targets, with output only if there is an error.
build_preset() { cmake --preset "$1" >/dev/null && quietly cmake --build --preset "$1"; }
build_and_test() {
  build_preset "$1" || return
  run_ctest --preset "$1" -j "$(($(nproc) * 3))"
}
quietly() {
  local output status=0
  output=$("$@" 2>&1) || status=$?
  [ "$status" -eq 0 ] || printf '%s\n' "$output" | grep -vE '^\[[0-9]+/[0-9]+\] '
  return "$status"
}
# run_ctest ARGUMENTS...: prints the tests that did not pass, and the summary.
run_ctest() { without_passed ctest "$@" --no-tests=error --output-junit "$(ctest_results)"; }
ctest_results() { mktemp --suffix=.xml "$CI_RESULTS/XXXXXX"; }
without_passed() {
  "$@" | grep -vE '^ *Start +[0-9]+:|Passed +[0-9.]+ sec$'
  return "${PIPESTATUS[0]}"
}

# The thread sanitizer of g++ 12 fails with some memory maps of address-space randomization, so this turns it off.
without_randomization() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

export -f build_preset build_and_test quietly run_ctest ctest_results without_passed without_randomization
