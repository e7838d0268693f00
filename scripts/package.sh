#!/usr/bin/env bash
# Builds the Debian package: scripts/package.sh VERSION ARCH [FOLDER]
#   VERSION  such as v1.2.3, or the output of `git describe --always`
#   ARCH     arm64 or amd64
#   FOLDER   of the package; default: dist
# The same commit gives the same bytes: SOURCE_DATE_EPOCH defaults to the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1-}" in -h | --help) sed -n '2,/^set/p' "scripts/${0##*/}" | sed -n 's/^# \{0,1\}//p'; exit ;; esac
usage() { echo "usage: scripts/package.sh VERSION arm64|amd64 [FOLDER]" >&2; exit 2; }
[ $# -ge 2 ] || usage
version=${1#v} arch=$2 folder=${3:-dist}
case "$arch" in arm64 | amd64) ;; *) usage ;; esac
# The version of a Debian package begins with a digit and has no underscore.
case "$version" in [0-9]*) ;; *) version="0~$version" ;; esac
version=${version//_/-}
case "$version" in *[!0-9A-Za-z.+~-]*) echo "scripts/package.sh: ${1@Q} is not a version; use letters, digits and . + - ~" >&2; exit 2 ;; esac

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
fi
export SOURCE_DATE_EPOCH

CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false \
  -ldflags "-s -w -buildid= -X optibfm/internal/version.release=$version" -o "$work/optibfm" ./cmd/optibfm
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" \
  -o "$work/optibfm-unitree" ./cmd/optibfm-unitree
# Shell completion, from a program for this computer. It completes the name of that program.
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/native/optibfm" ./cmd/optibfm
mkdir "$work/completion"
for shell in bash zsh fish; do
  "$work/native/optibfm" completion "$shell" >"$work/completion/$shell"
done
go -C packaging/mkdeb build -buildvcs=false -o "$work/mkdeb" .

deb=$folder/optibfm_${version}_$arch.deb
(cd packaging && VERSION=$version ARCH=$arch DIST=$work "$work/mkdeb" -config nfpm.yaml -target "$work/optibfm.deb")
mv "$work/optibfm.deb" "$deb"
echo "$deb"
