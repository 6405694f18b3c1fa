#!/bin/sh
# consume.sh BUILD CONSUMER WORK CXX SANITIZE: install BUILD into a scratch prefix, build CONSUMER against it both ways, run it.
set -eu
build=$1 consumer=$2 work=$3 cxx=$4 sanitize=$5
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >"$work.log"
test ! -e "$work/prefix/include/fabring/endpoint.hpp"  # internals are not installed
flags=${sanitize:+-fsanitize=$sanitize}
cmake -S "$consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="$flags" >>"$work.log"
cmake --build "$work/cmake" >>"$work.log"
"$work/cmake/consumer"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name fabring.pc)") && export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir fabring)
# shellcheck disable=SC2046,SC2086
"$cxx" -std=c++20 $flags "$consumer/main.cpp" -o "$work/by-pkg-config" $(pkg-config --cflags --libs fabring) -Wl,-rpath,"$libdir"
"$work/by-pkg-config"
