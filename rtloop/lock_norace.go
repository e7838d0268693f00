//go:build !race

package rtloop

import "golang.org/x/sys/unix"

// lockFlags also loads every page now, so that the first access in a tick does not
// fault.
const lockFlags = unix.MCL_CURRENT | unix.MCL_FUTURE
