//go:build race

package rtloop

import "golang.org/x/sys/unix"

// lockFlags locks a page at its first access: the race detector maps terabytes of
// shadow memory, which cannot be loaded.
const lockFlags = unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT
