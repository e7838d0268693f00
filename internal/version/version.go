package version

import (
	"runtime/debug"
)

// Development is the version of a build without a commit.
const Development = "development"

// release is set by the linker for a release: -X optibfm/internal/version.release=v1.2.3.
var release string

// String returns the release, or else the commit of the build with "+changes" for a modified tree.
func String() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	if revision == "" {
		return Development
	}
	return revision + modified
}
