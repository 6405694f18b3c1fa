#!/usr/bin/env bash
# Installs what Fabring needs to build, test and run on Debian 12. Does nothing when all is there.
#   tools/setup.sh [PRESET]   as root, or with sudo on the PATH; the preset tidy needs clang-tidy too
set -euo pipefail
packages=(
  g++ cmake ninja-build pkg-config ccache          # build
  libfabric-dev libhwloc-dev libboost-dev libhwy-dev libssl-dev libfmt-dev  # the library
  libcli11-dev nlohmann-json3-dev                  # the command
  libgtest-dev libgmock-dev libbenchmark-dev python3 iproute2  # tests and benchmarks
  libeigen3-dev zlib1g-dev dataset-fashion-mnist   # the training example
)
if [[ ${1:-} == tidy ]]; then packages+=(clang-tidy-14); fi
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if ((${#missing[@]} == 0)); then exit 0; fi
echo "setup: installing ${missing[*]}"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || { echo "setup: needs root to install: ${missing[*]}" >&2; exit 3; }
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >/dev/null
