#!/usr/bin/env bash
# Writes descriptors.go and offsets_test.go from unitree.idl. Needs idlc and the headers of Cyclone DDS 0.10
# (Debian: cyclonedds-tools, cyclonedds-dev) and a C compiler.
set -euo pipefail
cd "$(dirname "$0")"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
idlc -t -o "$build" unitree.idl # -t: without type information; types then match by their names
cc -Wall -I "$build" -o "$build/layout" layout.c -lddsc
"$build/layout" | gofmt >../descriptors.go
"$build/layout" offsets | gofmt >../offsets_test.go
