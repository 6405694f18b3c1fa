#!/usr/bin/env bash
# Installs what Fabring needs to build, test and run on Debian 12. Does nothing when all is there. What the Python package
# needs goes into a virtual environment, build/venv, unless SETUP_PYTHON=none.
#   tools/setup.sh [PRESET]   as root, or with sudo on the PATH; the preset tidy needs clang-tidy too, fuzz clang, torch
#                             PyTorch.
# ci: PyTorch too, if pip can fetch it; if not, that is said, and the rest is there.
# SETUP_PACKAGES=none: the packages are there by other means, as on another distribution; it does not look for them.
set -euo pipefail
case ${1:-} in
  '' | dev | release | asan | tsan | minimal | cuda | tidy | fuzz | torch | ci) ;;
  -h | --help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
  *)
    echo "setup: '$1' is no preset: dev, release, asan, tsan, minimal, cuda, tidy, fuzz, torch or ci" >&2
    exit 2 ;;
esac
(($# < 2)) || { echo "setup: it takes one preset, but got '$2' too" >&2; exit 2; }
packages=(
  g++ cmake ninja-build pkg-config ccache          # build
  libfabric-dev libhwloc-dev libboost-dev libhwy-dev libssl-dev libfmt-dev  # the library
  libcli11-dev nlohmann-json3-dev                  # the command
  libgtest-dev libgmock-dev libbenchmark-dev python3 python3-yaml iproute2  # tests and benchmarks
  python3-dev python3-venv                         # the Python package
  libeigen3-dev zlib1g-dev dataset-fashion-mnist   # the training example
)
if [[ ${1:-} == tidy ]]; then packages+=(clang-tidy-14); fi
if [[ ${1:-} == fuzz ]]; then packages+=(clang-14 libclang-rt-14-dev llvm-14); fi
missing=()
if [[ ${SETUP_PACKAGES:-} == none ]]; then
  packages=()
elif ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian, it has no apt-get and dpkg-query. Install the like of these, then set SETUP_PACKAGES=none: ${packages[*]}" >&2
  exit 3
fi
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]} != 0)); then
  echo "setup: installing ${missing[*]}"
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "setup: needs root to install: ${missing[*]}" >&2; exit 3; }
    as_root=(sudo)
  fi
  export DEBIAN_FRONTEND=noninteractive
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

venv=$(dirname "$0")/../build/venv
python_packages=(nanobind scikit-build-core numpy ml_dtypes pytest)
torch_packages=(torch==2.13.0 expecttest scikit-learn)
# Whether the Python of build/venv has these. It is asked each time: it may be another one since, or a link to none.
has() {
  "$venv/bin/python" -c 'import sys
from importlib.metadata import version
for name, _, wanted in (word.partition("==") for word in sys.argv[1:]):
    found = version(name).split("+")[0]
    assert found == (wanted or found)' "$@" 2>/dev/null
}
if [[ ${SETUP_PYTHON:-} != none ]] && ! has "${python_packages[@]}"; then
  echo "setup: Python packages into build/venv: ${python_packages[*]}"
  fresh=()
  "$venv/bin/python" -c '' 2>/dev/null || fresh=(--clear)
  if ! python3 -m venv "${fresh[@]}" "$venv" || ! "$venv/bin/pip" install -qq --disable-pip-version-check "${python_packages[@]}"; then
    echo "setup: the Python package will not be built: pip could not install these (the rest is not affected)" >&2
  fi
fi
if [[ ${1:-} == torch || ${1:-} == ci ]] && ! has "${torch_packages[@]}"; then
  echo "setup: PyTorch into build/venv (200 MB)"
  if ! "$venv/bin/pip" install -qq --disable-pip-version-check "${torch_packages[@]}"; then
    if [[ $1 == torch ]]; then
      echo "setup: pip could not install PyTorch; what it said is above" >&2
      exit 3
    fi
    echo "setup: pip could not install PyTorch: its backend is not built, and its tests are SKIPPED" >&2
  fi
fi
