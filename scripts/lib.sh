# shellcheck shell=bash disable=SC2034
# What the scripts beside this file share; sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# die MESSAGE: one line on stderr and the exit code for usage and environment errors.
die() {
  echo "${0##*/}: $1" >&2
  exit 2
}

# Prints the nvcc that CMakeLists.txt would take; fails where there is none.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc)" "${CUDA_PATH:-}/bin/nvcc" \
      "${CUDA_HOME:-}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
    if [[ -x $candidate && -f $candidate ]]; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# Prints the preset that the environment variable MLA_BENCH_CUDA (AUTO, ON or OFF) asks for.
cuda_preset() {
  case ${MLA_BENCH_CUDA:-AUTO} in
    AUTO) echo auto ;;
    ON) echo cuda ;;
    OFF) echo cpu ;;
    *) die "MLA_BENCH_CUDA is '$MLA_BENCH_CUDA': it takes AUTO, ON or OFF" ;;
  esac
}

# The virtual environment of the scripts that need a Python package beyond the standard library.
venv=$root/build/venv

# python_package NAME: installs it in $venv, which is made first where it is missing. Where that
# cannot be done, pip's output is on stderr and the status is 1.
python_package() {
  local log
  if "$venv/bin/python3" -c "import $1" 2>/dev/null; then
    return
  fi
  echo "installing $1 for Python in build/venv" >&2
  log=$(mktemp)
  if ! { "$venv/bin/pip" --version >/dev/null 2>&1 ||
      /usr/bin/python3 -m venv --clear --system-site-packages "$venv"; } >"$log" 2>&1 </dev/null ||
      ! "$venv/bin/pip" install --quiet --retries 2 --timeout 20 "$1" >>"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm "$log"
    return 1
  fi
  rm "$log"
}
