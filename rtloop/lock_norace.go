//go:build !race

package rtloop

import "golang.org/x/sys/unix"

// lockFlags also brings every page into memory now, so that the first touch in
// a tick does not fault.
const lockFlags = unix.MCL_CURRENT | unix.MCL_FUTURE
