#!/bin/sh
# refused.sh INCLUDE CXX: what is compiled as an older C++, or for the older layout of strings, is told so by the first
# public header that it meets, and where to go; the C API takes it.
set -eu
include=$1 cxx=$2
for options in -std=c++17 "-std=c++20 -D_GLIBCXX_USE_CXX11_ABI=0"; do
  for header in "$include"/fabring/*.hpp; do
    name=$(basename "$header")
    [ "$name" != version.hpp ] || continue  # has no C++
    # shellcheck disable=SC2086
    if said=$(printf '#include <fabring/%s>\n' "$name" | "$cxx" -I"$include" -x c++ -fsyntax-only $options - 2>&1); then
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
