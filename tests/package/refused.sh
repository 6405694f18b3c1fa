#!/bin/sh
# refused.sh INCLUDE CXX: what is compiled as an older C++, or for another layout of strings and containers than the library has,
# is told so by the first public header that it meets, and where to go; the C API takes it.
set -eu
include=$1 cxx=$2
for options in -std=c++17 "-std=c++20 -D_GLIBCXX_USE_CXX11_ABI=0" "-std=c++20 -D_GLIBCXX_DEBUG" "-std=c++20 -D_LIBCPP_VERSION=140000" \
               "-std=c++20 -DFABRING_BUILT_WITH_GLIBCXX_DEBUG" "-std=c++20 -DFABRING_BUILT_WITH_LIBCXX"; do
  for header in "$include"/fabring/*.hpp; do
    name=$(basename "$header")
    [ "$name" != version.hpp ] || continue  # has no C++
    # shellcheck disable=SC2086
    if said=$(printf '#include <fabring/%s>\n' "$name" | "$cxx" -I"$include" -x c++ -fsyntax-only -Wfatal-errors $options - 2>&1); then
      echo "$name was taken with $options"
      exit 1
    fi
    case $said in
      *"fabring/fabring.h, the C API"*) ;;
      *) echo "$name with $options: $said" && exit 1 ;;
    esac
  done
  # shellcheck disable=SC2086
  printf '#include <fabring/fabring.h>\n' | "$cxx" -I"$include" -x c++ -fsyntax-only $options -
done
# As Fabring itself was built, by what its package exports then.
for options in "-D_GLIBCXX_DEBUG -DFABRING_BUILT_WITH_GLIBCXX_DEBUG" "-D_LIBCPP_VERSION=140000 -DFABRING_BUILT_WITH_LIBCXX"; do
  # shellcheck disable=SC2086
  printf '#include <fabring/fabring.hpp>\n' | "$cxx" -I"$include" -x c++ -fsyntax-only -std=c++20 $options -
done
