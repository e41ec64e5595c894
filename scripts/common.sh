# Sourced by the scripts in this folder. Changes to the project's root and defines steps that print their time.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# quiet_step TEXT COMMAND...: runs the command and shows its output only if it fails.
quiet_step() {
  local text=$1 begin=$SECONDS log status=0
  shift
  printf '%s ... ' "$text"
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    printf 'failed\n\n'
    cat "$log"
  else
    printf '%d s\n' $((SECONDS - begin))
  fi
  rm -f "$log"
  return "$status"
}

# build_step MINUTES TARGET...: builds these targets of the release build, or all targets if none is named. MINUTES is
# the time of a first build on one core. On a terminal it shows the compiler's progress, else a line every ten seconds.
build_step() {
  local minutes=$1 begin=$SECONDS log status=0 targets=()
  shift
  [ "$#" -eq 0 ] || targets=(--target "$@")
  printf 'Building: a first build takes about %d minutes on %d processor cores\n' \
    $(((minutes + $(nproc) - 1) / $(nproc))) "$(nproc)"
  if [ -t 1 ]; then
    cmake --build --preset release "${targets[@]}"
    return
  fi
  log=$(mktemp)
  cmake --build --preset release "${targets[@]}" 2>&1 | tee "$log" | show_progress || status=$?
  [ "$status" -eq 0 ] || grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking) ' "$log"
  rm -f "$log"
  [ "$status" -ne 0 ] || printf 'Built in %d s\n' $((SECONDS - begin))
  return "$status"
}
# Reads the lines of Ninja and prints one every ten seconds: "  [120/393] 80 s".
show_progress() {
  local line begin=$SECONDS next=$((SECONDS + 10))
  while IFS= read -r line; do
    if [ "$SECONDS" -ge "$next" ] && [[ $line =~ ^\[[0-9]+/[0-9]+\] ]]; then
      printf '  %s %d s\n' "${BASH_REMATCH[0]}" $((SECONDS - begin))
      next=$((SECONDS + 10))
    fi
  done
}
