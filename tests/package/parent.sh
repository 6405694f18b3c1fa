#!/bin/sh
# parent.sh ROOT PARENT WORK: what Fabring in ROOT does to the project PARENT that it is a part of. Nothing is compiled.
set -eu
root=$1 parent=$2 work=$3
rm -rf "$work"
configure() { cmake -S "$parent" -B "$work" -G Ninja -DROOT="$root" "$@" >"$work.log" 2>&1 || { cat "$work.log" && exit 1; }; }
compiled_with() { grep -q "^ *FLAGS = .*$1" "$work/build.ninja" || { echo "nothing is compiled with $1" && exit 1; }; }

configure -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON
cmake --install "$work" --prefix "$work/prefix" >>"$work.log"
installed=$(cd "$work/prefix" && find . -type f)
test "$installed" = ./share/doc/parent/CMakeLists.txt || { echo "installed: $installed" && exit 1; }

configure -DFABRING_INSTALL=ON -DCHOSEN_TYPE=Release -DCMAKE_BUILD_TYPE=Release
grep -q 'share/doc/fabring"' "$work/fabring/cmake/package/cmake_install.cmake" || { echo "the notices go elsewhere" && exit 1; }
compiled_with "-O2 -DNDEBUG"
# The flags of a packager are taken as they are.
configure -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DCHOSEN"
compiled_with "-O1 -DCHOSEN"
if grep "^ *FLAGS = .*-O2 -DNDEBUG" "$work/build.ninja"; then exit 1; fi
configure -DCHOSEN_TYPE=RelWithDebInfo -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-Og -DCHOSEN" -DCMAKE_CXX_FLAGS=-D_GLIBCXX_DEBUG
compiled_with "-Og -DCHOSEN"
# Who includes the headers hears of a layout that is not the usual one.
grep -q '^Cflags:.* -DFABRING_BUILT_WITH_GLIBCXX_DEBUG$' "$work/fabring/cmake/package/fabring.pc" || { echo "pkg-config does not say so" && exit 1; }
grep -q '^ *DEFINES = .*-DFABRING_BUILT_WITH_GLIBCXX_DEBUG' "$work/build.ninja" || { echo "Fabring itself is not told so" && exit 1; }
