# Sourced by the scripts beside it: the project's root, and steps that tell their time.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# quiet_step TEXT COMMAND...: runs it; its output is shown only when it fails.
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

# configure_and_build [TARGET...]: the release build, all of it or some targets. On a terminal the
# compiler's progress is shown.
configure_and_build() {
  local targets=()
  [ "$#" -eq 0 ] || targets=(--target "$@")
  quiet_step "Configuring build/release" cmake --preset release || return
  if [ -t 1 ]; then
    echo "Building (the first time takes some minutes)"
    cmake --build --preset release "${targets[@]}"
  else
    quiet_step "Building" cmake --build --preset release "${targets[@]}"
  fi
}
