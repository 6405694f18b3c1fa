#!/bin/sh
# consume.sh BUILD CONSUMER WORK CC CXX SANITIZE: install BUILD into a scratch prefix, build CONSUMER in C, C++ and an older C++ against
# it, by CMake package and by pkg-config, run it; take away what was installed, as README says.
set -eu
build=$1 consumer=$2 work=$3 cc=$4 cxx=$5 sanitize=$6
rm -rf "$work"
cmake --install "$build" --prefix "$work/prefix" >"$work.log"
test ! -e "$work/prefix/include/fabring/endpoint.hpp"  # internals are not installed
manifest=$work.manifest
cp "$build/install_manifest.txt" "$manifest"
for notice in LICENSE THIRD_PARTY; do
  cmp "$consumer/../../../$notice" "$(find "$work/prefix/share/doc" -name "$notice")"  # the licences ask for it
done
flags=${sanitize:+-fsanitize=$sanitize}
cmake -S "$consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="$flags" >>"$work.log"
cmake --build "$work/cmake" >>"$work.log"
"$work/cmake/consumer"
cmake -S "$consumer/c" -B "$work/cmake-c" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" >>"$work.log"
cmake --build "$work/cmake-c" >>"$work.log"
"$work/cmake-c/consumer_in_c"
cmake -S "$consumer/cpp17" -B "$work/cmake-cpp17" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="$flags" >>"$work.log"
cmake --build "$work/cmake-cpp17" >>"$work.log"
"$work/cmake-cpp17/consumer_in_cpp17"
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name fabring.pc)") && export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir fabring)
# shellcheck disable=SC2046,SC2086
"$cxx" -std=c++20 $flags "$consumer/main.cpp" -o "$work/by-pkg-config" $(pkg-config --cflags --libs fabring) -Wl,-rpath,"$libdir"
"$work/by-pkg-config"
# The C compiler links it: nothing of C++ is needed on this side.
# shellcheck disable=SC2046,SC2086
"$cc" -std=c11 $flags "$consumer/c/main.c" -o "$work/by-pkg-config-in-c" $(pkg-config --cflags --libs fabring) -Wl,-rpath,"$libdir"
"$work/by-pkg-config-in-c"
if [ -z "$sanitize" ] && readelf -d "$work/by-pkg-config-in-c" | grep -q 'libstdc++'; then exit 1; fi
# The examples build by themselves against what is installed.
cmake -S "$consumer/../../../examples/c" -B "$work/examples-c" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags" >>"$work.log"
cmake --build "$work/examples-c" >>"$work.log"
if [ -x "$work/prefix/bin/fabring" ]; then
  "$work/prefix/bin/fabring" run -n 2 -- "$work/examples-c/fabring-c-allreduce"
  "$work/prefix/bin/fabring" run -n 2 -- "$work/examples-c/fabring-c-load" "$libdir/libfabring.so"
fi
xargs -d '\n' rm <"$manifest"
if find "$work/prefix" ! -type d | grep .; then exit 1; fi
